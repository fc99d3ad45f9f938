"""What a spectral measure by layer says: which rows dominate, where it is least, where re-initialised models have more.

A low entropy is called a collapse only where it lies below that of re-initialised models, and of rows that do not
dominate: a sequence in which one token holds nearly all of the squared norm has an entropy near 0 whatever its other
tokens do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.instruments.residual.dominant_rows import POSITION, ROWS, SHARE, WITHOUT, without_dominant
from workbench.judgement.against_controls import Stored
from workbench.judgement.extremes import Extreme, extreme
from workbench.measurement import Measurement
from workbench.measurement.draws import DRAW, limit

EMBEDDED = "blocks.0.hook_resid_pre"  # what no layer has worked on does not collapse
SOME = 0.05  # of the sequences: where rows dominate in fewer, the measure is about what it is with them


class Dominated(Stored):
    """A layer at which few rows of a sequence hold most of its squared norm.

    Attributes:
        layer: the hook point, or the layer's number.
        sequences, of: in how many sequences, of how many.
        rows: the most rows of a sequence that do so.
        position, at_position: where the longest of them is most often, and in how many sequences.
        share: of the squared norm that they hold, on average over these sequences.
        value, without: the measure over these sequences, with these rows and without.
    """

    layer: str | int
    sequences: int
    of: int
    rows: int
    position: int
    at_position: int
    share: float
    value: float
    without: float


class Spread(Stored):
    """What a spectral measure says of every layer.

    Attributes:
        name, units: of the measure.
        dominated: the layers at which rows dominate; what follows is without these rows.
        least: where it is least.
        low, high: its range over layers.
        models: how many re-initialised models there are; 0 where there is nothing to compare with.
        at_least: what these have where it is least: the lowest and the highest of them; None where that is not known.
        collapsed: the layers at which it lies below what a further such model would have.
    """

    name: str
    units: str
    dominated: tuple[Dominated, ...]
    least: Extreme
    low: float
    high: float
    models: int
    at_least: tuple[float, float] | None
    collapsed: tuple[str | int, ...]

    @property
    def in_some(self) -> bool:
        """Whether rows dominate in more than a few sequences, at some layer."""
        return any(layer.sequences > SOME * layer.of for layer in self.dominated)


def judge(mean: Measurement, examples: Measurement | None = None, draws: Measurement | None = None) -> Spread | None:
    """Judge a spectral measure by layer; None where no layer has a value.

    Args:
        mean: the single dim `layer`, with interval.
        examples: the same with the dim `example`, and what was put aside of dominant rows.
        draws: of each re-initialised model, dims `draw` and `layer`. Rows do not dominate in such models.
    """
    dominated = () if examples is None else tuple(_dominated(examples))
    if examples is not None and dominated:
        examples = without_dominant(examples)
        mean = examples.mean("example")
    least = extreme(mean, "least", examples)
    if least is None:
        return None
    models = 0 if draws is None else draws.values.shape[draws.axis(DRAW)]
    at_least = None
    if draws is not None and least.settled and (layer := least.places[0]["layer"]) in draws.coords["layer"]:
        of_models = draws.select(layer=layer).values
        at_least = None if np.isnan(of_models).all() else (float(np.nanmin(of_models)), float(np.nanmax(of_models)))
    collapsed: list[str | int] = []
    if draws is not None:
        # The one rule is of counts, and an entropy has no tries to count: it is held against a limit of further models.
        high = mean.values if mean.high is None else np.where(np.isnan(mean.high), mean.values, mean.high)
        ends = dict(zip(mean.coords["layer"], high, strict=True))
        shared = [layer for layer in ends if layer in draws.coords["layer"] and layer != EMBEDDED]
        lowest = {layer: -limit(-draws.select(layer=layer).values, len(shared)) for layer in shared}
        collapsed = [layer for layer in shared if ends[layer] < lowest[layer]]
    return Spread(
        name=mean.name,
        units=mean.units,
        dominated=dominated,
        least=least,
        low=float(np.nanmin(mean.values)),
        high=float(np.nanmax(mean.values)),
        models=models,
        at_least=at_least,
        collapsed=tuple(collapsed),
    )


def _dominated(examples: Measurement) -> list[Dominated]:
    """The layers at which rows of a sequence dominate."""
    layers = []
    for layer in examples.coords["layer"] if WITHOUT in examples.aside else ():
        at_layer = examples.select(layer=layer)
        dominated = ~np.isnan(at_layer.aside[WITHOUT])
        if not dominated.any():
            continue
        places: Sequence[Any] = at_layer.aside[POSITION][dominated].astype(int).tolist()
        position, often = Counter(places).most_common(1)[0]
        layers.append(
            Dominated(
                layer=layer,
                sequences=int(dominated.sum()),
                of=int((~np.isnan(at_layer.values)).sum()),
                rows=int(at_layer.aside[ROWS][dominated].max()),
                position=position,
                at_position=often,
                share=float(at_layer.aside[SHARE][dominated].mean()),
                value=float(at_layer.values[dominated].mean()),
                without=float(at_layer.aside[WITHOUT][dominated].mean()),
            )
        )
    return layers
