"""Runs as a table: listed, filtered, compared, deleted only when someone says so."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import workbench
from workbench.cli import main
from workbench.runs import load_run
from workbench.runs.listing import compare, filtered, table
from workbench.training.state import only_writer

SHORT = {"steps": 4, "eval_size": 8, "batch_size": 4, "model": {"d_model": 16, "n_heads": 2}}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    for name, preset, changes in (
        ("a", "chain-chacal", {"seed": 0}),
        ("b", "chain-standard", {"seed": 1}),
        ("c", "sort-standard", {"seed": 1, "objectives": {"seq_vcr": {}}}),
    ):
        workbench.train(preset, out=root / name, progress=False, **SHORT, **changes)
    return root


@pytest.fixture
def root(trained: Path, tmp_path: Path) -> Iterator[Path]:
    shutil.copytree(trained, tmp_path / "runs")
    yield tmp_path / "runs"


def chosen(root: Path, *conditions: str) -> list[str]:
    return filtered(table(root)[0], conditions)["run"].tolist()


def test_a_row_has_what_a_run_is_and_what_it_cost(trained: Path) -> None:
    frame, problems = table(trained)
    assert frame["run"].tolist() == ["a", "b", "c"] and not problems
    row = frame.set_index("run").loc["a"]
    run = load_run(trained / "a")
    assert row["accuracy"] == run.metrics()["accuracy"].dropna().iloc[-1]
    assert row["tokens_per_second"] == run.record()["tokens_per_second"]
    assert (row["task.n"], row["model.n_layers"], row["variants"], row["status"]) == (32, 1, "chacal", "finished")


def test_runs_are_chosen_by_settings_and_figures(trained: Path) -> None:
    assert chosen(trained, "seed=1") == ["b", "c"]
    assert chosen(trained, "task.name=pointer_chain", "seed != 1") == ["a"]
    assert chosen(trained, "model.n_layers>=2") == ["c"]
    assert chosen(trained, "accuracy<=1", "accuracy>1") == []
    assert chosen(trained, "objectives.seq_vcr=true") == ["c"]
    for wrong, said in (("seed", "a condition is like"), ("n_layers=1", r"no run has 'n_layers'; .*model\.n_layers")):
        with pytest.raises(ValueError, match=said):
            chosen(trained, wrong)


def test_numbers_are_compared_as_numbers_or_not_at_all(trained: Path) -> None:
    assert chosen(trained, "stop_at>0.5") == chosen(trained, "checkpoint_every<50") == []  # they have none
    assert chosen(trained, "stop_at=null") == ["a", "b", "c"]
    for wrong in ("accuracy<90%", "seconds<5s", "preset>x"):
        with pytest.raises(ValueError, match=r"comes a number, such as 0\.9"):
            chosen(trained, wrong)
    for wrong in ("accuracy>", "seed==0", "seed=>0", "seed<>0"):
        with pytest.raises(ValueError, match="a condition is like"):
            chosen(trained, wrong)


def test_a_comparison_shows_what_differs_and_nothing_else(trained: Path) -> None:
    frame = compare([load_run(trained / name) for name in "ab"])
    assert list(frame) == ["a", "b"]
    settings = [name for name in frame.index if name not in ("status", "step", "accuracy", "loss")]
    assert settings[:3] == ["preset", "seed", "model.attention.variant"] and "model.n_layers" not in settings
    with pytest.raises(ValueError, match="two or more runs of different names are compared, not a"):
        compare([load_run(trained / "a")])


def test_the_command_lists_sorts_and_compares(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*options: str) -> str:
        assert main(["runs", "--root", str(trained), *options]) == 0
        return capsys.readouterr().out

    assert [line.split()[0] for line in said("--sort", "model.n_layers", "--where", "seed=1").splitlines()] == [
        "run",
        "b",
        "c",
    ]
    assert "model.attention" in said("a", "b", "--compare")
    assert "meets that" in said("--where", "seed=7")
    assert [line.split()[0] for line in said("--sort", "model.attention.gamma").splitlines()] == ["run", *"abc"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["nobody"], "there is no run folder .*nobody"),
        (["--sort", "colour"], "no run has 'colour' to sort by"),
        (["--where", "colour=red"], "no run has 'colour'"),
        (["a", "--delete"], "nobody to ask; say --yes"),
        (["--where", "seed=7", "--delete", "--yes"], "no run was named to be deleted"),
        (["--delete", "--yes"], "no run was named to be deleted; name some"),
        (["--where", "accuracy<10%", "--delete", "--yes"], "comes a number"),
        (["a", "--compare"], "two or more runs"),
    ],
)
def test_mistakes_are_one_line_and_delete_nothing(
    options: list[str], said: str, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "--root", str(trained), *options]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    import re

    assert re.search(said, error) and len(list(trained.iterdir())) == 3


def test_deleting_asks_first(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["runs", "--root", str(root), "--where", "seed=1", "--delete"]
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: "")
    assert main(command) == 0 and len(list(root.iterdir())) == 3
    assert "nothing was deleted" in capsys.readouterr().out
    monkeypatch.setattr("builtins.input", lambda _: "y")
    assert main(command) == 0
    assert [path.name for path in root.iterdir()] == ["a"]


def test_a_run_in_training_and_a_link_are_not_deleted(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "a" / "resume").mkdir()
    with only_writer(root / "a"):
        assert main(["runs", "--root", str(root), "a", "--delete", "--yes"]) == 2
        assert main(["runs", "--root", str(root), "b", "a", "c", "--delete", "--yes"]) == 2
        assert main(["runs", "--root", str(root), "a"]) == 0
    said = capsys.readouterr()
    assert "is being trained" in said.err and len(list(root.glob("*/config.json"))) == 3  # all or none
    (root / "link").symlink_to(root / "b")
    assert main(["runs", "--root", str(root), "link", "--delete", "--yes"]) == 2
    assert (root / "b" / "config.json").exists()


def test_damaged_runs_are_named_beside_the_whole_ones(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "b" / "metrics.jsonl").write_text("{\n{}\n")
    (root / "c" / "config.json").write_text("{")
    assert main(["runs", "--root", str(root)]) == 0
    said = capsys.readouterr().out
    assert said.count("cannot be read") == 2 and "metrics.jsonl is corrupted: line 1" in said


@pytest.mark.parametrize(
    ("file", "damage", "why"),
    [
        ("config.json", "{", "config.json is corrupted: it is not JSON"),
        ("config.json", '{"task": ' + "[" * 500 + "]" * 500 + "}", "config.json is corrupted: it is nested too deeply"),
        ("weights.safetensors", "", "weights.safetensors is truncated or corrupted"),
        ("metrics.jsonl", "{\n{}\n", "metrics.jsonl is corrupted: line 1 is not JSON"),
        ("metrics.jsonl", '{"step": "x"}\n{}\n', "metrics.jsonl is corrupted: line 1 is not a row of figures"),
        (
            "metrics.jsonl",
            '{"event": ' + "[" * 500 + "]" * 500 + "}\n",
            "metrics.jsonl is corrupted: line 1: it is nested",
        ),
        ("metrics.jsonl", "\ud800\n", "metrics.jsonl is not text in UTF-8"),
    ],
)
def test_what_is_damaged_of_a_run_is_said_by_every_command_that_reads_it(
    file: str, damage: str, why: str, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "b" / file).write_text(damage, encoding="utf-8", errors="surrogatepass")
    listed, inspected = ["runs", "--root", str(root)], ["--n", "4", "--only", "overall", "--out", str(tmp_path / "out")]
    for command in (
        [*listed, "b"],
        [*listed, "a", "b", "--compare"],
        [*listed, "b", "--delete", "--yes"],
        ["inspect", str(root / "b"), *inspected, "--quiet"],
    ):
        assert main(command) == 2
        error = capsys.readouterr().err
        assert why in error and str(root / "b" / file) in error and error.count("\n") == 1
    assert main([*listed, "--csv"]) == 0
    said = capsys.readouterr()
    assert f"cannot be read: {root / 'b' / file}" in said.err and len(said.out.splitlines()) == 3
    assert main([*listed, "a"]) == 0 and not capsys.readouterr().err
    assert (root / "b").is_dir() and not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["a", "c"])
def test_opening_a_run_draws_no_weights_that_its_file_replaces(trained: Path, name: str) -> None:
    """To draw them for the shapes alone loads PyTorch's compiler, which takes a second of a command's time."""
    program = "import sys, workbench; workbench.load_run(sys.argv[1]).model(); print('torch._dynamo' in sys.modules)"
    command = [sys.executable, "-c", program, str(trained / name)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"
