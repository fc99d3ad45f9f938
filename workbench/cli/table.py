"""Tables of runs in a terminal: no word of them is ever cut."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from pandas.api.types import is_numeric_dtype
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from workbench.util.messages import harmless

SHOWN = {"accuracy": "{:.1%}", "loss": "{:.4f}", "seconds": "{:.0f}", "tokens_per_second": "{:,.0f}"}
SPARE = ("tokens_per_second", "seconds", "loss", "step", "variants", "seed")
"""Columns of `workbench runs` that go where there is no room, the first one first."""
LAST = ("accuracy", "status")  # to go, where the run's name is folded already
FOLDED = 16  # the least of a name in a line
GAP = 2  # between columns


def print_table(frame: Any, spare: Sequence[str] = ()) -> None:
    """Print a frame as wide as it is; in a terminal that is narrower without some columns, and says which.

    Where even that is too wide, the first column's words go over several lines, or without spare ones any column's.

    Args:
        frame: a data frame.
        spare: columns that can be left out, the first one first.
    """
    rows = frame.to_dict("records")
    cells = {name: [_text(str(row.get("") or name), row[name]) for row in rows] for name in frame}
    heads = {name: name.replace("_", " ") for name in frame}
    wide = {name: max(map(cell_len, (heads[name], *cells[name]))) + GAP for name in frame}
    room = Console().width if sys.stdout.isatty() else sum(wide.values())
    left_out: list[str] = []
    first = next(iter(cells))
    for name in (*spare, *(LAST if spare else ())):
        if name in LAST:
            wide[first] = min(wide[first], FOLDED)
        if name in cells and sum(wide.values()) > room:
            left_out.append(heads[name])
            del cells[name], wide[name]
    table = Table(box=None, pad_edge=False)
    for name in cells:
        right = is_numeric_dtype(frame[name])
        one_line = bool(spare) and name != first
        table.add_column(heads[name], justify="right" if right else "left", overflow="fold", no_wrap=one_line)
    for line in zip(*cells.values(), strict=True):
        table.add_row(*line)
    console = Console(width=room, highlight=False, markup=False)
    console.print(table)
    if left_out:
        console.print(f"left out for want of room: {', '.join(left_out)}")


def _text(name: str, value: Any) -> str:
    if isinstance(value, float) and value != value:
        return "–"
    row = {**SHOWN, "peak_megabytes": "{:,.0f}"}.get(name)
    return row.format(value) if row and isinstance(value, int | float) else harmless(str(value))
