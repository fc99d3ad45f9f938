"""What differs between two pictures, in lines that a reader can act on: which key, what it was, what it is."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

REL, ABS = 1e-6, 1e-7
"""How far numbers may be apart: models compute in float64, but some instruments in float32, which rounds at 6e-8."""
SHOWN = 40  # lines
MISSING = "nothing"
DIGITS = 9  # significant, of numbers that are kept


def differences(old: Any, new: Any, *, rel: float = REL, absolute: float = ABS, key: str = "") -> list[str]:
    """A line for each value that differs: `inspect/learned/overall/value/0: was 0.5, is 0.6`."""
    if isinstance(old, dict) and isinstance(new, dict):
        inner: list[tuple[Any, Any, Any]] = [(at, old.get(at, MISSING), new.get(at, MISSING)) for at in {**old, **new}]
    elif isinstance(old, list) and isinstance(new, list):
        pairs = enumerate(zip_longest(old, new, fillvalue=MISSING))
        inner = [(at, before, after) for at, (before, after) in pairs]
    else:
        return [] if _alike(old, new, rel, absolute) else [f"{key}: was {_brief(old)}, is {_brief(new)}"]
    return [
        line
        for name, before, after in inner
        for line in differences(before, after, rel=rel, absolute=absolute, key=f"{key}/{name}".lstrip("/"))
    ]


def _alike(old: Any, new: Any, rel: float, absolute: float) -> bool:
    if any(isinstance(one, bool) or not isinstance(one, int | float) for one in (old, new)):
        return type(old) is type(new) and bool(old == new)
    return math.isclose(old, new, rel_tol=rel, abs_tol=absolute) or (old != old and new != new)


def _brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) < 300 else f"{text[:300]} …"


def in_lines(found: Sequence[str]) -> str:
    """The differences as a message, with what to do about those that are meant."""
    more = [f"… and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
    return "\n".join([f"differences: {len(found)}; tests/golden/__main__.py says which may be", *found[:SHOWN], *more])


def rounded(value: Any) -> Any:
    """The same JSON-ready data with every number rounded to `DIGITS`; what is not finite becomes its name."""
    if isinstance(value, Mapping):
        return {str(name): rounded(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(one) for one in value]
    if not isinstance(value, float):
        return value
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else str(value)


def as_json(data: Any) -> str:
    """JSON with a line for each entry of a dict and each text of a list, and a line for each list of numbers."""
    return "".join(_lines(data, "")) + "\n"


def _lines(data: Any, indent: str) -> Iterator[str]:
    if not isinstance(data, dict | list) or not data or _flat(data):
        yield json.dumps(data, ensure_ascii=False)
        return
    opening, closing = "{}" if isinstance(data, dict) else "[]"
    entries = data.items() if isinstance(data, dict) else ((None, one) for one in data)
    for number, (name, value) in enumerate(entries):
        yield f"{',' if number else opening}\n{indent} "
        yield "" if name is None else f"{json.dumps(name, ensure_ascii=False)}: "
        yield from _lines(value, indent + " ")
    yield f"\n{indent}{closing}"


def _flat(data: Any) -> bool:
    return isinstance(data, list) and all(not isinstance(one, dict | list | str) for one in data)
