"""The sorter of Theorem 5.1, written by hand, by length and precision (Task hinting, Theorem 5.1)."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
import torch

from workbench.measurement import Measurement
from workbench.models.compiled import sorter
from workbench.studies.contrasts import Reaches
from workbench.studies.figures import by_dim
from workbench.studies.study import PAPER, SMALL, Groups, Quantities, Source, Study
from workbench.tasks import make, whole
from workbench.util.seeds import generator

PRECISIONS = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}
EXACT = ("float32", "float64", "bfloat16")
LENGTHS = {SMALL: (2, 5, 10, 20, 50, 100), PAPER: (2, 5, 10, 20, 50, 100, 200)}
SYMBOLS = {SMALL: 10, PAPER: 100}
RIGHT, N = "whole sequences right", 64


def compute(scale: str, seed: int) -> dict[str, Quantities]:
    """The share of sequences sorted without a mistake, for each precision and length."""
    lengths, q = LENGTHS[scale], SYMBOLS[scale]
    task = make("sorting", q=q, max_length=max(lengths))
    model = sorter(q, n_ctx=task.n_ctx, pad=True)
    groups: dict[str, Quantities] = {}
    for name, dtype in PRECISIONS.items():
        values = [_share(model.to(dtype), task, length, seed) for length in lengths]
        measured = Measurement(
            RIGHT, np.array(values), ("length",), {"length": list(lengths)}, "share", {"model": name}
        )
        groups[name] = {RIGHT: measured}
    return groups


@torch.no_grad()
def _share(model: torch.nn.Module, task, length: int, seed: int) -> float:  # type: ignore[no-untyped-def]
    batch = task.sample(N, generator(seed, "sorting by hand", length), length=length)
    return float(whole(model(batch.tokens).float(), batch).mean())


def draw(groups: Groups) -> go.Figure:
    """Whole sequences right, by length."""
    return by_dim(groups, RIGHT, "The sorter written by hand: whole sequences right", "share of sequences right")


STUDY = Study(
    question="Does the depth-two sorter of Theorem 5.1, its slips mended, sort without a mistake in every precision?",
    source=Source("Task hinting", "Theorem 5.1"),
    compute=compute,
    contrasts=tuple(Reaches(RIGHT, name, 1.0, at={"length": length}) for name in EXACT for length in LENGTHS[SMALL]),
    draw=draw,
    seeds={SMALL: 3, PAPER: 3},
)
