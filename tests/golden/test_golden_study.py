"""A golden study that was stopped in its third run: what is trained stays, and it comes to the result that it had."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.golden.make import HALF
from tests.golden.picture import HERE, said
from workbench.runs import load_run
from workbench.studies import collect, find_study

RESULT = "tiny/small/result.json"
COMMAND = ["study", "run", "given/tiny.toml", "--workers", "1", "--quiet", "--root"]
RULE = (
    "words",
    "rule",
    "asked",
    "groups",
    "reached",
    "share",
    "n",
    "low",
    "high",
)  # of a contrast: as it is judged today
SINCE = ("accuracy over training", "whole_answer over training")  # learning curves, which every result has kept since
ENDS = ("low", "high")  # of intervals over seeds, which leave room for seeds not seen since the verdicts were reworked

Same = Callable[..., None]


def result(folder: Path | str) -> dict[str, Any]:
    return json.loads(Path(folder, RESULT).read_text(encoding="utf-8"))


def numbers(data: dict[str, Any]) -> dict[str, Any]:
    """What a result measured, and its verdicts, but for the rule by which these are reached and what it keeps."""
    contrasts = [without(one, RULE) for one in data["contrasts"]]
    kept = {name: value for name, value in data.items() if name not in ("made", "tuning", "tried", "contrasts")}
    return without(kept, (*ENDS, *SINCE)) | {"contrasts": contrasts}


def without(data: Any, names: tuple[str, ...]) -> Any:
    """The same data without what has these names, anywhere."""
    if isinstance(data, dict):
        return {name: without(value, names) for name, value in data.items() if name not in names}
    return [without(one, names) for one in data] if isinstance(data, list) else data


def files(folder: Path | str) -> dict[str, bytes]:
    """The files of run folders by their paths."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*=*/*") if path.is_file()}


@pytest.mark.usefixtures("place")
def test_a_result_that_was_written_is_read(same: Same) -> None:
    (found,) = collect(Path("studies/whole"), dict([find_study("given/tiny.toml")]))
    kept = result(HERE / "studies/whole")
    same(numbers(kept), numbers(found.to_dict()))
    assert [outcome["verdict"] for outcome in kept["contrasts"]] == ["not settled"] * 3


@pytest.mark.usefixtures("place")
def test_a_study_that_was_stopped_comes_to_its_result_and_trains_nothing_again(same: Same) -> None:
    runs = Path("studies/half/tiny/small/runs")
    finished = {name: content for name, content in files(runs).items() if "gamma=0.0" in name}
    assert len(finished) == 6
    code, out, errors = said([*COMMAND, "studies/half"])
    assert (code, errors) == (0, "")
    now = files(runs)
    assert {name: now[name] for name in finished} == finished
    third = load_run(runs / "chain-chacal-gamma=0.9-seed=0").log()
    assert [row["step"] for row in third if row.get("event") == "resumed"] == [HALF]
    kept, new = result(HERE / "studies/whole"), result("studies/half")
    same(numbers(kept), numbers(new), rel=1e-5, absolute=1e-7)  # a difference of numbers of 8 digits
    assert out.startswith("tiny, small: not settled\n") and len(out.splitlines()) == 4


@pytest.mark.usefixtures("place")
def test_a_study_that_has_run_trains_nothing(same: Same) -> None:
    before = files("studies/whole/tiny/small/runs")
    assert said([*COMMAND, "studies/whole"])[0] == 0
    assert files("studies/whole/tiny/small/runs") == before
    same(numbers(result(HERE / "studies/whole")), numbers(result("studies/whole")))
