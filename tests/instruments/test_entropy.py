"""Matrix entropy, as mathematics and on captures."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from workbench.instruments import matrix_entropy
from workbench.instruments.residual.entropy import measure, needs
from workbench.util.seeds import generator

ALPHAS = [0.5, 1.0, 1.5, 2.0, 3.0, 3.5, 8.0, 9.0, 50.0, math.inf]


def gaussian(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=generator(seed, "entropy test"), dtype=torch.float64)


def rotation(n: int) -> Tensor:
    return torch.linalg.qr(gaussian(n, n, seed=1)).Q


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_every_reference_value_is_reproduced(numerics: dict[str, Any], dtype: torch.dtype) -> None:
    assert numerics["matrix_entropy"]
    for case in numerics["matrix_entropy"]:
        z = torch.tensor(case["Z"], dtype=dtype)
        found = matrix_entropy(z, alpha=float(case["alpha"]), centre=case["centre"], unit_rows=case["unit_rows"])
        close = 1e-4 if dtype == torch.float32 else 1e-6 if float(case["alpha"]) < 1 else 1e-10
        assert found.dtype == dtype
        assert abs(found.item() - case["nats"]) < close, case


@pytest.mark.parametrize("alpha", ALPHAS)
def test_entropy_of_orthonormal_rows_is_log_n(alpha: float) -> None:
    assert matrix_entropy(rotation(7)[:5], alpha=alpha).item() == pytest.approx(math.log(5), abs=1e-12)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_equal_rows_have_no_entropy_and_none_after_centring(alpha: float) -> None:
    z = gaussian(6).expand(9, 6)
    tolerance = 1e-6 if alpha < 1 else 1e-12
    assert matrix_entropy(z, alpha=alpha).item() == pytest.approx(0, abs=tolerance)
    assert matrix_entropy(z, alpha=alpha, centre=True).item() == 0
    assert matrix_entropy(z, alpha=alpha, centre=True, unit_rows=True).item() == 0


@pytest.mark.parametrize("alpha", ALPHAS)
def test_a_planted_spectrum_has_its_renyi_entropy(alpha: float) -> None:
    p = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64)
    z = rotation(6)[:, :4] @ p.sqrt().diag() @ rotation(8)[:4]
    if alpha == 1:
        expected = -(p * p.log()).sum()
    elif math.isinf(alpha):
        expected = -p.max().log()
    else:
        expected = p.pow(alpha).sum().log() / (1 - alpha)
    close = 1e-6 if alpha < 1 else 1e-12
    assert matrix_entropy(z, alpha=alpha).item() == pytest.approx(expected.item(), abs=close)


@settings(max_examples=25, deadline=None)
@given(alpha=st.sampled_from(ALPHAS), scale=st.sampled_from([1e-170, 1e-3, 1e170]), seed=st.integers(0, 1000))
def test_rotating_and_scaling_change_nothing(alpha: float, scale: float, seed: int) -> None:
    z = gaussian(5, 8, seed=seed)
    moved = rotation(5) @ z @ rotation(8) * scale
    assert matrix_entropy(moved, alpha=alpha).item() == pytest.approx(matrix_entropy(z, alpha=alpha).item(), abs=1e-6)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_the_two_gram_matrices_agree(alpha: float) -> None:
    z = gaussian(4, 9)
    assert matrix_entropy(z.T, alpha=alpha).item() == pytest.approx(matrix_entropy(z, alpha=alpha).item(), abs=1e-6)


def test_entropy_is_continuous_around_one() -> None:
    z = gaussian(6, 5)
    at_one = matrix_entropy(z, alpha=1).item()
    for step in (1e-3, 1e-6, 1e-9, 1e-12):
        for alpha in (1 - step, 1 + step):
            assert matrix_entropy(z, alpha=alpha).item() == pytest.approx(at_one, abs=2 * step + 1e-12)


def test_entropy_falls_with_alpha_towards_its_limit() -> None:
    z = gaussian(6, 5)
    found = [matrix_entropy(z, alpha=alpha).item() for alpha in ALPHAS]
    assert found == sorted(found, reverse=True)
    assert matrix_entropy(z, alpha=1e6).item() == pytest.approx(found[-1], abs=1e-5)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_a_zero_matrix_has_entropy_zero_beside_others(alpha: float) -> None:
    z = torch.stack([torch.zeros(4, 3, dtype=torch.float64), gaussian(4, 3)])
    found = matrix_entropy(z, alpha=alpha, unit_rows=True)
    assert found[0].item() == 0
    assert found[1].item() == pytest.approx(matrix_entropy(z[1], alpha=alpha, unit_rows=True).item(), abs=1e-12)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("unit_rows", [False, True])
def test_gradients_are_those_of_finite_differences(alpha: float, unit_rows: bool) -> None:
    z = gaussian(3, 5).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: matrix_entropy(z, alpha=alpha, centre=False, unit_rows=unit_rows), z)


@pytest.mark.parametrize("alpha", [a for a in ALPHAS if a > 1])
def test_gradients_stay_finite_where_eigenvalues_repeat_or_vanish(alpha: float) -> None:
    z = torch.stack([torch.eye(4, dtype=torch.float64), gaussian(4).expand(4, 4), torch.zeros(4, 4).double()])
    z.requires_grad_()
    matrix_entropy(z, alpha=alpha).sum().backward()
    assert z.grad is not None and torch.isfinite(z.grad).all()


@pytest.mark.parametrize(("name", "size"), [("log_t", 4), ("log_d", 9), ("log_min", 4)])
def test_normalisers_divide_by_the_logarithm_they_name(name: Any, size: int) -> None:
    z = gaussian(4, 9)
    assert matrix_entropy(z, normalise=name).item() == pytest.approx(matrix_entropy(z).item() / math.log(size))


def test_one_token_has_entropy_zero_whatever_the_normaliser() -> None:
    for name in ("log_t", "log_d", "log_min", None):
        assert matrix_entropy(gaussian(1, 4), normalise=name).item() == pytest.approx(0, abs=1e-12)


def test_a_shared_mean_decides_the_number() -> None:
    z = gaussian(20, 20) + 20
    assert matrix_entropy(z, normalise="log_t").item() < 0.3
    assert matrix_entropy(z, normalise="log_t", centre=True).item() > 0.8


def test_half_precision_is_computed_in_double_and_returned_in_single() -> None:
    z = gaussian(2, 6, 4).half()
    found = matrix_entropy(z)
    assert found.dtype == torch.float32 and found.shape == (2,)
    assert torch.allclose(found.double(), matrix_entropy(z.double()), atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": 0.0}, "alpha > 0"),
        ({"alpha": math.nan}, "alpha > 0"),
        ({"normalise": "log"}, "unknown normaliser 'log'; there is: log_t, log_d, log_min"),
    ],
)
def test_wrong_settings_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        matrix_entropy(gaussian(3, 3), **change)


def test_wrong_inputs_are_refused() -> None:
    with pytest.raises(ValueError, match=r"needs \[\.\.\., pos, d\]"):
        matrix_entropy(gaussian(3))
    with pytest.raises(ValueError, match="NaN or infinity"):
        matrix_entropy(gaussian(3, 3) / 0)


def textbook(z: Tensor, alpha: float) -> float:
    """The definition, by the singular values of z."""
    p = torch.linalg.svdvals(z.double()).square()
    p = p / p.sum()
    p = p[p > 1e-15]
    if alpha == 1:
        return -(p * p.log()).sum().item()
    return -p.max().log().item() if math.isinf(alpha) else p.pow(alpha).sum().log().item() / (1 - alpha)


@settings(max_examples=30, deadline=None)
@given(
    alpha=st.sampled_from([1.0, 1.5, 2.0, 3.0, 4.0, 8.0, math.inf]),
    n_pos=st.integers(1, 140),
    d=st.integers(1, 140),
    rank=st.integers(1, 140),
    scale=st.sampled_from([1e-18, 1.0, 1e18]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_every_size_and_rank_has_the_entropy_of_its_definition(
    alpha: float, n_pos: int, d: int, rank: int, scale: float, dtype: torch.dtype
) -> None:
    """Over the sizes at which another routine takes over: 64 and 96 rows and columns."""
    z = ((gaussian(n_pos, rank) @ gaussian(rank, d)) * scale).to(dtype)
    found = matrix_entropy(torch.stack([z, z.flip(0)]), alpha=alpha)
    close = 1e-8 if dtype == torch.float64 else 2e-5
    assert found.tolist() == pytest.approx([textbook(z, alpha)] * 2, abs=close)


@pytest.mark.parametrize("alpha", [1.0, 2.0, 3.0, 4.0, math.inf])
@pytest.mark.parametrize("shape", [(3, 130, 100), (3, 100, 130), (2, 2, 128, 512)])
def test_large_matrices_have_one_entropy_with_and_without_gradients(alpha: float, shape: tuple[int, ...]) -> None:
    z = gaussian(*shape)
    z[0] = 0
    with_gradient = matrix_entropy(z.clone().requires_grad_(), alpha=alpha)
    torch.testing.assert_close(matrix_entropy(z, alpha=alpha), with_gradient.detach(), atol=1e-10, rtol=0)
    strided = z.transpose(-1, -2).contiguous().transpose(-1, -2)
    torch.testing.assert_close(matrix_entropy(strided, alpha=alpha), with_gradient.detach(), atol=1e-10, rtol=0)


def test_what_is_measured_is_not_changed() -> None:
    z = gaussian(2, 100, 120)
    before = z.clone()
    for alpha in (1, 2, 3):
        for flag in (False, True):
            matrix_entropy(z, alpha=alpha, centre=flag, unit_rows=flag)
    assert torch.equal(z, before)


def test_integer_orders_need_no_spectrum(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("asked for a spectrum")

    monkeypatch.setattr("torch.linalg.eigvalsh", refuse)
    assert matrix_entropy(gaussian(5, 8), alpha=3).item() == pytest.approx(textbook(gaussian(5, 8), 3), abs=1e-10)
    with pytest.raises(AssertionError, match="asked for a spectrum"):
        matrix_entropy(gaussian(5, 8), alpha=2.5)


def test_measuring_leaves_padding_out(stage: Any) -> None:
    capture = stage(tokens=[[1, 2, 3, 4], [1, 2, 5, 5]], pad=5)
    found = measure(capture, alpha=2, centre=True)
    assert found.dims == ("layer", "example")
    assert list(found.coords["layer"]) == needs(capture.subject)
    for row, point in enumerate(needs(capture.subject)):
        z = capture[point]
        expected = [matrix_entropy(z[0], alpha=2, centre=True), matrix_entropy(z[1, :2], alpha=2, centre=True)]
        assert found.values[row] == pytest.approx([e.item() for e in expected], abs=1e-6)
    assert found.settings["alpha"] == 2 and found.settings["centre"] is True and found.units == "nats"


@pytest.mark.parametrize("as_published", [False, True])
def test_an_order_beyond_all_measure_is_the_min_entropy(as_published: bool) -> None:
    """α log p overflows there, and the entropy was infinite."""
    z = torch.stack([rotation(16), gaussian(16, 16)])
    limit = matrix_entropy(z, alpha=math.inf, as_published=as_published)
    for alpha in (1e20, 1e308):
        assert torch.allclose(matrix_entropy(z, alpha=alpha, as_published=as_published), limit, rtol=1e-12)
