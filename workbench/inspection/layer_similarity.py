"""How alike the layers of two runs are, or of two checkpoints, or of one model, on held-out sequences."""

from __future__ import annotations

import torch

from workbench.capture import Capture, Subject, capture
from workbench.inspection import test_batches
from workbench.instruments.residual import similarity
from workbench.instruments.residual.per_sequence import Positions
from workbench.instruments.residual.projection import from_embedding
from workbench.measurement import Measurement
from workbench.runs import Run


@torch.no_grad()
def layer_similarity(
    first: Run,
    second: Run | None = None,
    *,
    n: int,
    seed: int,
    step: int | None = None,
    second_step: int | None = None,
    debiased: bool = True,
    positions: Positions = "all",
) -> tuple[Measurement, Measurement]:
    """CKA of every layer of one run with every layer of another, and its control: the same of shuffled tokens.

    Args:
        first, second: the runs, whose vocabularies have one size; by default the first alone.
        n: sequences for each of the first task's test conditions, which both models read.
        seed: of those sequences; they are those of `inspect_run`.
        step, second_step: of which checkpoints; by default the ends.
        debiased, positions: as for `similarity.measure`.

    Returns:
        Two of dims `layer`, `of layer`: as they are, and shuffled.

    Raises:
        ValueError: if there is no such checkpoint, the second model cannot read these sequences, or they hold fewer
            than four tokens.
    """
    captures = _captures(first, first, step, n, seed)
    same = second is None and second_step in (None, step)
    others = captures if same else _captures(second or first, first, second_step, n, seed)
    alike, null = (
        similarity.measure(captures, others, debiased=debiased, shuffled=shuffled, positions=positions)
        for shuffled in (False, True)
    )
    return alike, null


def _captures(run: Run, drawn_by: Run, step: int | None, n: int, seed: int) -> list[Capture]:
    """The residuals of one run's model on the test sequences of another."""
    model = run.model(step)
    subject = Subject.of(model, run.task(), run.name_at(step))
    drawn = test_batches(drawn_by.task(), n, seed)
    return [capture(model, subject, batch, from_embedding(subject)) for _, _, batch in drawn]
