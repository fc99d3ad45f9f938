"""The log of a run, metrics.jsonl, as data that anyone may have written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from workbench.util.files import parse_json, read_text
from workbench.util.memory import most_memory

RATES = ("accuracy", "whole_answer", "exact_match")  # figures of the log that are shares, as are those of their parts
FIGURES = ("accuracy", "whole_answer", "exact_match", "loss", "test_loss")
COSTS = ("seconds", "tokens_per_second", "peak_megabytes")


def read_log(path: Path) -> list[dict[str, Any]]:
    """The lines of a log as they were written; none if there is no file. Raises ValueError as `Run.log`."""
    lines = read_text(path, most_memory() // 16).removesuffix("\n").split("\n") if path.exists() else []
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            row = parse_json(line)
        except json.JSONDecodeError:
            if number < len(lines):
                raise ValueError(f"{path} is corrupted: line {number} is not JSON") from None
            continue
        except ValueError as error:
            raise ValueError(f"{path} is corrupted: line {number}: {error}") from None
        if not _is_row(row):
            raise ValueError(f"{path} is corrupted: line {number} is not a row of figures")
        for name in (name for name in row if name.partition("/")[0] in RATES):
            if row[name] < 0 or row[name] > 1:  # it may be NaN
                raise ValueError(f"{path} is corrupted: line {number}: {name} is {row[name]}, not a share from 0 to 1")
        rows.append(row)
    return rows


def _is_row(row: Any) -> bool:
    """Whether parsed JSON can be a line of metrics.jsonl: a step or an event, and figures that are numbers."""
    if not isinstance(row, dict) or ("event" not in row and not isinstance(row.get("step"), int)):
        return False
    figures = [value for name, value in row.items() if "event" not in row or name.partition("/")[0] in (*RATES, *COSTS)]
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in figures)
