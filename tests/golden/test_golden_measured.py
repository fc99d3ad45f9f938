"""What `inspect`, `probe` and `circuit` give of golden runs: numbers, and apart from them words and verdicts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.golden.compare import as_json, differences, rounded
from tests.golden.picture import MEASURED, NUMBERS, WORDS, Picture, copied


@pytest.fixture(scope="module", params=MEASURED)
def measured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Picture]]:
    """What is measured, and what that gave."""
    with copied(Path(tmp_path_factory.mktemp("measured"))):
        yield request.param, MEASURED[request.param]()


def test_the_numbers_are_as_they_were(measured: tuple[str, Picture], kept: Any, same: Callable[..., None]) -> None:
    name, picture = measured
    same(kept(NUMBERS, name), picture[NUMBERS], key=name)


def test_the_words_are_as_they_were(measured: tuple[str, Picture], kept: Any, same: Callable[..., None]) -> None:
    name, picture = measured
    same(kept(WORDS, name), picture[WORDS], key=name)


def test_a_number_that_changes_is_said_with_its_place() -> None:
    old = {"accuracy": {"value": [0.5, 0.25], "n": [4]}}
    assert differences(old, {"accuracy": {"value": [0.5, 0.25 + 1e-8], "n": [4]}}) == []
    assert differences(old, {"accuracy": {"value": [0.5, 0.2501], "n": [4]}}) == [
        "accuracy/value/1: was 0.25, is 0.2501"
    ]
    assert differences(old, {"accuracy": {"value": [0.5], "n": [4]}, "new": True}) == [
        'accuracy/value/1: was 0.25, is "nothing"',
        'new: was "nothing", is true',
    ]


def test_what_is_written_is_read_back() -> None:
    data = {
        "numbers": [1, 0.123456789123, float("nan"), None],
        "words": ["one", "two"],
        "none": {},
        "nested": [[1], [2]],
    }
    assert json.loads(as_json(rounded(data))) == rounded(data)
    assert rounded(data)["numbers"] == [1, 0.123456789, "nan", None]
