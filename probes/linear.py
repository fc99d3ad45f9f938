"""A linear probe on a residual, beside the two controls that say what its accuracy is worth.

A label that a probe decodes is *there*; that the model *uses* it is another claim, which only an intervention tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from workbench.capture import Subject, capture
from workbench.instruments import Measurement
from workbench.instruments.projection import from_embedding
from workbench.models import Decoder
from workbench.models.hooked import hook
from workbench.runs import Run
from workbench.seeds import generator
from workbench.tasks import Batch, Task

TEST_SHARE = 0.3
CONDITIONS = ("trained", "shuffled labels", "untrained model", "most frequent label")


@dataclass(frozen=True)
class Probe:
    """How a fitted probe does on sequences it was not fitted on.

    Attributes:
        right: `[sequence]`, the share of each held-out sequence's vectors whose label was decoded.
        majority: `[sequence]`, the share that the most frequent label of the fitted sequences would get.
    """

    right: np.ndarray
    majority: np.ndarray

    @property
    def accuracy(self) -> float:
        """Mean over the held-out sequences, which, unlike their vectors, are independent."""
        return float(self.right.mean())


def fit(features: np.ndarray, labels: np.ndarray, sequences: np.ndarray, *, seed: int) -> Probe:
    """Fit a multinomial logistic regression on standardised features; test it on other sequences.

    Args:
        features: `[vector, d]`.
        labels: `[vector]`, classes.
        sequences: `[vector]`, which sequence each vector is from. All vectors of a sequence go to the same side, since
            positions of one sequence share what there is to know.
        seed: decides the split.

    Raises:
        ValueError: if there are not two sequences, or only one label to learn.
    """
    names = np.unique(sequences)
    if len(names) < 2:
        raise ValueError(f"a probe is tested on other sequences than it is fitted on: it needs 2, not {len(names)}")
    order = np.random.default_rng(seed).permutation(names)
    held_out = np.isin(sequences, order[: max(1, round(TEST_SHARE * len(names)))])
    classes, counts = np.unique(labels[~held_out], return_counts=True)
    if len(classes) < 2:
        raise ValueError(f"there is nothing to decode: every label to fit is {classes.tolist()}")
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    model.fit(features[~held_out], labels[~held_out])
    wanted, (_, index) = labels[held_out], np.unique(sequences[held_out], return_inverse=True)
    size = np.bincount(index)
    right = np.bincount(index, weights=model.predict(features[held_out]) == wanted) / size
    return Probe(right, majority=np.bincount(index, weights=wanted == classes[counts.argmax()]) / size)


def vectors(activation: Tensor, point: str) -> Tensor:
    """One vector per position, `[batch, pos, feature]`: heads are put one after the other.

    Raises:
        ValueError: if the point has no vector per position (a pattern, or scores).
    """
    if point.endswith(("hook_pattern", "hook_attn_scores")):
        raise ValueError(f"{point} has no vector per position to probe; a residual, hook_z, hook_mlp_out and others do")
    return activation.flatten(2)


def probe_run(
    run: Run,
    label: str,
    *,
    point: str,
    position: int | None = None,
    n: int = 256,
    seed: int = 0,
    step: int | None = None,
) -> Measurement:
    """Decode one label of the task's truth from one point of a run's residual.

    Args:
        run: the run.
        label: a name in the truth's labels.
        point: a hook name, such as `blocks.0.hook_resid_post`.
        position: probe this position alone; by default every position where the label means something.
        n: sequences, from the test side of the task's split.
        seed: of the sequences, the split, the shuffle and the untrained weights.
        step: of which checkpoint; by default the end.

    Returns:
        Accuracy with its interval, dim `condition`: the trained model, its labels shuffled, an untrained model of the
        same shape, and always saying the most frequent label.

    Raises:
        ValueError: if the task has no such label, the model no such point or checkpoint, the position is never
            labelled, or there is nothing to tell apart (see `fit`).
    """
    task = run.task()
    batch = task.sample(n, generator(seed, "probe"), split="test")
    values, where = _labelled(task, batch, label, position)
    sequences = where.nonzero()[:, 0].numpy()

    def features(model: Decoder) -> np.ndarray:
        source = model if point in model.activation_names else hook(model)  # the decoder itself is the faster
        seen = capture(source, Subject.of(model, task, run.name), batch, [point])
        return vectors(seen[point], point)[where].double().numpy()

    trained = features(run.model(step))
    untrained = features(Decoder(run.config.model, generator(seed, "untrained")).eval())
    shuffled = np.random.default_rng(seed).permutation(values)
    probe = fit(trained, values, sequences, seed=seed)
    outcomes = [
        probe.right,
        fit(trained, shuffled, sequences, seed=seed).right,
        fit(untrained, values, sequences, seed=seed).right,
        probe.majority,
    ]
    return Measurement(
        name=f"Linear probe for {label}",
        values=np.stack(outcomes).astype(float),
        dims=("condition", "example"),
        coords={"condition": CONDITIONS, "example": range(len(probe.right))},
        units="share",
        settings={"model": run.name_at(step), "point": point, "position": position, "sequences": n, "seed": seed},
        caption="Share of positions in held-out sequences whose label a linear probe decodes; n counts sequences. It "
        "shows that the label can be read there, not that the model reads it.",
    ).mean("example")


def _labelled(
    task: Task, batch: Batch, label: str, position: int | None
) -> tuple[np.ndarray, Bool[Tensor, "batch pos"]]:
    """The labels to decode, one after the other, and where they are."""
    labels = task.truth(batch.tokens).labels
    if label not in labels:
        raise ValueError(f"the task {task.name} has no label {label!r}; there is: {', '.join(labels)}")
    where = labels[label] >= 0
    if position is not None:
        if not 0 <= position < where.shape[1] or not bool(where[:, position].any()):
            raise ValueError(f"the label {label!r} means nothing at position {position}")
        where = where & (torch.arange(where.shape[1]) == position)
    return labels[label][where].numpy(), where


def probe_layers(run: Run, label: str, *, points: Sequence[str] | None = None, **settings: Any) -> Measurement:
    """`probe_run` at several points of the residual, from the embedding up.

    Args:
        run: the run.
        label: a name in the truth's labels.
        points: hook names; by default the embedding, and what follows every attention layer and every MLP.
        settings: `position`, `n`, `seed`, `step`: as for `probe_run`.

    Returns:
        Accuracy with its interval, dims `point`, `condition`.

    Raises:
        ValueError: as `probe_run` does.
    """
    points = from_embedding(Subject.of(run.model(), run.task(), run.name)) if points is None else points
    return Measurement.stack([probe_run(run, label, point=point, **settings) for point in points], "point", points)


def verdict(found: Measurement) -> str:
    """What a probe's accuracy is worth beside its controls, in words.

    A label counts as decodable where the whole interval of the trained model lies above that of the best control.

    Args:
        found: `probe_run(...)`.
    """
    assert found.low is not None and found.high is not None and found.dims == ("condition",)
    best = 1 + int(found.values[1:].argmax())
    said = f"{found.values[0]:.0%} against {found.values[best]:.0%} for the best control, {CONDITIONS[best]}"
    if np.isnan(found.low[0]):
        return f"too few sequences to tell: {said}"
    if found.low[0] > found.high[1:].max():
        return f"decodable: {said}"
    if found.values[0] <= found.values[best]:
        return f"no better than its controls: {said}"
    return f"not told apart from its controls: {said}"
