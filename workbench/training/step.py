"""One optimizer step: forward, the objectives, backward, all processes' gradients, clipping, the update."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from workbench.objectives import Objective
from workbench.runs import RunConfig
from workbench.tasks import Batch
from workbench.training.processes import Processes
from workbench.training.state import Figures, Learner
from workbench.util.seeds import generator, global_draws

HALF = {"bfloat16": torch.bfloat16, "float16": torch.float16}
LEAST_SCALE = 2.0**-10  # of float16's loss: below it the loss itself has overflowed, not its gradient


class Step:
    """A learner's optimizer step."""

    def __init__(self, config: RunConfig, learner: Learner, processes: Processes) -> None:
        self.config, self.learner, self.processes = config, learner, processes
        self.keep = needed(learner.objectives)

    def __call__(self, batches: Sequence[Batch], rate: float) -> Figures | None:
        """What it cost, under `loss` and the objectives' names, of a hint `loss/HINT`; None if that is not finite.

        Where it is not finite the weights are left as they were.

        Args:
            batches: a batch for each head that has a part in this step; each counts by its number of sequences.
            rate: the learning rate.
        """
        learner, scaler = self.learner, self.learner.scaler
        learner.model.train()
        learner.optimizer.zero_grad(set_to_none=True)
        figures: Figures = {}
        total = sum(len(batch) for batch in batches)
        for whole in batches:
            batch = self.processes.part(whole).to(learner.device)
            loss, found = self._backward(batch, len(whole) / total)
            figures |= under(batch.head, {"loss": loss, **found})
        gradients = [p.grad for p in learner.parameters if p.grad is not None]
        self.processes.average(gradients)
        scaler.unscale_(learner.optimizer)
        norm = nn.utils.clip_grad_norm_(learner.parameters, self.config.clip)
        if not math.isfinite(norm.item()) and (not scaler.is_enabled() or scaler.get_scale() < LEAST_SCALE):
            return None
        for group in learner.optimizer.param_groups:
            group["lr"] = rate
        scaler.step(learner.optimizer)
        scaler.update()
        return figures | {"gradient_norm": norm, "learning_rate": rate}

    def _backward(self, batch: Batch, share: float) -> tuple[Tensor, Figures]:
        """Add the gradient of `share` of the loss; the loss, and the objectives' figures."""
        if self.config.accumulate > 1:
            return self._backward_in_parts(batch, share)
        with self._draws(batch.head), autocast(self.learner.device, self.config.precision):
            logits, kept = self.learner.model(batch.tokens, batch.head, keep=self.keep)
            loss, figures = total_loss(self.learner.objectives, logits, kept, batch)
        self.learner.scaler.scale(loss * share).backward()
        return loss.detach(), figures

    def _draws(self, head: str, part: int = 0) -> AbstractContextManager[None]:
        """What a pass draws without a generator, as dropout does, depends on where in the run it is, not on its past.

        That is on the run's seed, the step, the head, the part of the batch and the process: a run that was stopped,
        whatever else was drawn since, goes on with the draws it would have had.
        """
        where = (self.learner.step, head, part, self.processes.rank)
        return global_draws(generator(self.config.seed, "dropout", *where).initial_seed(), self.learner.device)

    def _backward_in_parts(self, batch: Batch, share: float) -> tuple[Tensor, Figures]:
        """The same gradient, with the activations of one part in memory at a time, for a second forward pass.

        The first pass keeps only what the objectives read, so that a loss across the batch, as Seq-VCR's is, sees all
        of it; their gradient is then carried back part by part (Gao et al. 2021, "Scaling deep contrastive learning
        batch size under memory limited setup").
        """
        size = -(-len(batch) // self.config.accumulate)
        parts = [batch[start : start + size] for start in range(0, len(batch), size)]
        model, outputs = self.learner.model, []
        for number, part in enumerate(parts):
            with torch.no_grad(), self._draws(part.head, number), autocast(self.learner.device, self.config.precision):
                logits, kept = model(part.tokens, part.head, keep=self.keep)
            outputs.append([logits, *(kept[name] for name in self.keep)])
        read = [torch.cat(pieces).requires_grad_() for pieces in zip(*outputs, strict=True)]
        with self._draws(batch.head, len(parts)), autocast(self.learner.device, self.config.precision):
            kept = dict(zip(self.keep, read[1:], strict=True))
            loss, figures = total_loss(self.learner.objectives, read[0], kept, batch)
        self.learner.scaler.scale(loss * share).backward()
        for number, part in enumerate(parts):  # with the dropout of the first pass
            with self._draws(part.head, number), autocast(self.learner.device, self.config.precision):
                logits, kept = model(part.tokens, part.head, keep=self.keep)
            written = [logits, *(kept[name] for name in self.keep)]
            rows = slice(number * size, number * size + len(part))
            used = [(x, whole.grad[rows]) for x, whole in zip(written, read, strict=True) if whole.grad is not None]
            torch.autograd.backward([x for x, _ in used], [gradient for _, gradient in used])
        return loss.detach(), figures


def autocast(device: torch.device, precision: str) -> AbstractContextManager[None]:
    half = HALF.get(precision)
    return nullcontext() if half is None else torch.autocast(device.type, half)


def needed(objectives: Mapping[str, Objective]) -> tuple[str, ...]:
    """The activations that objectives read, in the order in which a decoder computes them."""
    return tuple(dict.fromkeys(name for objective in objectives.values() for name in objective.needs))


def total_loss(
    objectives: Mapping[str, Objective], logits: Tensor, kept: Mapping[str, Tensor], batch: Batch
) -> tuple[Tensor, Figures]:
    """The sum of the objectives, and what they log."""
    terms = [objective(logits, kept, batch) for objective in objectives.values()]
    figures: Figures = {}
    for _, logged in terms:
        figures.update(logged)
    return torch.stack([term for term, _ in terms]).sum(), figures


def under(head: str, figures: Figures) -> Figures:
    """Figures of a hint's head under its name."""
    return figures if head == "main" else {f"{name}/{head}": figure for name, figure in figures.items()}
