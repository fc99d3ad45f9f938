"""What every benchmark here does the same way: interleaved rounds, ratios with their spread, peak memory, tables."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

README = Path(__file__).with_name("README.md")
GROWTH = Path(__file__).with_name("growth.json")

PEAK = """
import torch
torch.set_num_threads(1)
def resident(which):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(which)) / 1024
{setup}
with open("/proc/self/clear_refs", "w") as reset:
    reset.write("5")  # the peak is counted from here
before = resident("VmRSS")
{work}
print(resident("VmHWM") - before)
"""


def peak_megabytes(setup: str, work: str) -> float:
    """Resident memory that `work` needs at its peak beyond what `setup` left, in a process of its own (Linux)."""
    code = PEAK.format(setup=setup, work=work)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(ran.stderr)
    return float(ran.stdout)


def rounds(forms: Mapping[str, Callable[[], Any]], n: int) -> dict[str, list[float]]:
    """Milliseconds of every form in each of n rounds, after one to warm up: what slows the machine slows all.

    Every second round goes the other way round. With one thread it is the time of the processor that counts, so that
    what else runs on the machine does not.
    """
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    for form in forms.values():
        form()
    taken: dict[str, list[float]] = {name: [] for name in forms}
    for number in range(n):
        for name in list(forms)[:: 1 if number % 2 else -1]:
            start = clock()
            forms[name]()
            taken[name].append((clock() - start) * 1e3)
    return taken


def ratios(taken: Mapping[str, Sequence[float]], above: str, below: str) -> list[float]:
    """How many times longer one form took than another, round by round."""
    return [a / b for a, b in zip(taken[above], taken[below], strict=True)]


def spread(values: Sequence[float]) -> str:
    """Median and quartiles."""
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.2f} ({low:.2f}–{high:.2f})"


def milliseconds(values: Sequence[float]) -> str:
    median = statistics.median(values)
    return f"{median:.2f} ms" if median < 10 else f"{median:,.0f} ms"


def write_section(name: str, lines: Sequence[str]) -> None:
    """Put lines between the section's markers in the README beside this file."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, rest = README.read_text(encoding="utf-8").split(begin)
    README.write_text("\n".join([f"{before}{begin}", *lines, f"{end}{rest.split(end)[1]}"]), encoding="utf-8")


class Table:
    """Rows that are shown as they come and written at the end, with what was asked of them and whether it holds."""

    def __init__(self, section: str, *columns: str) -> None:
        self.section, self.lines = section, [f"| {' | '.join(columns)} |", "|---" + "|---:" * (len(columns) - 1) + "|"]
        self.asked: list[str] = []
        self.falls_short = False

    def add(self, *cells: object) -> None:
        self.lines.append(f"| {' | '.join(map(str, cells))} |")
        show(self.lines[-1])

    def ask(self, what: str, found: float, *, least: float | None = None, most: float | None = None) -> None:
        """Hold a figure against what it has to be."""
        holds = (least is None or found >= least) and (most is None or found <= most)
        limit = f"at least {least:g}" if least is not None else f"at most {most:g}"
        self.asked.append(f"- {what}: {found:.3g}, asked {limit}: {'holds' if holds else '**falls short**'}")
        self.falls_short |= not holds
        show(self.asked[-1])

    def write(self) -> None:
        write_section(self.section, [*self.lines, "", *self.asked] if self.asked else self.lines)


def show(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def grew(what: str, unit: str, size_name: str, form: str, size: int, value: float) -> None:
    """Keep one point of how a cost grows, for the figure that `draw_growth.py` makes."""
    points = json.loads(GROWTH.read_text(encoding="utf-8")) if GROWTH.exists() else []
    key = [what, unit, size_name, form, size]
    points = [point for point in points if point[:-1] != key] + [[*key, round(value, 4)]]
    GROWTH.write_text("[\n" + ",\n".join(map(json.dumps, points)) + "\n]\n", encoding="utf-8")


def main(doc: str | None, *tables: Callable[[], Table]) -> None:
    """Run a benchmark from the command line, on one thread; the exit status says whether all that was asked holds."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = {table.__name__: table for table in tables}
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"some of: {', '.join(known)} (default: all)")
    parser.add_argument("--write", action="store_true", help="put the tables into the README beside this file")
    options = parser.parse_args()
    if unknown := set(options.tables) - set(known):
        parser.error(f"no table {sorted(unknown)[0]!r}; there is: {', '.join(known)}")
    torch.set_num_threads(1)
    made = []
    for name in options.tables or known:
        made.append(known[name]())
        if options.write:
            made[-1].write()
    sys.exit(any(table.falls_short for table in made))
