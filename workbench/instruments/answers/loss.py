"""Loss: the mean cross-entropy of each sequence's scored positions, as the objective `next_token` computes it.

Shows: how much of the targets the model's probabilities leave open, in nats; where targets are sets of classes, also
the loss less its floor, which is what the model could still gain. Its exponential is the perplexity. Does not show:
whether the likeliest class is right (see `overall`): a model can be right and unsure. Long sequences weigh as much as
short ones, where the loss that is logged in training weighs every position alike. Control: the same logits beside the
answers of other examples (`mismatched`).

It is a test loss on sequences that were held out, and a training loss on those of a text that the model was trained on;
of a text of which nobody here knows it is a loss.
"""

from __future__ import annotations

import torch

from workbench.capture import Capture
from workbench.instruments.shared import logits_alone, no_reason
from workbench.measurement import Measurement
from workbench.objectives.next_token import loss_floor, summed_cross_entropy
from workbench.tasks.known_text import Origin

CONTROLS = ("mismatched",)
NAMES = {Origin.HELD_OUT: "Test loss", Origin.TRAINED: "Training loss"}
PARTS = ("loss", "loss above its floor")

needs, why_not = logits_alone, no_reason


def measure(capture: Capture) -> Measurement:
    """Loss of each example in nats: dims `part` (`loss`; of sets of classes also `loss above its floor`), `example`.

    Where some sequences were trained on and others not, also the loss of each kind, NaN for the others. NaN where
    nothing is scored.
    """
    batch, logits, rows = capture.batch, capture.logits.cpu(), []
    for i in range(len(batch)):
        sequence, n = batch[i : i + 1], int(batch.loss_mask[i].sum())
        loss = summed_cross_entropy(logits[i : i + 1], sequence).item() / n if n else torch.nan
        rows.append([loss, loss - loss_floor(sequence) if n else torch.nan])
    task = capture.subject.task
    parts = [*(PARTS if batch.targets.ndim == 3 else PARTS[:1])]
    values = torch.tensor(rows, dtype=torch.float64).reshape(-1, 2).T[: len(parts)]
    if len(task.origins) > 1:
        own = task.origins_of(batch.tokens)
        of_origin = torch.tensor([[own_origin is origin for own_origin in own] for origin in task.origins])
        values = torch.cat([values, values[:1].where(of_origin, torch.nan)])
        parts += [f"loss, {origin} sequences" for origin in task.origins]
    floor = " The floor of the loss is the mean entropy of the targets, which are sets." if len(parts) == 2 else ""
    return Measurement(
        name=NAMES.get(task.measured_on, "Loss"),
        values=values.numpy(),
        dims=("part", "example"),
        coords={"part": parts},
        units="nats",
        settings={"model": capture.subject.name},
        caption=f"Mean cross-entropy over the scored positions of a sequence.{floor}",
    )
