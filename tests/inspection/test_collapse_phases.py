"""The three phases of collapse: found where they are planted, not in other curves, and measured as RankMe is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import workbench
from workbench.capture import Subject
from workbench.inspection.collapse_phases import rank_over_training
from workbench.instruments.sets import rankme
from workbench.judgement.collapse_phases import _strongest, phases
from workbench.judgement.words.figures import collapsed
from workbench.measurement import Measurement
from workbench.util.seeds import generator

STEPS = [100 * i for i in range(13)]
FALLS_RISES_FALLS = [32, 22, 14, 8, 12, 18, 26, 36, 44, 36, 28, 20, 15]


def curve(rank: list[float], alpha: list[float] | None = None, apart: float = 0.0) -> Measurement:
    """A schedule of RankMe, with an exponent that mirrors it unless one is given; two draws so far apart."""
    mirrored = [2 - 0.02 * value for value in rank] if alpha is None else alpha
    values = np.array([[np.array(rank) * np.exp(side * apart / 2) for side in (-1, 1)], [mirrored] * 2])
    return Measurement(
        name="Rank over training",
        values=values,
        dims=("measure", "draw", "step"),
        coords={"measure": ("RankMe", "α-ReQ"), "draw": (0, 1), "step": STEPS[: len(rank)]},
        units="directions or exponent",
    )


def test_a_fall_a_rise_and_a_fall_are_found_at_their_steps() -> None:
    found = phases(curve(FALLS_RISES_FALLS))
    assert found.found and (found.low, found.high) == (300, 800) and found.alpha_agrees
    assert found.changes == pytest.approx((np.log(8 / 32), np.log(44 / 8), np.log(15 / 44)))
    assert found.random <= 0.05 and found.apart == pytest.approx(0, abs=1e-12)
    assert "are found: RankMe changes by -75%, +450%, -65.9% up to step 300, up to step 800" in collapsed(found)
    assert "α-ReQ moves the other way in each" in collapsed(found)


@pytest.mark.parametrize(
    "rank",
    [
        [4 + 3 * i for i in range(13)],
        [40 - 3 * i for i in range(13)],
        [32, 22, 14, 8, 9, 10, 14, 18, 22, 26, 30, 36, 44],
        [8, 12, 18, 26, 36, 44, 40, 36, 30, 26, 22, 18, 15],
        [20, 22, 19, 23, 20, 24, 19, 22, 21, 24, 18, 23, 20],
        [20.0] * 13,
    ],
    ids=["rises", "falls", "falls and rises", "rises and falls", "wanders", "stands"],
)
def test_other_curves_do_not_have_them(rank: list[float]) -> None:
    found = phases(curve(rank))
    assert not found.found and "are not found over 13 checkpoints" in collapsed(found)


def test_they_are_not_found_where_draws_differ_as_much_or_checkpoints_are_few() -> None:
    assert phases(curve(FALLS_RISES_FALLS, apart=1.0)).found
    assert not phases(curve(FALLS_RISES_FALLS, apart=1.2)).found, "the last fall is by 1.08"
    few = phases(curve([32, 8, 44, 15]))
    assert not few.found and few.random > 0.05 and (few.low, few.high) == (100, 200)
    with pytest.raises(ValueError, match="there are 3"):
        phases(curve([32, 8, 44]))


def test_an_exponent_that_moves_along_is_said_not_to_agree() -> None:
    along = phases(curve(FALLS_RISES_FALLS, alpha=[0.1 * value for value in FALLS_RISES_FALLS]))
    assert along.found and not along.alpha_agrees and "does not move the other way in each" in collapsed(along)


def test_the_least_of_the_three_changes_is_as_large_as_it_can_be() -> None:
    values = np.random.default_rng(0).normal(size=9).cumsum()
    every = [
        (min(values[0] - values[i], values[j] - values[i], values[j] - values[-1]), i, j)
        for i in range(1, 8)
        for j in range(i + 1, 8)
    ]
    least, low, high = max(every)
    assert _strongest(values) == (low, high, pytest.approx(least))


def test_rank_over_training_is_rankme_at_every_checkpoint(tmp_path: Path) -> None:
    run = workbench.train(
        "chain-chacal", out=tmp_path / "run", progress=False, steps=4, checkpoint_every=2, eval_size=8
    )
    told: list[float] = []
    measured = rank_over_training(run, n=40, seed=0, progress=told.append)
    assert measured.coords["step"] == [0, 2, 4] and told[-1] == 1 and np.isfinite(measured.values).all()
    subject = Subject.of(run.model(2), run.task(), run.name)
    batch = run.task().sample(40, generator(0, "rank over training", 1, 0), split="test")
    other = rankme.measure(run.model(2), subject, [batch])
    last = other.coords["layer"][-1]
    assert measured.settings["point"] == last
    own = measured.select(measure="RankMe", draw=1, step=2).values
    assert own == pytest.approx(other.select(layer=last).values, abs=1e-9)
    draws = measured.select(measure="RankMe").values
    assert (draws[0] != draws[1]).all(), "they are of other sequences"
    with pytest.raises(ValueError, match="rank of 1 vector"):
        rank_over_training(run, n=1, seed=0)
    bare = workbench.train("chain-chacal", out=tmp_path / "bare", progress=False, steps=1, eval_size=8)
    with pytest.raises(ValueError, match="has no checkpoints"):
        rank_over_training(bare, n=40, seed=0)
