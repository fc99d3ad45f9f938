"""One optimizer step: forward, objectives, backward, averaging over processes, clipping, update; and what updates."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Muon, Optimizer

from workbench.objectives import Objective
from workbench.runs import RunConfig
from workbench.tasks import Batch
from workbench.training.checkpoints import keeps_checkpoint
from workbench.training.distributed import Processes
from workbench.training.state import Figures, Learner
from workbench.util.seeds import generator, global_draws

if TYPE_CHECKING:
    from workbench.training.finetune_config import FinetuneConfig

HALF = {"bfloat16": torch.bfloat16, "float16": torch.float16}
LEAST_SCALE = 2.0**-10  # of float16's loss scaling: below it, the loss itself overflows, not only its gradient
ONE_CYCLE_WARM, ONE_CYCLE_START, ONE_CYCLE_END = 0.3, 1 / 25, 1e-4 / 25  # as PyTorch's OneCycleLR


class OptimizerStep(ABC):
    """A learner's optimizer step: batches in, figures out.

    On the CPU it is known at once whether the gradient is finite. On a GPU the host would have to wait for it at every
    step: there the device itself makes no update from the first gradient on that is not finite, and the host asks for
    it where something is logged, evaluated, kept or saved; the learner then goes back to before that step.

    Attributes:
        waits: whether the host asks at every step.
    """

    def __init__(self, config: Any, learner: Learner, processes: Processes) -> None:
        self.config, self.learner, self.processes = config, learner, processes
        self.waits = learner.device.type == "cpu" or learner.scaler.is_enabled()

    @abstractmethod
    def backward(self, batch: Batch, share: float) -> tuple[Tensor, Figures]:
        """Add the gradient of the loss times `share`; returns the loss and the figures of the objectives."""

    def asked(self, step: int) -> bool:
        """Whether something is logged, evaluated or saved after a step."""
        periods = (self.config.log_every, self.config.eval_every, self.config.save_every)
        return step in (1, self.config.steps) or not all(step % period for period in periods)

    def __call__(self, batches: Sequence[Batch], rate: float) -> Figures | None:
        """Make the step, unless its gradient is not finite.

        Args:
            batches: a batch for each head that takes part; each weighs by its number of sequences.
            rate: the learning rate.

        Returns:
            The figures to log: `loss` and those of the objectives, of a hint under `loss/HINT` and so on. None if the
            gradient is not finite, or that of an earlier step that was not asked for; the weights are then those of
            before that step, and so is the learner's count of steps.
        """
        learner, scaler = self.learner, self.learner.scaler
        learner.model.train()
        learner.optimizer.zero_grad(set_to_none=True)
        figures: Figures = {}
        total = sum(len(batch) for batch in batches)
        for whole in batches:
            batch = self.processes.part(whole).to(learner.device)
            loss, logged = self.backward(batch, len(whole) / total)
            figures |= under(batch.head, {"loss": loss, **logged})
        gradients = [p.grad for p in learner.parameters if p.grad is not None]
        self.processes.average(gradients)
        scaler.unscale_(learner.optimizer)
        norm = nn.utils.clip_grad_norm_(learner.parameters, self.config.clip)
        if not self._finite(norm) and (not scaler.is_enabled() or scaler.get_scale() < LEAST_SCALE):
            return None
        for group in learner.optimizer.param_groups:
            group["lr"] = rate * group.get("times", 1.0)
        scaler.step(learner.optimizer)
        scaler.update()
        return figures | {"gradient_norm": norm, "learning_rate": rate}

    def _finite(self, norm: Tensor) -> bool:
        """Whether the gradient is finite; true where that is not asked for yet, and the device minds it."""
        learner = self.learner
        if self.waits:
            return math.isfinite(norm.item())
        learner.unseen.append((learner.step, learner.tokens, dict(learner.figures)))
        before = torch.zeros_like(norm, dtype=torch.long) if learner.n_finite is None else learner.n_finite
        learner.n_finite = before + (norm.isfinite() & (before == len(learner.unseen) - 1))
        # What is not 0 keeps the fused optimizer from its update: PyTorch's loss scaling uses the same attribute.
        learner.optimizer.found_inf = (learner.n_finite < len(learner.unseen)).float()  # type: ignore[attr-defined]
        return learner.look() if self.asked(learner.step + 1) else True


class Step(OptimizerStep):
    """The optimizer step of a run that trains by itself."""

    config: RunConfig

    def __init__(self, config: RunConfig, learner: Learner, processes: Processes) -> None:
        super().__init__(config, learner, processes)
        self.keep = learner.needs
        self.model: Any = learner.model if config.compile is None else torch.compile(learner.model, mode=config.compile)
        # Muon minds no gradient by itself, and an average would take in the same weights again.
        self.waits |= config.optimizer != "adamw" or config.average > 0

    def asked(self, step: int) -> bool:
        return super().asked(step) or keeps_checkpoint(self.config, step)

    def backward(self, batch: Batch, share: float) -> tuple[Tensor, Figures]:
        if self.config.accumulate > 1:
            return self._backward_in_parts(batch, share)
        with self._draws(batch.head), autocast(self.learner.device, self.config.precision):
            logits, kept = self.model(batch.tokens, batch.head, keep=self.keep, start=batch.start)
            loss, figures = total_loss(self.learner.objectives, logits, kept, batch)
        self.learner.scaler.scale(loss * share).backward()
        return loss.detach(), figures

    def _draws(self, head: str, part: int = 0) -> AbstractContextManager[None]:
        """Seed what a forward pass draws from PyTorch's global generators, as dropout does.

        The seed depends on the run's seed, the step, the head, the part of the batch and the process, not on earlier
        draws: a run that was stopped and resumed draws what it would have drawn.
        """
        position = (self.learner.step, head, part, self.processes.rank)
        return global_draws(generator(self.config.seed, "dropout", *position).initial_seed(), self.learner.device)

    def _backward_in_parts(self, batch: Batch, share: float) -> tuple[Tensor, Figures]:
        """The same gradient with the activations of only one part in memory, at the cost of a second forward pass.

        The first pass keeps only what the objectives read, so that a loss across the batch, such as Seq-VCR, sees all
        of it; its gradient is then carried back part by part (Gao et al. 2021, "Scaling deep contrastive learning
        batch size under memory limited setup").
        """
        size = -(-len(batch) // self.config.accumulate)
        parts = [batch[start : start + size] for start in range(0, len(batch), size)]
        model, outputs = self.model, []
        # First pass: what the objectives read, without a graph.
        for number, part in enumerate(parts):
            with torch.no_grad(), self._draws(part.head, number), autocast(self.learner.device, self.config.precision):
                logits, kept = model(part.tokens, part.head, keep=self.keep, start=part.start)
            outputs.append([logits, *(kept[name] for name in self.keep)])
        # The loss of the whole batch, and its gradient with respect to what was read.
        read = [torch.cat(pieces).requires_grad_() for pieces in zip(*outputs, strict=True)]
        with self._draws(batch.head, len(parts)), autocast(self.learner.device, self.config.precision):
            kept = dict(zip(self.keep, read[1:], strict=True))
            loss, figures = total_loss(self.learner.objectives, read[0], kept, batch)
        self.learner.scaler.scale(loss * share).backward()
        # Second pass, with the dropout of the first: each part carries its rows of that gradient back.
        for number, part in enumerate(parts):
            with self._draws(part.head, number), autocast(self.learner.device, self.config.precision):
                logits, kept = model(part.tokens, part.head, keep=self.keep, start=part.start)
            written = [logits, *(kept[name] for name in self.keep)]
            rows = slice(number * size, number * size + len(part))
            used = [(x, whole.grad[rows]) for x, whole in zip(written, read, strict=True) if whole.grad is not None]
            torch.autograd.backward([x for x, _ in used], [gradient for _, gradient in used])
        return loss.detach(), figures


def autocast(device: torch.device, precision: str) -> AbstractContextManager[None]:
    """PyTorch's autocast for the half precisions; for the others, a context that does nothing."""
    half = HALF.get(precision)
    return nullcontext() if half is None else torch.autocast(device.type, half)


def total_loss(
    objectives: Mapping[str, Objective], logits: Tensor, kept: Mapping[str, Tensor], batch: Batch
) -> tuple[Tensor, Figures]:
    """The sum of the objectives' losses, and the figures that they log."""
    terms = [objective(logits, kept, batch) for objective in objectives.values()]
    figures: Figures = {}
    for _, logged in terms:
        figures.update(logged)
    return torch.stack([term for term, _ in terms]).sum(), figures


def under(head: str, figures: Figures) -> Figures:
    """The figures under the names they are logged by: those of a hint's head as `NAME/HINT`."""
    return figures if head == "main" else {f"{name}/{head}": figure for name, figure in figures.items()}


def make_optimizer(config: RunConfig, parameters: Sequence[Tensor], matrices: Sequence[Tensor] = ()) -> Optimizer:
    """AdamW, in its fused form: one kernel for all parameters; and Muon for those that are listed as matrices too.

    Muon (Jordan and others 2024) orthogonalises the step of each matrix. Its steps are scaled to be as large as AdamW's
    (`match_rms_adamw`: Liu and others 2025, arXiv 2502.16982, Eq. 4), so that one learning rate serves both.
    """
    of_both: dict[str, Any] = {"lr": learning_rate(config, 0), "weight_decay": config.weight_decay}
    by_muon = set(map(id, matrices))
    rest = [parameter for parameter in parameters if id(parameter) not in by_muon]
    adamw = AdamW(rest, betas=(0.9, config.beta2), fused=True, **of_both)
    return _Together(adamw, Muon(matrices, adjust_lr_fn="match_rms_adamw", **of_both)) if matrices else adamw


class _Together(Optimizer):
    """Several optimizers, of a group of parameters each, as one: with one list of groups and one state."""

    def __init__(self, *parts: Optimizer) -> None:
        self.parts = parts
        super().__init__([group for part in parts for group in part.param_groups], {})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Make the step. There is no closure to call again."""
        for part, group in zip(self.parts, self.param_groups, strict=True):
            part.state, part.param_groups = self.state, [group]  # loading a state has put others in their place
            part.step()


def learning_rate(config: RunConfig | FinetuneConfig, step: int) -> float:
    """The learning rate of the step that follows `step` finished ones.

    `cosine` and `constant` first rise linearly over `warmup` steps; then the one falls to 0 along half a cosine, the
    other stays. `onecycle` is PyTorch's OneCycleLR.
    """
    if config.schedule == "onecycle":  # half a cosine up, then half a cosine down
        peak = max(ONE_CYCLE_WARM * (config.steps + 1) - 1, 0.0)
        if step <= peak and peak > 0:
            start, end, progress = ONE_CYCLE_START, 1.0, step / peak
        else:
            start, end, progress = 1.0, ONE_CYCLE_END, (step - peak) / max(config.steps - peak, 1)
        return config.learning_rate * (end + (start - end) / 2 * (1 + math.cos(math.pi * progress)))
    warm = min(1.0, (step + 1) / (config.warmup + 1))
    if config.schedule == "constant" or step < config.warmup:
        return config.learning_rate * warm
    progress = (step - config.warmup) / max(1, config.steps - config.warmup)
    return config.learning_rate * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
