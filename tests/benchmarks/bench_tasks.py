"""How fast each task is drawn on one core, beside a training step of its paper's model at its paper's batch size; and
what keeping a finite set and dealing by length make of it.

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

from harness import Table, main, ratios, rounds, spread

from workbench import tasks
from workbench.models import Decoder, DecoderConfig
from workbench.objectives import OBJECTIVES
from workbench.tasks import Task
from workbench.training import preset_config, training_set
from workbench.training.data import training_batches
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


SETS = {  # preset: how many times as fast an epoch has to be
    "sort-standard": 1,
    "increment-standard": 1,
    "boxes-standard": 5,
    "paper/boxes-default": 5,
    "paper/boxes-advanced": 5,
    "arithmetic-vanilla": 2.5,
    "lis-vanilla": 5,
    "multiply-vanilla": 1,
    "chain-standard": 1,
    "dyck-standard": 2,
}
EPOCH, ROUNDS = 64, 7  # steps of 64 sequences: two pools of two blocks


class Epochs:
    """A preset with a finite set, of which each call draws an epoch."""

    def __init__(self, preset: str, keep: int, bucket_steps: int) -> None:
        fields = {"train_size": 64 * EPOCH, "batch_size": 64, "steps": EPOCH * (ROUNDS + 1)}
        config = preset_config(preset, {**fields, "bucket_steps": bucket_steps})
        self.task, self.keep = config.make_task(), keep
        self.batches = training_batches(self.task, config)

    def __call__(self) -> None:
        training_set.KEPT = self.keep
        self.drawn = [batch.tokens for _ in range(EPOCH) for batch in next(self.batches)]

    def real(self) -> int:
        """The tokens of the last epoch that are no padding."""
        return sum(int(self.task.lengths(tokens).sum()) for tokens in self.drawn)

    def padding(self) -> float:
        return 1 - self.real() / sum(tokens.numel() for tokens in self.drawn)


def sets_table() -> Table:
    """Epochs of a finite set after the first: drawn anew, and kept and dealt by length."""
    columns = "drawn anew: real tokens a second", "padding", "kept, by length: real tokens a second", "padding"
    table = Table("sets", "preset", *columns, "anew / kept")
    training_set.POOL = 2
    for preset, least in SETS.items():
        forms = {"anew": Epochs(preset, 0, 1), "kept": Epochs(preset, 2**30, 16)}
        taken = rounds(forms, ROUNDS)
        cells: list[str] = []
        for name, form in forms.items():
            cells += f"{form.real() / statistics.median(taken[name]) * 1e3:,.0f}", f"{form.padding():.0%}"
        times = ratios(taken, "anew", "kept")
        table.add(preset, *cells, spread(times))
        table.ask(f"an epoch drawn anew / kept, {preset}", statistics.median(times), least=least)
        if forms["anew"].padding() > 0.1:
            table.ask(f"padding where dealt by length, {preset}", forms["kept"].padding(), most=0.1)
    return table


if __name__ == "__main__":
    main(__doc__, tasks_table, sets_table)
