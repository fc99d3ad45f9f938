"""Tables of runs in a terminal: columns are left out or folded, but no word is ever cut."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import pandas as pd
from pandas.api.types import is_numeric_dtype
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from workbench.util.messages import harmless

FORMATS = {
    "accuracy": "{:.1%}",
    "loss": "{:.4f}",
    "seconds": "{:.0f}",
    "tokens_per_second": "{:,.0f}",
    "peak_megabytes": "{:,.0f}",
}
LAST_RESORT = ("accuracy", "status")  # left out last of all, once the names of the runs are folded
FOLDED_WIDTH = 16  # characters: a folded name of a run is not made narrower
GAP = 2  # spaces between columns


def print_table(frame: pd.DataFrame, spare: Sequence[str] = ()) -> None:
    """Print a frame at its full width. In a narrower terminal, leave columns out and say which.

    If that is not enough, the words of the first column are wrapped over several lines; without `spare`, those of
    every column.

    Args:
        frame: the table; its first column names the rows.
        spare: columns that can be left out, in this order.
    """
    rows = frame.to_dict("records")
    cells = {name: [_text(str(row.get("") or name), row[name]) for row in rows] for name in frame}
    titles = {name: name.replace("_", " ") for name in frame}
    widths = {name: max(map(cell_len, (titles[name], *cells[name]))) + GAP for name in frame}
    room = Console().width if sys.stdout.isatty() else sum(widths.values())
    first = next(iter(cells))
    left_out: list[str] = []
    for name in (*spare, *(LAST_RESORT if spare else ())):
        if name in LAST_RESORT:
            widths[first] = min(widths[first], FOLDED_WIDTH)
        if name in widths and sum(widths.values()) > room:
            left_out.append(name)
            del widths[name]
    table = Table(box=None, pad_edge=False)
    for name in widths:
        right = is_numeric_dtype(frame[name])
        one_line = bool(spare) and name != first
        table.add_column(titles[name], justify="right" if right else "left", overflow="fold", no_wrap=one_line)
    for line in zip(*(cells[name] for name in widths), strict=True):
        table.add_row(*line)
    console = Console(width=room, highlight=False, markup=False)
    console.print(table)
    if left_out:
        console.print(f"left out for want of room: {', '.join(titles[name] for name in left_out)}")


def _text(name: str, value: Any) -> str:
    """A value of the column, or of a comparison's row, of this name."""
    if isinstance(value, float) and value != value:
        return "–"
    if name in FORMATS and isinstance(value, int | float):
        return FORMATS[name].format(value)
    return harmless(str(value))
