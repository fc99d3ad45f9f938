"""Files of sequences from elsewhere: each sequence is read as it was written, or refused with its line or row."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from workbench import tasks
from workbench.cli import main
from workbench.tasks.export import SHARD, Recipe, write
from workbench.tasks.exported import read

Spoil = Callable[[dict[str, Any]], Any]


def sorted_symbols(path: Path, n: int = 3) -> Path:
    """A file of sequences of `sorting`."""
    assert list(write(Recipe(tasks.make("sorting", q=9, max_length=5), n), path))[-1] == n
    return path


def said_of(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line in which the command refuses a file."""
    assert main(["data", str(path)]) == 2
    out, error = capsys.readouterr()
    assert not out and error.count("\n") == 1 and str(path) in error
    assert not any(word in error for word in ("Error", "tensor", "object of type", "subscriptable"))
    return error


ROWS: dict[str, tuple[Spoil, str]] = {
    "a token below 0": (lambda row: row["tokens"].__setitem__(1, -1), "token 1 is -1, not an id from 0 to"),
    "a token beyond the vocabulary": (lambda row: row["tokens"].__setitem__(1, 999), "token 1 is 999"),
    "a token that is true": (lambda row: row["tokens"].__setitem__(0, True), "token 0 is True"),
    "a token that is text": (lambda row: row["tokens"].__setitem__(0, "17"), "token 0 is '17'"),
    "a token that is no integer": (lambda row: row["tokens"].__setitem__(0, 1.7), "token 0 is 1.7"),
    "a token that is null": (lambda row: row["tokens"].__setitem__(0, None), "token 0 is None"),
    "a token of 31 digits": (lambda row: row["tokens"].__setitem__(0, 10**30), "token 0 is 1000"),
    "tokens that are a number": (lambda row: row.__setitem__("tokens", 1), "are lists"),
    "no token": (lambda row: [value.clear() for value in row.values()], "it has 0 tokens"),
    "fewer tokens than targets": (lambda row: row["tokens"].pop(), "targets and a loss_mask of"),
    "more than the context": (lambda row: [v.extend(v * 9) for v in row.values()], "with these settings makes 1 to"),
    "padding at the end": (lambda row: row["tokens"].__setitem__(-1, 10), "it ends with padding"),
    "a target beyond the classes": (lambda row: row["targets"].__setitem__(0, [999]), "target 0 is [999]"),
    "two targets": (lambda row: row["targets"].__setitem__(0, [3, 3]), "target 0 is [3, 3], not one class"),
    "no target": (lambda row: row["targets"].__setitem__(0, []), "target 0 is [], not one class"),
    "a target that is no list": (lambda row: row["targets"].__setitem__(0, 3), "target 0 is 3, not a list"),
    "a mask of numbers": (lambda row: row["loss_mask"].__setitem__(0, 2), "loss_mask 0 is 2, not true or false"),
    "no mask": (lambda row: row.pop("loss_mask"), "not an object of tokens, targets, loss_mask"),
    "a field of another's": (lambda row: row.__setitem__("weights", []), "not an object of tokens"),
}


@pytest.mark.parametrize("case", ROWS)
def test_a_damaged_sequence_is_refused_with_its_line(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil, message = ROWS[case]
    path = sorted_symbols(tmp_path / "some.jsonl")
    lines = path.read_text().splitlines()
    row = json.loads(lines[2])
    spoil(row)
    path.write_text("\n".join([*lines[:2], json.dumps(row), lines[3], ""]))
    said = said_of(path, capsys)
    assert f"{path} is damaged: line 3: " in said and message in said


@pytest.mark.parametrize("line", ["[]", "null", "17", '"x"', "1.5"])
def test_a_line_that_is_no_sequence_is_refused(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = sorted_symbols(tmp_path / "some.jsonl")
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:3], line, ""]))
    assert "line 4: it is not an object of tokens, targets, loss_mask" in said_of(path, capsys)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("tokens", [[1, 2], [-1, 2], [1, 2]], "row 2: token 0 is -1"),
        ("tokens", [[1, 2], [1, 2], [1.0, 2.0]], "row 1: token 0 is 1.0"),
        ("tokens", [[1, 2], None, [1, 2]], "row 2: tokens, targets and loss_mask are lists"),
        ("targets", [[[1], [1]], [[1], [1, 1]], [[1], [1]]], "row 2: target 1 is [1, 1], not one class"),
        ("loss_mask", [[True, False], [True, False], [True]], "row 3: it has 2 tokens, 2 targets and a loss_mask of 1"),
        ("loss_mask", [[1, 0], [1, 2], [1, 0]], "row 1: loss_mask 0 is 1"),
    ],
)
def test_a_damaged_sequence_of_a_table_is_refused_with_its_row(
    column: str, values: list[Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sorted_symbols(tmp_path / "some.parquet")
    columns: dict[str, Any] = {"tokens": [[1, 2]] * 3, "targets": [[[1], [1]]] * 3, "loss_mask": [[True, False]] * 3}
    table = pa.table({**columns, column: values})
    pq.write_table(table.replace_schema_metadata(pq.read_schema(path).metadata), path)
    assert message in said_of(path, capsys)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("n", 4, "its header states 4 sequences, and it has 3"),
        ("n", 2, "line 4: the header states 2 sequences, and here is one more"),
        ("n", 0, "its header: n must be at least 1"),
        ("n", True, "its header: n: "),
        ("n", "3", "its header: n: "),
        ("seed", "x", "its header: seed: "),
        ("seed", 1.5, "its header: seed: "),
        ("split", "valid", "its header: split: "),
        ("head", "successor", "its header: unknown sorting hint 'successor'"),
        ("head", 3, "its header: head: "),
        ("condition", [1], "its header: condition: "),
        ("condition", {"length": True}, "its header: condition"),
        ("condition", {"head": "main"}, "its header: sorting has no condition 'head'"),
        ("task", {"name": "sorting", "q": "many"}, "its header: task sorting: q"),
        ("task", {"name": []}, "its header: unknown task"),
        ("task", "sorting", "its header: task: "),
        ("more", 1, "its header: unknown field 'more'"),
    ],
)
def test_a_damaged_header_is_refused(
    name: str, value: Any, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sorted_symbols(tmp_path / "some.jsonl")
    lines = path.read_text().splitlines()
    header = {"workbench": {**json.loads(lines[0])["workbench"], name: value}}
    path.write_text("\n".join([json.dumps(header), *lines[1:], ""]))
    assert message in said_of(path, capsys)


def test_a_name_that_is_there_twice_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = sorted_symbols(tmp_path / "some.jsonl")
    written = path.read_text()
    path.write_text(written.replace('"n": 3', '"n": 9, "n": 3'))
    assert "its header: the name 'n' is there twice" in said_of(path, capsys)
    path.write_text(written.replace('{"tokens"', '{"tokens": [1], "tokens"'))
    assert "line 2: the name 'tokens' is there twice" in said_of(path, capsys)


@pytest.mark.parametrize("more", [-1, 1])
def test_sequences_are_counted_where_they_fill_a_batch(more: int, tmp_path: Path) -> None:
    """The last batch is given only when it is known that nothing is missing or comes behind it."""
    path = sorted_symbols(tmp_path / "some.jsonl", SHARD)
    path.write_text(path.read_text().replace(f'"n": {SHARD}', f'"n": {SHARD - more}'))
    with pytest.raises(ValueError, match="sequences"):
        next(read(path)[1])


@pytest.mark.parametrize("name", ["arithmetic", "box_moves", "multiplication"])
def test_tokens_that_are_no_sequence_of_the_task_are_not_shown(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "some.jsonl"
    assert list(write(Recipe(tasks.make(name), 1), path)) == [1]
    header, line = path.read_text().splitlines()
    row = {column: values[4:6] for column, values in json.loads(line).items()}
    path.write_text("\n".join([header, json.dumps(row), ""]))
    assert f"sequence 1 is none of {name}" in said_of(path, capsys)
