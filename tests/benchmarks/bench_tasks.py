"""How fast each task is drawn on one core, beside a training step of its paper's model at its paper's batch size.

python tests/benchmarks/bench_tasks.py            print the table
python tests/benchmarks/bench_tasks.py --write    and put it into README.md beside this file
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import Table, main, rounds

from workbench import tasks
from workbench.models import Decoder, DecoderConfig
from workbench.objectives import OBJECTIVES
from workbench.tasks import Task
from workbench.util.seeds import generator

SMALL = {"d_model": 512, "n_heads": 8}
HINTING = {"d_model": 1024, "n_heads": 16, "d_mlp": 2048, "positions": "none"}
MINGPT = {"n_layers": 4, "d_model": 256, "n_heads": 4}
GPT2 = {"n_layers": 12, "d_model": 768, "n_heads": 12}


@dataclass(frozen=True)
class Case:
    """A task with its paper's settings, batch size and (smallest) model."""

    task: str
    settings: dict[str, Any]
    batch: int
    model: dict[str, Any]
    micro: int  # sequences in the step that is timed; the whole batch would take minutes on one core


CASES = [
    Case("pointer_chain", {"n": 128, "k": 8}, 128, {"n_layers": 1, **SMALL}, 32),
    Case("boxes", {"style": "default"}, 256, {"n_layers": 2, **SMALL}, 8),
    Case("boxes", {"style": "advanced"}, 256, {"n_layers": 2, **SMALL}, 8),
    Case("sorting", {"q": 100, "max_length": 20, "skew": "paper"}, 1024, {"n_layers": 2, **HINTING}, 64),
    Case("increment", {}, 1024, {"n_layers": 4, **HINTING}, 64),
    Case("multiplication", {"digits": 5, "mode": "chain_of_thought"}, 32, GPT2, 8),
    Case("arithmetic", {"operators": 6}, 128, MINGPT, 64),
    Case("arithmetic", {"operators": 6, "mode": "chain_of_thought"}, 128, MINGPT, 32),
    Case("lis", {"length": 100}, 128, MINGPT, 32),
    Case("text", {"block": 1024}, 256, GPT2, 1),
]


def median(action: Callable[[], Any], repeats: int) -> float:
    """Seconds."""
    return statistics.median(rounds({"": action}, repeats)[""]) / 1e3


def data_seconds(task: Task, case: Case) -> float:
    steps = iter(range(1000))
    return median(lambda: task.sample(case.batch, generator(0, "bench", next(steps)), split="train"), 7)


def step_seconds(task: Task, case: Case) -> float:
    """Forward and backward of the model on `micro` sequences, scaled to the batch."""
    config = DecoderConfig(d_vocab=len(task.vocabulary), n_ctx=task.n_ctx, **case.model)
    model, objective = Decoder(config, generator(0)), OBJECTIVES["next_token"](config)
    batch = task.sample(case.micro, generator(1), split="train")

    def step() -> None:
        loss, _ = objective(model(batch.tokens), {}, batch)
        loss.backward()

    return median(step, 3) * case.batch / case.micro


def tasks_table() -> Table:
    table = Table("tasks", "task", "batch", "sequences a second", "a batch", "a training step", "share")
    with tempfile.TemporaryDirectory() as folder:
        prose = Path(folder) / "prose.txt"
        prose.write_text("All the world's a stage, and all the men and women merely players. " * 40_000)
        for case in CASES:
            settings = {**case.settings, **({"path": str(prose)} if case.task == "text" else {})}
            task = tasks.make(case.task, **settings)
            data, step = data_seconds(task, case), step_seconds(task, case)
            said = ", ".join(f"{key}={value}" for key, value in case.settings.items())
            table.add(
                f"{case.task}{f' ({said})' if said else ''}",
                case.batch,
                f"{case.batch / data:,.0f}",
                f"{data * 1e3:.1f} ms",
                f"{step:.2f} s",
                f"{data / step:.2%}",
            )
    return table


if __name__ == "__main__":
    main(__doc__, tasks_table)
