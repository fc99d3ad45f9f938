"""Single held-out inputs to look at: any, or those that a model finds hard."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from workbench.models import AnyModel
from workbench.objectives.next_token import next_token
from workbench.tasks import Batch, Task, correct, counted, once_each
from workbench.util.lookup import lookup
from workbench.util.seeds import generator

SEARCHED = 256  # inputs among which the next wrong answer is looked for
POOL = 64  # inputs drawn, among the distinct ones of which the hard ones are looked for

WHICH = {
    "any": "any input",
    "wrong": "only with a wrong answer",
    "hardest": "hardest first, by the loss",
    "easiest": "easiest first, by the loss",
}
"""A choice of inputs -> its words."""


@torch.no_grad()
def next_wrong(model: AnyModel, task: Task, number: int, *, step: int = 1, **condition: Any) -> int | None:
    """The number of the next input with a wrong answer, of those that `example` gives under `any`.

    Args:
        model, task, condition: as for `example`.
        number: where to begin; this one itself is passed over.
        step: 1 to look forward, -1 to look back.

    Returns None if none of the next `SEARCHED` has one.
    """
    numbers = [n for n in (number + step * i for i in range(1, SEARCHED + 1)) if n >= 0]
    for start in range(0, len(numbers), POOL):
        some = numbers[start : start + POOL]
        batch = Batch.cat([example(model, task, n, **condition) for n in some], task.pad)
        wrong = _wrong(model.eval()(batch.tokens), task, batch)
        if wrong.any():
            return some[int(wrong.nonzero()[0])]
    return None


@torch.no_grad()
def example(model: AnyModel, task: Task, number: int = 0, *, which: str = "any", **condition: Any) -> Batch:
    """One held-out input of a task, the same for the same arguments.

    Args:
        model: whose answers decide which inputs are wrong or hard.
        task: what to sample.
        number: which one, from 0. Among `any`, it is the seed; otherwise a place in the order among 64 inputs, of which
            those that were drawn twice count once.
        which: `any`; `wrong`, those with a wrong answer, the largest loss first; `hardest`, `easiest`.
        condition: narrows the draw, as for `task.sample`.

    Raises:
        ValueError: if there is no such choice or condition, or are fewer such inputs.
    """
    lookup(WHICH, which, "choice of inputs")
    if number < 0:
        raise ValueError(f"inputs are numbered from 0, not {number}")
    if which == "any":
        return task.sample(1, generator(number, "example"), split="test", **condition)
    pool = once_each(task, task.sample(POOL, generator(0, "examples"), split="test", **condition))
    logits = model.eval()(pool.tokens)
    losses = [
        next_token(logits[i : i + 1], pool[i : i + 1]) if pool.loss_mask[i].any() else torch.zeros(())
        for i in range(len(pool))
    ]
    order = torch.stack(losses).argsort(descending=which != "easiest", stable=True)
    if which == "wrong":
        order = order[_wrong(logits, task, pool)[order]]
    if number >= len(order):
        inputs = f"{POOL} inputs" + (f" ({counted(POOL, len(pool))})" if len(pool) < POOL else "")
        raise ValueError(
            f"of {inputs} {len(order) or 'none'} {'has' if len(order) == 1 else 'have'} a wrong answer"
            + (f"; their numbers are 0 to {len(order) - 1}" if len(order) else ", so there is no failure to show")
            if which == "wrong"
            else f"these inputs are numbered 0 to {len(order) - 1}, not {number}"
        )
    chosen = int(order[number])
    return task.trimmed(pool[chosen : chosen + 1])  # without the padding of longer inputs


def _wrong(logits: Tensor, task: Task, batch: Batch) -> Bool[Tensor, " batch"]:
    """Which inputs have a wrong answer; an error in a chain of thought, which is given, is none of the answer."""
    answers = task.answer_alone(batch)
    return ((correct(logits, answers) < 1) & answers.loss_mask).any(-1)
