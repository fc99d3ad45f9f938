"""The sorter of Theorem 5.1, written by hand, by length and precision (Task hinting, Theorem 5.1)."""

from __future__ import annotations

import numpy as np
import torch

from workbench.measurement import Measurement
from workbench.models import Decoder
from workbench.models.compiled import sorter
from workbench.studies.contrasts import Reaches
from workbench.studies.figures import by_dim
from workbench.studies.study import PAPER, SMALL, Figure, Groups, Quantities, Source, Study
from workbench.tasks import Task, make, whole
from workbench.util.seeds import generator

PRECISIONS = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}
EXACT = ("float32", "float64", "bfloat16")
LENGTHS = {SMALL: (2, 5, 10, 20, 50, 100), PAPER: (2, 5, 10, 20, 50, 100, 200)}
SYMBOLS = {SMALL: 10, PAPER: 100}
RIGHT, N = "whole sequences right", 64


def compute(scale: str, seed: int) -> dict[str, Quantities]:
    """Whether each sequence is sorted without a mistake, for each precision and length."""
    lengths, q = LENGTHS[scale], SYMBOLS[scale]
    task = make("sorting", q=q, max_length=max(lengths))
    model = sorter(q, n_ctx=task.n_ctx, pad=True)
    groups: dict[str, Quantities] = {}
    for name, dtype in PRECISIONS.items():
        values = [_right(model.to(dtype), task, length, seed) for length in lengths]
        coords = {"length": list(lengths), "example": range(N)}
        measured = Measurement(RIGHT, np.array(values), ("length", "example"), coords, "share", {"model": name})
        groups[name] = {RIGHT: measured}
    return groups


@torch.no_grad()
def _right(model: Decoder, task: Task, length: int, seed: int) -> np.ndarray:
    """Whether each of `N` sequences of a length is sorted without a mistake."""
    batch = task.sample(N, generator(seed, "sorting by hand", length), length=length)
    return whole(model(batch.tokens).float(), batch).double().numpy()


def draw(groups: Groups) -> Figure:
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
