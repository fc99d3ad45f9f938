"""Two runs on the same held-out sequences: the measures that need both at once."""

from __future__ import annotations

import torch

from workbench.capture import Subject, capture
from workbench.inspection import test_batches
from workbench.instruments.lens import lens_difference
from workbench.instruments.residual.projection import from_embedding
from workbench.measurement import Measurement
from workbench.runs import Run


@torch.no_grad()
def lens_differences(
    first: Run,
    second: Run,
    *,
    n: int,
    seed: int,
    how: str = "kl",
    step: int | None = None,
    second_step: int | None = None,
) -> Measurement:
    """How far apart two runs' (or checkpoints') tokens decoded from each layer are, on the first run's test sequences.

    Args:
        first, second: the runs; their tasks have one vocabulary.
        n: sequences for each of the first task's test conditions.
        seed: of those sequences; they are those of `inspect_run`.
        how: see `lens_difference.measure`.
        step, second_step: of which checkpoints; by default the ends.

    Returns:
        Dims `point`, `example`.

    Raises:
        ValueError: if there is no such checkpoint or way, or the second model cannot read these sequences.
    """
    sides = []
    for run, at in ((first, step), (second, second_step)):
        model = run.model(at)
        sides.append((model, Subject.of(model, run.task(), run.name_at(at))))
    parts = []
    for _, _, batch in test_batches(sides[0][1].task, n, seed):
        captures = [capture(model, subject, batch, from_embedding(subject)) for model, subject in sides]
        parts.append(lens_difference.measure(*captures, how=how))
    return Measurement.join(parts)
