"""A measured array that knows what it is: names for its axes, its unit, how it was made, how sure it is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Measurement:
    """The result of one instrument.

    Attributes:
        name: what was measured, in words fit for a figure's title.
        values: the numbers, one axis per entry of `dims`; NaN where the measure is not defined.
        dims: the axes, in order: `layer`, `head`, `hop`, `position`, `length`, `example`, ...
        coords: for each dim, the label of each index (for example hook names for `layer`).
        units: `nats`, `share`, `logit`, ...
        settings: every setting that decides the numbers (α, centring, basis, source run, n, seed).
        low, high: 95 % interval of the same shape, where `values` is a statistic over examples or seeds.
        n: number of examples behind each value, same shape, where `values` is a statistic.
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
    caption: str = ""

    def __post_init__(self) -> None:
        assert self.values.ndim == len(self.dims), f"{self.name}: {self.values.shape} has not the dims {self.dims}"
        for dim, size in zip(self.dims, self.values.shape, strict=True):
            assert len(self.coords[dim]) == size, (
                f"{self.name}: {dim} has {size} values, {len(self.coords[dim])} labels"
            )

    @staticmethod
    def join(parts: Sequence[Measurement], dim: str = "example") -> Measurement:
        """Measurements of successive batches as one, along `dim`."""
        first = parts[0]
        axis = first.dims.index(dim)
        labels = [label for part in parts for label in part.coords[dim]]
        values = np.concatenate([part.values for part in parts], axis=axis)
        return replace(first, values=values, coords={**first.coords, dim: labels})

    def mean(self, dim: str = "example") -> Measurement:
        """The mean over `dim`, leaving out NaN, with its normal 95 % interval and the n behind each value."""
        axis = self.dims.index(dim)
        n = np.sum(~np.isnan(self.values), axis=axis)
        with np.errstate(invalid="ignore", divide="ignore"):
            values = np.nansum(self.values, axis=axis) / n
            spread = np.nansum((self.values - np.expand_dims(values, axis)) ** 2, axis=axis) / (n - 1)
            half = 1.96 * np.sqrt(spread / n)
        dims = tuple(d for d in self.dims if d != dim)
        coords = {d: self.coords[d] for d in dims}
        return replace(self, values=values, dims=dims, coords=coords, low=values - half, high=values + half, n=n)

    def frame(self) -> pd.DataFrame:
        """One row per value: a column per dim, then value, and low, high, n where there are any."""
        index = (
            pd.MultiIndex.from_product([list(map(str, self.coords[d])) for d in self.dims], names=self.dims)
            if self.dims
            else pd.RangeIndex(1)
        )
        columns = {"value": self.values, "low": self.low, "high": self.high, "n": self.n}
        data = {name: np.asarray(array).reshape(-1) for name, array in columns.items() if array is not None}
        table = pd.DataFrame(data, index=index)
        return table.reset_index() if self.dims else table.reset_index(drop=True)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: the rows of `frame` with everything needed to read them; NaN becomes null."""
        rows = json.loads(self.frame().to_json(orient="records", double_precision=15))
        return {
            "name": self.name,
            "units": self.units,
            "dims": list(self.dims),
            "settings": dict(self.settings),
            "caption": self.caption,
            "rows": rows,
        }

    def save(self, folder: Path, stem: str) -> None:
        """Write `stem.parquet` and `stem.json` into `folder`."""
        self.frame().to_parquet(folder / f"{stem}.parquet", index=False)
        (folder / f"{stem}.json").write_text(json.dumps(self.to_dict(), indent=1, default=str))
