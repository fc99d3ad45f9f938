"""The local learning coefficient on functions whose coefficient is known, and where an estimate is refused."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from workbench.experimental.learning_coefficient import (
    FACTOR,
    Doubt,
    LearningCoefficient,
    in_words,
    learning_coefficient,
)
from workbench.measurement.numbers import number

N = 10_000
HOW = {"n": N, "draws": 2000, "burn_in": 400, "localisation": 0.1}


def zeros(n: int) -> Tensor:
    return torch.zeros(n, dtype=torch.float64)


@pytest.mark.parametrize("d", [1, 6])
def test_a_regular_minimum_has_half_its_dimensions(d: int) -> None:
    curvature = torch.linspace(0.5, 2, d, dtype=torch.float64)
    found = learning_coefficient(lambda w: (curvature * w**2).sum() / 2, zeros(d), step_size=1e-4, **HOW)
    assert found.trusted and found.value == pytest.approx(d / 2, abs=3 * found.spread + 0.05 * d)


def test_a_direction_that_changes_nothing_does_not_count() -> None:
    found = learning_coefficient(lambda w: (w[:3] ** 2).sum() / 2, zeros(6), step_size=1e-4, **HOW)
    assert found.value == pytest.approx(1.5, abs=3 * found.spread + 0.1)


@pytest.mark.parametrize(("power", "coefficient"), [(4, 1 / 4), (6, 1 / 6)])
def test_flatter_minima_have_less(power: int, coefficient: float) -> None:
    """A normal crossing of one factor: w^2k has λ = 1 / 2k."""
    found = learning_coefficient(lambda w: (w**power).sum(), zeros(1), step_size=5e-4, **HOW)
    assert found.value == pytest.approx(coefficient, abs=3 * found.spread + 0.03)


def test_a_crossing_of_two_factors_has_what_its_posterior_says_by_integration() -> None:
    """w1² w2² has λ = 1/2 with multiplicity 2, which it nears as slowly as log log n / log n; d / 2 would be 1."""
    strength, held = N / math.log(N), 10.0
    axis = torch.linspace(-2, 2, 4001, dtype=torch.float64)
    loss = (axis[:, None] * axis).square()
    weight = (-strength * loss - held / 2 * (axis[:, None] ** 2 + axis**2)).exp()
    expected = float((strength * loss * weight).sum() / weight.sum())
    found = learning_coefficient(
        lambda w: (w[0] * w[1]) ** 2, zeros(2), step_size=5e-4, **{**HOW, "localisation": held}
    )
    assert 0.1 < expected < 0.5 and found.value == pytest.approx(expected, abs=3 * found.spread + 0.03)


def test_a_deep_linear_network_has_half_a_dimension_across_its_valley() -> None:
    """y = b a x with b a = 1 at its minima, a curve: one of two directions is left."""
    found = learning_coefficient(
        lambda w: (w[0] * w[1] - 1) ** 2 / 2, torch.ones(2, dtype=torch.float64), step_size=1e-4, **HOW
    )
    assert found.value == pytest.approx(0.5, abs=3 * found.spread + 0.05)


def test_a_slope_a_wild_step_and_chains_that_disagree_are_refused_with_reasons() -> None:
    slope = learning_coefficient(lambda w: (w - 1).square().sum(), zeros(2), step_size=1e-3, **HOW)
    assert Doubt.NO_MINIMUM in slope.doubts
    wild = learning_coefficient(lambda w: w.square().sum(), zeros(2), step_size=10.0, **HOW)
    assert wild.doubts == (Doubt.LEFT,) and "left for infinity" in in_words(wild)
    short = learning_coefficient(lambda w: w.square().sum(), zeros(1), n=N, step_size=1e-6, draws=60, burn_in=0)
    assert not short.trusted
    with pytest.raises(ValueError, match="2 chains"):
        learning_coefficient(lambda w: w.sum(), zeros(1), n=N, chains=1)


@pytest.mark.parametrize(
    ("how", "off", "doubt"),
    [
        ({"step_size": 1.6e-3, "localisation": 1.0}, 17.6, Doubt.STEP),
        ({"step_size": 1e-6, "localisation": 7000.0}, 1.3, Doubt.LOCALISATION),
        ({"step_size": 1e-6, "localisation": 1.0}, 5.3, Doubt.STEP),
    ],
)
def test_an_estimate_that_moves_with_step_or_localisation_is_refused(
    how: dict[str, float], off: float, doubt: Doubt
) -> None:
    """A Gaussian in 20 dimensions has λ = 10; its chains agree with each other at wrong settings too."""
    found = learning_coefficient(lambda w: w.square().sum() / 2, zeros(20), n=N, draws=1000, burn_in=250, **how)
    assert found.value == pytest.approx(off, rel=0.25) and doubt in found.doubts
    assert Doubt.APART not in found.doubts
    assert f"{number(found.value)} (step {how['step_size']:g}" in in_words(found) and "not trusted" in in_words(found)
    saved = found.model_dump_json()
    assert LearningCoefficient.model_validate_json(saved).model_dump_json() == saved


def test_an_estimate_that_stays_is_trusted_and_right() -> None:
    how = {"step_size": 5e-5, "localisation": 1.0}
    found = learning_coefficient(lambda w: w.square().sum() / 2, zeros(20), n=N, draws=1000, burn_in=250, **how)
    assert found.trusted and found.value == pytest.approx(10, rel=0.1)
    assert [one.step_size for one in found.repeated] == [FACTOR * 5e-5, 5e-5]
    assert [one.localisation for one in found.repeated] == [1.0, FACTOR]
    assert max(map(found.moved, found.repeated)) <= 0.2 and "4 chains" in in_words(found)


def test_the_same_seed_draws_the_same_chains() -> None:
    how = {"n": 100, "draws": 50, "burn_in": 10, "step_size": 1e-3}
    first, again, other = (learning_coefficient(lambda w: w.square().sum(), zeros(2), seed=s, **how) for s in (0, 0, 1))
    assert first.chains == again.chains != other.chains and len(first.chains) == 4
