"""Numbers as people read them: the one place that writes shares, intervals, differences, counts and p values as text.

A share is in per cent without a space, with one decimal where it is no whole number: `98%`, `66.7%`; what is not quite
all or none never rounds to it (`>99.9%`, `<0.1%`). Other numbers have so many decimals that numbers which differ look
different (`decimals`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import floor, isfinite, isnan, log10

SHARES = ("share", "probability", "difference of shares")
POINTS = "percentage points"
SINGULAR = {"tokens": "token", "steps": "step", "nats": "nat", "bits": "bit", "directions": "direction"}
LEAST_P = 1e-4  # smaller p values are written as below it
HUNDRED = 100  # of what is counted: from here on no parts of one are told
LARGE = 1000  # whole numbers from here on are counts, such as of parameters, whatever their units
COUNTS = ("steps", "tokens", "rank", "sequences")  # units of whole numbers
DECIMALS, MOST_DECIMALS = 2, 6
UNKNOWN = "–"
ROUNDING = 1e-6  # of sums of shares


def percent(share: float) -> str:
    """`66.7%`, `98%`, `<0.1%`; a dash for NaN."""
    return UNKNOWN if not isfinite(share) else f"{_tenths(share)}%"


def _tenths(share: float) -> str:
    text = f"{100 * share:.1f}"
    if 0 < share < 1 and text in ("0.0", "100.0"):
        return "<0.1" if share < 0.5 else ">99.9"
    return "0" if text in ("-0.0", "0.0") else text.removesuffix(".0")


def percents(shares: Iterable[float]) -> str:
    """The range of some shares: `98%`, or `12 to 98%`; a dash where all are NaN."""
    known = sorted(share for share in shares if not isnan(share))
    if not known:
        return UNKNOWN
    return f"{' to '.join(dict.fromkeys(map(_tenths, (known[0], known[-1]))))}%"


def share_with_interval(share: float, low: float | None, high: float | None) -> str:
    """`66.7% [60.2, 72.9]`; without the interval where it is not known."""
    if isnan(share) or low is None or high is None or isnan(low) or isnan(high):
        return percent(share)
    return f"{percent(share)} [{_tenths(low)}, {_tenths(high)}]"


def share_with_range(share: float, low: float | None, high: float | None) -> str:
    """The mean of several models with their range: `14.2% (9 to 21.1%)`; without it where it is not known."""
    if low is None or high is None or isnan(low) or isnan(high):
        return percent(share)
    between = percents((low, high))
    return f"{percent(share)} ({between if ' to ' in between else 'all alike'})"


def counted(hits: float, n: int) -> str:
    """`13 of 34`; where the hits are a sum of shares, their mean: `2.8% of 34`."""
    if n and hits == hits and abs(hits - round(hits)) >= ROUNDING:
        return f"{percent(hits / n)} of {n:,}"
    return f"{whole(hits, n):,} of {n:,}"


def whole(hits: float, n: int) -> int:
    """Hits of n as a whole number, which is all or none only where the hits are, but for rounding errors."""
    if isnan(hits) or not n:
        return 0
    nearest = round(min(max(hits, 0.0), n))
    if abs(hits - nearest) < ROUNDING:
        return nearest
    return min(max(nearest, 1), max(n - 1, 1))


def decimals(values: Sequence[float], least: int = DECIMALS, units: str = "") -> int:
    """The fewest decimals, `least` or more, at which different values look different, and none but 0 looks like 0.

    Of what is counted, such as training steps, a hundred and more have none.
    """
    known = sorted({value for value in values if isfinite(value)})
    if units in COUNTS and max(map(abs, known), default=0.0) >= HUNDRED:
        return 0
    gaps = [b - a for a, b in pairwise(known)] + [abs(value) for value in known if value]
    smallest = min(gaps, default=1.0)
    return min(MOST_DECIMALS, max(least, -floor(log10(smallest)))) if smallest > 0 else least


def number(value: float, units: str = "", places: int | None = None) -> str:
    """A number in its units: `66.7%`, `1.43 nats`, `α = 1.08`, `1,200 steps`; a dash for NaN.

    Args:
        value: the number.
        units: as measurements have them.
        places: decimals; by default as many as `decimals` says, none for whole numbers of what is counted.
    """
    if not isfinite(value):
        return UNKNOWN if isnan(value) else f"{'-' if value < 0 else ''}∞ {units}".strip()
    if units in SHARES:
        return percent(value)
    if places is None:
        is_count = units in COUNTS or abs(value) >= LARGE
        places = 0 if is_count and value == round(value) else decimals([value], units=units)
    text = f"{round(value, places) + 0.0:,.{places}f}"  # no minus before a zero
    if units.startswith("exponent "):
        return f"{units.removeprefix('exponent ')} = {text}"
    return f"{text} {SINGULAR.get(units, units) if text == '1' else units}".strip()


def with_interval(value: float, low: float | None, high: float | None, units: str = "") -> str:
    """`1.43 nats [1.39, 1.48]`, `66.7% [60.2, 72.9]`; without the interval where it is not known."""
    if units in SHARES:
        return share_with_interval(value, low, high)
    if isnan(value) or low is None or high is None or isnan(low) or isnan(high):
        return number(value, units)
    places = decimals([value, low, high], units=units)
    return f"{number(value, units, places)} [{low:,.{places}f}, {high:,.{places}f}]"


def between(values: Iterable[float], units: str = "") -> str:
    """The range of some numbers: `1.39 to 1.48 nats`, `12 to 98%`, of counts `59 to 64`; one number of those alike."""
    known = sorted(value for value in values if not isnan(value))
    if units in SHARES or not known:
        return percents(known)
    low, high = known[0], known[-1]
    places = DECIMALS if max(abs(low), abs(high)) >= 10**-DECIMALS else decimals([high])
    if all(isinstance(end, int) or (units in COUNTS and end == round(end)) for end in (low, high)):
        places = 0
    if number(low, "", places) == number(high, "", places):
        return number(low, units, places)
    symbol = units.startswith("exponent ")  # it stands before the first
    return f"{number(low, units * symbol, places)} to {number(high, units * (not symbol), places)}"


def difference(value: float, low: float | None = None, high: float | None = None, units: str = "") -> str:
    """A signed difference: `+12.9 percentage points [-1.4, 27.2]`, `-0.014 nats`."""
    if isnan(value):
        return UNKNOWN
    units = units.removeprefix("difference in ")
    scale, units = (100.0, POINTS) if units in (*SHARES, "shares") else (1.0, units)
    ends = [] if low is None or high is None or isnan(low) or isnan(high) else [scale * low, scale * high]
    places = decimals([scale * value, *ends], 1 if units == POINTS else DECIMALS, units)
    zeros = ".0" if units == POINTS else ""  # of tenths of a point, as of shares
    shown = f"{round(scale * value, places) + 0.0:+,.{places}f}"  # no minus before a zero
    text = f"{shown.removesuffix(zeros)} {units}".strip()
    return f"{text} [{', '.join(f'{end:,.{places}f}'.removesuffix(zeros) for end in ends)}]" if ends else text


def p_value(p: float, *, alone: bool = False) -> str:
    """`p = 0.03`, `p < 0.0001`; alone, under a heading that says p, `0.03`, `<0.0001`. A dash for NaN."""
    if p < LEAST_P:
        return f"<{LEAST_P:.4f}" if alone else f"p < {LEAST_P:.4f}"
    text = UNKNOWN if isnan(p) else f"{p:.3g}"
    return text if alone else f"p = {text}"
