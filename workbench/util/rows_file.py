"""Rows of named fields from a file that a person wrote: JSON lines, or CSV with a first line of names."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from workbench.util.files import check_file, parse_json, read_text
from workbench.util.messages import brief

LONGEST = 2**24  # bytes
TABLES = (".csv", ".tsv")  # endings of files that are no JSON lines


def read_rows(path: Path, fields: Sequence[str], what: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each row with what errors call it; of a table every value is a text.

    Args:
        path: `.csv` or `.tsv` is a table, with commas, semicolons or tabs between fields; any other file JSON lines.
        fields: what the first line of a table has to name.
        what: what the rows are, in words.

    Raises:
        ValueError: in one line that names the line of the file, if it cannot be read.
    """
    check_file(path, f"file of {what}")
    lines = read_text(path, LONGEST).split("\n")  # a text may hold other ends of a line, such as U+2028
    numbered: Iterator[tuple[int, object]]
    if path.suffix.lower() in TABLES:
        numbered = _table(path, lines, fields, what)
    else:
        numbered = ((i, line) for i, line in enumerate(lines, 1) if line.strip())
    for number, row in numbered:
        where = f"{path}, line {number}"
        try:
            row = parse_json(row) if isinstance(row, str) else row  # a row of a table is read already
        except json.JSONDecodeError:
            raise ValueError(
                f"{where} is not JSON; {what} are JSON lines, or CSV in a file that ends in .csv"
            ) from None
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        if not isinstance(row, dict):
            raise ValueError(
                f"{where} is no {what.removesuffix('s')}; one is an object in braces with {', '.join(fields)}"
            )
        yield where, row


def _table(path: Path, lines: list[str], fields: Sequence[str], what: str) -> Iterator[tuple[int, object]]:
    """The rows of a table with their lines; commas, semicolons or tabs are between fields, by its first line.

    Raises:
        ValueError: if the first line does not name each of the fields, or names a column twice, a quote is not closed,
            or a row has more fields than the first line.
    """
    csv.field_size_limit(LONGEST)
    separator = max(",;\t", key=lines[0].count)
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=separator, strict=True)
    line = 0  # where the last row ended
    try:
        columns = next(reader)
        if absent := [name for name in fields if name not in columns]:
            listed = brief(", ".join(map(repr, columns)), 200) or "none"
            raise ValueError(
                f"{path}, line 1 has to name the columns of a table of {what}, {', '.join(fields)}, and {absent[0]} is "
                f"not among those it names: {listed}"
            )
        if twice := [name for name in columns if name and columns.count(name) > 1]:
            raise ValueError(f"{path}, line 1 names the column {twice[0]} twice; take one out, or give it another name")
        line = reader.line_num
        for row in reader:
            line = reader.line_num
            if len(row) > len(columns):
                raise ValueError(
                    f"{path}, line {line} has more fields than the first line: put a text that holds {separator!r} in "
                    "double quotes"
                )
            if any(row):  # spreadsheets write empty rows
                yield line, dict(zip(columns, row, strict=False))
    except csv.Error as error:
        raise ValueError(f"{path}, from line {line + 1} on: its quotes are not those of CSV ({error})") from None
