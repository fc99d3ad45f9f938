"""The command line as it was: help, lists, and exit codes and messages of good and bad command lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.golden import command_line
from tests.golden.command_line import INVOCATIONS, LISTS, words_that_differ
from tests.golden.picture import Picture, copied
from workbench.cli import COMMANDS

HELPS = ["workbench", *(f"workbench {name}" for name in COMMANDS)]


@pytest.fixture(scope="module")
def now(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Picture]:
    """What the command line does now."""
    with copied(Path(tmp_path_factory.mktemp("lines"))):
        yield command_line.pictured()


def check(old: list[str], new: list[str]) -> None:
    """Fails with the difference where texts differ."""
    differing = words_that_differ(old, new)
    assert not differing, "\n".join(differing)


def test_every_command_and_list_is_as_many_as_there_were(kept: Any) -> None:
    assert list(kept("cli", "help")) == HELPS
    assert list(kept("cli", "list")) == list(LISTS)
    assert list(kept("cli", "invocations")) == list(INVOCATIONS)


@pytest.mark.parametrize("name", HELPS)
def test_help_is_as_it_was(name: str, kept: Any, now: Picture) -> None:
    check(kept("cli", "help", name), now["help"][name])


@pytest.mark.parametrize("what", LISTS)
def test_a_list_is_as_it_was(what: str, kept: Any, now: Picture) -> None:
    check(kept("cli", "list", what), now["list"][what])


@pytest.mark.parametrize("line", INVOCATIONS)
def test_a_command_line_ends_as_it_did(line: str, kept: Any, now: Picture) -> None:
    then, today = kept("cli", "invocations", line), now["invocations"][line]
    assert today["code"] == then["code"], today["errors"]
    check(then["errors"], today["errors"])
    check(then["out"], today["out"])


def test_versions_of_argparse_make_no_difference() -> None:
    old = ["  --batch_size N, --batch-size N", "                 sequences (choose from 'a', 'b')"]
    assert words_that_differ(old, ["  --batch_size, --batch-size N  sequences (choose from a, b)"]) == []
    assert words_that_differ(old, ["  --batch_size, --batch-size N  sequence (choose from a, b)"]) != []
