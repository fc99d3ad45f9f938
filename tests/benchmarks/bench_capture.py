"""Entropy of every layer over a whole test set, beside TransformerLens's `run_with_cache` over the same batches.

`run_with_cache` only keeps activations: the entropies come on top of what is timed for it.

python tests/benchmarks/bench_capture.py            print the tables
python tests/benchmarks/bench_capture.py --write    and put them into README.md beside this file
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from functools import partial

import torch
from harness import Table, grew, main, peak_megabytes, ratios, rounds, spread

from workbench.capture import Subject
from workbench.instruments.residual import entropy
from workbench.instruments.streaming import over_batches
from workbench.models import Decoder, DecoderConfig
from workbench.models.hooked import hook
from workbench.tasks import Batch, make
from workbench.util.seeds import generator

HERE = __file__.rsplit("/", 1)[0]
SEQUENCES, BATCH, ROUNDS = 20_000, 64, 5


class Stage:
    """A model of 4 layers on pointer chains, and its test set."""

    def __init__(self, n: int, d_model: int, attention: str = "standard") -> None:
        self.task = make("pointer_chain", n=n, k=8)
        shape = {"n_layers": 4, "d_model": d_model, "n_heads": 4, "n_ctx": n, "attention": attention}
        self.model = Decoder(DecoderConfig(d_vocab=len(self.task.vocabulary), **shape), generator(0)).eval()
        self.subject = Subject.of(self.model, self.task, "model")

    def batches(self, n_sequences: int) -> Iterator[Batch]:
        for i in range(n_sequences // BATCH):
            yield self.task.sample(BATCH, generator(i), split="test")


def entropies(stage: Stage, n_sequences: int, alpha: float) -> None:
    over_batches(entropy, stage.model, stage.subject, stage.batches(n_sequences), alpha=alpha)


def cached(stage: Stage, n_sequences: int, only_residuals: bool) -> None:
    hooked = hook(stage.model)
    names = entropy.needs(stage.subject) if only_residuals else None
    with torch.no_grad():
        for batch in stage.batches(n_sequences):
            hooked.run_with_cache(batch.tokens, names_filter=names)


def throughput() -> Table:
    """Sequences a second, in rounds of 4 batches."""
    table = Table(
        "capture",
        "model",
        "entropy α = 1",
        "entropy α = 2",
        "run_with_cache",
        "α = 1 / run_with_cache",
        "α = 2 / run_with_cache",
        "α = 2 / run_with_cache of the same points",
    )
    n = 4 * BATCH
    for tokens, d_model, attention in [
        (32, 64, "standard"),
        (64, 128, "standard"),
        (64, 128, "chacal"),
        (128, 256, "standard"),
    ]:
        stage = Stage(tokens, d_model, attention)
        taken = rounds(
            {
                "1": partial(entropies, stage, n, 1.0),
                "2": partial(entropies, stage, n, 2.0),
                "cache": partial(cached, stage, n, False),
                "same": partial(cached, stage, n, True),
            },
            ROUNDS,
        )
        a_second = [f"{n / statistics.median(taken[name]) * 1e3:,.0f}" for name in ("1", "2", "cache")]
        speed = [ratios(taken, "cache", "1"), ratios(taken, "cache", "2"), ratios(taken, "same", "2")]
        table.add(f"{attention}, {tokens} tokens, d = {d_model}", *a_second, *map(spread, speed))
        if attention == "standard":
            what = f"throughput with entropies (α = 1) / run_with_cache, {tokens} tokens, d = {d_model}"
            table.ask(what, statistics.median(speed[0]), least=1)
    return table


SETUP = f"""
import sys; sys.path.insert(0, {HERE!r})
from bench_capture import Stage, cached, entropies
stage = Stage(64, 128)
batch = next(stage.batches(64))
with torch.no_grad(): stage.model(batch.tokens[:1])
"""


def memory() -> Table:
    table = Table(
        "capture-memory", "sequences", "entropy at 9 points", "one batch's forward pass", "the same, kept in memory"
    )
    forward = peak_megabytes(SETUP, "with torch.no_grad(): stage.model(batch.tokens)")
    for n in (BATCH, 1280, SEQUENCES):
        streamed = peak_megabytes(SETUP, f"entropies(stage, {n}, 1.0)")
        kept = 9 * n * 64 * 128 * 4 / 2**20
        table.add(f"{n:,}", f"{streamed:.0f} MB", f"{forward:.0f} MB", f"{kept:,.0f} MB")
        grew("Entropy of every layer, memory", "MB", "sequences", "workbench, streamed", n, streamed)
        grew("Entropy of every layer, memory", "MB", "sequences", "residuals kept", n, kept)
    table.ask(f"memory over {SEQUENCES:,} sequences / one batch's forward pass", streamed / forward, most=1.5)
    return table


if __name__ == "__main__":
    main(__doc__, throughput, memory)
