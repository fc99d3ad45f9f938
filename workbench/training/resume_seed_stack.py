"""Resuming a seed stack as a whole: rounding depends on how many runs are stacked, so the bits need all of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from workbench import runs
from workbench.runs import Run, RunConfig, load_run
from workbench.training.distributed import Processes
from workbench.training.loop import train_together
from workbench.training.seed_stack import StackedStep
from workbench.training.state import State, forget_states, only_trainer
from workbench.training.training_run import TrainingRun
from workbench.util.files import load_tensors, read_object
from workbench.util.messages import brief, in_one_line


def stacked(path: str | Path) -> tuple[int, ...]:
    """The seeds of the unfinished stack in a folder; empty if there is none.

    Raises:
        ValueError: if a stack's file is damaged, or there are several stacks.
    """
    stacks = {_stack_of(folder) for folder in sorted(Path(path).glob("seed-*")) if folder.is_dir()} - {()}
    if len(stacks) > 1:
        raise ValueError(f"{path} holds {len(stacks)} stacks that are not finished; resume their runs one by one")
    return next(iter(stacks), ())


@in_one_line()
def _stack_of(path: Path) -> tuple[int, ...]:
    """The seeds of the stack that an unfinished run is trained in, its own included; empty if it is trained alone.

    Raises:
        ValueError: if the file that says so is damaged.
    """
    file = path / runs.STATES / runs.STACK
    if not file.exists():
        return ()
    try:
        seeds = read_object(file, runs.LONGEST_CONFIG)["seeds"]
        if not (all(type(seed) is int for seed in seeds) and len(set(seeds)) == len(seeds)):
            raise TypeError
    except (KeyError, TypeError):
        raise ValueError(f"{file} is corrupted: it does not list seeds") from None
    return tuple(seeds)


def resume_seeds(path: str | Path, *, progress: bool = True, track: str | None = None) -> list[Run]:
    """Go on training a stack of seeds together, from the last step of which all of them have a state.

    On the same device, with the same number of threads, each run ends bit for bit as in a stack that never stopped.

    Args:
        path: the folder that `train_seeds` filled.
        progress, track: as for `train_seeds`.

    Raises:
        ValueError: if there is no such stack, its runs do not belong together, or another process is training one.
        TrainingError: as `train_seeds`.
    """
    path = Path(path)
    seeds = stacked(path)
    if not seeds:
        raise ValueError(f"there is no stack of seeds to go on with in {path}")
    configs = _configs(path, seeds)
    processes = Processes.alone(configs[0].device)
    members = [TrainingRun(config, path / f"seed-{config.seed}", processes, track) for config in configs]
    with ExitStack() as locks:
        for member in members:
            if not (member.path / runs.CONFIG).is_file():  # a kill before the first step left it unmade
                member.create(seeds)
            if (member.path / runs.STATES).is_dir():
                locks.enter_context(only_trainer(member.path))
            member.done = member.opened().finished
            if member.done:
                forget_states(member.path)
        unfinished = [member for member in members if not member.done]
        if unfinished:
            step, problems = _restore(unfinished)
            for member in members:
                member.learner.step = step
            train_together(members, StackedStep(members), progress, problems, resumed=True)
    return [member.opened() for member in members]


def _configs(path: Path, seeds: Sequence[int]) -> list[RunConfig]:
    """The config of each run of the stack. Raises ValueError if those on disk differ in more than the seed."""
    folders = {seed: path / f"seed-{seed}" for seed in seeds}
    known = {seed: load_run(folder).config for seed, folder in folders.items() if (folder / runs.CONFIG).is_file()}
    first = next(iter(known.values()))
    configs = [first.model_copy(update={"seed": seed}) for seed in seeds]
    for seed, config in zip(seeds, configs, strict=True):
        if known.get(seed, config) != config:
            raise ValueError(
                f"{folders[seed]} is no run of this stack: its config is another; resume its runs one by one"
            )
    return configs


def _restore(members: Sequence[TrainingRun]) -> tuple[int, list[str]]:
    """Restore every run to the last step of which all have an undamaged state.

    Returns:
        The step, 0 if there is none; and a line for each later step with a damaged state.

    Raises:
        ValueError: if the runs have states, but of different steps, as after a loss that stopped being finite.
    """
    kept = [{runs.step_of(state): state for state in runs.states(member.path)} for member in members]
    common = sorted(set.intersection(*map(set, kept)), reverse=True)
    if all(kept) and not common:
        at = ", ".join(f"{member.path.name} at {max(steps)}" for member, steps in zip(members, kept, strict=True))
        raise ValueError(f"these runs have no step in common ({at}): `workbench resume {members[0].path}` and so on")
    problems: list[str] = []
    for step in common:
        try:
            states = [State(paths[step], *load_tensors(paths[step])) for paths in kept]
        except ValueError as error:
            problems.append(brief(error))
            continue
        for member, state in zip(members, states, strict=True):
            runs.check_shapes(member.config, state.path, runs.MODEL)
            member.learner.restore(state)
        return step, problems
    return 0, problems
