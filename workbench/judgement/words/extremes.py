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
    first, *others = [at_label(dim, label) for dim, label in place.items()] or [""]
    return ", ".join([first, *(words.removeprefix("at ") for words in others)])


def at_label(dim: str, label: Any) -> str:
    """One label of a place: `after MLP 0`, `at step 600`."""
    if dim in ("point", "layer") and isinstance(label, str):
        return at_point(label)
    if dim == "of layer":
        return f"beside B {at_point(label) if isinstance(label, str) else f'at layer {label}'}"
    if dim == "unit":
        return f"per {label}"
    if dim == "basis":
        return "in both bases" if label == "both" else f"in the {label} basis"
    return f"at {dim} {label:,}" if isinstance(label, int | np.integer) else f"at {dim} {label}"


def at_places(extreme: Extreme) -> str:
    """Where it may be: the places by name, `at length 22, 26 and 30`, or how many of them there are."""
    dims = list(extreme.places[0])
    if len(extreme.places) > MOST_NAMED:
        return f"at any of {len(extreme.places)} of {extreme.n} places"
    if len(dims) == 1 and (begin := f"at {dims[0]} ") and all(at(place).startswith(begin) for place in extreme.places):
        return begin + listed([at(place).removeprefix(begin) for place in extreme.places])
    return listed([at(place) for place in extreme.places])


def rise_in_short(rise: Rise) -> str:
    """Where a learning curve rises most, for a figure."""
    return f"steepest rise: {percent(rise.before)} to {percent(rise.after)}"


def rise_in_words(rise: Rise | None) -> str:
    """What a figure shades of a learning curve, and what that does not show."""
    if rise is None:
        return f"Accuracy never rises by {percent(LEAST_RISE)} or more between two evaluations, so nothing is shaded."
    return (
        f"Shaded: of all intervals between evaluations the one with the steepest rise, steps {rise.start:,} to "
        f"{rise.end:,}. It shows neither when in it the change came nor whether it was sudden."
    )
