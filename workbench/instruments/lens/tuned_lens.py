"""Tuned lens: what each layer's residual says once it is translated into the basis of the last (Belrose et al., 2023).

Each point before the last has an affine translator, trained to bring its decoded output near the model's final one:
x ↦ x + x W + b, then final norm and unembedding, by KL(final ‖ lens), until the loss stands still. Shows: how much of
the final output an affine reader can tell from a layer, beside the logit lens on the same sequences. Does not show:
that the model reads it so; a translator may compute what later layers would, and is fitted to the task's sequences.
Control: a re-initialised model with a lens of its own; and translators are trained on one side of the task's split and
measured on the other.

All translators are trained at once, on new sequences at every step, at their scored positions; the lens is the mean of
the weights over the last half of the steps, which takes the noise of single steps out. Unlike Belrose et al., who train
on every position with SGD: a task leaves the output at unscored positions to chance; and residuals are whitened first
(their covariance made the identity), without which the directions of little variance take thousands of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.capture import LOGITS, Capture, Subject, visit
from workbench.instruments.lens import logit_lens
from workbench.instruments.lens.affine import AffineLens
from workbench.instruments.lens.logit_lens import beside_logit_lens, decode, divergence
from workbench.instruments.residual.projection import from_embedding
from workbench.measurement import Measurement
from workbench.models import AnyModel
from workbench.tasks import Task
from workbench.util.memory import check_memory
from workbench.util.seeds import generator

CONTROLS = ("untrained",)
ON_REQUEST = True  # it trains a lens first
MOST_STEPS, FIRST, STILL = 6400, 100, 0.01
"""The most steps of training, those before the loss is first tried, and by how much a doubling may lower it still."""
TRIED, NOTHING, LEAST_VARIANCE = 256, 1e-3, 1e-3
"""Sequences on which it is tried, nats that count as none, and what is added to variances, beside their mean."""

needs = logit_lens.needs
why_not = logit_lens.why_not


class TunedLens(AffineLens):
    """A tuned lens: affine translators from points of the residual to its end."""

    NAME = "tuned"


def train_lens(
    model: AnyModel,
    task: Task,
    *,
    most_steps: int = MOST_STEPS,
    still: float = STILL,
    batch_size: int = 64,
    learning_rate: float = 0.01,
    seed: int = 0,
    points: Sequence[str] | None = None,
) -> TunedLens:
    """Train a lens, on sequences of the training side of a task's split, until its loss stands still.

    The model is not changed, and the same seed gives the same lens.

    Args:
        model, task: the decoder, not its hooked copy; and what it was trained on.
        most_steps: no step after so many, still or not; the settings then say `converged: False`.
        still: the share by which a doubling of the steps may lower a loss that stands still.
        batch_size, learning_rate, seed: sequences at each step, Adam's rate on whitened residuals; of what is drawn.
        points: hook names of residuals; by default the embedding and those after each attention and MLP, but the last,
            which decodes to the output itself.

    Raises:
        ValueError: if most_steps is below 1, still not positive, the model has not one of the points, or what all
            points decode to at once does not fit in memory.
    """
    if most_steps < 1 or not still > 0:
        raise ValueError(f"a lens takes at least 1 step, until a share above 0, not {most_steps} and {still}")
    subject = Subject.of(model, task, "")
    points = tuple(from_embedding(subject)[:-1] if points is None else points)
    d_vocab = len(subject.decoder)
    what = f"a tuned lens of {len(points)} points over {d_vocab:,} tokens (take fewer layers)"
    check_memory(4 * len(points) * TRIED * task.n_ctx * d_vocab, what)
    apart = _scored(model, task, points, TRIED, generator(seed, "tuned lens", "apart"))
    training = _Training(subject, apart[0], learning_rate)
    drawn = partial(_scored, model, task, points, batch_size, generator(seed, "tuned lens"))
    settings = {"batch_size": batch_size, "learning_rate": learning_rate, "seed": seed, "split": "train"}
    settings |= _train_until_still(training, drawn, apart, points, most_steps=most_steps, still=still)
    return TunedLens(points, *training.translators(), settings)


def _train_until_still(
    training: _Training,
    drawn: Callable[[], tuple[Tensor, Tensor]],
    apart: tuple[Tensor, Tensor],
    points: Sequence[str],
    *,
    most_steps: int,
    still: float,
) -> dict[str, Any]:
    """Train in rounds until the loss no longer falls, and return the losses and whether training converged.

    Each step is on residuals and logits that are `drawn` anew. Each round doubles the steps: after 100, 200, 400, …
    steps the loss is evaluated on the sequences `apart`. Training has converged if the last round lowered the loss at
    every point by at most the share `still` of it, or by at most 0.001 nats: doubling the steps again is then expected
    to gain no more.
    """
    before, losses, steps, converged = training.loss(*apart), [], 0, False
    while steps < most_steps and not converged:
        for _ in range(min(max(steps, FIRST), most_steps - steps)):
            training.step(*drawn())
            steps += 1
        after = training.end_of_round(*apart)
        losses.append({"step": steps, **dict(zip(points, after.tolist(), strict=True))})
        gain = before - after
        converged = steps >= 2 * FIRST and bool(((gain <= still * before) | (gain <= NOTHING)).all())
        before = after
    return {"steps": steps, "most_steps": most_steps, "converged": converged, "still": still, "losses": losses}


class _Training:
    """Translators in training, on whitened residuals z: x ↦ x + z V + c, with z = (x − mean) R; first the identity."""

    def __init__(self, subject: Subject, x: Float[Tensor, "point n d_model"], learning_rate: float) -> None:
        self.subject = subject
        self.mean = x.mean(1, keepdim=True)
        spread = (x - self.mean).mT @ (x - self.mean) / max(x.shape[1], 1)
        values, vectors = torch.linalg.eigh(spread)
        values = values.clamp(min=0) + LEAST_VARIANCE * values.mean(-1, keepdim=True).clamp(min=1e-12)
        self.whiten = vectors * values.rsqrt().unsqueeze(-2) @ vectors.mT
        shape = len(x), x.shape[2], x.shape[2]
        self.V = torch.zeros(shape, device=x.device, requires_grad=True)
        self.c = torch.zeros_like(self.mean, requires_grad=True)
        self.optimizer = torch.optim.Adam([self.V, self.c], lr=learning_rate)
        self.mean_V, self.mean_c = torch.zeros_like(self.V), torch.zeros_like(self.c)
        self.sum_V, self.sum_c, self.n = torch.zeros_like(self.V), torch.zeros_like(self.c), 0

    def _losses(self, x: Tensor, final: Tensor, V: Tensor, c: Tensor) -> Float[Tensor, " point"]:
        translated = x + (x - self.mean) @ self.whiten @ V + c
        lens = decode(self.subject, translated.to(self.subject.decoder.dtype)).float()
        return divergence(final, lens).mean(-1)

    def step(self, x: Float[Tensor, "point n d_model"], final: Float[Tensor, "n token"]) -> None:
        with torch.enable_grad():
            self._losses(x, final, self.V, self.c).sum().backward(inputs=[self.V, self.c])  # and nothing in the model
        self.optimizer.step()
        self.optimizer.zero_grad()
        with torch.no_grad():
            self.sum_V += self.V
            self.sum_c += self.c
            self.n += 1

    @torch.no_grad()
    def loss(self, x: Float[Tensor, "point n d_model"], final: Float[Tensor, "n token"]) -> Float[Tensor, " point"]:
        """The loss at each point, with the mean weights of the last round."""
        return self._losses(x, final, self.mean_V, self.mean_c)

    @torch.no_grad()
    def end_of_round(self, x: Tensor, final: Tensor) -> Float[Tensor, " point"]:
        """Make the mean weights of this round the lens, at each point where they are better; return the lens's loss."""
        old, kept = self.loss(x, final), (self.mean_V, self.mean_c)
        self.mean_V, self.mean_c = self.sum_V / self.n, self.sum_c / self.n
        better = (self.loss(x, final) < old)[:, None, None]
        self.mean_V, self.mean_c = (
            torch.where(better, new, before) for new, before in zip((self.mean_V, self.mean_c), kept, strict=True)
        )
        self.sum_V, self.sum_c, self.n = torch.zeros_like(self.V), torch.zeros_like(self.c), 0
        return self.loss(x, final)

    @torch.no_grad()
    def translators(self) -> tuple[Float[Tensor, "point d_model d_model"], Float[Tensor, "point d_model"]]:
        """Weight and bias of the translators, for residuals that are not whitened."""
        weight = self.whiten @ self.mean_V
        return weight, (self.mean_c - self.mean @ weight)[:, 0]


def _scored(
    model: AnyModel, task: Task, points: Sequence[str], n: int, draws: torch.Generator
) -> tuple[Float[Tensor, "point n d_model"], Float[Tensor, "n token"]]:
    """The residual at each point, and the final logits, at the scored positions of n new sequences, in float32."""
    batch = task.sample(n, draws, split="train").to(model.token_embedding.weight.device)
    seen: dict[str, Tensor] = {}

    def see(name: str, activation: Tensor) -> None:
        seen[name] = activation[batch.loss_mask].float()

    visit(model, batch.tokens, {*points, LOGITS}, see)
    return torch.stack([seen[point] for point in points]), seen[LOGITS]


def fit(model: AnyModel, subject: Subject, seed: int) -> dict[str, Any]:
    """The settings of `measure` that need training first: a lens for this model."""
    return {"lens": train_lens(model, subject.task, most_steps=MOST_STEPS, seed=seed)}


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
    done = "until its loss stood still" if lens.settings.get("converged") else "and its loss was still falling"
    caption = (
        "KL(final ‖ lens) at scored positions, the residual decoded as it is (logit) and after an affine translator "
        f"trained on other sequences (tuned; {lens.settings.get('steps', '?')} steps, {done}). What a translator can "
        "read the model need not read."
    )
    return beside_logit_lens(capture, lens, points, "Tuned lens", caption)
