"""Data as files: the same bytes for any number of workers and in any process, and back again."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import subprocess
import sys
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import torch

from workbench import tasks
from workbench.cli import main
from workbench.tasks import TASKS, Batch, export
from workbench.tasks.export import Recipe, show, write
from workbench.tasks.exported import read
from workbench.tasks.stream import in_order

CASES: list[tuple[str, dict[str, Any], str]] = [
    (name, {"path": __file__} if name == "text" else {}, "main") for name in sorted(TASKS)
] + [
    ("sorting", {"hints": "successor", "q": 20}, "successor"),
    ("pointer_chain", {"n": 12, "k": 3, "reading": "root"}, "main"),
]


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
@pytest.mark.parametrize(("name", "settings", "head"), CASES, ids=[f"{name}-{head}" for name, _, head in CASES])
def test_what_is_written_is_read_back(
    name: str, settings: dict[str, Any], head: str, suffix: str, tmp_path: Path
) -> None:
    recipe = Recipe(tasks.make(name, **settings), 37, seed=3, split="test", head=head)
    path = tmp_path / f"data{suffix}"
    assert list(write(recipe, path)) == [37]
    task, batches = read(path)
    assert task == recipe.task
    found, want = Batch.cat(list(batches), task.pad), Batch.cat(list(recipe.batches()), task.pad)
    assert torch.equal(found.tokens, want.tokens) and torch.equal(found.loss_mask, want.loss_mask)
    real = torch.arange(want.tokens.shape[1]) < task.lengths(want.tokens)[:, None]
    assert torch.equal(found.targets[real], want.targets[real]) and found.head == head


@pytest.mark.parametrize(("name", "suffix"), [("boxes", "parquet"), ("arithmetic", "jsonl")])
def test_the_same_command_writes_the_same_bytes_in_every_process_and_for_any_number_of_workers(
    name: str, suffix: str, tmp_path: Path
) -> None:
    digests = set()
    for seed, workers in (("0", "0"), ("1", "2")):
        out = tmp_path / f"{seed}.{suffix}"
        command = ["data", name, "--count", "2500", "--split", "train", "--out", str(out)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        program = [sys.executable, "-m", "workbench", *command, "--workers", workers, "--quiet"]
        subprocess.run(program, check=True, env=environment, capture_output=True)
        digests.add(hashlib.sha256(out.read_bytes()).hexdigest())
    assert len(digests) == 1


def test_no_more_processes_draw_than_there_are_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody may ask for a hundred thousand, which would be the end of the machine."""
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    drawn = in_order(str, range(9), 100_000)
    assert next(drawn) == "0" and len(multiprocessing.active_children()) == 2
    assert list(drawn) == list("12345678")


def test_shards_hold_the_sequences_they_should_and_no_more() -> None:
    recipe = Recipe(tasks.make("sorting"), 2050, condition={"length": 5})
    assert [len(batch) for batch in recipe.batches()] == [1024, 1024, 2]
    assert torch.equal(list(recipe.batches())[1].tokens, recipe.shard(1).tokens)


def test_a_sequence_in_words_shows_question_answer_marks_and_edges() -> None:
    task = tasks.make("sorting", q=9, max_length=6)
    assert show(task, task.parse("5 3 3 9"), 0).splitlines() == [
        "input   5 3 3 9",
        "answer  3 3 5 9",
        "tokens  5 3 3 9 ⊥ 3 3 5 9",
        "scored  · · · · ^ ^ ^ ^ ·",
        "gold edges, hop 1: 4→1 4→2 5→1 5→2 6→0 7→3",
    ]


@pytest.mark.parametrize("name", sorted(TASKS))
def test_the_command_prints_samples_of_every_task_and_what_a_file_holds(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ["--path", __file__] if name == "text" else []
    assert main(["data", name, "--count", "2", *settings]) == 0
    printed = capsys.readouterr().out
    assert printed.count("input ") >= 2 and printed.count("gold edges") >= 2 and "^" in printed
    out = tmp_path / "some.jsonl"
    assert main(["data", name, "--count", "2", *settings, "--out", str(out), "--quiet"]) == 0
    assert str(out) in capsys.readouterr().out
    assert main(["data", str(out), "--count", "2"]) == 0
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sortin"], "did you mean 'sorting'"),
        (["sorting", "--qq", "3"], "unknown field 'qq'"),
        (["sorting", "--count", "0"], "at least 1"),
        (["sorting", "--where", "length"], "NAME=VALUE"),
        (["sorting", "--where", "size=3"], "no condition 'size'"),
        (["sorting", "--head", "successor"], "hint"),
        (["sorting", "--out", "data.csv"], ".parquet or .jsonl"),
        (["sorting", "--out", "nowhere/data.jsonl"], "no folder"),
        (["nowhere.parquet"], "no file"),
        (["broken.parquet"], "damaged"),
        (["broken.jsonl"], "damaged"),
        (["broken.jsonl", "--q", "3"], "leave out --q"),
        (["sorting", "--out", "data.jsonl", "--workers", "-1"], "workers must be at least 0"),
        (["sorting", "--workers", "-1"], "workers must be at least 0"),
        (["sorting", "--where", "length=3", "--where", "length=4"], "the condition length is given twice"),
        (["sorting", "--where", 'length={"a": 1, "a": 2}'], "the name 'a' is there twice"),
        (["sorting", "--q", '{"a": 1, "a": 2}'], "--q: the name 'a' is there twice"),
        (["sorting", "--where", "length="], "NAME=VALUE"),
        (["broken.jsonl", "--out", "data.parquet"], "--out is of sequences that are drawn"),
        (["broken.jsonl", "--where", "length=3"], "--where is of"),
        (["broken.jsonl", "--split", "test"], "--split is of"),
        (["broken.jsonl", "--head", "successor"], "--head is of"),
        (["broken.jsonl", "--seed", "3"], "--seed is of"),
        (["broken.jsonl", "--workers", "2"], "--workers is of"),
    ],
)
def test_bad_input_is_one_line_and_leaves_no_file(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    for broken in ("broken.parquet", "broken.jsonl"):
        Path(broken).write_text("{}\n")
    assert main(["data", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken.jsonl", "broken.parquet"]


def test_as_many_are_printed_as_were_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "state_tracking", "--length", "2", "--count", "1030"]) == 0
    assert capsys.readouterr().out.count("input ") == 1030


@pytest.mark.parametrize("name", sorted(TASKS))
@pytest.mark.parametrize("condition", ["n=5", "generator=5", "head=main", "split=train", "self=1", "size=x"])
def test_no_task_takes_an_argument_for_a_condition(
    name: str, condition: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ["--path", __file__] if name == "text" else []
    assert main(["data", name, "--where", condition, *settings]) == 2
    assert f"{name} has no condition '{condition.split('=')[0]}'; there is: " in capsys.readouterr().err


TAKEN = [
    *(("sorting", name) for name in ("length", "repeats")),
    *((name, "length") for name in ("increment", "induction", "lis", "state_tracking")),
    ("boxes", "operations"),
    ("box_moves", "moves"),
    ("arithmetic", "operators"),
]


@pytest.mark.parametrize(("name", "condition"), TAKEN)
@pytest.mark.parametrize("value", ["2.5", "1e0", "true", "nan", "NaN", "null", "None", "[1,2]", "x", "{}"])
def test_a_condition_that_is_counted_takes_an_integer(
    name: str, condition: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", name, "--where", f"{condition}={value}"]) == 2
    assert f"the condition {condition} of {name} takes an integer, not " in capsys.readouterr().err


def test_every_condition_of_a_task_is_among_those_that_are_tried() -> None:
    known = {"self", "n", "generator", "head", "condition"}
    declared = {(name, each) for name, kind in TASKS.items() for each in signature(kind.draw).parameters}
    assert {(name, each) for name, each in declared if each not in known} == set(TAKEN)


@pytest.mark.parametrize("name", sorted(TASKS))
def test_no_task_has_a_setting_called_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", name, "--name", "x", *(["--path", __file__] if name == "text" else [])]) == 2
    assert f"task {name}: unknown field 'name'" in capsys.readouterr().err


def test_a_file_that_exists_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text("mine")
    with pytest.raises(ValueError, match="already exists"):
        list(write(Recipe(tasks.make("sorting"), 3), path))
    assert path.read_text() == "mine"


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
@pytest.mark.parametrize(
    ("number", "times"), [(signal.SIGINT, 1), (signal.SIGTERM, 1), (signal.SIGHUP, 1), (signal.SIGINT, 2)]
)
def test_a_signal_ends_the_command_after_a_batch_and_a_second_at_once(
    number: int, times: int, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Ctrl-C anywhere within a batch may come while a queue to the workers is locked, and ending them waits for it."""
    drawn, before, rows_of = [], signal.getsignal(number), export.rows

    def rows(*arguments: Any) -> Any:
        for _ in range(times if len(drawn) == 1 else 0):
            os.kill(os.getpid(), number)
        drawn.append(1)
        return rows_of(*arguments)

    monkeypatch.setattr(export, "rows", rows)
    assert main(["data", "sorting", "--count", "9000", "--out", str(tmp_path / f"s{suffix}"), "--quiet"]) == 130
    assert len(drawn) == 3 - times
    assert capsys.readouterr().err == "workbench: interrupted\n"
    assert not list(tmp_path.iterdir()) and signal.getsignal(number) is before
