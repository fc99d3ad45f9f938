"""What the training loop costs beside the bare optimizer step, and a stack of seeds beside its runs one by one.

python tests/benchmarks/bench_training.py            print the tables
python tests/benchmarks/bench_training.py --write    and put them into README.md beside this file
"""

from __future__ import annotations

import itertools
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from harness import Table, main, milliseconds, ratios, rounds, spread

import workbench
from workbench.models import Decoder
from workbench.training import loop, preset_config, train_seeds
from workbench.training.data import training_batches
from workbench.training.hint_mixing import Batches
from workbench.util.seeds import generator

STEPS, ROUNDS, BLOCK, TURN = 240, 9, 24, 2
SEEDS, STACK_STEPS, STACK_ROUNDS = 8, 60, 5
TOO_LATE = 10**6  # steps: never


def bare(preset: str) -> Iterator[None]:
    """The step that anyone would write: forward, cross-entropy, backward, clip, AdamW; the batches already drawn."""
    config = preset_config(preset, {"steps": STEPS})
    batches = [batch for (batch,) in training_batches(config.make_task(), config)]
    model = Decoder(config.model, generator(0))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.98), weight_decay=0.0, fused=True)
    for batch in itertools.cycle(batches):
        logits = model(batch.tokens)[batch.loss_mask]
        loss = torch.nn.functional.cross_entropy(logits, batch.targets[batch.loss_mask])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield


class Turns:
    """Hands the loop its batches, and lets the bare steps take turns with it, a block of each.

    What slows the machine for a second slows both, so that a few percent can be told apart.
    """

    def __init__(self, steps: Iterator[None]) -> None:
        self.steps, self.seconds = steps, 0.0

    def __call__(self, *arguments: Any) -> Iterator[Batches]:
        for number, batches in enumerate(training_batches(*arguments)):
            if number % BLOCK == 0:
                start = time.perf_counter()
                for _ in range(BLOCK):
                    next(self.steps)
                self.seconds += time.perf_counter() - start
            yield batches


def both(preset: str, steps: Iterator[None], **changes: Any) -> tuple[float, float]:
    """Milliseconds of the loop's steps by its own clock, and of as many bare ones."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(loop, "training_batches", Turns(steps)) as turns:
        made = workbench.train(preset, out=Path(folder) / "run", progress=False, steps=STEPS, **changes)
        return (made.record()["seconds"] - turns.seconds) * 1e3, turns.seconds * 1e3


def loop_table() -> Table:
    table = Table(
        "loop", f"{STEPS} steps of", "bare", "`workbench.train`, evaluation left out", "over bare", "as it comes"
    )
    for preset in ("chain-chacal", "chain-standard"):
        steps = bare(preset)
        both(preset, steps)  # to warm up
        without, comes = [], []
        for _ in range(ROUNDS):
            without.append(both(preset, steps, eval_every=TOO_LATE, eval_size=1))
            comes.append(both(preset, steps))
        over, whole = ([100 * (ours / theirs - 1) for ours, theirs in taken] for taken in (without, comes))
        table.add(
            preset,
            milliseconds([theirs for _, theirs in without]),
            milliseconds([ours for ours, _ in without]),
            f"{spread(over)} %",
            f"{spread(whole)} %",
        )
        table.ask(f"{preset}: the loop over the bare step, %", statistics.median(over), most=5)
    return table


def step_table() -> Table:
    """The demo's training step beside the same model's with standard attention, two steps each in turns."""
    table = Table("step", "a training step of", "standard", "ChaCAL", "ChaCAL / standard")
    presets = {"standard": "chain-standard", "ChaCAL": "chain-chacal"}
    steps = {name: bare(preset) for name, preset in presets.items()}

    def turn(name: str) -> None:
        for _ in range(TURN):
            next(steps[name])

    taken = rounds({name: partial(turn, name) for name in presets}, STEPS // TURN)
    slower = ratios(taken, "ChaCAL", "standard")
    each = {name: milliseconds([total / TURN for total in of_all]) for name, of_all in taken.items()}
    table.add("the demo", each["standard"], each["ChaCAL"], spread(slower))
    table.ask("the demo's step, ChaCAL / standard", statistics.median(slower), most=1.15)
    return table


def stack_table() -> Table:
    table = Table("stack", f"{SEEDS} seeds of", "one by one", "as a stack", "times faster")
    torch.set_num_threads(2)  # of two cores
    cases: dict[str, tuple[str, dict[str, Any]]] = {
        "chain-chacal (the demo)": ("chain-chacal", {}),
        "chain-chacal, batch 8, d_model 32": ("chain-chacal", {"batch_size": 8, "model": {"d_model": 32}}),
        "sort-standard": ("sort-standard", {}),
    }
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name, (preset, changes) in cases.items():
            settings = {"steps": STACK_STEPS, "eval_size": 1, "progress": False, **changes}

            def stacked(preset: str = preset, settings: dict[str, Any] = settings) -> None:
                shutil.rmtree(place / "stack", ignore_errors=True)
                train_seeds(preset, place / "stack", SEEDS, **settings)

            def one_by_one(preset: str = preset, settings: dict[str, Any] = settings) -> None:
                for seed in range(SEEDS):
                    shutil.rmtree(place / "run", ignore_errors=True)
                    workbench.train(preset, out=place / "run", seed=seed, **settings)

            taken = rounds({"one": one_by_one, "stack": stacked}, STACK_ROUNDS)
            faster = ratios(taken, "one", "stack")
            table.add(name, milliseconds(taken["one"]), milliseconds(taken["stack"]), spread(faster))
            if not changes and preset == "chain-chacal":
                table.ask(
                    "a stack of 8 seeds of the demo, times faster than one by one", statistics.median(faster), least=1
                )
    torch.set_num_threads(1)
    return table


if __name__ == "__main__":
    main(__doc__, step_table, loop_table, stack_table)
