"""The claims of an inspection, or of several seeds, judged: `judgement.judge` with what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from workbench.inspection.result import Inspected, Result
from workbench.inspection.seed_groups import SeedGroup
from workbench.judgement.against_controls import FEWEST, Compared
from workbench.judgement.claim import JudgedClaim, Judgement, NeededSet, hardest
from workbench.judgement.judge import beside_each_control, judge, judge_seeds
from workbench.measurement import Measurement
from workbench.mechanisms import MECHANISMS
from workbench.util.lookup import lookup

Column = Inspected | SeedGroup
"""A run, or several seeds of one config."""


def result_of(column: Column, name: str) -> Result:
    """A claim's result; of a claim about heads, of the head in focus.

    Raises:
        ValueError: if it was not measured.
    """
    if name not in column or name not in MECHANISMS:
        lookup({claim: None for claim in MECHANISMS if claim in column}, name, "claim among those measured")
    return column[name].at_head()


def judgements(column: Column, name: str) -> list[Judgement]:
    """A claim judged at each place where it is read; of several seeds, each of them and all together.

    Raises:
        ValueError: if it was not measured.
    """
    result = result_of(column, name)
    if len(column.members) > 1:
        return judge_seeds(result.mean, [judgements(member, name) for member in column.members])
    causal = result.causal
    return judge(
        name,
        result.mean,
        result.control_means,
        result.control_draws,
        None if causal is None else causal.mean,
        {} if causal is None else causal.nulls,
        of_heads=column[name].of_every_head,
    )


def beside_controls(result: Result, **place: Any) -> tuple[Compared, ...]:
    """A share at one place held against its controls by the one rule, as claims are; of heads, at the head in focus."""

    def at(measured: Mapping[str, Measurement]) -> dict[str, Measurement]:
        return {name: m.select(**place) for name, m in measured.items()}

    result = result.at_head()
    return beside_each_control(result.mean.select(**place), at(result.control_means), at(result.control_draws))


def judged_claims(column: Column) -> list[JudgedClaim]:
    """Every claim that was measured, judged; with the smallest set of heads that its edit needs, if any was sought."""
    claims = []
    for name in (name for name in MECHANISMS if name in column):
        causal, needed_set = column[name].causal, None
        if causal is not None and causal.needed is not None:
            everywhere = causal.needed.everywhere
            n = everywhere.select(edit="claimed", outcome="changed").n
            assert n is not None
            enough = n.reshape(-1) >= FEWEST
            hops = everywhere.coords["hop"] if "hop" in everywhere.dims else ()
            needed_set = NeededSet(
                heads=causal.needed.heads,
                hops=tuple(hop for hop, tested in zip(hops, enough, strict=False) if tested),
                everywhere=_changed(everywhere, enough),
                in_set=() if causal.needed.causal is None else _changed(causal.needed.causal, enough),
            )
        claims.append(JudgedClaim(places=tuple(judgements(column, name)), needed_set=needed_set))
    return claims


def _changed(test: Measurement, enough: np.ndarray) -> tuple[float, ...]:
    """The share of right answers that the claimed edit changes, at the hops with enough of them."""
    values = test.select(edit="claimed", outcome="changed").values.reshape(-1)
    return tuple(float(value) for value in values[enough])


def strongest_control(column: Column, name: str) -> Measurement:
    """At each place where a claim is read, the control that it exceeds least, with its interval; `labels` name it.

    NaN and no name where a place has no control.
    """
    result = result_of(column, name)
    rate = result.mean
    values = np.full((3, *rate.values.shape), np.nan)
    labels = np.full(rate.values.shape, "", dtype=object)
    for index, judged in zip(np.ndindex(*rate.values.shape), judgements(column, name), strict=True):
        nearest = hardest([seed.strongest for seed in judged.seeds or (judged,) if seed.strongest is not None])
        if nearest is None:
            continue
        labels[index], mean = nearest.against, result.controls[nearest.against].mean
        at = mean.select(**{dim: label for dim, label in judged.place.items() if dim in mean.dims})
        values[(slice(None), *index)] = [at.values, *(np.nan if end is None else end for end in (at.low, at.high))]
    return Measurement(
        name=rate.name,
        values=values[0],
        dims=rate.dims,
        coords=rate.coords,
        units=rate.units,
        settings=rate.settings,
        low=values[1],
        high=values[2],
        labels=labels.astype(str),
        caption="At each place the control that the claim exceeds least clearly.",
    )
