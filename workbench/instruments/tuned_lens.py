"""Tuned lens: what each layer's residual says once it is translated into the basis of the last (Belrose et al., 2023).

Each point before the last has an affine translator, trained to bring its decoded output near the model's final one:
x ↦ x + x W + b, then final norm and unembedding, by KL(final ‖ lens). Shows: how much of the final output an affine
reader can tell from a layer, beside the logit lens on the same sequences. Does not show: that the model reads it so;
a translator may compute what later layers would, and is fitted to the task's sequences. Control: an untrained model
with a lens of its own; and translators are trained on one side of the task's split and measured on the other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.capture import LOGITS, Capture, Subject, visit
from workbench.files import load_tensors, save_tensors
from workbench.instruments import logit_lens
from workbench.instruments.logit_lens import decode, divergence, divergences
from workbench.instruments.measurement import Measurement
from workbench.instruments.projection import from_embedding
from workbench.models import Decoder
from workbench.seeds import generator
from workbench.tasks import Task

CONTROLS = ("untrained",)
ON_REQUEST = True  # it trains a lens first
LENSES = ("logit", "tuned")
KIND = "tuned lens"

needs = logit_lens.needs
why_not = logit_lens.why_not


@dataclass(frozen=True)
class TunedLens:
    """Translators from points of the residual to its end.

    Attributes:
        points: hook names, one a translator; other points are left as they are.
        weight: `[point, d_model, d_model]`, what is added to the identity.
        bias: `[point, d_model]`.
        settings: how it was trained.
    """

    points: tuple[str, ...]
    weight: Float[Tensor, "point d_model d_model"]
    bias: Float[Tensor, "point d_model"]
    settings: Mapping[str, Any] = field(default_factory=dict)

    def translate(self, point: str, residual: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """The residual at a point as it would be at the end, in the residual's precision.

        Raises:
            ValueError: if the lens was trained on a residual of another width.
        """
        if residual.shape[-1] != self.bias.shape[-1]:
            raise ValueError(f"this lens is for a d_model of {self.bias.shape[-1]}, not {residual.shape[-1]}")
        if point not in self.points:
            return residual
        i = self.points.index(point)
        weight, bias = self.weight[i].to(residual), self.bias[i].to(residual)
        return residual + residual @ weight + bias

    def save(self, path: str | Path) -> None:
        """Write the lens as a safetensors file, with a checksum; the file is either whole or not there."""
        words = {"kind": KIND, "points": json.dumps(self.points), "settings": json.dumps(dict(self.settings))}
        save_tensors(Path(path), {"weight": self.weight.cpu(), "bias": self.bias.cpu()}, words)

    @classmethod
    def load(cls, path: str | Path) -> TunedLens:
        """What `save` wrote. Raises ValueError, in one line, if the file is no lens, or not as it was written."""
        tensors, words = load_tensors(Path(path))
        if words.get("kind") != KIND:
            raise ValueError(f"{path} is no tuned lens")
        return cls(tuple(json.loads(words["points"])), **tensors, settings=json.loads(words["settings"]))


def train_lens(
    model: Decoder,
    task: Task,
    *,
    steps: int = 300,
    batch_size: int = 64,
    learning_rate: float | None = None,
    seed: int = 0,
    points: Sequence[str] | None = None,
) -> TunedLens:
    """Train a lens on sequences of the training side of a task's split, at their scored positions.

    Each translator begins as the identity. All are trained at once by Adam with a linear decay to 0; the gradients of
    one do not touch another. Unlike Belrose et al., who train on every position with SGD: a task leaves the output at
    unscored positions to chance. The model is not changed, and the same seed gives the same lens.

    Args:
        model: the decoder, not its hooked copy.
        task: what it was trained on.
        steps, batch_size: of the training.
        learning_rate: of Adam; by default 0.64 / d_model, with which a step changes what is translated by as much at
            any width.
        seed: of the sequences drawn.
        points: hook names of residuals; by default the embedding and those after each attention and MLP, but the last,
            which decodes to the output itself.

    Raises:
        ValueError: if steps is below 1, or the model has not one of the points.
    """
    if steps < 1:
        raise ValueError(f"a lens is trained for at least 1 step, not {steps}")
    subject = Subject.of(model, task, "")
    points = tuple(from_embedding(subject)[:-1] if points is None else points)
    device, d_model = subject.decoder.device, subject.decoder.shape[1]
    learning_rate = 0.64 / d_model if learning_rate is None else learning_rate
    weight = torch.zeros(len(points), d_model, d_model, device=device, requires_grad=True)
    bias = torch.zeros(len(points), 1, d_model, device=device, requires_grad=True)
    optimizer = torch.optim.Adam([weight, bias], lr=learning_rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 1.0 / steps, total_iters=steps)
    draws = generator(seed, "tuned lens")
    for _ in range(steps):
        x, final = _scored(model, task, points, batch_size, draws)
        with torch.enable_grad():
            lens = decode(subject, (x + x @ weight + bias).to(subject.decoder.dtype)).float()
            loss = divergence(final, lens).mean(-1).sum()
            loss.backward(inputs=[weight, bias])  # and nothing into the model
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    settings = {"steps": steps, "batch_size": batch_size, "learning_rate": learning_rate, "seed": seed}
    return TunedLens(points, weight.detach(), bias.detach()[:, 0], {**settings, "split": "train"})


def _scored(
    model: Decoder, task: Task, points: Sequence[str], n: int, draws: torch.Generator
) -> tuple[Float[Tensor, "point n d_model"], Float[Tensor, "n token"]]:
    """The residual at each point, and the final logits, at the scored positions of n new sequences, in float32."""
    batch = task.sample(n, draws, split="train").to(model.token_embedding.weight.device)
    seen: dict[str, Tensor] = {}

    def see(name: str, activation: Tensor) -> None:
        seen[name] = activation[batch.loss_mask].float()

    visit(model, batch.tokens, {*points, LOGITS}, see)
    return torch.stack([seen[point] for point in points]), seen[LOGITS]


def fit(model: Decoder, subject: Subject, seed: int) -> dict[str, Any]:
    """The settings of `measure` that have to be trained for a model first: its lens."""
    return {"lens": train_lens(model, subject.task, seed=seed)}


def measure(capture: Capture, *, lens: TunedLens, points: Sequence[str] | None = None) -> Measurement:
    """KL from the final output to what each point decodes to, by logit and tuned lens: dims `lens`, `point`, `example`.

    In nats, averaged over scored positions (NaN where an example has none); at the last point both are 0. Measure it on
    held-out sequences: the lens was trained on the other side of the task's split.

    Args:
        capture: with the activations of `needs`.
        lens: of this very model, from `train_lens`.
        points: hook names of residuals, by default those of `needs`.

    Raises:
        ValueError: if the lens was trained on a residual of another width.
    """
    points = from_embedding(capture.subject) if points is None else list(points)
    values = np.stack([divergences(capture, points), divergences(capture, points, lens.translate)])
    return Measurement(
        name="Tuned lens",
        values=values,
        dims=("lens", "point", "example"),
        coords={"lens": LENSES, "point": points, "example": range(values.shape[2])},
        units="nats",
        settings={"model": capture.subject.name, "training": dict(lens.settings)},
        caption="KL(final ‖ lens) at scored positions, the residual decoded as it is (logit) and after an affine "
        "translator trained on other sequences (tuned). What a translator can read the model need not read.",
    )
