"""Weights carry the config that they were trained with: one that was changed since is refused, however well it fits."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import workbench
from workbench.cli import main
from workbench.runs import load_run
from workbench.sharing import card, export, unpack
from workbench.training.optimizer_step import Step
from workbench.util.files import load_tensors, save_tensors

TINY: dict[str, Any] = {
    "task": {"n": 8, "k": 2},
    "model": {"d_model": 16, "n_heads": 4, "n_layers": 2},
    **{"batch_size": 4, "eval_size": 8, "steps": 6, "checkpoint_every": 3},
}


HALF = {
    "n_heads": 2,
    "n_kv_heads": 2,
    "d_head": 8,
}  # half the heads, of twice the size: the weights have the same shapes


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return workbench.train("chain-chacal", out=tmp_path_factory.mktemp("runs") / "chain", progress=False, **TINY).path


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "chain"))


def edit(run: Path, part: str | None = None, **changes: Any) -> None:
    config = json.loads((run / "config.json").read_text())
    (config if part is None else config[part]).update(changes)
    (run / "config.json").write_text(json.dumps(config))


EDITS: dict[str, tuple[str, dict[str, Any]]] = {
    r"model.n_heads = 4 \(now 2\)": ("model", HALF),
    r"model.attention.variant = chacal \(now standard\)": ("model", {"attention": "standard"}),
    r"model.attention.gamma = 0\.9 \(now 0\.8\)": (
        "model",
        {"attention": {"variant": "chacal", "gamma": 0.8}},
    ),
    r"model.activation = gelu \(now relu\)": ("model", {"activation": "relu"}),
    r"model.attention.1.variant = None \(now standard\)": ("model", {"attention": ["chacal", "standard"]}),
    r"task.k = 2 \(now 4\)": ("task", {"k": 4}),
}


@pytest.mark.parametrize("words", EDITS)
def test_a_config_that_was_edited_and_still_fits_is_refused(words: str, run: Path) -> None:
    part, changes = EDITS[words]
    edit(run, part, **changes)
    for step in (None, 3):
        with pytest.raises(ValueError, match=rf"safetensors was trained with .*{words}.*changed since") as raised:
            load_run(run).model(step)
        assert "\n" not in str(raised.value)


def test_the_command_line_measures_nothing_of_an_edited_config(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(run, "model", **HALF)
    assert main(["inspect", str(run), "--n", "4", "--only", "entropy", "--quiet"]) == 2
    said = capsys.readouterr().err
    assert "model.n_heads = 4 (now 2)" in said and said.count("\n") == 1
    assert not (run / "inspection").exists()


def test_a_run_that_is_not_finished_does_not_go_on_with_an_edited_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(self: Step, *given: Any) -> Any:
        if self.learner.step == 4:
            raise KeyboardInterrupt
        return step(self, *given)

    step = Step.__call__
    with monkeypatch.context() as patch:
        patch.setattr(Step, "__call__", stop)
        with pytest.raises(KeyboardInterrupt):
            workbench.train("chain-chacal", out=tmp_path / "run", progress=False, **TINY | {"save_every": 2})
    assert not load_run(tmp_path / "run").finished
    edit(tmp_path / "run", "model", activation="relu")
    for go_on in (lambda: load_run(tmp_path / "run").model(), lambda: workbench.resume(tmp_path / "run")):
        with pytest.raises(ValueError, match=r"was trained with model.activation = gelu"):
            go_on()


def test_what_does_not_change_the_model_may_be_edited(run: Path, tmp_path: Path) -> None:
    edit(run, preset="mine", seed=3, device="cpu", log_every=2)
    assert load_run(run).model() is not None
    (tmp_path / "a").mkdir()
    text = tmp_path / "a" / "text.txt"
    text.write_text("to be or not to be, that is the question. " * 400)
    of_text = workbench.train(
        {"task": {"name": "text", "path": str(text), "block": 8}, "steps": 2, "batch_size": 2, "eval_size": 2}
        | {"model": {"d_model": 8, "n_heads": 2, "n_layers": 1}},
        out=tmp_path / "a" / "run",
        progress=False,
    ).path
    (tmp_path / "a").rename(tmp_path / "b")
    of_text = tmp_path / "b" / "run"
    edit(of_text, "task", path=str(tmp_path / "b" / "text.txt"))
    assert load_run(of_text).model() is not None


def test_weights_that_do_not_say_their_config_are_read_and_that_is_said(
    run: Path, trained: Path, tmp_path: Path
) -> None:
    tensors, metadata = load_tensors(run / "weights.safetensors")
    del metadata["config"]
    save_tensors(run / "weights.safetensors", tensors, metadata)
    words = "weights do not say which"
    for noted, path in ((True, trained), (False, run)):
        opened = load_run(path)
        assert opened.names_its_config == noted and opened.model() is not None and (words in card(opened)) != noted
        out = tmp_path / f"report-{noted}"
        assert main(["inspect", str(path), "--n", "4", "--only", "entropy", "--quiet", "--out", str(out)]) == 0
        assert (words in (out / "report.html").read_text()) != noted


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"task": 3, "model": {}}', '{"task": {"name": "\x1b[2J"}}', "[" * 99999]
)
def test_a_damaged_note_is_one_line(text: str, run: Path) -> None:
    tensors, metadata = load_tensors(run / "weights.safetensors")
    save_tensors(run / "weights.safetensors", tensors, {**metadata, "config": text})
    with pytest.raises(ValueError, match="is corrupted: it names no config") as raised:
        load_run(run).model()
    assert str(raised.value).isprintable()


def test_an_archive_keeps_it(run: Path, tmp_path: Path) -> None:
    back = unpack(export(run, tmp_path / "run.zip"), tmp_path / "back").path
    edit(back, "model", **HALF)
    with pytest.raises(ValueError, match=r"was trained with model.d_head = 4"):
        load_run(back).model()
