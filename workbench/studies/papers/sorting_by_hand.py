"""The sorter of Theorem 5.1, written by hand, by length and precision (Task hinting, Theorem 5.1)."""

from __future__ import annotations

import numpy as np
import torch

from workbench.measurement import Measurement
from workbench.models.compiled import sorter
from workbench.studies.contrasts import Reaches
from workbench.studies.drawing import Drawing
from workbench.studies.study import PAPER, SMALL, Quantities, Source, Study
from workbench.tasks import make, whole
from workbench.util.seeds import generator

PRECISIONS = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}
LENGTHS = {SMALL: (2, 5, 10, 20, 50, 100), PAPER: (2, 5, 10, 20, 50, 100, 200)}
SYMBOLS = {SMALL: 10, PAPER: 100}
RIGHT, N = "whole sequences right", 64


@torch.no_grad()
def compute(scale: str, seed: int) -> dict[str, Quantities]:
    """Whether each sequence is sorted without a mistake, for each precision and length."""
    lengths, q = LENGTHS[scale], SYMBOLS[scale]
    task = make("sorting", q=q, max_length=max(lengths))
    model = sorter(q, n_ctx=task.n_ctx, pad=True)
    groups: dict[str, Quantities] = {}
    for name, dtype in PRECISIONS.items():
        model, values = model.to(dtype), []
        for length in lengths:
            batch = task.sample(N, generator(seed, "sorting by hand", length), length=length)
            values.append(whole(model(batch.tokens).float(), batch).double().numpy())
        coords = {"length": list(lengths), "example": range(N)}
        measured = Measurement(RIGHT, np.array(values), ("length", "example"), coords, "share", {"model": name})
        groups[name] = {RIGHT: measured}
    return groups


STUDY = Study(
    question="Does the depth-two sorter of Theorem 5.1, its slips mended, sort without a mistake in every precision?",
    source=Source("Task hinting", "Theorem 5.1"),
    compute=compute,
    contrasts=tuple(
        Reaches(RIGHT, name, 1.0, at={"length": length}) for name in PRECISIONS for length in LENGTHS[SMALL]
    ),
    draw=Drawing(
        quantity=RIGHT, title="The sorter written by hand: whole sequences right", y="share of sequences right"
    ),
    seeds={SMALL: 3, PAPER: 3},
)
