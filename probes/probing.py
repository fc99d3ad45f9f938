"""What can be decoded where, beside the baselines and controls that say what that is worth.

A label that a probe decodes is *there*; that the model *uses* it is another claim, which `probes.causal` tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from workbench.capture import Capture
from workbench.measurement import Measurement
from workbench.measurement import intervals as statistics
from workbench.measurement.measurement import SEED
from workbench.probes import features
from workbench.probes.conditions import (
    CONDITIONS,
    CONTROL,
    TRAINED,
    UNTRAINED,
    Asked,
    Source,
)
from workbench.probes.decoding import REGRESSION
from workbench.probes.positions import Rule
from workbench.runs import Run
from workbench.util.lookup import lookup


def probe(
    run: Run,
    label: str | Sequence[str],
    *,
    points: str | Sequence[str] | None = None,
    positions: Rule = "labelled",
    kind: str = "logistic",
    n: int = 512,
    seed: int = 0,
    seeds: int = 1,
    step: int | None = None,
    controls: Sequence[str] = CONDITIONS[1:],
    **settings: Any,
) -> Measurement:
    """Decode labels of the task's truth from a run's residual, on sequences that the model did not train on.

    Seven sequences in ten fit the probe, three try it; all rows of a sequence are on one side.

    Args:
        run: the run.
        label: a name, or several (see `probes.labels`).
        points: hook names, such as `blocks.0.hook_resid_post`; by default the embedding, and what follows every
            attention layer and every MLP.
        positions: where to look (see `probes.positions`).
        kind: of probe (see `probes.kinds`), or `regression` of the label as a number.
        n: sequences, from the test side of the task's split.
        seed: of the sequences, their split, the controls and the untrained weights.
        seeds: repeat all of that with so many seeds, from `seed` on; intervals are then over them.
        step: of which checkpoint; by default the end.
        controls: which of `CONDITIONS` beside the probe itself.
        settings: those of the kind (`l2`, `rank`, `hidden`, …).

    Returns:
        What is decoded, a share (`regression`: R²), with its interval: over the sequences tried, or over seeds. Dims
        `label` and `point` where several were asked for, `place` where the rule has several, `condition`.

    Raises:
        ValueError: if there is no such label, point, rule, kind, setting, control or checkpoint, or nothing to tell
            apart.
    """
    if seeds < 1 or n < 2:
        raise ValueError(f"a probe needs at least 2 sequences and 1 seed, not n={n}, seeds={seeds}")
    if seeds > 1:
        how: dict[str, Any] = {"points": points, "positions": positions, "kind": kind, "n": n, "step": step}
        parts = [probe(run, label, seed=seed + i, controls=controls, **how, **settings) for i in range(seeds)]
        return over_seeds(parts, range(seed, seed + seeds))
    source = Source.of_run(run, points, n=n, seed=seed, step=step)
    found = _measured(source, label, positions, kind, controls, seed, settings)
    return found.select(point=points) if isinstance(points, str) else found


def probe_capture(
    seen: Capture,
    label: str | Sequence[str],
    *,
    untrained: Capture | None = None,
    points: Sequence[str] | None = None,
    positions: Rule = "labelled",
    kind: str = "logistic",
    seed: int = 0,
    controls: Sequence[str] | None = None,
    **settings: Any,
) -> Measurement:
    """`probe` on what was captured of any model, with the sequences and the truth that the capture has.

    Args:
        seen: the capture.
        label: a name, or several.
        untrained: the same points and sequences of a model with fresh weights; without it there is no such baseline.
        points: which of the captured activations; by default all.
        positions, kind, seed, settings: as for `probe`.
        controls: by default all that can be had.

    Raises:
        ValueError: as `probe` does.
    """
    names = list(seen.activations if points is None else points)
    fresh = () if untrained is None else (partial(features.from_capture, untrained, names),)
    if controls is None:
        controls = [name for name in CONDITIONS[1:] if name != UNTRAINED or fresh]
    read = partial(features.from_capture, seen, names)
    source = Source(seen.subject.task, seen.batch, names, read, fresh, seen.subject.name)
    return _measured(source, label, positions, kind, controls, seed, settings)


def _measured(
    source: Source,
    label: str | Sequence[str],
    positions: Rule,
    kind: str,
    controls: Sequence[str],
    seed: int,
    settings: dict[str, Any],
) -> Measurement:
    names = [label] if isinstance(label, str) else list(label)
    for control in controls:
        lookup(dict.fromkeys(CONDITIONS[1:]), control, "control")
    measured = measure(
        Asked.of(source, names, positions, seed), names, kind, controls, {"positions": positions, **settings}
    )
    return measured.select(label=label) if isinstance(label, str) else measured


def measure(
    found: Asked, names: Sequence[str], kind: str, controls: Sequence[str], about: dict[str, Any]
) -> Measurement:
    """What is decoded of some labels at the rows of a source, under each condition.

    Args:
        found: the labels and rows.
        names: of the labels.
        kind, controls: see `probe`.
        about: the rule for positions, and the settings of the kind of probe.

    Raises:
        ValueError: if there is nothing to tell apart.
    """
    source, where = found.source, found.where
    settings = {name: value for name, value in about.items() if name != "positions"}
    outcome = {condition: found.outcome(condition, kind, settings) for condition in (TRAINED, *controls)}
    values = torch.stack(list(outcome.values()), -1).movedim(3, 0).double().numpy()
    if np.isnan(values[..., list(outcome).index(TRAINED)]).all():
        raise ValueError(f"there is nothing to tell apart: {', '.join(names)} has one value wherever it is looked at")
    measured = Measurement(
        name=kind.replace("_", " ").capitalize() + ("" if kind == REGRESSION else " probe"),
        values=values,
        dims=("example", "label", "point", "place", "condition"),
        coords={
            "example": range(len(values)),
            "label": names,
            "point": list(source.points),
            "place": list(where.names),
            "condition": list(outcome),
        },
        units="R²" if kind == REGRESSION else "share",
        settings={
            "model": source.name,
            "positions": about["positions"],
            "kind": kind,
            **source.counts,
            "seed": found.seed,
            "untrained models": len(source.untrained),
            **settings,
        },
        caption=CAPTION_R2 if kind == REGRESSION else CAPTION,
    ).mean("example")
    measured = _varied(measured)
    if len(where.names) == 1:
        measured = measured.select(place=where.names[0])
    return measured


def _varied(found: Measurement) -> Measurement:
    """Without the places at which no label has two values to tell apart."""
    names = found.coords["place"]
    kept = [name for name in names if not np.isnan(found.select(place=name, condition=TRAINED).values).all()]
    return found.keep("place", kept)


CAPTION = (
    "Share of labels that a probe decodes in sequences that it was not fitted on; n counts sequences. It shows that "
    "the label can be read there, not that the model reads it."
)
CAPTION_R2 = (
    "R² of a linear regression on sequences that it was not fitted on; n counts sequences. It shows that the number "
    "can be read there, not that the model reads it."
)


def over_seeds(parts: Sequence[Measurement], seeds: Sequence[int]) -> Measurement:
    """The mean over seeds: each draws sequences and a split anew for the same model (`statistics.redrawn`)."""
    if "place" in parts[0].dims:  # a place may have nothing to tell apart under one seed
        shared = [name for name in parts[0].coords["place"] if all(name in part.coords["place"] for part in parts)]
        parts = [part.keep("place", shared) for part in parts]
    bare = [replace(part, low=None, high=None, n=None) for part in parts]
    found = Measurement.stack(bare, SEED, list(seeds)).mean(SEED)
    said = found.caption.replace("n counts sequences", "n counts seeds, each with sequences and a split of its own")
    if found.units == "share":
        assert found.each is not None
        n = np.stack([np.broadcast_to(part.n if part.n is not None else 0, found.values.shape) for part in parts], -1)
        low, high = statistics.redrawn(found.each, n)
        found = replace(found, low=low, high=high)
    return replace(found, settings={**found.settings, "seeds": len(parts)}, caption=said)


def selectivity(found: Measurement) -> Measurement:
    """How much better a probe decodes a label than the control task (Hewitt and Liang 2019), without an interval."""
    trained, control = (found.select(condition=name) for name in (TRAINED, CONTROL))
    name = f"Selectivity of the {found.name[0].lower()}{found.name[1:]}"
    return replace(trained, name=name, values=trained.values - control.values, low=None, high=None, each=None)
