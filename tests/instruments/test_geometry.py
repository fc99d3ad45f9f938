"""α-ReQ, curvature and CKA on geometries that are planted, and against the textbook form of each."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from workbench.capture import Capture
from workbench.instruments.residual import alpha_req, curvature, similarity
from workbench.util.seeds import generator

Stage = Callable[..., Capture]
POINT, LATER = "blocks.0.hook_resid_mid", "blocks.0.hook_resid_post"


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=generator(seed, "geometry"), dtype=torch.float64)


def rotation(n: int, seed: int = 0) -> Tensor:
    return torch.linalg.qr(noise(n, n, seed=seed)).Q


def with_residuals(stage: Stage, **points: Tensor) -> Capture:
    first = next(iter(points.values()))
    tokens = torch.arange(first.shape[1]).expand(len(first), -1)
    return stage(tokens, n_layers=1, activations={{"mid": POINT, "post": LATER}[name]: z for name, z in points.items()})


def power_law(alpha: float, n_pos: int, d: int, seed: int = 0) -> Tensor:
    """Rows without a mean whose covariance has the eigenvalues i^-alpha."""
    rank = min(n_pos - 1, d)
    around = torch.linalg.qr(torch.cat([torch.ones(n_pos, 1).double(), noise(n_pos, rank, seed=seed)], dim=1)).Q[:, 1:]
    return around @ torch.arange(1.0, rank + 1).double().pow(-alpha / 2).diag() @ rotation(d, seed + 1)[:rank]


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, 2.5])
@pytest.mark.parametrize(("n_pos", "d"), [(12, 40), (40, 12), (4, 8)])
def test_a_planted_power_law_is_found_whatever_mean_scale_and_rotation(
    stage: Stage, alpha: float, n_pos: int, d: int
) -> None:
    z = power_law(alpha, n_pos, d)
    moved = torch.stack([z, 1e4 * z @ rotation(d, 9), z + 3 * noise(d, seed=4)])
    assert alpha_req.alpha_req(moved).tolist() == pytest.approx([alpha] * 3, abs=1e-6)
    measured = alpha_req.measure(with_residuals(stage, mid=z[None]), points=[POINT])
    assert measured.values.item() == pytest.approx(alpha, abs=1e-6)
    assert measured.dims == ("layer", "example") and measured.units == "exponent α"


def test_the_fit_is_that_of_weighted_least_squares_over_the_chosen_eigenvalues() -> None:
    z = noise(3, 20, 30)
    for first, last in ((1, None), (2, 9), (5, 7)):
        for one, found in zip(z, alpha_req.alpha_req(z, first=first, last=last), strict=True):
            rows = (one - one.mean(0)).numpy()
            values = np.linalg.eigvalsh(rows @ rows.T)[::-1][:19][first - 1 : last]
            rank = np.arange(first, first + len(values))
            slope = np.polyfit(np.log(rank), np.log(values), 1, w=1 / np.sqrt(rank))[0]
            assert found.item() == pytest.approx(-slope, abs=1e-9)


def test_too_few_eigenvalues_have_no_power_law_and_a_range_too_short_is_refused() -> None:
    assert alpha_req.alpha_req(noise(1, 3, 8)).isnan().all(), "three tokens less their mean: two directions"
    assert alpha_req.alpha_req(torch.ones(1, 9, 8)).isnan().all(), "equal tokens"
    for first, last in ((0, None), (3, 4), (1, 0)):
        with pytest.raises(ValueError, match="needs 3 eigenvalues"):
            alpha_req.alpha_req(noise(1, 9, 9), first=first, last=last)


def test_a_line_does_not_turn_a_circle_turns_evenly_and_a_zigzag_turns_back() -> None:
    time = torch.arange(9).double()
    line = time[:, None] * noise(7)
    circle = torch.stack([(time * 0.3).cos(), (time * 0.3).sin()], dim=-1) @ rotation(7)[:2]
    zigzag = (time % 2)[:, None] * noise(7)
    for rows, angle in ((line, 0.0), (circle, 0.3), (zigzag, math.pi)):
        moved = torch.stack([rows, 1e-6 * rows, rows + 5.0])
        assert curvature.curvature(moved).tolist() == pytest.approx([angle] * 3, abs=1e-7)


def test_curvature_is_the_mean_arc_cosine_of_successive_steps(stage: Stage) -> None:
    z = noise(4, 11, 6)
    steps = z.diff(dim=1)
    expected = torch.cosine_similarity(steps[:, 1:], steps[:, :-1], dim=-1).arccos().mean(-1)
    measured = curvature.measure(with_residuals(stage, mid=z), points=[POINT])
    assert measured.values[0] == pytest.approx(expected.numpy(), abs=1e-9)
    in_range = curvature.measure(with_residuals(stage, mid=z), points=[POINT], positions=(2, 7)).values[0]
    assert in_range == pytest.approx(curvature.curvature(z[:, 2:7]).numpy(), abs=1e-12)


def test_neighbours_that_rounding_alone_tells_apart_are_equal() -> None:
    rows = noise(1, 8, 16).float()
    rows[0, 3:5] = rows[0, 2]
    rounded = rows.clone()
    rounded[0, 4] += 3e-7 * noise(16).float()  # where two heads add up in another order
    assert curvature.curvature(rounded).tolist() == pytest.approx(curvature.curvature(rows).tolist(), abs=1e-5)
    assert curvature.curvature(1e-3 * rows).tolist() == pytest.approx(curvature.curvature(rows).tolist(), abs=1e-5)


def test_independent_tokens_turn_by_two_thirds_of_pi_and_standing_still_is_no_turn() -> None:
    assert curvature.curvature(noise(50, 30, 400)).mean().item() == pytest.approx(2 * math.pi / 3, abs=0.01)
    rows = noise(1, 6, 5)
    rows[0, 3] = rows[0, 2]
    left = [curvature.curvature(rows[:, :3]).item(), curvature.curvature(rows[:, 3:]).item()]
    assert curvature.curvature(rows).item() == pytest.approx(np.mean(left), abs=1e-12)
    assert curvature.curvature(rows[:, :2]).isnan().all() and curvature.curvature(torch.ones(1, 5, 4)).isnan().all()


def test_cka_is_one_up_to_rotation_and_scale_and_is_symmetric() -> None:
    x, y = noise(50, 8), noise(50, 13, seed=1)
    for debiased in (False, True):
        same = similarity.cka(x, 7 * x @ rotation(8) + 2.0, debiased=debiased)
        assert same == pytest.approx(1.0, abs=1e-12)
        there, back = (similarity.cka(a, b, debiased=debiased) for a, b in ((x, y), (y, x)))
        assert there == pytest.approx(back, abs=1e-12)
    assert similarity.cka(x, x @ rotation(8)[:, :4]) < 0.99


def test_cka_is_that_of_centred_gram_matrices_and_its_debiased_form_that_of_u_statistics() -> None:
    n = 20
    x, y = noise(n, 5), noise(n, 40, seed=1) + noise(n, 5) @ noise(5, 40, seed=2)
    centring = torch.eye(n, dtype=torch.float64) - 1 / n

    def plain(a: Tensor, b: Tensor) -> float:
        return float(((centring @ a @ a.T @ centring) * (b @ b.T)).sum())

    def unbiased(a: Tensor, b: Tensor) -> float:  # Song et al., 2012, equation 5
        k, m = (g - g.diag().diag() for g in (a @ a.T, b @ b.T))
        rest = k.sum() * m.sum() / ((n - 1) * (n - 2)) - 2 / (n - 2) * (k @ m).sum()
        return float((k @ m).trace() + rest)

    for hsic, debiased in ((plain, False), (unbiased, True)):
        expected = hsic(x, y) / math.sqrt(hsic(x, x) * hsic(y, y))
        assert similarity.cka(x, y, debiased=debiased) == pytest.approx(expected, abs=1e-10)


def test_independent_noise_has_no_debiased_cka_where_the_plain_one_is_high() -> None:
    pairs = [(noise(30, 200, seed=s), noise(30, 200, seed=100 + s)) for s in range(20)]
    assert np.mean([similarity.cka(x, y) for x, y in pairs]) > 0.8
    assert abs(np.mean([similarity.cka(x, y, debiased=True) for x, y in pairs])) < 0.02


def test_similarity_holds_two_models_against_each_other_and_shuffling_is_its_null(stage: Stage) -> None:
    mid, post = noise(6, 10, 8), noise(6, 10, 8, seed=1)
    one = with_residuals(stage, mid=mid, post=post)
    other = with_residuals(stage, mid=3 * mid @ rotation(8), post=post)
    own = similarity.measure(one, points=[POINT, LATER])
    assert own.dims == ("layer", "of layer") and own.values.diagonal() == pytest.approx([1.0, 1.0])
    assert own.values[0, 1] == pytest.approx(own.values[1, 0]) and abs(own.values[0, 1]) < 0.2
    between = similarity.measure(one, other, points=[POINT, LATER])
    assert between.values == pytest.approx(own.values, abs=1e-10), "a rotation changes nothing"
    null = similarity.measure(one, other, points=[POINT, LATER], shuffled=True)
    assert abs(null.values).max() < 0.2 and null.settings["tokens"] == 60
    part = similarity.measure(one, points=[POINT, LATER], positions=(2, 5), debiased=False)
    rows = [z[:, 2:5].reshape(-1, 8) for z in (mid, post)]
    assert part.values[0, 1] == pytest.approx(similarity.cka(*rows), abs=1e-12)


def test_cka_refuses_what_it_cannot_compare(stage: Stage) -> None:
    with pytest.raises(ValueError, match="4 or more"):
        similarity.cka(noise(3, 2), noise(3, 2))
    with pytest.raises(ValueError, match="same items"):
        similarity.cka(noise(5, 2), noise(6, 2))
    with pytest.raises(ValueError, match="finite"):
        similarity.cka(noise(5, 2), torch.full((5, 2), torch.nan))
    assert math.isnan(similarity.cka(noise(5, 2), torch.full((5, 2), 0.1)))
    with pytest.raises(ValueError, match="different tokens"):
        similarity.measure(with_residuals(stage, mid=noise(2, 5, 4)), with_residuals(stage, mid=noise(2, 6, 4)))
