"""Tables that are measured and stand in the docs between two marks: each is written, and read again, by its name."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs" / "concepts" / "controls.md"


def _parts(name: str, page: Path) -> tuple[str, str, str]:
    """What stands before a table's place in the docs, with the mark; in it; and behind it.

    Raises:
        ValueError: if there is no such place.
    """
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    whole = page.read_text(encoding="utf-8")
    if begin not in whole or end not in whole:
        raise ValueError(f"{page} has no place for the table: {begin.strip()} … {end}")
    before, rest = whole.split(begin)
    inside, after = rest.split(end)
    return before + begin, inside, end + after


def put(name: str, text: str, page: Path = DOCS) -> None:
    """Put a table, with the line ends about it, between its marks. Raises ValueError if the page lacks them."""
    before, _, after = _parts(name, page)
    page.write_text(before + text + after, encoding="utf-8")


def written(name: str, page: Path = DOCS) -> list[list[str]]:
    """The rows of the table in the docs, as cells."""
    lines = _parts(name, page)[1].strip().splitlines()[2:]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]


def main(name: str, description: str | None, table: Callable[[], str]) -> None:
    """Print a table, or put it into the docs."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--write", action="store_true", help=f"put the table into {DOCS.name}")
    text = table()
    if parser.parse_args().write:
        put(name, text)
    else:
        print(text)  # noqa: T201
