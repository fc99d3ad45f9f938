"""Going on with a stack of seeds that was stopped, as a stack: its rounding depends on how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from workbench import runs
from workbench.runs import Run, RunConfig, load_run
from workbench.training.data import training_batches
from workbench.training.loop import create, train_members
from workbench.training.member import Member
from workbench.training.processes import Processes
from workbench.training.seed_stack import StackedStep
from workbench.training.state import State, forget_states, only_trainer
from workbench.util.files import load_tensors
from workbench.util.messages import brief


def stacked(path: str | Path) -> tuple[int, ...]:
    """The seeds of the stack under a folder that is not finished; none if there is no such stack.

    Raises:
        ValueError: if a file that says so is damaged, or there are several stacks.
    """
    found = {runs.stack_of(folder) for folder in sorted(Path(path).glob("seed-*")) if folder.is_dir()} - {()}
    if len(found) > 1:
        raise ValueError(f"{path} holds {len(found)} stacks that are not finished; resume their runs one by one")
    return next(iter(found), ())


def resume_seeds(path: str | Path, *, progress: bool = True, tensorboard: bool = False) -> list[Run]:
    """Go on training a stack of seeds together, from the last step that all of them have kept.

    On the same device, with the same number of threads, each run ends bit for bit as in a stack never stopped.

    Args:
        path: the folder that `train_seeds` filled.
        progress, tensorboard: as for `train_seeds`.

    Raises:
        ValueError: if there is no such stack, its runs do not belong together, or another process is training one.
        TrainingError: as `train_seeds`.
    """
    path = Path(path)
    seeds = stacked(path)
    if not seeds:
        raise ValueError(f"there is no stack of seeds to go on with in {path}")
    configs = _configs(path, seeds)
    processes = Processes.started(configs[0].device)
    if processes.count > 1:
        raise ValueError("a stack of seeds trains in one process; start it without torchrun")
    members = [Member(config, path / f"seed-{config.seed}", processes, tensorboard) for config in configs]
    with ExitStack() as held:
        for member in members:
            if not (member.path / runs.CONFIG).is_file():  # killed before all were made, and so before the first step
                create(member, seeds)
            if (member.path / runs.STATES).is_dir():
                held.enter_context(only_trainer(member.path))
            member.done = member.opened().finished
            if member.done:
                forget_states(member.path)
        going_on = [member for member in members if not member.done]
        if going_on:
            step, problems = _take_on(going_on)
            for member in members:
                member.learner.step = step
            streams = [training_batches(member.task, member.config, step) for member in members]
            train_members(members, StackedStep(members), zip(*streams, strict=True), progress, problems, resumed=True)
    return [member.opened() for member in members]


def _configs(path: Path, seeds: Sequence[int]) -> list[RunConfig]:
    """Every run's config: those on disk, which must differ in nothing but the seed."""
    folders = {seed: path / f"seed-{seed}" for seed in seeds}
    known = {seed: load_run(folder).config for seed, folder in folders.items() if (folder / runs.CONFIG).is_file()}
    first = next(iter(known.values()))
    configs = [first.model_copy(update={"seed": seed}) for seed in seeds]
    wrong = next((seed for seed, own in zip(seeds, configs, strict=True) if known.get(seed, own) != own), None)
    if wrong is not None:
        raise ValueError(f"{folders[wrong]} is no run of this stack: its config is another; resume its runs one by one")
    return configs


def _take_on(members: Sequence[Member]) -> tuple[int, list[str]]:
    """Restore the last step of which every run has a whole state; 0 if there is none. Also what is wrong with others.

    Raises:
        ValueError: if the runs were kept at different steps, as one is whose loss stopped being finite.
    """
    kept = [{runs.step_of(state): state for state in runs.states(member.path)} for member in members]
    common = sorted(set.intersection(*map(set, kept)), reverse=True)
    if all(kept) and not common:
        at = ", ".join(f"{member.path.name} at {max(own)}" for member, own in zip(members, kept, strict=True))
        raise ValueError(f"these runs have no step in common ({at}): `workbench resume {members[0].path}` and so on")
    problems: list[str] = []
    for step in common:
        try:
            states = [State(own[step], *load_tensors(own[step])) for own in kept]
        except ValueError as error:
            problems.append(brief(error))
            continue
        for member, state in zip(members, states, strict=True):
            runs.check_shapes(member.config, state.path, runs.MODEL)
            member.learner.restore(state)
        return step, problems
    return 0, problems
