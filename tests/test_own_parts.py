"""What the notebook on own parts says: three new files and three entries suffice, and everything else takes them up."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jupytext
import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("workbench", "probes", "app", "tests")
NEW = {
    "workbench/tasks/recall.py",
    "workbench/models/attention/recency.py",
    "workbench/instruments/attention_distance.py",
}
EDITED = {str(Path(file).parent / "__init__.py") for file in NEW}
TESTS = (
    "tests/test_contracts.py",
    "tests/models/test_variant_contracts.py",
    "tests/tasks/test_task_contracts.py",
    "tests/test_safety.py",
    "tests/training/test_evaluation.py",
    "tests/models/test_attention.py",
)
CHOSEN = "recall or recency or attention_distance or rows_of_what"
TASK = ("--task.name", "recall", "--model.n_layers", "2", "--model.positions", "none")

Run = Callable[..., str]

pytestmark = pytest.mark.slow


def contents(root: Path) -> dict[str, bytes]:
    files = (path for folder in FOLDERS for path in (root / folder).rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in files if "__pycache__" not in path.parts}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository after the notebook's own cells have written the files and made the entries."""
    copy = tmp_path_factory.mktemp("copy")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    cells = [cell.source for cell in jupytext.read(ROOT / "notebooks" / "7_your_own_parts.py").cells]
    said = [source for source in cells if source.startswith(("source = ", "edits = "))]
    assert len(said) == 4
    before = Path.cwd()
    os.chdir(copy)
    try:
        for source in said:
            exec(source, {"Path": Path})
    finally:
        os.chdir(before)
    return copy


@pytest.fixture
def run(copy: Path) -> Run:
    """Python in the copy: its output."""

    def run(*arguments: str) -> str:
        environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [sys.executable, *arguments], cwd=copy, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    return run


def test_three_new_files_and_two_lines_in_three_others_are_all_that_differs(copy: Path) -> None:
    ours, theirs = contents(ROOT), contents(copy)
    assert set(theirs) - set(ours) == NEW and not set(ours) - set(theirs)
    assert {name for name in ours if ours[name] != theirs[name]} == EDITED
    for name in EDITED:
        before, after = ours[name].decode().splitlines(), theirs[name].decode().splitlines()
        assert len(after) == len(before) + 2 and [line for line in after if line in before] == before


def test_the_new_parts_pass_every_test_that_tries_all_parts(run: Run) -> None:
    said = run("-m", "pytest", "-p", "no:cacheprovider", *TESTS, "-k", CHOSEN)
    assert int(said.split(" passed")[0].split()[-1]) > 40 and "failed" not in said


def test_the_new_task_trains_with_the_new_attention_and_is_inspected_with_the_new_instrument(
    run: Run, copy: Path
) -> None:
    short = ("--steps", "5", "--eval_size", "16", "--quiet")
    run("-m", "workbench", "train", "chain-standard", "--out", "run", *TASK, "--model.attention", "recency", *short)
    assert "trained for" in run("-m", "workbench", "inspect", "run", "--n", "16", "--quiet")
    data = copy / "run" / "inspection" / "data"
    found = {path.stem for path in data.rglob("attention_distance*.csv")}
    assert found >= {"attention_distance", "attention_distance-untrained", "attention_distance-random_graph"}
    report = (copy / "run" / "inspection" / "report.html").read_text(encoding="utf-8")
    assert "Attention distance" in report and "Accuracy by pair" in report
