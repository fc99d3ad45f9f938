"""Principal components of residuals, and how much of their variance lies between the classes of a truth label.

The rows are the residual of one hook point wherever the label has a value, one token each, centred over all of them.
Shows: the directions in which tokens differ most, and whether tokens of one class lie together in them. Does not show:
that a label which is not in the first components is not encoded (it can have little variance; see the probes), or that
the model uses it. Control: the same labels shuffled among the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from workbench.capture import Capture
from workbench.measurement import Measurement
from workbench.util.lookup import lookup
from workbench.util.seeds import generator

SHUFFLES = 20
FEWEST = 3  # rows
TRUE, SHUFFLED = "true", "shuffled"


@dataclass(frozen=True)
class Components:
    """What `measure` found.

    Attributes:
        scores: each row on each component: dims `component` (1, 2, …), `row`; its `labels` are the class of each row in
            words, and `settings["class"]` the same as numbers.
        explained: the share of all variance along each component: dim `component`.
        between: the share of the variance that lies between classes, beside shuffled labels (the mean of `SHUFFLES`,
            with the least and the most of them): dims `within` (each component, then `all`), `labels`.
    """

    scores: Measurement
    explained: Measurement
    between: Measurement


def _principal_components(
    rows: Float[Tensor, "n d"], k: int
) -> tuple[Float[Tensor, "n k"], Float[Tensor, "k d"], Float[Tensor, " k"]]:
    """The rows on their first k components, these as unit vectors, and the share of variance along each, in float64.

    A component's sign is that with which its entry of the largest size is positive, so that the same rows give the same
    picture. Where all rows are equal, every share is 0.

    Raises:
        ValueError: if there are fewer than three rows, or not k components.
    """
    if len(rows) < FEWEST or not 1 <= k <= min(rows.shape):
        raise ValueError(f"{len(rows)} rows of {rows.shape[-1]} numbers do not have {k} principal components")
    centred = rows.double() - rows.double().mean(0)
    _, sizes, directions = torch.linalg.svd(centred, full_matrices=False)
    directions = directions[:k]
    largest = directions.gather(1, directions.abs().argmax(1, keepdim=True))
    directions = directions * torch.where(largest < 0, -1.0, 1.0)
    variance = sizes.square()
    total = variance.sum()
    return centred @ directions.T, directions, variance[:k] / torch.where(total > 0, total, 1.0)


def _between_classes(rows: Float[Tensor, "n d"], label: Int[Tensor, " n"]) -> float:
    """The share of the rows' variance that lies between the means of classes: 1 where each class is one point.

    NaN where all rows are equal. Of n rows without any structure it is about (classes − 1) / (n − 1).
    """
    rows = rows.double() - rows.double().mean(0)
    _, of_row, counts = label.unique(return_inverse=True, return_counts=True)
    means = torch.zeros(len(counts), rows.shape[1], dtype=torch.float64).index_add_(0, of_row, rows) / counts[:, None]
    total = float(rows.square().sum())
    return float((means.square().sum(1) * counts).sum()) / total if total > 0 else float("nan")


def measure(captures: Sequence[Capture], *, point: str, label: str, k: int = 3) -> Components:
    """The first k principal components of one hook point's rows that have a label, and the label's share of variance.

    Args:
        captures: activations `[batch, pos, d]` of the point, of one model.
        point: the hook name.
        label: one of the task's truth.
        k: how many components.

    Raises:
        ValueError: if the task has no such label, or too few rows have one.
    """
    subject, (z, classes) = captures[0].subject, _labelled(captures, point, label)
    scores, _, explained = _principal_components(z, k)
    names = list(range(1, k + 1))
    words = subject.task.words(classes) if label in subject.task.token_labels else [str(int(each)) for each in classes]
    where = {"model": subject.name, "point": point, "label": label, "rows": len(z), "classes": len(classes.unique())}
    caption = (
        f"Principal components of {len(z):,} rows, the tokens of which the truth has {label}, before the final norm. A "
        "label that is not seen in them can still be encoded, and one that is seen need not be used."
    )
    share: dict[str, Any] = {"units": "share", "settings": where, "caption": caption}
    return Components(
        Measurement(
            name="Principal components",
            values=scores.T.numpy(),
            dims=("component", "row"),
            coords={"component": names},
            units="projection",
            settings={**where, "class": classes.tolist()},
            labels=np.array([words] * k),
            caption=caption,
        ),
        Measurement("Variance explained", explained.numpy(), ("component",), {"component": names}, **share),
        _between(scores, z, classes, names, share),
    )


def _labelled(captures: Sequence[Capture], point: str, label: str) -> tuple[Float[Tensor, "n d"], Int[Tensor, " n"]]:
    """The rows of a hook point that have a label, and their classes."""
    rows, values = [], []
    for seen in captures:
        of_label = lookup(seen.truth.labels, label, f"label of {seen.subject.task.name}").cpu()
        labelled = of_label >= 0
        rows.append(seen[point][:, : labelled.shape[1]].cpu()[labelled])
        values.append(of_label[labelled])
    return torch.cat(rows), torch.cat(values)


def _between(scores: Tensor, z: Tensor, classes: Tensor, names: list[int], share: dict[str, Any]) -> Measurement:
    draws = generator(0, "components")
    shuffled = [classes[torch.randperm(len(classes), generator=draws)] for _ in range(SHUFFLES)]
    values, low, high = [], [], []
    for part in (*scores.T[..., None], z):
        null = np.array([_between_classes(part, labels) for labels in shuffled])
        values.append([_between_classes(part, classes), null.mean()])
        low.append([np.nan, null.min()])
        high.append([np.nan, null.max()])
    return Measurement(
        name="Variance between classes",
        values=np.array(values),
        dims=("within", "labels"),
        coords={"within": [*names, "all"], "labels": [TRUE, SHUFFLED]},
        low=np.array(low),
        high=np.array(high),
        **share,
    )
