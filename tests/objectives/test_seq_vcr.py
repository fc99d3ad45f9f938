from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from harness import peak_megabytes
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.objectives import covariance_floor, seq_vcr
from workbench.util.seeds import generator


def textbook(x: torch.Tensor, variance_weight: float, covariance_weight: float, eta: float = 1e-3) -> torch.Tensor:
    """The equation of the paper, position by position, with the full covariance."""
    terms = []
    for t in range(x.shape[1]):
        C = torch.cov(x[:, t].T)
        C = C.reshape(x.shape[2], x.shape[2])
        hinge = torch.relu(1 - (C.diagonal() + eta).sqrt()).sum()
        off = C.square().sum() - C.diagonal().square().sum()
        terms.append(variance_weight * hinge + covariance_weight * off)
    return torch.stack(terms).mean() / x.shape[2]


@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
def test_seq_vcr_agrees_with_the_reference(numerics: Any, index: int, dtype: torch.dtype, tolerance: float) -> None:
    case = numerics["seq_vcr"][index]
    loss = seq_vcr(
        torch.tensor(case["X"], dtype=dtype),
        variance_weight=case["variance_weight"],
        covariance_weight=case["covariance_weight"],
        eta=case["eta"],
    )
    assert loss.item() == pytest.approx(case["loss"], abs=tolerance)


@settings(max_examples=40, deadline=None)
@given(n=st.integers(2, 9), pos=st.integers(1, 4), d=st.integers(1, 9), seed=st.integers(0, 1000))
def test_both_gram_forms_equal_the_textbook_in_value_and_gradient(n: int, pos: int, d: int, seed: int) -> None:
    x = torch.randn(n, pos, d, dtype=torch.float64, generator=generator(seed), requires_grad=True)
    losses = seq_vcr(x, variance_weight=1.0, covariance_weight=0.5), textbook(x, 1.0, 0.5)
    assert torch.allclose(*losses, atol=1e-12)
    assert torch.allclose(*(torch.autograd.grad(loss, x)[0] for loss in losses), atol=1e-10)


@pytest.mark.parametrize("shape", [(2, 3, 1), (2, 1, 2), (4, 3, 7), (7, 3, 4), (2, 1, 6), (2, 1, 7), (5, 9, 3)])
@pytest.mark.parametrize("over", ["batch", "batch+length"])
@pytest.mark.parametrize("masked", [False, True])
def test_gradient_is_right_in_both_forms_and_at_the_edges_of_a_run(
    shape: tuple[int, ...], over: Any, masked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for held in ("TALL", "WIDE"):  # runs of one to four positions or features
        monkeypatch.setattr(sys.modules["workbench.objectives.seq_vcr"], held, 12)
    x = torch.randn(*shape, dtype=torch.float64, generator=generator(0), requires_grad=True)
    mask = torch.ones(shape[:2], dtype=torch.bool)
    if masked:
        mask[-1, shape[1] // 2 :] = shape[0] == 2
    assert torch.autograd.gradcheck(
        lambda z: seq_vcr(z, variance_weight=1.0, covariance_weight=0.3, over=over, mask=mask if masked else None), x
    )


def test_gradients_of_many_models_at_once_are_those_of_each() -> None:
    x = torch.randn(3, 6, 2, 9, dtype=torch.float64, generator=generator(0))
    mask = torch.ones(6, 2, dtype=torch.bool)
    mask[0, 1] = False

    def loss(z: torch.Tensor) -> torch.Tensor:
        return seq_vcr(z, variance_weight=1.0, covariance_weight=0.3, mask=mask)

    together = torch.func.vmap(torch.func.grad(loss))(x)
    for i in range(3):
        assert torch.allclose(together[i], torch.func.grad(loss)(x[i]), atol=1e-12)


def test_a_second_derivative_is_refused() -> None:
    x = torch.randn(4, 2, 9, generator=generator(0), requires_grad=True)
    (first,) = torch.autograd.grad(seq_vcr(x, variance_weight=1.0, covariance_weight=1.0), x, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(first.sum(), x)


def test_in_single_precision_it_is_the_textbook_to_a_millionth() -> None:
    x = torch.randn(32, 3, 512, generator=generator(0))
    loss = seq_vcr(x, variance_weight=1.0, covariance_weight=0.004)
    assert loss.item() == pytest.approx(textbook(x.double(), 1.0, 0.004).item(), abs=1e-6)


def test_beside_its_input_it_holds_less_than_20_megabytes() -> None:
    """Input and gradient are 7.9 MB each; the covariances of the textbook form alone are 503 MB."""
    setup = """
from workbench.objectives import seq_vcr
def run(x): seq_vcr(x, variance_weight=1.0, covariance_weight=0.004).backward()
run(torch.randn(4, 2, 64, requires_grad=True))
x = torch.randn(32, 30, 2048, requires_grad=True)
"""
    assert 7 < peak_megabytes(setup, "run(x)") < 20


def test_masked_vectors_do_not_count() -> None:
    g = torch.Generator().manual_seed(1)
    x = torch.randn(6, 2, 3, dtype=torch.float64, generator=g)
    padded = torch.cat([x, torch.full((2, 2, 3), 1e3, dtype=torch.float64)])
    mask = torch.tensor([[True, True]] * 6 + [[False, False]] * 2)
    weights = {"variance_weight": 1.0, "covariance_weight": 0.5}
    assert torch.allclose(seq_vcr(padded, mask=mask, **weights), seq_vcr(x, **weights))


def test_positions_with_one_vector_are_left_out() -> None:
    x = torch.randn(5, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    mask = torch.ones(5, 2, dtype=torch.bool)
    mask[1:, 1] = False
    weights = {"variance_weight": 1.0, "covariance_weight": 0.5}
    assert torch.allclose(seq_vcr(x, mask=mask, **weights), seq_vcr(x[:, :1], **weights))


def test_over_batch_and_length_is_one_covariance_of_all_vectors() -> None:
    x = torch.randn(5, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    weights = {"variance_weight": 1.0, "covariance_weight": 0.5}
    assert torch.allclose(seq_vcr(x, over="batch+length", **weights), seq_vcr(x.reshape(20, 1, 3), **weights))


def test_collapsed_representations_cost_the_full_variance_hinge() -> None:
    loss = seq_vcr(torch.ones(8, 3, 5, dtype=torch.float64), variance_weight=2.0, covariance_weight=1.0)
    assert loss.item() == pytest.approx(2 * (1 - 1e-3**0.5))


def test_floor_is_reached_by_the_most_even_representations_and_undercut_by_none() -> None:
    """At unit variance a covariance of rank N−1 has trace d, so Σ C² ≥ d²/(N−1): equality for rows of a Hadamard."""
    n, d, weight = 5, 16, 0.5
    hadamard = torch.ones(1, 1, dtype=torch.float64)
    for _ in range(4):
        hadamard = torch.kron(torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64), hadamard)
    generator = torch.Generator().manual_seed(0)
    spread = torch.randn(n, n, dtype=torch.float64, generator=generator)
    spread[:, 0] = 1  # every other direction is then orthogonal to the mean
    x = torch.linalg.qr(spread)[0][:, 1:] @ hadamard[: n - 1]
    loss = seq_vcr(x.unsqueeze(1), variance_weight=0.0, covariance_weight=weight)
    assert loss.item() == pytest.approx(covariance_floor(n, d, weight))
    other = torch.randn(n, d, dtype=torch.float64, generator=generator)
    other = (other - other.mean(0)) / other.std(0)
    assert seq_vcr(other.unsqueeze(1), variance_weight=0.0, covariance_weight=weight) > loss


def test_unknown_over_and_too_few_vectors_are_refused() -> None:
    with pytest.raises(ValueError, match="'batch' or 'batch\\+length'"):
        seq_vcr(torch.zeros(4, 2, 3), variance_weight=1, covariance_weight=1, over="length")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 2 vectors"):
        seq_vcr(torch.zeros(1, 2, 3), variance_weight=1, covariance_weight=1)


@pytest.mark.parametrize("shape", [(256, 1, 19), (8, 3, 40)])
def test_one_large_feature_does_not_drown_the_others_in_float32(shape: tuple[int, int, int]) -> None:
    x = torch.randn(shape, generator=generator(9))
    x[..., 0] *= 1000
    single = seq_vcr(x, variance_weight=0.0, covariance_weight=1.0)
    double = seq_vcr(x.double(), variance_weight=0.0, covariance_weight=1.0)
    assert torch.allclose(single.double(), double, rtol=1e-4)


@pytest.mark.parametrize("shape", [(64, 2, 5), (5, 3, 40)])
@pytest.mark.parametrize(("dtype", "mean"), [(torch.float32, 300.0), (torch.float64, 1e6)])
def test_a_large_mean_changes_neither_value_nor_gradient(
    shape: tuple[int, int, int], dtype: torch.dtype, mean: float
) -> None:
    x = torch.randn(shape, dtype=dtype, generator=generator(3))
    x = (x + mean * torch.randn(shape[-1], generator=generator(4)).to(dtype)).requires_grad_()
    mask = torch.ones(shape[:2], dtype=torch.bool)
    mask[0, 0] = mask[2, 1] = False
    for own in (None, mask):
        loss = seq_vcr(x, variance_weight=1.0, covariance_weight=0.5, mask=own)
        centred = x.detach().double()
        counts = torch.ones(shape[:2], dtype=torch.bool) if own is None else own
        centred = centred - (centred * counts[..., None]).sum(0) / counts.sum(0)[:, None]
        centred.requires_grad_()
        expected = seq_vcr(centred, variance_weight=1.0, covariance_weight=0.5, mask=own)
        assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
        found, due = torch.autograd.grad(loss, x)[0].double(), torch.autograd.grad(expected, centred)[0]
        assert (found - due).abs().max() < 1e-4 * due.abs().max()


@pytest.mark.parametrize(
    ("x", "kwargs", "message"),
    [
        (torch.randn(4, 5), {}, r"\[batch, pos, feature\]"),
        (torch.randn(4, 5, 3), {"mask": torch.ones(5, 4, dtype=torch.bool)}, r"mask \[5, 4\]"),
        (torch.randn(4, 5, 3), {"eta": -1.0}, "eta > 0"),
        (torch.randn(1, 5, 3), {}, "at least 2 vectors"),
    ],
)
def test_input_that_does_not_fit_is_one_clear_line(x: torch.Tensor, kwargs: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        seq_vcr(x, variance_weight=1.0, covariance_weight=1.0, **kwargs)
