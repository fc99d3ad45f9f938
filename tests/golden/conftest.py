from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.golden.compare import differences, in_lines, rounded
from tests.golden.picture import HERE, copied

Kept = Callable[..., Any]


@pytest.fixture(scope="session")
def kept() -> Kept:
    """The entry of a part of the picture that was kept: `kept("numbers", "inspect learned")`."""

    def entry(part: str, *keys: str) -> Any:
        found = json.loads((HERE / f"{part}.json").read_text(encoding="utf-8"))
        for key in keys:
            found = found[key]
        return found

    return entry


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A copy of the golden folders, which is the current folder."""
    with copied(tmp_path / "copy") as place:
        yield place


@pytest.fixture(scope="session")
def same() -> Callable[..., None]:
    """Fails where what is new differs from what was kept; it says where, what was and what is."""

    def check(old: Any, new: Any, **how: Any) -> None:
        found = differences(old, rounded(new), **how)
        if found:
            pytest.fail(in_lines(found), pytrace=False)

    return check
