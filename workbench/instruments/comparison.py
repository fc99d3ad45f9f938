"""Measurements of several runs held against each other: over seeds, and in pairs, example by example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from workbench.instruments import statistics
from workbench.instruments.measurement import SEED, Measurement

COLUMNS = ("measure", "place", "first", "second", "difference", "low", "high", "n", "p", "p_holm")


def over_seeds(means: Sequence[Measurement], seeds: Sequence[int]) -> Measurement:
    """The mean over runs that differ in their seed alone, with Student's 95 % interval; n counts runs.

    Args:
        means: the same measure of each run, averaged over its examples.
        seeds: their seeds.

    Raises:
        ValueError: if the measurements are not of the same dims and labels.
    """
    first = means[0]
    for other in means[1:]:
        _check_alike(first, other)
    about = {**first.settings, "seeds": list(seeds)}
    plain = [replace(one, settings=about, low=None, high=None, n=None, labels=None) for one in means]
    return Measurement.stack(plain, SEED, list(seeds)).mean(SEED)


def paired(first: Measurement, second: Measurement) -> Measurement:
    """Second less first, example by example: both have the dim `example`, over the same examples.

    Its mean has the interval of the mean difference, which is narrower than the intervals of the two where the same
    examples are hard for both.

    Raises:
        ValueError: if the measurements are not of the same dims, labels and number of examples.
    """
    _check_alike(first, second)
    first.axis("example")
    return replace(
        first,
        name=f"{first.name}: difference",
        values=second.values - first.values,
        units=f"difference in {first.units}",
        settings={**first.settings, "model": f"{second.settings.get('model')} less {first.settings.get('model')}"},
    )


def compare(first: Mapping[str, Measurement], second: Mapping[str, Measurement]) -> pd.DataFrame:
    """Two runs on the same examples, paired: one row for each value that both have.

    `p` is from flipping signs (`statistics.sign_flip`); `p_holm` is adjusted for the number of rows. Where all
    differences are exactly 0 there is nothing to test, and p is 1.

    Args:
        first, second: name -> the measure with its dim `example`, of each run.

    Returns a table with the columns `COLUMNS`: the two means, the mean difference (second less first) and its 95 %
    interval, the number of examples that both have a value for.
    """
    rows: list[dict[str, object]] = []
    for name in first:
        if name not in second or not _alike(first[name], second[name]):
            continue
        difference = paired(first[name], second[name])
        summary = difference.mean("example")
        assert summary.low is not None and summary.high is not None and summary.n is not None
        p = statistics.sign_flip(np.moveaxis(difference.values, difference.axis("example"), -1))
        both = ~np.isnan(difference.values)
        means = [replace(m, values=np.where(both, m.values, np.nan)) for m in (first[name], second[name])]
        centres = [statistics.mean(np.moveaxis(m.values, m.axis("example"), -1))[0] for m in means]
        for index in np.ndindex(*summary.values.shape):
            if not summary.n[index]:
                continue
            place = {dim: summary.coords[dim][i] for dim, i in zip(summary.dims, index, strict=True)}
            rows.append(
                {
                    "measure": name,
                    "place": ", ".join(f"{dim} {label}" for dim, label in place.items()),
                    "first": float(centres[0][index]),
                    "second": float(centres[1][index]),
                    "difference": float(summary.values[index]),
                    "low": float(summary.low[index]),
                    "high": float(summary.high[index]),
                    "n": int(summary.n[index]),
                    "p": float(p[index]),
                }
            )
    table = pd.DataFrame(rows, columns=list(COLUMNS[:-1]))
    table["p_holm"] = statistics.holm(table["p"].to_numpy(dtype=float))
    return table


def _alike(first: Measurement, second: Measurement) -> bool:
    def shape(m: Measurement) -> list[object]:
        return [m.units, *((dim, list(map(str, m.coords[dim]))) for dim in m.dims)]

    return shape(first) == shape(second)


def _check_alike(first: Measurement, second: Measurement) -> None:
    if not _alike(first, second):
        raise ValueError(
            f"{first.name!r} of {first.settings.get('model')} and {second.name!r} of {second.settings.get('model')} "
            "cannot be held against each other: they differ in their dims, labels or number of examples"
        )
