"""How long a training step of each group takes beside one of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

import torch

from workbench.runs import RunConfig
from workbench.training.data import training_batches
from workbench.training.distributed import Processes
from workbench.training.optimizer_step import Step
from workbench.training.training_run import make_learner

ROUNDS, WARM_UP = 15, 3


def relative_step_times(configs: Mapping[str, RunConfig], beside: str) -> dict[str, float]:
    """Group -> the seconds of its training step over those of the group `beside`: the median over rounds.

    The groups take turns, a step each, so that what slows the machine slows them all. The batch is drawn beforehand.

    Args:
        configs: group -> the config of one of its runs.
        beside: the group that counts as 1.
    """
    steps = {group: _step(config) for group, config in configs.items()}
    rounds: list[dict[str, float]] = []
    for _ in range(WARM_UP + ROUNDS):
        seconds = {}
        for group, step in steps.items():
            start = time.perf_counter()
            step()
            seconds[group] = time.perf_counter() - start
        rounds.append(seconds)
    return {group: statistics.median(one[group] / one[beside] for one in rounds[WARM_UP:]) for group in steps}


def _step(config: RunConfig) -> Callable[[], object]:
    processes = Processes.started(config.device)
    task = config.make_task()
    step = Step(config, make_learner(config, task, processes.device), processes)
    wait = torch.cuda.synchronize if processes.device.type == "cuda" else lambda: None
    batches = next(iter(training_batches(task, config.model_copy(update={"workers": 0}))))

    def to_the_end() -> None:
        step(batches, config.learning_rate)
        wait()

    return to_the_end
