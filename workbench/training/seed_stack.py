"""Seed stacks: one model trained from many seeds in one process and one forward pass, with a run folder for each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from workbench import runs
from workbench.objectives import OBJECTIVES, Objective
from workbench.runs import Run, RunConfig
from workbench.tasks import Batch
from workbench.training.distributed import Processes
from workbench.training.hint_mixing import Batches
from workbench.training.loop import train_together
from workbench.training.optimizer_step import autocast, make_optimizer, total_loss, under
from workbench.training.presets import preset_config
from workbench.training.state import Figures, Learner, only_trainer
from workbench.training.training_run import TrainingRun
from workbench.util.files import check_can_make


def train_seeds(
    config: str | RunConfig | Mapping[str, Any],
    out: str | Path,
    seeds: int | Sequence[int],
    *,
    progress: bool = True,
    track: str | None = None,
    **overrides: Any,
) -> list[Run]:
    """Train one model from many seeds at once, each into a run folder `out/seed-N` of its own.

    The parameters of all models are stacked, and every step is one pass over the stack (`torch.func.vmap`). Each run
    has the batches that `train` draws for its seed and, up to rounding, its weights. An interrupted stack is resumed as
    a whole by `resume_seeds`, or each of its runs by itself by `resume`.

    Args:
        config: as for `train`.
        out: the folder in which the run folders are made.
        seeds: the seeds, or their number, counted from the config's seed.
        progress, track, overrides: as for `train`.

    Raises:
        ValueError: as `train`, or if the runs cannot be stacked; nothing is written then.
        TrainingError: as `train`; the other runs are trained to their ends first.
    """
    config = preset_config(config, overrides)
    seeds = list(range(config.seed, config.seed + seeds)) if isinstance(seeds, int) else list(seeds)
    _check_stackable(config, seeds)
    processes = Processes.alone(config.device)
    configs = [config.model_copy(update={"seed": seed}) for seed in seeds]
    members = [TrainingRun(each, Path(out) / f"seed-{each.seed}", processes, track) for each in configs]
    _check_places(Path(out), members)
    with ExitStack() as locks:
        for member in members:
            member.create(seeds)
            locks.enter_context(only_trainer(member.path))
        train_together(members, StackedStep(members), progress)
    return [member.opened() for member in members]


def _check_places(out: Path, members: Sequence[TrainingRun]) -> None:
    """Raise ValueError if the folder cannot hold run folders, or one of them is taken."""
    if (out / runs.CONFIG).is_file():
        raise ValueError(f"{out} is a run itself; give another --out")
    check_can_make(out / "run")
    for member in members:
        runs.check_place(member.path)


def _check_stackable(config: RunConfig, seeds: Sequence[int]) -> None:
    """Raise ValueError unless runs of these seeds can be trained as a stack."""
    if not seeds:
        reason = "there is no seed; ask for 1 or more"
    elif len(set(seeds)) < len(seeds):
        reason = f"a seed is there twice in {seeds}"
    elif config.model.dropout:
        reason = "dropout draws other numbers for a stack than for a run; set model.dropout to 0"
    elif alone := next((name for name in config.objectives if not OBJECTIVES[name].stackable), None):
        reason = f"the objective {alone} looks at the sequences of each run; train the seeds one by one"
    elif config.optimizer == "muon":
        reason = "muon takes one matrix after the other; train the seeds one by one"
    elif config.accumulate > 1:
        reason = "accumulate saves the memory that a stack takes; set it to 1"
    elif config.compile is not None:
        reason = "a compiled model has no pass over several runs; leave compile out"
    elif config.precision == "float16":
        reason = "float16 scales the loss by a number that each run finds for itself; use bfloat16 or float32"
    else:
        return
    raise ValueError(f"these runs cannot be stacked: {reason}")


CACHED = 1 << 19  # entries of the widest activation in a pass of several runs that still fit a CPU's cache


class _Loss(nn.Module):
    """The loss of a run as a module, so that `functional_call` can compute it with the parameters of any run."""

    def __init__(self, learner: Learner) -> None:
        super().__init__()
        self.model, self.terms = learner.model, nn.ModuleDict(learner.objectives)
        self.keep = learner.needs

    def forward(
        self, head: str, tokens: Tensor, targets: Tensor, loss_mask: Tensor, start: Tensor | None = None
    ) -> Any:
        batch = Batch(tokens, targets, loss_mask, head, start)
        logits, kept = self.model(tokens, head, keep=self.keep, start=start)
        loss, figures = total_loss(cast(Mapping[str, Objective], self.terms), logits, kept, batch)
        return loss, {name: torch.as_tensor(figure, device=loss.device) for name, figure in figures.items()}


class StackedStep:
    """One optimizer step of every run in a stack. The parameters of each run are views of the stack's."""

    def __init__(self, members: Sequence[TrainingRun]) -> None:
        self.config, self.device = members[0].config, members[0].learner.device
        self.learners = [member.learner for member in members]
        losses = [_Loss(learner).train() for learner in self.learners]
        self.loss = losses[0]
        self.parameters = [dict(loss.named_parameters()) for loss in losses]
        self.stack = {
            name: nn.Parameter(torch.stack([of_run[name].detach() for of_run in self.parameters]))
            for name in self.parameters[0]
        }
        for name, parameter in self.stack.items():
            for of_run, view in zip(self.parameters, parameter.data, strict=True):
                of_run[name].data = view
        self.optimizer = make_optimizer(self.config, list(self.stack.values()))
        # The stack's optimizer gets the moments of resumed runs; those of a run that is done are zeros.
        for name, parameter in self.stack.items():
            states = [
                learner.optimizer.state.get(of_run[name])
                for learner, of_run in zip(self.learners, self.parameters, strict=True)
            ]
            first: dict[str, Tensor] = next((state for state in states if state), {})
            for key, value in first.items():
                if key != "step":
                    value = torch.stack([state[key] if state else torch.zeros_like(value) for state in states])
                self.optimizer.state[parameter][key] = value
        self.linked = 0
        self._link()

    def __call__(self, drawn: tuple[Batches, ...], rate: float) -> list[Figures | None]:
        """Make the step; the figures of each run, None where its gradient is not finite (it is then unchanged)."""
        self.optimizer.zero_grad(set_to_none=True)
        figures_of_runs: list[Figures] = [{} for _ in self.learners]
        total = sum(len(batch) for batch in drawn[0])
        for batches in zip(*drawn, strict=True):
            self._backward(batches, len(batches[0]) / total, figures_of_runs)
        norms, broken = self._clip()
        undone = {i: self._undo(i) for i in broken}
        for settings in self.optimizer.param_groups:
            settings["lr"] = rate
        self.optimizer.step()
        self._link()
        for undo in undone.values():
            undo()
        for figures, norm in zip(figures_of_runs, norms, strict=True):
            figures |= {"gradient_norm": norm, "learning_rate": rate}
        return [None if i in undone else figures for i, figures in enumerate(figures_of_runs)]

    def _backward(self, batches: Sequence[Batch], share: float, figures_of_runs: list[Figures]) -> None:
        """Add the gradients of all runs' losses times `share`, and their figures to those of each run."""
        head, losses = batches[0].head, []
        unbound = {name: parameter.unbind() for name, parameter in self.stack.items()}
        for group in self._groups(batches):
            parameters = {name: [of_runs[i] for i in group] for name, of_runs in unbound.items()}
            with autocast(self.device, self.config.precision):
                loss, figures = self._losses(parameters, [batches[i].to(self.device) for i in group], head)
            losses.append(loss)
            for row, i in enumerate(group):
                logged = {"loss": loss, **figures}
                figures_of_runs[i] |= under(head, {name: figure[row].detach() for name, figure in logged.items()})
        (torch.cat(losses).sum() * share).backward()

    def _losses(self, parameters: dict[str, list[Tensor]], batches: Sequence[Batch], head: str) -> Any:
        """The losses `[run]` of a group of runs, and their figures, each `[run]`."""

        def of_one(parameters_of_one: dict[str, Tensor], *batch: Tensor) -> Any:
            return functional_call(self.loss, parameters_of_one, (head, *batch))

        shifted = ("start",) if self.config.shift_positions else ()
        names = ("tokens", "targets", "loss_mask", *shifted)
        if len(batches) == 1:
            alone = {name: tensors[0] for name, tensors in parameters.items()}
            loss, figures = of_one(alone, *(getattr(batches[0], name) for name in names))
            return loss[None], {name: figure[None] for name, figure in figures.items()}
        stacked = {name: torch.stack(tensors) for name, tensors in parameters.items()}
        together = [torch.stack([getattr(batch, name) for batch in batches]) for name in names]
        with sdpa_kernel(SDPBackend.MATH):  # the fused kernels have no vmap rule, and would run model by model
            return vmap(of_one)(stacked, *together)

    def _groups(self, batches: Sequence[Batch]) -> list[list[int]]:
        """The runs of each forward pass: all whose batches are equally wide, on a CPU as many as stay in its cache."""
        width = self.config.model.d_mlp or self.config.model.d_model
        in_cache = max(1, CACHED // (batches[0].tokens.numel() * width))
        most = in_cache if self.device.type == "cpu" else len(batches)
        by_width: dict[int, list[int]] = {}
        for i, batch in enumerate(batches):
            by_width.setdefault(batch.tokens.shape[1], []).append(i)
        return [group[start : start + most] for group in by_width.values() for start in range(0, len(group), most)]

    def _clip(self) -> tuple[Tensor, list[int]]:
        """Clip the gradients of each run by its own norm, and zero those that are not finite.

        Returns the norms, and the runs whose gradient is not finite: the one thing for which the host waits in a step.
        """
        gradients = [p.grad for p in self.stack.values() if p.grad is not None]
        norms = torch.stack([gradient.reshape(len(gradient), -1).norm(dim=1) for gradient in gradients]).norm(dim=0)
        scale = (self.config.clip / (norms + 1e-6)).clamp(max=1.0)
        broken = [i for i, norm in enumerate(norms.tolist()) if not math.isfinite(norm)]
        for gradient in gradients:
            gradient.mul_(scale.view(-1, *[1] * (gradient.ndim - 1)))
            if broken:
                gradient[broken] = 0.0
        return norms, broken

    def _link(self) -> None:
        """Make the moments in each run's optimizer views of the stack's, so that its states on disk hold them."""
        if len(self.optimizer.state) == self.linked:
            return
        self.linked = len(self.optimizer.state)
        for name, parameter in self.stack.items():
            state = self.optimizer.state.get(parameter, {})
            for i, (learner, of_run) in enumerate(zip(self.learners, self.parameters, strict=True)):
                learner.optimizer.state[of_run[name]] = {
                    key: value if key == "step" else value[i] for key, value in state.items()
                }

    def _undo(self, i: int) -> Callable[[], None]:
        """A function that restores one run to what it is now: its parameters, moments and count of steps."""
        states = list(self.learners[i].optimizer.state.values())
        tensors = [p.data for p in self.parameters[i].values()] + [
            x for state in states for key, x in state.items() if key != "step"
        ]
        before, counts = [tensor.clone() for tensor in tensors], [state["step"].clone() for state in states]

        def undo() -> None:
            for tensor, value in zip(tensors, before, strict=True):
                tensor.copy_(value)
            for state, count in zip(states, counts, strict=True):
                state["step"] = count

        return undo
