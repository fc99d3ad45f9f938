"""RankMe and α-ReQ over a run's checkpoints, in which `judgement.collapse_phases` looks for the phases of collapse."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.capture import Subject
from workbench.inspection.over_training import checkpoints
from workbench.instruments.residual.alpha_req import alpha_req
from workbench.instruments.residual.projection import from_embedding
from workbench.instruments.sets.over_sequences import over_sequences
from workbench.instruments.sets.rankme import rankme
from workbench.measurement import Measurement
from workbench.runs import Run
from workbench.util.seeds import generator

MEASURES = ("RankMe", "α-ReQ")
DRAWS = 2  # independent draws of sequences
BATCH = 64


class _Rows:
    """A stream that keeps every vector."""

    def __init__(self) -> None:
        self.parts: list[Tensor] = []

    def add(self, rows: Float[Tensor, "n d"], answers: Sequence[object] = (), questions: Sequence[int] = ()) -> None:
        self.parts.append(rows)


@torch.no_grad()
def rank_over_training(run: Run, *, n: int, seed: int, progress: Callable[[float], None] | None = None) -> Measurement:
    """RankMe and the exponent of α-ReQ of one vector a sequence at every checkpoint: dims `measure`, `draw`, `step`.

    The vector is that of RankMe (`sets.over_sequences.answer_positions`), where the answer is asked for, before the
    final norm; the paper takes that of the last token of a text. α-ReQ is of the covariance of these vectors, RankMe of
    them as they are.

    Args:
        run: a run with checkpoints.
        n: sequences of each draw, from the test side; there are two draws.
        seed: of them.
        progress: is told the share that is done.

    Raises:
        ValueError: if the run has no checkpoints, or n is below 2.
    """
    if n < 2:
        raise ValueError(
            f"the rank of {n} vector is not worth measuring; take many more sequences than the model's width"
        )
    steps = [*checkpoints(run, required=True), run.step()]
    point = from_embedding(Subject.of(run.model(), run.task(), run.name))[-1]
    values = np.empty((len(MEASURES), DRAWS, len(steps)))
    for at, step in enumerate([*steps[:-1], None]):
        values[:, :, at] = _at_step(run, step, point, n, seed)
        if progress is not None:
            progress((at + 1) / len(steps))
    return Measurement(
        name="Rank over training",
        values=values,
        dims=("measure", "draw", "step"),
        coords={"measure": MEASURES, "step": steps},
        units="directions or exponent",
        settings={"model": run.name, "n": n, "seed": seed, "point": point},
        caption=f"RankMe and α-ReQ of {n:,} vectors, one a sequence, where the answer is asked for, in {DRAWS} draws. "
        "They do not say which directions these are.",
    )


def _at_step(run: Run, step: int | None, point: str, n: int, seed: int) -> Float[np.ndarray, "measure draw"]:
    """Both measures of every draw at one checkpoint."""
    task, model = run.task(), run.model(step)
    subject = Subject.of(model, task, run.name_at(step))
    values = np.empty((len(MEASURES), DRAWS))
    for draw in range(DRAWS):
        batches = (
            task.sample(min(BATCH, n - start), generator(seed, "rank over training", draw, number), split="test")
            for number, start in enumerate(range(0, n, BATCH))
        )
        rows = torch.cat(over_sequences(_Rows, model, subject, batches, points=[point])[point].parts)  # [sequence, d]
        values[:, draw] = rankme(rows), float(alpha_req(rows[None])[0])
    return values
