"""Comparing runs: the mean over seeds, and the difference of two runs, paired example by example or over seeds."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.measurement import intervals, p_values
from workbench.measurement.measurement import SEED, Measurement
from workbench.measurement.places import place_in_words
from workbench.measurement.units import scale_of

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("measure", "place", "units", "first", "second", "difference", "low", "high", "n", "effect", "p", "p_holm")
OVER_SEEDS = (
    *("measure", "place", "units", "first", "second", "difference", "low", "high"),
    *("n_first", "n_second", "p", "p_holm"),
)
ABOUT_P = (
    "p is about these two models on sequences like these, not about two methods: two seeds of one method can differ as "
    "clearly. To compare methods, train several seeds of each and compare over seeds."
)
ROUNDING = 1e-9  # what rounding does to equal values is no difference


def over_seeds(means: Sequence[Measurement], seeds: Sequence[int], *, shared: bool = False) -> Measurement:
    """The mean over runs that differ in their seed alone, with its 95 % interval, and each one's value; n counts runs.

    Args:
        means: the same measure of each run, averaged over its examples.
        seeds: their seeds.
        shared: keep the labels that all runs have: one that ended early has fewer training steps.

    Raises:
        ValueError: if the measurements are not of the same dims and labels.
    """
    if shared:
        for dim in means[0].dims:
            kept = [label for label in means[0].coords[dim] if all(label in part.coords[dim] for part in means)]
            means = [part.keep(dim, kept) for part in means]
    first = means[0]
    for other in means[1:]:
        _check_alike(first, other)
    about = {**first.settings, "seeds": list(seeds)}
    plain = [replace(m, settings=about, low=None, high=None, n=None, labels=None, each=None) for m in means]
    return Measurement.stack(plain, SEED, list(seeds)).mean(SEED)


def paired(first: Measurement, second: Measurement) -> Measurement:
    """The difference of two measurements of the same examples, second less first, example by example.

    Its mean has the interval of the mean difference, which is narrower than the intervals of the two where the same
    examples are hard for both.

    Raises:
        ValueError: if the measurements are not of the same dims, labels and number of examples.
    """
    _check_alike(first, second)
    first.axis("example")
    apart = second.values - first.values
    return _less(first, second, values=np.where(np.abs(apart) < ROUNDING, 0.0, apart))


def difference(first: Measurement, second: Measurement, *, same_examples: bool) -> Measurement:
    """The mean difference of two measurements, second less first, with its 95 % interval.

    Over the same examples they are paired (see `paired`); else the interval is put together from those of the two
    means (`intervals.apart`), and n is the smaller of the two.

    Args:
        first, second: the same measure of two runs, checkpoints or inputs, with its dim `example`. Of other dims, only
            the labels that both have are kept: the points that both models have, the lengths of both tasks.
        same_examples: whether example i of both is the same sequence, as where two `Inspected` have one fingerprint.

    Raises:
        ValueError: if dims or units differ, they share no label, or examples that should be the same differ in number.
    """
    if (first.dims, first.units) != (second.dims, second.units):
        raise _not_comparable(first, second, "they differ in their dims or units")
    for dim in (dim for dim in first.dims if dim != "example"):
        labels = [label for label in first.coords[dim] if label in second.coords[dim]]
        if not labels:
            raise _not_comparable(first, second, f"they have no {dim} in common")
        first, second = first.keep(dim, labels), second.keep(dim, labels)
    if same_examples:
        result = paired(first, second).mean("example")
    else:
        a, b = first.mean("example"), second.mean("example")
        assert a.n is not None and b.n is not None
        low, high = intervals.apart(_ends(a), _ends(b), (a.values, b.values))
        values, n = b.values - a.values, np.minimum(a.n, b.n)
        result = _less(a, b, values=values, low=low, high=high, n=n)
    return replace(result, settings={**result.settings, "paired": same_examples})


def difference_by_group(
    first: tuple[Measurement, Sequence[Hashable]],
    second: tuple[Measurement, Sequence[Hashable]],
    dim: str = "group",
    *,
    same_examples: bool,
) -> Measurement:
    """`difference` within each group that both have (a length, a test condition): the new first dim.

    Args:
        first, second: a measure with its dim `example`, and each example's group.
        dim: what the groups are (`length`).
        same_examples: as for `difference`; then the groups must be the same too.

    Raises:
        ValueError: as `difference` does, or if the two share no group.
    """
    own = [list(dict.fromkeys(groups)) for _, groups in (first, second)]
    labels = [label for label in own[0] if label in own[1]]
    if not labels:
        raise ValueError(f"the two have no {dim} in common")

    def part(of: tuple[Measurement, Sequence[Hashable]], label: Hashable) -> Measurement:
        return of[0].pick([i for i, group in enumerate(of[1]) if group == label])

    parts = [difference(part(first, label), part(second, label), same_examples=same_examples) for label in labels]
    return Measurement.stack(parts, dim, labels)


def compare(first: Mapping[str, Measurement], second: Mapping[str, Measurement]) -> pd.DataFrame:
    """Two runs on the same examples, paired: one row for each value that both have.

    `p` is from flipping signs (`p_values.sign_flip`); `p_holm` is adjusted for the number of rows of its measure,
    which is what is asked at once: a long spectrum does not hide the accuracy. Where all differences are exactly 0
    there is nothing to test, and p is 1. What a p says is in `ABOUT_P`.

    Args:
        first, second: name -> the measure with its dim `example`, of each run.

    Returns a table with the columns `COLUMNS`: the units, the two means, the mean difference (second less first) and
    its 95 % interval, the number of examples that both have a value for, and as `effect` the mean difference over the
    root of the mean squared one: 1 or -1 where every example differs equally, near 0 where they go either way.
    """
    import pandas as pd

    tables: list[pd.DataFrame] = []
    for name in first:
        if name not in second or not _alike(first[name], second[name]):
            continue
        difference = paired(first[name], second[name])
        summary = difference.mean("example")
        values = np.moveaxis(difference.values, difference.axis("example"), -1)
        both = ~np.isnan(difference.values)
        means = [replace(m, values=np.where(both, m.values, np.nan), aside={}) for m in (first[name], second[name])]
        centres = [intervals.mean(np.moveaxis(m.values, m.axis("example"), -1))[0] for m in means]
        size = np.sqrt(intervals.mean(values**2)[0])
        effect = np.divide(summary.values, size, out=np.zeros(size.shape), where=size > 0)
        columns = {"n": summary.n, "effect": effect, "p": p_values.sign_flip(values)}
        tables.append(_rows(name, first[name].units, summary, centres, columns, n=("n",)))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(COLUMNS))


def compare_over_seeds(first: Mapping[str, Measurement], second: Mapping[str, Measurement]) -> pd.DataFrame:
    """Two groups of seeds compared, counting seeds and not examples: one row for each value that both have.

    So the difference is between two ways of making a model, as far as these seeds go. `p` is from sharing out the
    seeds anew (`p_values.relabelled`), `p_holm` adjusted within a measure. Intervals: of shares, from those of the
    two means (`intervals.apart`); else Welch's.

    Args:
        first, second: name -> the mean over seeds of each group (`over_seeds`), with `each` seed's value. What is not
            measured of at least two seeds on either side is left out.

    Returns a table with the columns `OVER_SEEDS`.
    """
    import pandas as pd

    tables: list[pd.DataFrame] = []
    for name, a in first.items():
        b = second.get(name)
        if b is None or a.each is None or b.each is None or not _alike(a, b):
            continue
        if min(a.each.shape[-1], b.each.shape[-1]) < intervals.FEWEST:
            continue
        low, high = difference_interval(a.units, (a.each, b.each), _ends(a), _ends(b))
        summary = _less(a, b, values=b.values - a.values, low=low, high=high, n=None, each=None)
        columns = {"n_first": a.n, "n_second": b.n, "p": p_values.relabelled(a.each, b.each)}
        tables.append(_rows(name, a.units, summary, [a.values, b.values], columns, n=("n_first", "n_second")))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(OVER_SEEDS))


def difference_interval(
    units: str, each: tuple[np.ndarray, np.ndarray], first: intervals.Interval, second: intervals.Interval
) -> intervals.Interval:
    """95 % interval of the difference of two means over seeds, second less first: of shares from both, else Welch's.

    Args:
        units: of the values.
        each: of both, `[..., seed]`.
        first, second: the interval of each mean.
    """
    if scale_of(units).outcomes:
        return intervals.apart(first, second, (intervals.mean(each[0])[0], intervals.mean(each[1])[0]))
    return intervals.welch(*each)


def _ends(mean: Measurement) -> intervals.Interval:
    assert mean.low is not None and mean.high is not None
    return mean.low, mean.high


def _rows(
    name: str,
    units: str,
    summary: Measurement,
    centres: Sequence[np.ndarray],
    more: Mapping[str, np.ndarray | None],
    n: Sequence[str],
) -> pd.DataFrame:
    """A row for each value of a difference: its place, both means, its interval, and further columns.

    Only where all counts, the columns `n`, are above 0; `p` is adjusted for the number of rows.
    """
    import pandas as pd

    places = (
        place_in_words({dim: summary.coords[dim][i] for dim, i in zip(summary.dims, index, strict=True)})
        for index in np.ndindex(*summary.values.shape)
    )
    columns = {"first": centres[0], "second": centres[1], "difference": summary.values}
    columns |= {"low": summary.low, "high": summary.high, **more}  # type: ignore[dict-item]
    flat = {column: np.asarray(array).reshape(-1) for column, array in columns.items()}
    table = pd.DataFrame({"measure": name, "place": list(places), "units": units, **flat})
    table = table[(table[list(n)] > 0).all(axis=1)]
    return table.assign(p_holm=p_values.holm(table["p"].to_numpy(dtype=float)))


def _less(first: Measurement, second: Measurement, **numbers: Any) -> Measurement:
    """A measurement of the difference of two, named as such."""
    models = f"{second.settings.get('model')} minus {first.settings.get('model')}"
    settings = {**first.settings, "model": models}
    name, units = f"{first.name}: difference", f"difference in {first.units}"
    return replace(first, name=name, units=units, settings=settings, labels=None, aside={}, **{"each": None, **numbers})


def _alike(first: Measurement, second: Measurement) -> bool:
    def shape(m: Measurement) -> list[object]:
        return [m.units, *((dim, list(map(str, m.coords[dim]))) for dim in m.dims)]

    return shape(first) == shape(second)


def _check_alike(first: Measurement, second: Measurement) -> None:
    if not _alike(first, second):
        raise _not_comparable(first, second, "they differ in their dims, labels or number of examples")


def _not_comparable(first: Measurement, second: Measurement, why: str) -> ValueError:
    return ValueError(
        f"{first.name!r} of {first.settings.get('model')} and {second.name!r} of {second.settings.get('model')} "
        f"cannot be held against each other: {why}"
    )
