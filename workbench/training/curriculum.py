"""A curriculum: easier settings of the task to begin with, each waiting until the model is right often enough in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from workbench.runs import RunConfig
from workbench.tasks import Batch, Task
from workbench.training.hint_mixing import Batches, sizes_of_steps
from workbench.util.seeds import generator

RIGHT = "accuracy/curriculum"  # of an evaluation's figures: right answers in what the curriculum is at
DRAWN_AHEAD = 16  # steps


def curriculum_batches(
    task: Task,
    config: RunConfig,
    first: int,
    passed: Callable[[], int],
    draw: Callable[[Task, int, tuple[int, dict[str, int]]], Batches],
) -> Iterator[Batches]:
    """Fresh batches of the task that the curriculum is at, drawn several at a time, up to the next evaluation.

    Args:
        task, config: the run's.
        first: the step to begin with.
        passed: how many steps of its curriculum the run has passed by now, which changes at evaluations alone.
        draw: the batches of one step of a task, from the config's seed, the step's number and its sizes.
    """
    tasks, steps = (*config.curriculum_tasks(), task), sizes_of_steps(config, first)
    while first < config.steps:
        several = min(DRAWN_AHEAD, config.eval_every - first % config.eval_every, config.steps - first)
        now = tasks[min(passed(), len(tasks) - 1)]
        yield from [draw(now, config.seed, of_step) for of_step in islice(steps, several)]
        first += several


def curriculum_held_out(config: RunConfig) -> list[Batch]:
    """Held-out sequences of each step of the curriculum."""
    return [
        easier.sample(config.eval_size, generator(config.seed, "evaluation", "curriculum", number), split="test")
        for number, easier in enumerate(config.curriculum_tasks())
    ]


def passes(config: RunConfig, passed: int, figures: Mapping[str, float]) -> bool:
    """Whether an evaluation with these figures ends the step that the curriculum is at, after so many."""
    return passed < len(config.curriculum) and figures[RIGHT] >= config.curriculum_at
