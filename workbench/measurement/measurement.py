"""A measured array that knows what it is: names for its axes, its unit, how it was made, how sure it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.measurement import intervals
from workbench.measurement.units import scale_of
from workbench.util.files import new_file, write_atomically

if TYPE_CHECKING:
    import pandas as pd

SEED = "seed"  # the dim of several runs that differ in their seed alone


def interval(values: np.ndarray, units: str, *, seeds: bool = False) -> intervals.Interval:
    """95 % interval of the mean over the last axis, by the scale of the units (`measurement.units`).

    Shares and their differences: `intervals.graded`, or over seeds, each of which may solve its task or not,
    `intervals.bounded`; anything else: `intervals.bootstrap`, cut where no value of these units can lie (unless one
    does, as log-probabilities in nats do).
    """
    scale = scale_of(units)
    least, most = scale.least, scale.most
    if scale.outcomes:
        return intervals.around(values, (intervals.bounded if seeds else intervals.graded)(values, least, most))
    low, high = intervals.around(values, intervals.bootstrap(values))
    with np.errstate(invalid="ignore"):
        within = ~((values < least - 1e-6) | (values > most + 1e-6)).any()
    return (low.clip(least, most), high.clip(least, most)) if within else (low, high)


@dataclass(frozen=True)
class Measurement:
    """The result of one instrument.

    Attributes:
        name: what was measured, in words fit for a figure's title.
        values: the numbers, one axis per entry of `dims`; NaN where the measure is not defined.
        dims: the axes, in order: `layer`, `head`, `hop`, `position`, `length`, `example`, ...
        coords: for each dim, the label of each index (for example hook names for `layer`); of a dim without, from 0.
        units: `nats`, `share`, `inner product`, ...
        settings: every setting that decides the numbers (α, centring, basis, source run, n, seed).
        low, high: 95 % interval of the same shape, where `values` is a statistic over examples or seeds (see `mean`).
        n: number of examples behind each value, same shape, where `values` is a statistic.
        aside: further numbers of the same shape by name, such as what a value is without the rows that dominate it; NaN
            where there are none. They go where parts are taken, and are dropped by a mean.
        each: the value of each seed, `[..., seed]`, where `values` is a mean over seeds: figures draw a dot for each.
        labels: a label for each value, same shape, where the label is itself a result (the token at each rank).
        caption: what the numbers show, and what they do not.
    """

    name: str
    values: np.ndarray
    dims: tuple[str, ...]
    coords: Mapping[str, Sequence[Any]]
    units: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    n: np.ndarray | None = None
    labels: np.ndarray | None = None
    caption: str = ""
    each: np.ndarray | None = None
    aside: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.values.ndim == len(self.dims), f"{self.name}: {self.values.shape} has not the dims {self.dims}"
        numbered = {dim: range(size) for dim, size in zip(self.dims, self.values.shape, strict=True)}
        object.__setattr__(self, "coords", {**numbered, **self.coords})
        for dim, size in zip(self.dims, self.values.shape, strict=True):
            assert len(self.coords[dim]) == size, (
                f"{self.name}: {dim} has {size} values, {len(self.coords[dim])} labels"
            )
        assert self.each is None or self.each.shape[:-1] == self.values.shape, (
            f"{self.name}: {self.each.shape} has not the values' shape {self.values.shape} before the seeds"
        )
        for name, array in self.aside.items():
            assert array.shape == self.values.shape, f"{self.name}: {name} has the shape {array.shape}"

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """The ends of the interval of a single number; None where there is none."""
        return None if self.low is None else float(self.low), None if self.high is None else float(self.high)

    @property
    def _columns(self) -> dict[str, np.ndarray]:
        """The columns of the table: the arrays of the shape of `values` that are not None, nor NaN throughout."""
        columns = {"value": self.values, "low": self.low, "high": self.high, "n": self.n, "label": self.labels}
        columns |= {name: array for name, array in self.aside.items() if not np.isnan(array).all()}
        return {name: np.asarray(array) for name, array in columns.items() if array is not None}

    @property
    def _arrays(self) -> dict[str, np.ndarray]:
        """Field name -> array, for every array field that is not None: what is cut where a part is taken."""
        names = ("values", "low", "high", "n", "labels", "each")
        return {name: np.asarray(array) for name in names if (array := getattr(self, name)) is not None}

    @staticmethod
    def _combined(
        parts: Sequence[Measurement], combine: Callable[[Sequence[np.ndarray]], np.ndarray]
    ) -> dict[str, Any]:
        """Every array field of the parts, and what is aside, put together or cut in one way."""
        of_each = [part._arrays for part in parts]
        arrays = {name: np.asarray(combine([arrays[name] for arrays in of_each])) for name in of_each[0]}
        aside = {name: np.asarray(combine([part.aside[name] for part in parts])) for name in parts[0].aside}
        return {**arrays, "aside": aside}

    def _taken(self, dim: str, index: Sequence[int]) -> Measurement:
        """The part at these indices of one dim."""
        axis, labels = self.axis(dim), self.coords[dim]
        parts = self._combined([self], lambda array: np.take(array[0], list(index), axis=axis))
        return replace(self, coords={**self.coords, dim: [labels[i] for i in index]}, **parts)

    def axis(self, dim: str) -> int:
        """The index of a dim.

        Raises:
            ValueError: if the measurement has no such dim.
        """
        if dim not in self.dims:
            raise ValueError(f"{self.name!r} has no dim {dim!r}; it has: {', '.join(self.dims) or 'none'}")
        return self.dims.index(dim)

    def _index(self, dim: str, label: Any) -> int:
        """Where a label is on a dim. Raises ValueError, which says what exists, if there is no such dim or label."""
        labels = list(self.coords[self.dims[self.axis(dim)]])
        if label not in labels:
            raise ValueError(f"{self.name!r} has no {dim} {label!r}; there is: {', '.join(map(str, labels))}")
        return labels.index(label)

    @staticmethod
    def join(parts: Sequence[Measurement], dim: str = "example") -> Measurement:
        """Measurements of successive batches as one, along `dim`; what they share is taken from the first."""
        first, axis = parts[0], parts[0].axis(dim)
        labels = [label for part in parts for label in part.coords[dim]]
        if dim == "example":  # numbered within each batch: number them anew
            labels = list(range(len(labels)))
        arrays = Measurement._combined(parts, lambda values: np.concatenate(values, axis=axis))
        return replace(first, coords={**first.coords, dim: labels}, **arrays)

    @staticmethod
    def stack(parts: Sequence[Measurement], dim: str, labels: Sequence[Any]) -> Measurement:
        """Measurements of one shape, each under other conditions, as one with a new first dim; intervals are kept."""
        first, arrays = parts[0], Measurement._combined(parts, np.stack)
        return replace(first, dims=(dim, *first.dims), coords={dim: list(labels), **first.coords}, **arrays)

    def select(self, /, **where: Any) -> Measurement:
        """The part at one label of each named dim: these dims are dropped, and the labels are added to the settings.

        Raises:
            ValueError: if there is no such dim or label; the message says what exists.
        """
        index: list[Any] = [slice(None)] * len(self.dims)
        for dim, label in where.items():
            index[self.axis(dim)] = self._index(dim, label)
        parts = self._combined([self], lambda array: array[0][tuple(index)])
        dims = tuple(dim for dim in self.dims if dim not in where)
        coords = {dim: self.coords[dim] for dim in dims}
        return replace(self, dims=dims, coords=coords, settings={**self.settings, **where}, **parts)

    def keep(self, dim: str, labels: Sequence[Any]) -> Measurement:
        """The part at some labels of one dim, in their order.

        Raises:
            ValueError: if there is no such dim or label; the message says what exists.
        """
        return self._taken(dim, [self._index(dim, label) for label in labels])

    def pick(self, examples: Sequence[int]) -> Measurement:
        """The measurement of only these examples, chosen by their index."""
        return self._taken("example", examples)

    def mean(self, dim: str = "example") -> Measurement:
        """The mean over `dim`, leaving out NaN, with its 95 % interval (see `interval`) and the n behind each value.

        Over seeds, these are what is counted, however many examples each was measured on: their spread holds that of
        the examples too. Then `each` keeps what every seed has.
        """
        values = np.moveaxis(self.values, self.axis(dim), -1)
        centre, n = intervals.mean(values)
        low, high = interval(values, self.units, seeds=dim == SEED)
        dims = tuple(d for d in self.dims if d != dim)
        return replace(
            self,
            values=np.asarray(centre),
            dims=dims,
            coords={d: self.coords[d] for d in dims},
            low=low,
            high=high,
            n=np.asarray(n),
            labels=None,
            each=values if dim == SEED else None,
            aside={},
        )

    def frame(self) -> pd.DataFrame:
        """One row per value: a column per dim, then value, and low, high, n and label where there are any."""
        import pandas as pd

        data = {name: array.reshape(-1) for name, array in self._columns.items()}
        if not self.dims:
            return pd.DataFrame(data)
        labels = [[str(label) for label in self.coords[dim]] for dim in self.dims]
        return pd.DataFrame(data, index=pd.MultiIndex.from_product(labels, names=self.dims)).reset_index()

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: the rows of `frame` with everything needed to read them; NaN becomes null."""
        return {
            "name": self.name,
            "units": self.units,
            "dims": list(self.dims),
            "settings": dict(self.settings),
            "caption": self.caption,
            "rows": json.loads(self.frame().to_json(orient="records", double_precision=15)),
        }

    def save(self, folder: Path, stem: str) -> None:
        """Write `stem.parquet`, `stem.csv` and `stem.json` into `folder`, each whole or not at all: the same rows."""
        self.save_parquet(folder, stem)
        with new_file(folder / f"{stem}.csv") as partial:
            self.frame().to_csv(partial, index=False)
        text = json.dumps(self.to_dict(), indent=1, default=str, ensure_ascii=False)
        write_atomically(folder / f"{stem}.json", text.encode())

    def save_parquet(self, folder: Path, stem: str) -> None:
        """Write `stem.parquet` alone into `folder`: for tables with a row for every example."""
        with new_file(folder / f"{stem}.parquet") as partial, partial.open("wb") as file:
            self.frame().to_parquet(file, index=False)  # a path in another encoding than UTF-8 Arrow would not open
