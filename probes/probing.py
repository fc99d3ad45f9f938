"""Probe a run or a capture: what can be decoded where, beside baselines and controls.

That a probe decodes a label shows that the label is there, not that the model uses it: `probes.causal_test` tests that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from workbench.capture import Capture
from workbench.judgement.decodable import BASELINES, CONTROL, ROWS, TRAINED, UNTRAINED, judge
from workbench.judgement.words import probes as words
from workbench.measurement import Measurement
from workbench.measurement import intervals as statistics
from workbench.measurement.measurement import SEED
from workbench.probes import probe_inputs
from workbench.probes.baselines_and_controls import CONDITIONS, ProbeData, Source
from workbench.probes.fitting import R2, REGRESSION, probe_of_kind
from workbench.probes.positions import Rule
from workbench.runs import Run
from workbench.util.lookup import lookup
from workbench.util.words import uncapitalised

READ_AT = "positions read"  # and how many there are, where probes read a sample of them


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

    Args:
        run, label: the run, and one or several of `label_names(run.task())`.
        points: hook names; by default the embedding, and the residual after every attention layer and every MLP.
        positions, kind: where the probe reads (see `probes.positions`), and its kind (one of `KINDS`).
        n: number of sequences, of the test side of the task's split: seven in ten fit the probe, three test it.
        seed, step: of all that is drawn; training step of the checkpoint, by default the end.
        seeds: number of seeds, from `seed` on, with which all is repeated; intervals are then over seeds.
        controls, settings: which of `CONDITIONS` to measure, and settings of the kind (`l2`, `rank`, …).

    Returns the share decoded (`regression`: R²) with its interval over the test sequences, or over seeds: dims `label`
    and `point` where several were asked for, `place` where the rule has several, `condition`.

    Raises:
        ValueError: if one of these does not exist, or the label has one value only.
    """
    if seeds < 1 or n < 2:
        raise ValueError(f"a probe needs at least 2 sequences and 1 seed, not n={n}, seeds={seeds}")
    if seeds > 1:
        same: dict[str, Any] = {"points": points, "positions": positions, "kind": kind, "n": n, "step": step}
        parts = [probe(run, label, seed=seed + i, controls=controls, **same, **settings) for i in range(seeds)]
        return over_seeds(parts, range(seed, seed + seeds))
    source = Source.of_run(run, points, n=n, seed=seed, step=step)
    accuracy = probe_source(source, label, positions, kind, source.possible(controls), seed, settings)
    return accuracy.select(point=points) if isinstance(points, str) else accuracy


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
    """`probe` for a capture of any model, on the capture's sequences and with its truth.

    Args:
        seen: the capture.
        label: a name, or several.
        untrained: a capture of the same points and sequences of a re-initialised model; by default there is no such
            control.
        points: which of the captured activations; by default all.
        positions, kind, seed, settings: as for `probe`.
        controls: as for `probe`; by default all, without re-initialised models if its capture is not given.

    Raises:
        ValueError: as `probe` does.
    """
    names = list(seen.activations if points is None else points)
    fresh = () if untrained is None else (partial(probe_inputs.from_capture, untrained, names),)
    if controls is None:
        controls = [name for name in CONDITIONS[1:] if name != UNTRAINED or fresh]
    read = partial(probe_inputs.from_capture, seen, names)
    source = Source(seen.subject.task, seen.batch, names, read, fresh, seen.subject.name)
    return probe_source(source, label, positions, kind, controls, seed, settings)


def probe_source(
    source: Source,
    label: str | Sequence[str],
    positions: Rule,
    kind: str,
    controls: Sequence[str],
    seed: int,
    settings: dict[str, Any],
) -> Measurement:
    """`probe` for the vectors of any model; a single label is no dim. Raises ValueError as `probe` does."""
    probe_of_kind(kind, settings)  # raises where the settings are others than its own
    names = [label] if isinstance(label, str) else list(label)
    for control in controls:
        lookup(dict.fromkeys(CONDITIONS[1:]), control, "control")
    measured = measure(
        ProbeData.of(source, names, positions, seed), names, kind, controls, {"positions": positions, **settings}
    )
    return measured.select(label=label) if isinstance(label, str) else measured


def measure(
    data: ProbeData, names: Sequence[str], kind: str, controls: Sequence[str], about: dict[str, Any]
) -> Measurement:
    """Fit and test a probe under each condition.

    Args:
        data, names: the vectors and labels, and what these are called.
        kind, controls: see `probe`.
        about: the rule for positions, and the settings of the kind of probe.

    Returns:
        What is decoded, dims `label`, `point`, `place` where there are several, `condition`.

    Raises:
        ValueError: if the labels have one value only.
    """
    settings = {name: value for name, value in about.items() if name != "positions"}
    conditions = (TRAINED, *controls)
    if data.source.most is None:
        by_condition = {condition: data.outcome(condition, kind, settings) for condition in conditions}
    else:
        by_condition = data.in_turn(conditions, kind, settings)
    values = torch.stack(list(by_condition.values()), -1).movedim(3, 0).double().numpy()
    if np.isnan(values[..., 0]).all():
        raise ValueError(f"there is nothing to tell apart: {', '.join(names)} has one value at all these positions")
    points, places = list(data.source.points)[: values.shape[2]], list(data.where.names)
    units = R2 if kind == REGRESSION else "share"
    measured = Measurement(
        name=kind.replace("_", " ").capitalize() + ("" if kind == REGRESSION else " probe"),
        values=values,
        dims=("example", "label", "point", "place", "condition"),
        coords={"label": names, "point": points, "place": places, "condition": list(by_condition)},
        units=units,
        settings=_settings(data, names, kind, about["positions"]) | settings,
        caption=_caption(units, "sequences"),
    ).mean("example")
    # without the places at which no label has two values
    kept = [name for name in places if not np.isnan(measured.select(place=name, condition=TRAINED).values).all()]
    measured = measured.keep("place", kept)
    return measured.select(place=places[0]) if len(places) == 1 else measured


def _settings(data: ProbeData, names: Sequence[str], kind: str, positions: Rule) -> dict[str, Any]:
    """The settings of a measurement, without those of the kind of probe."""
    source = data.source
    counts = [dict(zip(data.where.names, by_place, strict=True)) for by_place in data.counts]
    return {
        "model": source.name,
        "positions": positions,
        "kind": kind,
        **source.counts,
        "seed": data.seed,
        "untrained models": len(source.untrained),
        ROWS: dict(zip(names, counts, strict=True)),
        **({} if len(data.where.example) >= data.n_rows else {READ_AT: (len(data.where.example), data.n_rows)}),
    }


def _caption(units: str, counted: str) -> str:
    """What the values are, and what they do not show.

    Args:
        units: of the values.
        counted: what n counts.
    """
    if units == R2:
        values, decoded = "R² of a linear regression on sequences that it was not fitted on", "number"
    else:
        values, decoded = "Share of labels that a probe decodes in sequences that it was not fitted on", "label"
    return f"{values}; n counts {counted}. It shows that the {decoded} can be read there, not that the model reads it."


def over_seeds(parts: Sequence[Measurement], seeds: Sequence[int]) -> Measurement:
    """The mean over seeds: each draws sequences and a split anew for the same model (`statistics.redrawn`)."""
    if "place" in parts[0].dims:  # at some places the label may have one value only under one of the seeds
        shared = [name for name in parts[0].coords["place"] if all(name in part.coords["place"] for part in parts)]
        parts = [part.keep("place", shared) for part in parts]
    bare = [replace(part, low=None, high=None, n=None) for part in parts]
    mean = Measurement.stack(bare, SEED, list(seeds)).mean(SEED)
    if mean.units != R2:
        assert mean.each is not None
        n = np.stack([np.broadcast_to(part.n if part.n is not None else 0, mean.values.shape) for part in parts], -1)
        low, high = statistics.redrawn(mean.each, n)
        mean = replace(mean, low=low, high=high)
    caption = _caption(mean.units, "seeds, each with sequences and a split of its own")
    return replace(mean, settings={**mean.settings, "seeds": len(parts)}, caption=caption)


def selectivity(accuracy: Measurement) -> Measurement:
    """The accuracy of a probe less that on the control task (Hewitt and Liang 2019), without an interval."""
    trained, control = (accuracy.select(condition=name) for name in (TRAINED, CONTROL))
    name = f"Selectivity of the {uncapitalised(accuracy.name)}"
    return replace(trained, name=name, values=trained.values - control.values, low=None, high=None, each=None)


def gain(accuracy: Measurement) -> Measurement:
    """How much more a probe reads of the trained model than of the best baseline or of a re-initialised model.

    Args:
        accuracy: `probe(...)`, with the dim `condition` and any others.

    Returns:
        The same without that dim and without intervals; NaN where the probe could not be fitted.
    """
    beside = [name for name in accuracy.coords["condition"] if name in (*BASELINES, UNTRAINED)]
    axis = accuracy.dims.index("condition")
    values = accuracy.select(condition=TRAINED).values
    if beside:
        names = list(accuracy.coords["condition"])
        others = np.take(accuracy.values, [names.index(name) for name in beside], axis)
        values = values - np.nan_to_num(others, nan=0.0).max(axis)
    return Measurement(
        name=f"Gain of {accuracy.name}",
        values=values,
        dims=tuple(dim for dim in accuracy.dims if dim != "condition"),
        coords={dim: labels for dim, labels in accuracy.coords.items() if dim != "condition"},
        units=accuracy.units,
        settings=accuracy.settings,
        caption="What a probe reads of the trained model less what it reads of the best baseline or of a "
        "re-initialised model of the same shape.",
    )


def verdict(accuracy: Measurement) -> str:
    """What a probe's accuracy at one point and place is worth, in words: 'decodable: 97% of 301 rows …'."""
    return words.decodable(judge(accuracy))
