"""Tables that are simulated and stand in the docs between two marks: each is written, and read again, by its name."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs" / "concepts" / "controls.md"


def _parts(name: str) -> tuple[str, str, str]:
    """What stands before a table's place in the docs, with the mark; in it; and behind it."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    before, rest = DOCS.read_text(encoding="utf-8").split(begin)
    inside, after = rest.split(end)
    return before + begin, inside, end + after


def written(name: str) -> list[list[str]]:
    """The rows of the table in the docs, as cells."""
    lines = _parts(name)[1].splitlines()[2:]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]


def main(name: str, description: str | None, table: Callable[[], str]) -> None:
    """Print a table, or put it into the docs."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--write", action="store_true", help=f"put the table into {DOCS.name}")
    text = table()
    if parser.parse_args().write:
        before, _, after = _parts(name)
        DOCS.write_text(before + text + after, encoding="utf-8")
    else:
        print(text)  # noqa: T201
