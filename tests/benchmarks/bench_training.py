"""What the training loop costs beside the bare optimizer step, and a stack of seeds beside its runs one by one.

python tests/benchmarks/bench_training.py            print the tables
python tests/benchmarks/bench_training.py --write    and put them into README.md beside this file
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from harness import Table, main, milliseconds, ratios, rounds, spread

import workbench
from workbench.models import Decoder
from workbench.seeds import generator
from workbench.training import preset_config, train_seeds
from workbench.training.data import training_batches

STEPS, ROUNDS = 200, 5
SEEDS, STACK_STEPS, STACK_ROUNDS = 8, 60, 5
TOO_LATE = 10**6  # steps: never


def bare(preset: str) -> Callable[[], None]:
    """The step that anyone would write: forward, cross-entropy, backward, clip, AdamW; the batches already drawn."""
    config = preset_config(preset, {"steps": STEPS})
    batches = [batch for (batch,) in training_batches(config.make_task(), config)]
    model = Decoder(config.model, generator(0))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.98), weight_decay=0.0, fused=True)

    def steps() -> None:
        for batch in batches:
            logits = model(batch.tokens)[batch.loss_mask]
            loss = torch.nn.functional.cross_entropy(logits, batch.targets[batch.loss_mask])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

    return steps


def loop_table() -> Table:
    table = Table(
        "loop", f"{STEPS} steps of", "bare", "`workbench.train`, evaluation left out", "over bare", "as it comes"
    )
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)

        def train(preset: str, spent: list[float], **changes: Any) -> Callable[[], None]:
            def run() -> None:
                shutil.rmtree(place / "run", ignore_errors=True)
                made = workbench.train(preset, out=place / "run", progress=False, steps=STEPS, **changes)
                spent.append(made.record()["seconds"] * 1e3)

            return run

        for preset in ("chain-chacal", "chain-standard"):
            loop: list[float] = []
            comes: list[float] = []
            without = train(preset, loop, eval_every=TOO_LATE, eval_size=1)
            taken = rounds({"bare": bare(preset), "loop": without, "as it comes": train(preset, comes)}, ROUNDS)
            taken |= {
                "loop": loop[1:],
                "as it comes": comes[1:],
            }  # by the loop's own clock: it is made once, not a step
            over = [100 * (ratio - 1) for ratio in ratios(taken, "loop", "bare")]
            whole = [100 * (ratio - 1) for ratio in ratios(taken, "as it comes", "bare")]
            table.add(
                preset,
                milliseconds(taken["bare"]),
                milliseconds(taken["loop"]),
                f"{statistics.median(over):+.1f} %",
                f"{statistics.median(whole):+.1f} %",
            )
            table.ask(f"{preset}: the loop over the bare step, %", statistics.median(over), most=5)
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
    main(__doc__, loop_table, stack_table)
