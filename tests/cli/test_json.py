"""What `--json` prints is of the form that is written down for the command, and no form changes without a number."""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import workbench
from tests.docs.pages import ROOT
from workbench.benchmark.arena import arena
from workbench.benchmark.run import SUITES, Suite
from workbench.cli import main, make_parser, output
from workbench.cli.schemas import SCHEMAS, schema_of
from workbench.runs.compiled import compile_run

GOLDEN = ROOT / "tests" / "golden"
LINES = {
    "bench run": "bench run --quiet --out bench.json",
    "bench score": "bench score arena claim.json --seed 9",
    "check": "check runs/tiny --quiet",
    "circuit": "circuit runs/tiny --n 8",
    "generate": "generate runs/sorter '1 3 2 ⊥' --edit head 0.0 --tokens 2",
    "heads": "heads runs/tiny --n 8",
    "inspect": "inspect runs/sorter --n 4 --only accuracy minimum --quiet --out report",
    "patch": "patch runs/tiny --n 8",
    "probe": "probe runs/tiny ancestor_1 --n 40 --quiet",
    "runs": "runs --root runs",
    "study run": f"study run {GOLDEN / 'given/tiny.toml'} --root studies --workers 1 --quiet",
    "table": "table runs/tiny runs/other --by seed --against 0",
}
FROZEN = {
    "bench/1": "d54f3df492ca2d0a",
    "bench-score/1": "e1c44d038fd715b6",
    "check/1": "c3164c2389c5ea82",
    "circuit/1": "74a9798bd5c4f4fe",
    "generate/1": "501da6c030555bbe",
    "heads/1": "667dfd83dc3541ad",
    "inspect/1": "69eff3d7ec71e53d",
    "patch/1": "e3f7375c9a5e1184",
    "probe/1": "631dd64b8df647e4",
    "runs/1": "8576fa5f4cc2a5e9",
    "study/2": "d022219898a75187",
    "table/1": "5ffbde97cffbc676",
}
"""Form -> the checksum of its schema without descriptions. Another checksum is another form: raise its number."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny runs, and a folder of the arena with an empty claim."""
    place = tmp_path_factory.mktemp("json")
    small: dict[str, Any] = {"task": {"n": 8, "k": 2}, "model": {"d_model": 16, "n_heads": 2}, "eval_size": 8}
    for seed, name in enumerate(("tiny", "other")):
        workbench.train("chain-chacal", out=place / "runs" / name, steps=2, seed=seed, progress=False, **small)
    compile_run("sorter", place / "runs/sorter", {"q": 5, "max_length": 4})
    shutil.copytree(GOLDEN / "studies/whole", place / "studies")  # trained, and measured anew
    arena(place / "arena", 9)
    (place / "claim.json").write_text('{"models": {}}')
    return place


@pytest.fixture(autouse=True)
def tiny_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SUITES, "quick", Suite(("random",), ("mlp_alone",), 1))


def problems(command: str, printed: Any) -> list[str]:
    return [
        f"{error.json_path}: {error.message[:200]}"
        for error in Draft202012Validator(schema_of(command)).iter_errors(printed)
    ]


@pytest.mark.parametrize("command", SCHEMAS)
def test_what_is_printed_is_of_the_form_of_the_command(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    capsys.readouterr()
    assert main([*shlex.split(LINES[command]), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert printed["format"] == schema_of(command)["properties"]["format"]["const"] and problems(command, printed) == []
    assert problems(command, printed | {"more": 1}) and problems(command, {"format": printed["format"]})


def with_json() -> Iterator[str]:
    """Every command that has the option."""
    (commands,) = (action for action in make_parser()._actions if isinstance(action, argparse._SubParsersAction))
    for name, parser in commands.choices.items():
        if any("--json" in action.option_strings for action in parser._actions):
            yield name


def test_every_command_with_the_option_has_a_form_and_a_row_on_the_page() -> None:
    assert {command.split()[0] for command in SCHEMAS} == set(with_json()) and set(LINES) == set(SCHEMAS)
    page = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `workbench ([a-z ]+)` \| `([a-z/0-9-]+)` \|", page, flags=re.M))
    assert rows == {command: schema_of(command)["properties"]["format"]["const"] for command in SCHEMAS}


def test_the_page_has_every_exit_code() -> None:
    page = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    codes = set(map(int, re.findall(r"^\| (\d+) \|", page, flags=re.M)))
    assert codes == {0, output.FAILED, output.BAD_INPUT, output.INTERRUPTED, output.UNREAD}


def test_the_schemas_are_valid_and_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "schemas"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed == {command: schema_of(command) for command in SCHEMAS}
    for schema in listed.values():
        Draft202012Validator.check_schema(schema)


def without_words(schema: Any) -> Any:
    """A schema without its descriptions and titles."""
    if isinstance(schema, list):
        return [without_words(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    words = {name for name in ("description", "title") if isinstance(schema.get(name), str)}
    return {name: without_words(each) for name, each in schema.items() if name not in words}


def test_no_form_changes_without_a_new_number() -> None:
    now = {}
    for command in SCHEMAS:
        schema = schema_of(command)
        content = json.dumps(without_words(schema), sort_keys=True)
        now[schema["properties"]["format"]["const"]] = hashlib.sha256(content.encode()).hexdigest()[:16]
    assert now == FROZEN


def test_the_value_of_a_number_that_is_not_known_is_null_and_no_number_is_a_word() -> None:
    group = {"mean": 1.0, "low": None, "high": None, "n": 1, "seed": 0}
    table = {"format": "table/1", "metric": "accuracy", "rows": [group]}
    assert problems("table", table) == []
    assert problems("table", table | {"rows": [group | {"mean": "1"}]})
    assert problems("table", table | {"format": "table/2"})


def test_a_whole_number_stays_one_where_another_run_lacks_the_setting() -> None:
    zoo = ROOT / "app" / "zoo"
    rows = {row["run"]: row for row in json.loads(workbench.runs_table(zoo).json())["runs"]}
    assert isinstance(rows["arithmetic"]["task.operators"], int) and rows["lis"]["task.operators"] is None
    assert isinstance(rows["lis"]["accuracy"], float)
