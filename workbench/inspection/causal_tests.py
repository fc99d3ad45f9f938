"""The causal tests of an inspection: edits in the head in focus, in the heads that are needed, in every head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any

import numpy as np

from workbench.capture import Subject, capture
from workbench.inspection.baseline_models import Model
from workbench.inspection.measures import EVERY_HEAD, IN_FOCUS, NEEDED_HEADS, Measure, hops_measured
from workbench.instruments.attention import attention_graph
from workbench.interventions import Head, can_remove_heads, fallen_without
from workbench.mechanisms import MECHANISMS
from workbench.mechanisms.heads import lost, smallest_set
from workbench.models.facts import EditReachesNothingError
from workbench.tasks import Batch

TESTED_DRAWS = 8  # models with fresh weights that are edited too, and as many with the run's own weights shuffled
SEARCHED = 32  # sequences on which a set of heads is looked for


def sets_of_heads(
    measures: Sequence[Measure], own: Model, selection: Batch | None, seed: int
) -> dict[str, tuple[Head, ...]]:
    """Claim about heads -> the smallest set of heads whose edit loses the answers, searched on other data.

    Args:
        measures: the measures, of which claims about heads are searched.
        own: the model that is inspected.
        selection: sequences on which nothing else is measured; None where there is no graph to choose heads by.
        seed: of the causal tests.
    """
    if selection is None:
        return {}
    batch, sets = selection[:SEARCHED], {}
    # Heads are left out one by one, those with the least mass on gold paths first.
    seen = capture(own.hooked, own.subject, batch, attention_graph.needs(own.subject))
    mass = attention_graph.measure(seen, ("resolvent",)).select(matrix="resolvent").mean("example").values
    every = [(layer, head) for layer in range(mass.shape[0]) for head in range(mass.shape[1])]
    weakest_first = sorted(every, key=lambda head: float(mass[head]))
    for one in measures:
        if one.of_heads:
            hops = _few_hops(one, own.subject)

            def effect(heads: Sequence[Head], one: Measure = one, hops: dict[str, Any] = hops) -> np.ndarray:
                return lost(one.tested(own, batch, seed, heads, **hops))

            try:
                sets[one.name] = smallest_set(effect, weakest_first)
            except EditReachesNothingError as error:
                one.untested = str(error)
    return sets


def heads_to_remove(own: Model, selection: Batch | None) -> tuple[Head, ...]:
    """The head in focus, and the one without which most right answers change, if it is another; found on other data."""
    if own.head is None or selection is None or not can_remove_heads(own.hooked):
        return ()
    every = heads_of(own)
    fallen = fallen_without(own.hooked, own.subject, selection[:SEARCHED], every).mean("example").values
    costliest = [] if np.isnan(fallen).all() else [every[int(np.nanargmax(fallen))]]
    return tuple(dict.fromkeys([own.head, *costliest]))


def heads_of(model: Model) -> list[Head]:
    """Every head, as (layer, head)."""
    return [(layer, head) for layer in range(model.subject.n_layers) for head in range(model.hooked.cfg.n_heads)]


def _few_hops(one: Measure, subject: Subject) -> dict[str, Any]:
    """The hops to search at: of a claim that is tested hop by hop, the first, the middle and the last one measured."""
    if "hops" not in signature(one.thing.causal).parameters:  # type: ignore[union-attr]
        return {}
    n_hops = hops_measured(subject)
    return {"hops": sorted({1, (n_hops + 1) // 2, n_hops})}


def make_causal_tests(
    measures: Sequence[Measure], own: Model, sets: Mapping[str, tuple[Head, ...]], batch: Batch, seed: int
) -> None:
    """Make every causal test on a batch: in the head in focus, in the smallest set of heads, in every head."""
    every = heads_of(own)
    for one in measures:
        if one.name not in MECHANISMS:
            continue
        one.test(IN_FOCUS, own, batch, seed, [own.head] if own.head else None)
        if one.of_heads:
            one.test(EVERY_HEAD, own, batch, seed, every)
            if sets.get(one.name) == (own.head,):  # the same test
                one.causal_batches[NEEDED_HEADS] = one.causal_batches[IN_FOCUS]
            elif sets.get(one.name):
                one.test(NEEDED_HEADS, own, batch, seed, sets[one.name])


def make_tests_of_nulls(
    measures: Sequence[Measure], nulls: Mapping[str, Sequence[Model]], batch: Batch, seed: int
) -> None:
    """Make the same causal tests on uninformed models of each kind, each in its own best head."""
    for one in measures:
        if one.name in MECHANISMS and one.n_draws:
            for kind, models in nulls.items():
                for draw, model in enumerate(models):
                    one.test((kind, draw), model, batch, seed, [model.head] if model.head else None)
