"""How wide a text is when it is printed, and the same text folded to a width."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Sequence
from typing import Any

import numpy as np

PIXELS_PER_INCH = 96  # of SVG, PDF and Plotly: what is laid out in pixels is printed at this size
SMALL, LARGE = 7, 8  # points: of ticks, legend and subtitle; of the title and the axes' titles
FAMILY = "Arial, Helvetica, Liberation Sans, sans-serif"  # all as wide as one another
LINE = 1.3  # distance of lines, in their height
ROOM = 1.04  # beside what is measured

# Widths of Helvetica's letters, in thousandths of their height.
_WIDTHS = {
    222: "'ijl|.,:;!`",
    278: "It/f \\[]",
    333: 'r()-"{}',
    389: "*^",
    500: "cksvxyzJ",
    584: "+<=>~−",
    611: "FTZ",
    667: "ABEKPSVXY&",
    722: "CDHNRUw",
    778: "GOQ",
    833: "mM",
    889: "%",
    944: "W@—…",
}
_WIDTH = {letter: width / 1000 for width, letters in _WIDTHS.items() for letter in letters}
_TAG = re.compile(r"<[^>]*>")
_WORD = re.compile(r"(?:<[^>]*>|[^\s<])+")


def pixels(points: float) -> float:
    """A size in points, in pixels."""
    return points * PIXELS_PER_INCH / 72


def font(points: float) -> dict[str, Any]:
    """Plotly's font of a size."""
    return {"size": pixels(points), "family": FAMILY}


def lines(text: str) -> int:
    """How many lines a text has."""
    return text.count("<br>") + 1


def width(text: str, points: float = SMALL) -> float:
    """Pixels of the longest line of a text, without its tags; a little more than it takes."""
    return max(_line(line) for line in text.split("<br>")) * pixels(points) * ROOM


def height(text: str, points: float = SMALL) -> float:
    """Pixels of all lines of a text."""
    return lines(text) * LINE * pixels(points)


def longest_word(text: str, points: float = SMALL) -> float:
    """Pixels below which a text cannot be folded."""
    return max((width(word, points) for word in words(text)), default=0.0)


def words(text: str) -> list[str]:
    """The words of a text; a tag belongs to the word that it touches."""
    return [word for line in text.split("<br>") for word in _WORD.findall(line)]


def fold(text: str, room: float, points: float = SMALL) -> str:
    """A text with line breaks at spaces, so that no line is wider than some pixels, unless a word is."""
    folded = []
    for line in text.split("<br>"):
        rows: list[str] = []
        for word in _WORD.findall(line):
            longer = f"{rows[-1]} {word}" if rows else word
            if rows and width(longer, points) <= room:
                rows[-1] = longer
            else:
                rows.append(word)
        folded += rows or [""]
    return "<br>".join(folded)


def balanced(text: str, room: float, points: float = SMALL) -> str:
    """A text folded to a width, its lines about as long as one another."""
    return fold_to_lines(text, lines(fold(text, room, points)), points)


def fold_to_lines(text: str, most: int, points: float = SMALL) -> str:
    """A text folded as narrow as it can be in at most some lines."""
    full = width(text, points)
    rooms = (full * share / 20 for share in range(1, 21))
    return next((folded for room in rooms if lines(folded := fold(text, room, points)) <= most), text)


def values(data: Any) -> list[Any]:
    """What a trace's array holds, also where it was read from a file as bytes."""
    if data is None:
        return []
    if isinstance(data, dict):
        shape = [int(size) for size in str(data.get("shape", -1)).split(",")]
        data = np.frombuffer(b64decode(data["bdata"]), dtype=np.dtype(data["dtype"])).reshape(shape)
    return list(data)


def numbers(data: Sequence[Any]) -> list[float]:
    """The finite numbers among values."""
    kinds = (int, float, np.integer, np.floating)
    return [float(x) for x in data if isinstance(x, kinds) and not isinstance(x, bool) and np.isfinite(x)]


def _line(line: str) -> float:
    bare = re.sub(r"<(b|sup|sub)>|</\w+>", "", line)
    bold = 1.07 if "<b>" in line else 1.0
    return bold * sum(_letter(letter) for letter in _TAG.sub("", bare))


def _letter(letter: str) -> float:
    return _WIDTH.get(letter, 1.0 if ord(letter) > 0x2E7F else 0.1 if letter == "\u2009" else 0.56)
