"""A text file read in parts of whole lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from workbench.util.files import check_file, open_text

LETTERS = 2**16  # of a text, tokenised at a time, and then to the end of the line


def read_parts(path: Path) -> Iterator[str]:
    """A text in parts of whole lines, each of `LETTERS` characters or a little more.

    A line longer than that is cut. No more than one part is in memory.

    Raises:
        ValueError: in one line, if there is no such file, or as `open_text`.
    """
    check_file(path, "text file")
    with open_text(path) as file:
        while part := file.read(LETTERS):
            yield part + file.readline(LETTERS)
