"""Where a measure is least or most, in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.judgement.extremes import LEAST_RISE, Extreme, Rise
from workbench.measurement.numbers import percent
from workbench.measurement.places import at_point
from workbench.util.words import listed

Place = dict[str, Any]
"""Dim -> label."""

MOST_NAMED = 4  # places that are named one by one


def at(place: Place) -> str:
    """A place within a sentence: `after MLP 0`, `at step 600`, `at length 3, per sequence`."""
    said: list[str] = []
    for dim, label in place.items():
        words = f"at {dim} {label:,}" if isinstance(label, int | np.integer) else f"at {dim} {label}"
        if dim in ("point", "layer") and isinstance(label, str):
            words = at_point(label)
        elif dim == "of layer":
            words = f"beside B {at_point(label) if isinstance(label, str) else f'at layer {label}'}"
        elif dim == "unit":
            words = f"per {label}"
        elif dim == "basis":
            words = "in both bases" if label == "both" else f"in the {label} basis"
        said.append(words.removeprefix("at ") if said else words)
    return ", ".join(said)


def at_places(extreme: Extreme) -> str:
    """Where it may be: the places by name, `at length 22, 26 and 30`, or how many of them there are."""
    dims = list(extreme.places[0])
    if len(extreme.places) > MOST_NAMED:
        return f"at any of {len(extreme.places)} of {extreme.n} places"
    if len(dims) == 1 and (begin := f"at {dims[0]} ") and all(at(place).startswith(begin) for place in extreme.places):
        return begin + listed([at(place).removeprefix(begin) for place in extreme.places])
    return listed([at(place) for place in extreme.places])


def rise_in_words(rise: Rise | None) -> tuple[str, str]:
    """Where a learning curve rises most, for a figure; then what it shades there, and what that does not show."""
    if rise is None:
        least = percent(LEAST_RISE)
        return "", f"Accuracy never rises by {least} or more between two evaluations, so nothing is shaded."
    return f"steepest rise: {percent(rise.before)} to {percent(rise.after)}", (
        f"Shaded: of all intervals between evaluations the one with the steepest rise, steps {rise.start:,} to "
        f"{rise.end:,}. It shows neither when in it the change came nor whether it was sudden."
    )
