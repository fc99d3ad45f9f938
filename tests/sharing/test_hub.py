"""Push and pull, by the Hub's own client, against the stand-in in conftest.py."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from huggingface_hub import HfApi, constants

import workbench
from workbench.cli import main
from workbench.runs import Run, load_run
from workbench.sharing import SharingError, contents, export, pull, push
from workbench.sharing import hub as hub_module

NAMES = ["README.md", *(f"checkpoints/step-{step}.safetensors" for step in (0, 10, 20)), "config.json"]
NAMES += ["metrics.jsonl", "weights.safetensors"]


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def downloads(hub: Any) -> list[str]:
    return [asked.split("/", 5)[-1] for asked in hub.asked if asked.startswith("GET") and "/resolve/" in asked]


@pytest.fixture(params=["large files", "files in git, by the client's pipeline"])
def way(request: pytest.FixtureRequest, hub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two ways that the client uploads; the pipeline's large files go to a server that has no stand-in."""
    if request.param != "large files":
        hub.stores_large = False
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", False)


def test_what_is_pushed_is_pulled_bit_for_bit(way: None, hub: Any, trained: Run, tmp_path: Path) -> None:
    address = push(trained, "me/chain", client=hub.client())
    sha, there = hub.repositories["me/chain"].commits[-1]
    assert address == f"{hub.endpoint}/me/chain/commit/{sha}" and not hub.repositories["me/chain"].private
    assert sorted(there) == [".gitattributes", *NAMES]
    assert "workbench pull me/chain --out runs/chain" in there["README.md"].decode()
    assert yaml.safe_load(there["README.md"].decode().split("---\n")[1])["library_name"] == "workbench"
    back = pull("me/chain", tmp_path / "back", client=hub.client(None))
    assert sorted(files_of(back.path)) == NAMES == sorted(downloads(hub))
    tokens = trained.task().sample(3, workbench.generator(5)).tokens
    for step in (None, 10):
        assert torch.equal(back.model(step)(tokens), trained.model(step)(tokens))
    for name in NAMES[1:]:
        assert (back.path / name).read_bytes() == (trained.path / name).read_bytes()


def test_a_second_push_replaces_the_run_and_history_keeps_the_first(
    way: None, hub: Any, trained: Run, tmp_path: Path
) -> None:
    push(trained, "me/chain", client=hub.client())
    first = hub.repositories["me/chain"].commits[-1][0]
    shutil.copytree(trained.path, tmp_path / "shorter")
    (tmp_path / "shorter" / "checkpoints" / "step-10.safetensors").unlink()
    push(tmp_path / "shorter", "me/chain", client=hub.client())
    assert pull("me/chain", tmp_path / "now", client=hub.client()).checkpoints() == [0, 20]
    assert pull("me/chain", tmp_path / "then", revision=first, client=hub.client()).checkpoints() == [0, 10, 20]


def test_private_means_private(hub: Any, trained: Run, tmp_path: Path) -> None:
    push(trained, "me/secret", private=True, client=hub.client())
    assert hub.repositories["me/secret"].private
    with pytest.raises(SharingError, match="there is no model me/secret on the Hub, or it is private and not yours"):
        pull("me/secret", tmp_path / "run", client=hub.client(None))
    hub.put("me/open", {})
    with pytest.raises(ValueError, match="me/open is there already and public"):
        push(trained, "me/open", private=True, client=hub.client())
    assert len(hub.repositories["me/open"].commits) == 2 and not list(tmp_path.iterdir())


def test_another_model_is_not_replaced(hub: Any, trained: Run) -> None:
    hub.put("me/gpt", {"config.json": b"{}", "model.safetensors": b""})
    with pytest.raises(ValueError, match="holds another model, not a run"):
        push(trained, "me/gpt", client=hub.client())


def test_only_a_run_s_files_are_downloaded(hub: Any, trained: Run, tmp_path: Path) -> None:
    more = {"evil.py": b"", "pytorch_model.bin": b"", "../../escaped": b"", "/etc/x": b"", "CONFIG.json": b""}
    hub.put("you/run", {**files_of(trained.path), **more})
    run = pull("you/run", tmp_path / "run", client=hub.client())
    assert sorted(downloads(hub)) == NAMES[1:] == sorted(files_of(run.path))
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def refused(hub: Any, out: Path, match: str) -> None:
    with pytest.raises(ValueError, match=match) as caught:
        pull("you/run", out, client=hub.client())
    assert str(caught.value).isprintable() and str(caught.value).startswith("you/run is refused: ")
    assert not list(out.parent.iterdir())


def test_sizes_are_checked_before_anything_is_downloaded(
    hub: Any, trained: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.put("you/run", {**files_of(trained.path), "config.json": bytes(2**21)})
    refused(hub, tmp_path / "run", "config.json has 2,097,152 bytes")
    hub.put("you/run", files_of(trained.path))
    monkeypatch.setattr(contents, "MAX_BYTES", 50_000)
    refused(hub, tmp_path / "run", "more than 50,000 bytes")
    hub.put("you/run", {"README.md": b"soon"})
    refused(hub, tmp_path / "run", "it has no config.json")
    assert not downloads(hub)


def test_what_is_pulled_is_held_to_what_is_unpacked(hub: Any, trained: Run, tmp_path: Path) -> None:
    files = files_of(trained.path)
    hub.put("you/run", {**files, "weights.safetensors": b"\x80\x04cos\nsystem\n."})
    refused(hub, tmp_path / "run", "weights.safetensors is truncated or corrupted")
    config = json.loads(files["config.json"])
    config["task"] = {"name": "text", "path": "/etc/passwd"}
    hub.put("you/run", {**files, "config.json": json.dumps(config).encode()})
    refused(hub, tmp_path / "run", "learned from files of one machine")


@pytest.mark.parametrize("name", ["chain", "a/b/c", "me/--x", "me/x y", "../x", "me/..", "", "me/x\n", "https://x/y"])
def test_a_wrong_name_is_refused_before_anyone_is_asked(name: str, hub: Any, trained: Run, tmp_path: Path) -> None:
    for action in (lambda: push(trained, name, client=hub.client()), lambda: pull(name, tmp_path / "run")):
        with pytest.raises(ValueError, match="a repository is OWNER/NAME"):
            action()
    assert not hub.asked


def fails(action: Callable[[], object], match: str) -> None:
    with pytest.raises(SharingError, match=match) as caught:
        action()
    assert str(caught.value).isprintable() and "hf_of" not in str(caught.value)


@pytest.mark.parametrize(
    ("failing", "match"),
    [
        ({"/create": 401}, "the Hub does not let you do this with me/chain; log in with `hf auth login`"),
        ({"/create": 403}, "the Hub does not let you do this with me/chain"),
        ({"/create": 429}, "too many requests from here; wait"),
        ({"/create": 500}, r"failed with me/chain \(HTTP 500\)"),
        ({"/validate-yaml": 500}, r"failed with me/chain \(HTTP 500\)"),
        ({"/commit/": 403}, "does not let you do this with me/chain"),
        ({"/lfs/": 403}, "does not let you do this with me/chain"),
    ],
    ids=str,
)
def test_a_push_that_fails_says_why_in_one_line(failing: dict[str, int], match: str, hub: Any, trained: Run) -> None:
    hub.failing = failing
    fails(lambda: push(trained, "me/chain", client=hub.client()), match)


def test_a_pull_that_fails_says_why_in_one_line(
    hub: Any, trained: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.put("you/run", files_of(trained.path))

    def pulled(name: str = "you/run", revision: str | None = None) -> Callable[[], object]:
        return lambda: pull(name, tmp_path / "run", revision=revision, client=hub.client())

    fails(pulled("you/other"), "there is no model you/other on the Hub")
    fails(pulled(revision="v9/../x"), "you/run has no revision 'v9/../x'")
    hub.failing = {"/resolve/": 403}
    fails(pulled(), "the Hub does not let you do this with you/run")
    hub.failing = {"/api/models": 429}
    fails(pulled(), "too many requests")
    nowhere = HfApi(endpoint="http://127.0.0.1:9", token=False)
    fails(lambda: pull("you/run", tmp_path / "run", client=nowhere), "cannot be reached; is this machine online")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    hub.failing = {}
    fails(pulled(), "HF_HUB_OFFLINE is set")
    assert not list(tmp_path.iterdir())


def test_on_the_command_line(
    hub: Any, trained: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hub_module, "_client", lambda token: hub.client())
    out = [str(tmp_path / name) for name in ("run.zip", "imported", "pulled")]
    assert main(["export", str(trained.path), out[0]]) == 0
    assert main(["import", out[0], "--out", out[1]]) == 0
    assert main(["push", out[1], "me/chain", "--private"]) == 0
    sha = hub.repositories["me/chain"].commits[-1][0]
    assert main(["pull", "me/chain", "--out", out[2], "--revision", sha]) == 0
    said = capsys.readouterr().out
    assert f"exported {out[0]}" in said and f"/me/chain/commit/{sha}" in said and f"workbench inspect {out[2]}" in said
    assert load_run(out[2]).config == trained.config
    assert main(["export", str(trained.path), out[0]]) == 2
    assert main(["pull", "me/other", "--out", str(tmp_path / "other")]) == 1
    assert main(["pull", "other", "--out", str(tmp_path / "other")]) == 2
    errors = capsys.readouterr().err
    assert errors.count("\n") == 3 and "Traceback" not in errors and "there is no model me/other" in errors


def test_the_folder_of_a_push_is_what_export_writes(hub: Any, trained: Run, tmp_path: Path) -> None:
    push(trained, "me/chain", client=hub.client())
    folder = files_of(export(trained, tmp_path / "folder", repo_id="me/chain"))
    assert {".gitattributes": b"", **folder} == hub.repositories["me/chain"].commits[-1][1]
