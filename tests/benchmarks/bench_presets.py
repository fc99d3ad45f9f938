"""What every preset learns, and how long it takes on one core. An hour in all; not part of `make bench`.

python tests/benchmarks/bench_presets.py            print the table
python tests/benchmarks/bench_presets.py --write    and put it into README.md beside this file
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from pathlib import Path

import torch
from harness import Table, main

import workbench
from workbench.tasks import Batch, Task, correct
from workbench.training import PRESETS

N = 1000
LONGEST = 300  # seconds


def whole_answers(batch: Batch) -> list[tuple[int, ...]]:
    return [tuple(row[mask].tolist()) for row, mask in zip(batch.targets, batch.loss_mask, strict=True)]


def chance(task: Task, batch: Batch) -> float:
    """How often the commonest answer of these sequences is right: the commonest target where positions count.

    Of sets of m classes it is the share of a set that is among the m commonest classes.
    """
    if batch.targets.ndim == 3:
        members = batch.targets[batch.loss_mask].float()
        size = int(members.sum(-1).max())
        return float(members.mean(0).topk(size).values.sum() / size)
    answers = whole_answers(batch)
    parts = answers if task.unit == "sequence" else [(target,) for answer in answers for target in answer]
    return Counter(parts).most_common(1)[0][1] / len(parts)


@torch.no_grad()
def shares(model: workbench.Decoder, task: Task, batch: Batch) -> tuple[float, float]:
    """Right answers as the task counts them, and whole answers that are right."""
    parts = [batch[start : start + 100] for start in range(0, len(batch), 100)]
    right = torch.cat([correct(model(part.tokens), part) for part in parts])
    whole = ((right == 1) | ~batch.loss_mask).all(-1).float().mean().item()
    return whole if task.unit == "sequence" else right[batch.loss_mask].mean().item(), whole


def presets_table() -> Table:
    table = Table(
        "presets", "preset", "seconds of one core", "steps", "counted by", "right", "chance", "whole answers right"
    )
    with tempfile.TemporaryDirectory() as folder:
        for name in PRESETS:
            before = time.process_time()
            run = workbench.train(name, out=Path(folder) / name, progress=False)
            task, seconds = run.task(), time.process_time() - before
            batch = task.sample(N, workbench.generator(0, "presets"), split="test")
            right, whole = shares(run.model(), task, batch)
            guess = chance(task, batch)
            figures = [f"{share:.1%}" for share in (right, guess, whole)]
            table.add(f"`{name}`", f"{seconds:.0f}", run.step(), task.unit, *figures)
            table.ask(f"{name}: seconds", seconds, most=LONGEST)
            least = min(2, 0.9 / guess)  # of two classes, twice the commonest guess would be every answer
            table.ask(f"{name}: right answers, times those of the commonest guess", right / guess, least=least)
    return table


if __name__ == "__main__":
    main(__doc__, presets_table)
