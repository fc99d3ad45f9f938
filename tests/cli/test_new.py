"""`workbench new` writes parts that work as they are: trained, resumed, swept, measured, tested, asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import workbench
from workbench.cli import main
from workbench.cli.new import NEXT
from workbench.models.attention import ATTENTION
from workbench.tasks import TASKS
from workbench.util.plugins import load_plugins

pytestmark = pytest.mark.usefixtures("no_plugins")

NAMES = {"task": "backwards", "variant": "soft_sigmoid", "instrument": "looks_back", "mechanism": "reads_gold"}
NAMES |= {"study": "short_chains", "method": "all_agree"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file of each kind."""
    monkeypatch.chdir(tmp_path)
    for kind, name in NAMES.items():
        assert main(["new", kind, name]) == 0
    return tmp_path


def test_all_six_are_short_and_are_loaded_together(folder: Path) -> None:
    files = [folder / f"{name}.py" for name in NAMES.values()]
    lengths = [len(file.read_text(encoding="utf-8").splitlines()) for file in files]
    assert sum(lengths) < 175 and set(NAMES) == set(NEXT)
    assert not any("emplate" in file.read_text(encoding="utf-8") for file in files)
    assert len(load_plugins(files)) == 6


def test_the_task_is_a_task_and_the_variant_a_variant(folder: Path) -> None:
    load_plugins([folder / "backwards.py", folder / "soft_sigmoid.py"])
    task = TASKS["backwards"](length=3)
    batch = task.parse("3 1 4")
    assert " ".join(task.words(batch.tokens[0])) == "3 1 4 | 4 1 3"
    assert task.truth(batch.tokens).edges.tolist() == [[0, 1, 3, 2], [0, 1, 4, 1], [0, 1, 5, 0]]
    variant = ATTENTION["soft_sigmoid"]()
    q, k, v = torch.randn(3, 2, 4, 6, 8, dtype=torch.float64, generator=workbench.generator(0)).unbind(0)
    whole = variant.mix(q, k, v)
    assert torch.allclose(variant.pattern(q[..., :4, :], k[..., :4, :]), variant.pattern(q, k)[..., :4, :4])
    assert not torch.allclose(variant.pattern(q, k).sum(-1), torch.ones(2, 4, 6, dtype=torch.float64))
    memory = torch.zeros(2, 4, 6, variant.memory_width(8), dtype=torch.float64)
    steps = [
        variant.extend(q[..., i : i + 1, :], k[..., : i + 1, :], v[..., i : i + 1, :], memory[..., : i + 1, :])
        for i in range(6)
    ]
    assert torch.allclose(torch.cat(steps, dim=-2), whole)


@pytest.mark.slow
def test_every_command_takes_them(folder: Path) -> None:
    """In processes of their own, as a user starts them."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "WORKBENCH_PLUGINS": os.pathsep.join(f"{name}.py" for name in NAMES.values()),
    }

    def run(*words: str) -> str:
        command = [sys.executable, "-m", "workbench", *words]
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    small = ["--task.length", "3", "--steps", "3", "--eval-size", "16", "--batch-size", "8", "--quiet"]
    run("train", "--task", "backwards", "--model.attention", "soft_sigmoid", "--out", "made", *small)
    noted = json.loads((folder / "made" / "config.json").read_text(encoding="utf-8"))["plugins"]
    assert {plugin["name"] for plugin in noted} == {"backwards.py", "soft_sigmoid.py"}
    said = run("inspect", "made", "--n", "16", "--only", "accuracy", "looks_back", "reads_gold", "--quiet")
    assert "Parent read" in said
    assert {path.stem for path in (folder / "made" / "inspection" / "data").rglob("looks_back*")}
    assert "place" in run("probe", "made", "place", "--n", "60", "--no-causal", "--quiet")
    assert "backwards" in run("list", "tasks") and "soft_sigmoid" in run("list", "variants")
    assert "short_chains" in run("study", "list")
    assert run("data", "backwards", "--count", "1").count("|") >= 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["task", "Sorting"], "small letters"),
        (["task", "class"], "small letters"),
        (["page", "mine"], "invalid choice: 'page'"),
        (["task", "mine", "--out", "mine.txt"], "ends in .py"),
        (["task", "backwards"], "backwards.py already exists"),
        (["task", "sorting"], "task 'sorting' exists already"),
        (["variant", "chacal"], "attention variant 'chacal' exists already"),
        (["instrument", "entropy"], "instrument 'entropy' exists already"),
        (["task", "mine", "--out", "backwards.py/mine.py"], "backwards.py is a file, not a folder"),
    ],
)
def test_what_cannot_be_written_is_said(
    folder: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(folder.iterdir())
    assert main(["new", *words]) == 2
    assert message in capsys.readouterr().err and sorted(folder.iterdir()) == before


def test_the_folder_of_the_file_is_made(folder: Path) -> None:
    assert main(["new", "task", "mine", "--out", "further/mine.py"]) == 0 and (folder / "further" / "mine.py").is_file()
