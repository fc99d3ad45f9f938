"""Many seeds of one model as a stack: one process and one forward pass for all, a run folder for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from workbench import runs
from workbench.objectives import Objective
from workbench.runs import Run, RunConfig
from workbench.tasks import Batch
from workbench.training.data import Batches, training_batches
from workbench.training.loop import create, train_members
from workbench.training.member import Member, make_optimizer
from workbench.training.presets import preset_config
from workbench.training.processes import Processes
from workbench.training.state import Figures, Learner, only_trainer
from workbench.training.step import autocast, needed, total_loss, under


def train_seeds(
    config: str | RunConfig | Mapping[str, Any],
    out: str | Path,
    seeds: int | Sequence[int],
    *,
    progress: bool = True,
    tensorboard: bool = False,
    **overrides: Any,
) -> list[Run]:
    """Train one model from many seeds at once, each into a run folder `out/seed-N` of its own.

    The models' parameters lie one on another and every step is one pass over all of them (`torch.func.vmap`): each run
    is, up to rounding, what `train` makes of its seed, and has the same batches. One that is interrupted is finished
    by `resume`, by itself.

    Args:
        config: as for `train`.
        out: the folder that gets the run folders.
        seeds: which, or how many, from the config's own seed on.
        progress, tensorboard, overrides: as for `train`.

    Raises:
        ValueError: as `train`, or if the runs cannot be stacked; nothing is written then.
        TrainingError: as `train`; the other runs are trained to their ends first.
    """
    config = preset_config(config, overrides)
    wanted = list(range(config.seed, config.seed + seeds)) if isinstance(seeds, int) else list(seeds)
    why_not = _why_not(config, wanted)
    if why_not is not None:
        raise ValueError(f"these runs cannot be stacked: {why_not}")
    processes = Processes.started(config.device)
    if processes.count > 1:
        raise ValueError("a stack of seeds trains in one process; start it without torchrun")
    configs = [config.model_copy(update={"seed": seed}) for seed in wanted]
    members = [Member(one, Path(out) / f"seed-{one.seed}", processes, tensorboard) for one in configs]
    runs.check_no_run(Path(out))
    for member in members:
        runs.check_place(member.path)
    with ExitStack() as held:
        for member in members:
            create(member, wanted)
            held.enter_context(only_trainer(member.path))
        streams = [training_batches(member.task, member.config) for member in members]
        train_members(members, StackedStep(members), zip(*streams, strict=True), progress)
    return [member.opened() for member in members]


def _why_not(config: RunConfig, seeds: Sequence[int]) -> str | None:
    if not seeds:
        return "there is no seed; ask for 1 or more"
    if len(set(seeds)) < len(seeds):
        return f"a seed is there twice in {seeds}"
    if config.model.dropout:
        return "dropout draws other numbers for a stack than for a run; set model.dropout to 0"
    if config.accumulate > 1:
        return "accumulate saves the memory that a stack takes; set it to 1"
    if config.precision == "float16":
        return "float16 scales the loss by a number that each run finds for itself; use bfloat16 or float32"
    return None


CACHED = 1 << 19  # numbers of the widest activation that one pass of several runs may have on a CPU


class _Loss(nn.Module):
    """The loss of one run as a module, so that `functional_call` can put any run's parameters in."""

    def __init__(self, learner: Learner) -> None:
        super().__init__()
        self.model, self.terms = learner.model, nn.ModuleDict(learner.objectives)
        self.keep = needed(learner.objectives)

    def forward(self, tokens: Tensor, targets: Tensor, loss_mask: Tensor, head: str) -> Any:
        batch = Batch(tokens, targets, loss_mask, head)
        logits, kept = self.model(tokens, head, keep=self.keep)
        loss, figures = total_loss(cast(Mapping[str, Objective], self.terms), logits, kept, batch)
        return loss, {name: torch.as_tensor(figure, device=loss.device) for name, figure in figures.items()}


class StackedStep:
    """One optimizer step of every run in a stack. The runs' own parameters are views of the stack's."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.config, self.device = members[0].config, members[0].learner.device
        self.learners = [member.learner for member in members]
        wholes = [_Loss(learner).train() for learner in self.learners]
        self.loss = wholes[0]
        parts = [dict(whole.named_parameters()) for whole in wholes]
        self.stack = {name: nn.Parameter(torch.stack([own[name].detach() for own in parts])) for name in parts[0]}
        for name, parameter in self.stack.items():
            for own, view in zip(parts, parameter.data, strict=True):
                own[name].data = view
        self.own = parts
        self.optimizer = make_optimizer(self.config, list(self.stack.values()))
        self.linked = 0
        self._take_on()

    def _take_on(self) -> None:
        """Let the stack go on from the runs' moments, where they have any; a run that is over needs none."""
        for name, parameter in self.stack.items():
            states = [
                learner.optimizer.state.get(own[name]) for learner, own in zip(self.learners, self.own, strict=True)
            ]
            known: dict[str, Tensor] = next((state for state in states if state), {})
            for key, value in known.items():
                if key != "step":
                    value = torch.stack([state[key] if state else torch.zeros_like(value) for state in states])
                self.optimizer.state[parameter][key] = value
        self._link()

    def __call__(self, drawn: tuple[Batches, ...], rate: float) -> list[Figures | None]:
        self.optimizer.zero_grad(set_to_none=True)
        found: list[Figures] = [{} for _ in self.learners]
        total = sum(len(batch) for batch in drawn[0])
        for batches in zip(*drawn, strict=True):
            self._backward(batches, len(batches[0]) / total, found)
        norms = self._clip()
        broken = [i for i, norm in enumerate(norms.tolist()) if norm != norm or norm == float("inf")]
        undone = {i: self._undo(i) for i in broken}
        for settings in self.optimizer.param_groups:
            settings["lr"] = rate
        self.optimizer.step()
        self._link()
        for undo in undone.values():
            undo()
        for figures, norm in zip(found, norms, strict=True):
            figures |= {"gradient_norm": norm, "learning_rate": rate}
        return [None if i in undone else figures for i, figures in enumerate(found)]

    def _backward(self, batches: Sequence[Batch], share: float, found: list[Figures]) -> None:
        """Add the gradients of all runs; what their losses were goes into `found`."""
        head, losses = batches[0].head, []
        own = {name: parameter.unbind() for name, parameter in self.stack.items()}
        for group in _groups(batches, self._at_once(batches)):
            parameters = {name: [each[i] for i in group] for name, each in own.items()}
            with autocast(self.device, self.config.precision):
                loss, figures = self._losses(parameters, [batches[i].to(self.device) for i in group], head)
            losses.append(loss)
            for row, i in enumerate(group):
                logged = {"loss": loss, **figures}
                found[i] |= under(head, {name: figure[row].detach() for name, figure in logged.items()})
        (torch.cat(losses).sum() * share).backward()

    def _losses(self, parameters: dict[str, list[Tensor]], batches: Sequence[Batch], head: str) -> Any:
        """The loss of each run of a group, and its figures, `[run]`."""

        def of_one(own: dict[str, Tensor], *batch: Tensor) -> Any:
            return functional_call(self.loss, own, (*batch, head))

        names = ("tokens", "targets", "loss_mask")
        if len(batches) == 1:
            alone = {name: tensors[0] for name, tensors in parameters.items()}
            loss, figures = of_one(alone, *(getattr(batches[0], name) for name in names))
            return loss[None], {name: figure[None] for name, figure in figures.items()}
        stacked = {name: torch.stack(tensors) for name, tensors in parameters.items()}
        together = [torch.stack([getattr(batch, name) for batch in batches]) for name in names]
        with sdpa_kernel(SDPBackend.MATH):  # the fused kernels have no rule for vmap: they would run model by model
            return vmap(of_one)(stacked, *together)

    def _at_once(self, batches: Sequence[Batch]) -> int:
        """How many runs to pass through at once: all on a GPU; on a CPU what stays in its cache."""
        if self.device.type != "cpu":
            return len(batches)
        assert self.config.model.d_mlp is not None
        return max(1, CACHED // (batches[0].tokens.numel() * self.config.model.d_mlp))

    def _clip(self) -> Tensor:
        """Every run's gradient norm; the gradients, clipped run by run, are 0 where the norm is not finite."""
        gradients = [p.grad for p in self.stack.values() if p.grad is not None]
        norms = torch.stack([gradient.reshape(len(gradient), -1).norm(dim=1) for gradient in gradients]).norm(dim=0)
        scale = (self.config.clip / (norms + 1e-6)).clamp(max=1.0)
        whole = bool(norms.isfinite().all())
        for gradient in gradients:
            gradient.mul_(scale.view(-1, *[1] * (gradient.ndim - 1)))
            if not whole:
                gradient[~norms.isfinite()] = 0.0
        return norms

    def _link(self) -> None:
        """Let every run's own optimizer hold its part of the moments, for its states on disk."""
        if len(self.optimizer.state) == self.linked:
            return
        self.linked = len(self.optimizer.state)
        for name, parameter in self.stack.items():
            state = self.optimizer.state.get(parameter, {})
            for i, (learner, own) in enumerate(zip(self.learners, self.own, strict=True)):
                learner.optimizer.state[own[name]] = {
                    key: value if key == "step" else value[i] for key, value in state.items()
                }

    def _undo(self, i: int) -> Callable[[], None]:
        """What puts one run back to where it is now; its count of steps is then its own, not the stack's."""
        states = list(self.learners[i].optimizer.state.values())
        tensors = [p.data for p in self.own[i].values()] + [
            x for state in states for key, x in state.items() if key != "step"
        ]
        before, counts = [tensor.clone() for tensor in tensors], [state["step"].clone() for state in states]

        def undo() -> None:
            for tensor, value in zip(tensors, before, strict=True):
                tensor.copy_(value)
            for state, count in zip(states, counts, strict=True):
                state["step"] = count

        return undo


def _groups(batches: Sequence[Batch], most: int) -> list[list[int]]:
    """The runs in groups of at most so many, whose batches are equally wide, so that nothing has to be padded."""
    by_width: dict[int, list[int]] = {}
    for i, batch in enumerate(batches):
        by_width.setdefault(batch.tokens.shape[1], []).append(i)
    return [same[start : start + most] for same in by_width.values() for start in range(0, len(same), most)]
