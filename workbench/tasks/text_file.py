"""A text file read in parts of whole lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from workbench.util.files import check_file, open_text

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
