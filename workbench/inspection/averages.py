"""From what was measured batch by batch to what an inspection says: means, intervals, ranges over fresh models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from workbench.inspection.measures import Measure
from workbench.inspection.models import Model
from workbench.instruments.attention import attention_graph
from workbench.interventions import Head
from workbench.measurement import Measurement
from workbench.measurement.controls import UNTRAINED
from workbench.measurement.draws import DRAW, over_draws
from workbench.mechanisms import MECHANISMS
from workbench.mechanisms.heads import NeededHeads

OF_WEIGHTS = "It looks at the weights alone, so that there is no interval over sequences."


def averages(
    measures: Sequence[Measure],
    own: Model,
    fresh: Sequence[Model],
    sets: Mapping[str, tuple[Head, ...]],
    counts: Mapping[str, int],
) -> dict[str, Any]:
    """The fields of `Inspected` that are measured: joined over batches, averaged over examples and fresh models.

    The run's own measures of sequences have `counts` in their settings: how many were `drawn`, how many are `distinct`.
    """
    examples = {one.name: _with(_joined(one.found), counts) for one in measures}
    controls: dict[str, dict[str, Measurement]] = {}
    draws, control_examples, causal, causal_draws, needed = {}, {}, {}, {}, {}
    gold: dict[str, Measurement | None] = {"gold_mass": None, "gold_mass_control": None}
    for one in measures:
        nulls = {null: _joined(parts) for null, parts in one.nulls.items()}
        controls[one.name] = {null: _averaged(m) for null, m in nulls.items()}
        if one.draws:
            each = [_joined(parts) for parts in one.draws.values()]
            nulls[UNTRAINED] = Measurement.stack(each, DRAW, range(len(each)))
            draws[one.name] = _averaged(nulls[UNTRAINED])
            controls[one.name][UNTRAINED] = over_draws(draws[one.name])
        if one.name in MECHANISMS:
            control_examples[one.name] = {null: (m, one.null_conditions[null]) for null, m in nulls.items()}
        tests = {key: Measurement.join(parts).mean("example") for key, parts in one.causal.items()}
        if "own" in tests:
            causal[one.name] = tests["own"]
        parts = [test for key, test in tests.items() if isinstance(key, int)]
        if parts:
            causal_draws[one.name] = Measurement.stack(parts, DRAW, range(len(parts)))
        if "every" in tests:
            needed[one.name] = NeededHeads(sets.get(one.name, ()), tests.get("set"), tests["every"])
        if one.name == "attention_graph" and "mismatched" in nulls and own.head is not None:
            graphs = {"gold_mass": examples[one.name], "gold_mass_control": nulls["mismatched"]}
            gold = {key: attention_graph.gold_mass(m, own.head) for key, m in graphs.items()}
            if one.draws:
                draws["gold_mass"] = _best_heads(draws[one.name], fresh)
    return {
        "examples": examples,
        "measured": {key: _averaged(m) for key, m in examples.items()},
        "controls": controls,
        "draws": draws,
        "control_examples": control_examples,
        "causal": causal,
        "causal_draws": causal_draws,
        "needed_heads": needed,
        **gold,
    }


def _joined(parts: Sequence[Measurement]) -> Measurement:
    """All batches as one; what looks at the weights alone, and has no dim `example`, is the same in each."""
    return Measurement.join(parts) if "example" in parts[0].dims else parts[0]


def _averaged(found: Measurement) -> Measurement:
    """The mean over examples with its interval; what looks at the weights alone as it is, which has none."""
    return found.mean("example") if "example" in found.dims else found


def _with(found: Measurement, settings: Mapping[str, Any]) -> Measurement:
    if "example" in found.dims:
        return replace(found, settings={**found.settings, **settings})
    return replace(found, caption=f"{found.caption} {OF_WEIGHTS}".strip())


def _best_heads(draws: Measurement, fresh: Sequence[Model]) -> Measurement:
    """Each fresh model's mass on gold paths, of its own best head: dim `draw`."""
    parts = []
    for draw, model in enumerate(fresh):
        assert model.head is not None
        layer, head = model.head
        parts.append(draws.select(draw=draw, matrix="resolvent", layer=layer, head=head))
    return Measurement.stack(parts, DRAW, range(len(parts)))
