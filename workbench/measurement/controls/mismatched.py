"""The control `mismatched`: the activations of one example beside the truth of another of equal length."""

from __future__ import annotations

from dataclasses import replace

import torch

from workbench.capture import Capture
from workbench.measurement.controls.base import Control
from workbench.tasks import Batch, Truth


def mismatched(capture: Capture, generator: torch.Generator) -> Capture:
    """The same activations and logits, each beside the tokens and truth of another example of equal length.

    A score on this comes from the positions and the task, not from what the model worked out about the example at
    hand. Examples are paired in a random cycle within each length, so none keeps its own truth; an example that has no
    other of its length is left out.
    """
    lengths = capture.subject.task.lengths(capture.batch.tokens)
    order = torch.randperm(len(lengths), generator=generator)
    rows, partners = [], []
    for length in lengths.unique():
        group = order[lengths[order] == length]
        if len(group) > 1:
            rows.append(group)
            partners.append(group.roll(1))
    none = torch.zeros(0, dtype=torch.long)
    own, other = torch.cat([none, *rows]), torch.cat([none, *partners])
    # The truth of the partners, renumbered in their order.
    place = torch.full((len(lengths),), -1)
    place[other] = torch.arange(len(other))
    batch, truth = capture.batch, capture.truth
    example = place[truth.edges[:, 0]]
    edges = torch.cat([example[:, None], truth.edges[:, 1:]], dim=1)[example >= 0]
    changed = replace(
        capture,
        activations={name: value[own.to(value.device)] for name, value in capture.activations.items()},
        batch=Batch(batch.tokens[other], batch.targets[other], batch.loss_mask[other], batch.head),
        given_truth=Truth(edges, {name: label[other] for name, label in truth.labels.items()}),
    )
    # What was computed of each row goes along; what else was is of single examples, which now have other numbers.
    of_rows = {key: value for key, value in capture.computed.items() if key[0] in ("resolvent", "by row")}
    changed.computed.update({key: value[own.to(value.device)] for key, value in of_rows.items()})
    return changed


CONTROL = Control("with shuffled truth", "shuffled truth", mismatched)
