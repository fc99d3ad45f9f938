"""The three phases of representation collapse, looked for over a run's checkpoints (Li et al., 2025, arXiv 2509.23024).

In the pretraining of language models the paper sees RankMe of the last layer fall ("warmup": collapse), rise
("entropy-seeking") and fall again ("compression-seeking"), and the exponent of α-ReQ move the other way. Only what the
paper says of itself in its abstract and on its project page was at hand: it states the pattern without a threshold, so
the one here is ours. Two nulls: how far two independent draws of sequences lie apart, and how often a curve with the
same changes between checkpoints, in any order and with any sign, has three phases as strong. Does not show: that the
phases have to do with memorising or generalising, as the paper finds of language models; that another seed has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.capture import Subject
from workbench.inspection.over_training import check_checkpoints, checkpoints
from workbench.instruments.residual.alpha_req import alpha_req
from workbench.instruments.residual.per_sequence import residual_points
from workbench.instruments.sets.over_sequences import over_sequences
from workbench.instruments.sets.rankme import rankme
from workbench.measurement import Measurement
from workbench.runs import Run
from workbench.tasks import Batch, Task
from workbench.util.seeds import generator

MEASURES = ("RankMe", "α-ReQ")
DRAWS = 2  # independent draws of sequences
RANDOM_CURVES = 2000
RARE = 0.05  # share of random curves from which three phases are no more than chance
BATCH = 64


class _Rows:
    """A stream that keeps every vector."""

    def __init__(self) -> None:
        self.parts: list[Tensor] = []

    def add(self, rows: Float[Tensor, "n d"], answers: Sequence[object] = (), questions: Sequence[int] = ()) -> None:
        self.parts.append(rows)


@dataclass(frozen=True)
class Phases:
    """Three phases of a curve over training: a fall up to `low`, a rise up to `high`, a fall up to the end.

    Attributes:
        found: whether they are beyond both nulls.
        low, high: the steps between the phases, placed so that the least of the three changes is largest.
        changes: of the logarithm of RankMe in each phase: negative, positive, negative where there are three phases.
        apart: how far two draws of sequences lie apart at most, in the same units.
        random: the share of random curves whose three phases are as strong.
        alpha: the exponent of α-ReQ at the start, `low`, `high` and the end.
        steps: how many checkpoints there are.
    """

    found: bool
    low: int
    high: int
    changes: tuple[float, float, float]
    apart: float
    random: float
    alpha: tuple[float, ...]
    steps: int

    @property
    def alpha_agrees(self) -> bool:
        """Whether α-ReQ moves the other way in all three phases."""
        return bool(((np.diff(self.alpha) > 0) == (np.array(self.changes) < 0)).all())

    @property
    def in_words(self) -> str:
        """What was found or not, with steps and numbers."""
        said = ", ".join(f"{np.expm1(change):+.0%}" for change in self.changes)
        where = f"RankMe changes by {said} up to step {self.low:,}, up to step {self.high:,} and up to the end"
        nulls = (
            f"two draws of sequences differ by {np.expm1(self.apart):.0%} at most, and {self.random:.0%} of random "
            "curves with the same changes have phases as strong"
        )
        if self.found:
            alpha = "moves the other way in each" if self.alpha_agrees else "does not move the other way in each"
            return f"Three phases of collapse are found: {where}; {nulls}. α-ReQ {alpha}."
        return f"Three phases of collapse are not found over {self.steps} checkpoints: at best {where}; {nulls}."


@torch.no_grad()
def rank_over_training(
    run: Run, *, n: int, seed: int, point: str | None = None, progress: Callable[[float], None] | None = None
) -> Measurement:
    """RankMe and the exponent of α-ReQ of one vector a sequence at every checkpoint: dims `measure`, `draw`, `step`.

    The vector is that of RankMe (`sets.answers.asked`), where the answer is asked for, before the final norm; the paper
    takes that of the last token of a text. α-ReQ is of the covariance of these vectors, RankMe of them as they are.

    Args:
        run: a run with checkpoints.
        n: sequences of each draw, from the test side; there are two draws.
        seed: of them.
        point: a residual's hook name; by default the last.
        progress: is told the share that is done.

    Raises:
        ValueError: if the run has no checkpoints, or n is below 2.
    """
    if n < 2:
        raise ValueError(
            f"the rank of {n} vector is not worth measuring; take many more sequences than the model's width"
        )
    check_checkpoints(run)
    steps = [*checkpoints(run), run.step()]
    point = point or residual_points(Subject.of(run.model(), run.task(), run.name))[-1]
    values = np.empty((len(MEASURES), DRAWS, len(steps)))
    for at, step in enumerate([*steps[:-1], None]):
        values[:, :, at] = _at_step(run, step, point, n, seed)
        if progress is not None:
            progress((at + 1) / len(steps))
    return Measurement(
        name="Rank over training",
        values=values,
        dims=("measure", "draw", "step"),
        coords={"measure": MEASURES, "draw": range(DRAWS), "step": steps},
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
        rows = torch.cat(
            over_sequences(_Rows, model, subject, _drawn(task, n, seed, draw), points=[point])[point].parts
        )
        values[:, draw] = rankme(rows), float(alpha_req(rows[None])[0])
    return values


def phases(measured: Measurement) -> Phases:
    """The three phases that a run's RankMe comes nearest to, and whether they are beyond both nulls.

    Args:
        measured: `rank_over_training(…)`.

    Raises:
        ValueError: if there are fewer than four checkpoints.
    """
    steps = [int(step) for step in measured.coords["step"]]
    if len(steps) < 4:
        raise ValueError(f"three phases need four checkpoints or more, with the end; there are {len(steps)}")
    draws = np.log(measured.select(measure="RankMe").values)
    curve, alpha = draws.mean(0), measured.select(measure="α-ReQ").values.mean(0)
    low, high, strength = strongest(curve)
    apart = float((draws.max(0) - draws.min(0)).max())
    random = share_of_random(curve, strength)
    changes = (curve[low] - curve[0], curve[high] - curve[low], curve[-1] - curve[high])
    return Phases(
        found=strength > apart and random <= RARE,
        low=steps[low],
        high=steps[high],
        changes=(float(changes[0]), float(changes[1]), float(changes[2])),
        apart=apart,
        random=random,
        alpha=tuple(float(alpha[at]) for at in (0, low, high, -1)),
        steps=len(steps),
    )


def strongest(curve: Float[np.ndarray, " step"]) -> tuple[int, int, float]:
    """Where a fall, a rise and a fall meet so that the least of the three is largest, and that least change.

    It is negative, or 0, where a curve does not fall, rise and fall.
    """
    n = len(curve)
    fall = curve[0] - curve
    rise = curve[None] - curve[:, None]
    again = curve - curve[-1]
    least = np.minimum(np.minimum(fall[:, None], rise), again[None])
    allowed = np.triu(np.ones((n, n), dtype=bool), 1)
    allowed[0], allowed[:, -1] = False, False
    low, high = np.unravel_index(int(np.where(allowed, least, -np.inf).argmax()), least.shape)
    return int(low), int(high), float(least[low, high])


def share_of_random(curve: Float[np.ndarray, " step"], strength: float) -> float:
    """The share of curves with the same changes, in any order and with any sign, whose phases are as strong.

    Always drawn by the same seed. The curve itself is counted with them, so that it is never 0.
    """
    changes, draws = np.diff(curve), generator(0, "phases")
    strong = 1
    for _ in range(RANDOM_CURVES):
        order = torch.randperm(len(changes), generator=draws).numpy()
        signs = 2 * torch.randint(0, 2, (len(changes),), generator=draws).numpy() - 1
        other = np.concatenate([[0.0], (changes[order] * signs).cumsum()])
        strong += strongest(other)[2] >= strength
    return strong / (RANDOM_CURVES + 1)


def _drawn(task: Task, n: int, seed: int, draw: int) -> list[Batch]:
    """One draw of sequences from the test side."""
    sizes = [min(BATCH, n - start) for start in range(0, n, BATCH)]
    return [
        task.sample(size, generator(seed, "rank over training", draw, number), split="test")
        for number, size in enumerate(sizes)
    ]
