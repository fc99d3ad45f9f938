"""A text file read in parts of whole lines; of JSON lines and tables, the texts in their field `text`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from workbench.util.files import check_file, open_text
from workbench.util.messages import brief, check_characters
from workbench.util.rows_file import TABLES, read_rows

ENDINGS = (*TABLES, ".jsonl")  # of files whose rows have a text each
TEXT = "text"
LETTERS = 2**16  # of a text, tokenised at a time, and then to the end of the line


def read_parts(path: Path) -> Iterator[str]:
    """A text in parts of whole lines, each of `LETTERS` characters or a little more.

    No part but the first begins with a space or an empty line, which many tokenizers put into one token with the line
    end before. A line that is longer is cut, and so are as many such lines. No more than one part is in memory.

    Raises:
        ValueError: in one line, if there is no such file, or as `open_text`.
    """
    check_file(path, "text file")
    with open_text(path) as file:
        line = ""  # the first of the next part
        while part := line + file.read(LETTERS):
            part += file.readline(LETTERS)
            while (line := file.readline(LETTERS))[:1].isspace() and len(part) < 4 * LETTERS:
                part += line
            yield part


def text_parts(path: Path) -> Iterator[str]:
    """The parts of a text; of a file that has a row for each text, these, each a line of its own.

    Raises:
        ValueError: as `read_parts`, or `read_texts`.
    """
    if has_rows(path):
        yield from (f"{row[TEXT].strip()}\n" for _, row in read_texts(path))
    else:
        yield from read_parts(path)


def has_rows(path: str | Path) -> bool:
    """Whether a file has a row for each text, by its ending."""
    return Path(path).suffix.lower() in ENDINGS


def read_texts(path: str | Path, n: int | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """The first rows of a file, each with what errors call it. Raises ValueError in one line if one has no text."""
    for where, row in islice(read_rows(Path(path), (TEXT,), "texts"), n):
        if not isinstance(row.get(TEXT), str) or not row[TEXT]:
            raise ValueError(f"{where} has no text: its field {TEXT!r} is {brief(repr(row.get(TEXT)), 40)}")
        check_characters(row[TEXT], where)
        yield where, row
