"""The attention functions against independent figures, and against what the equations say of special cases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from workbench.models.attention import ATTENTION, chacal_attention, tempered_attention
from workbench.models.attention.standard import StandardAttention
from workbench.util.seeds import generator

PRECISIONS = pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])


def inputs(numerics: Any, dtype: torch.dtype) -> list[torch.Tensor]:
    return [torch.tensor(numerics[name], dtype=dtype)[None, None] for name in "qkv"]


def agree(z: torch.Tensor, expected: Any, tolerance: float) -> None:
    torch.testing.assert_close(z[0, 0], torch.tensor(expected, dtype=z.dtype), atol=tolerance, rtol=0)


@PRECISIONS
def test_standard_agrees_with_the_reference(numerics: Any, dtype: torch.dtype, tolerance: float) -> None:
    q, k, v = inputs(numerics, dtype)
    layer = StandardAttention()
    agree(layer.pattern(q, k), numerics["standard"]["pattern"], tolerance)
    agree(layer.mix(q, k, v), numerics["standard"]["z"], tolerance)


@PRECISIONS
@pytest.mark.parametrize("case", range(16))
def test_chacal_agrees_with_the_reference(numerics: Any, case: int, dtype: torch.dtype, tolerance: float) -> None:
    q, k, v = inputs(numerics, dtype)
    expected = numerics["chacal"][case]
    settings = {
        "gamma": expected["gamma"],
        "form": expected["form"],
        "diagonal": expected["diagonal_in_inverse"],
    }
    agree(chacal_attention(q, k, v, **settings), expected["z"], tolerance)
    layer = ATTENTION["chacal"](**settings)
    agree(layer.read(layer.pattern(q, k), v), expected["z"], tolerance)


@PRECISIONS
def test_tempered_agrees_with_the_reference(numerics: Any, dtype: torch.dtype, tolerance: float) -> None:
    q, k, v = inputs(numerics, dtype)
    reference = numerics["tempered"]
    for n, expected in [
        ("position", reference["per_position"]["z"]),
        (reference["fixed_length"]["n"], reference["fixed_length"]["z"]),
    ]:
        agree(tempered_attention(q, k, v, beta=reference["beta"], n=n), expected, tolerance)
        layer = ATTENTION["tempered"](n=n).to(dtype)
        torch.nn.init.constant_(layer.beta, reference["beta"])
        agree(layer.mix(q, k, v), expected, tolerance)


def random_qkv(pos: int = 7) -> list[torch.Tensor]:
    g = torch.Generator().manual_seed(5)
    return [torch.randn(2, 2, pos, 3, dtype=torch.float64, generator=g) for _ in range(3)]


def test_chacal_is_the_closed_form_of_equation_5_and_of_equation_7() -> None:
    q, k, v = random_qkv()
    A = StandardAttention().pattern(q, k)
    eye = torch.eye(7, dtype=A.dtype)
    for diagonal in (False, True):
        A_s = A if diagonal else A - torch.diag_embed(A.diagonal(dim1=-2, dim2=-1))
        inverse = torch.linalg.inv(eye - 0.8 * A_s)
        eq5 = chacal_attention(q, k, v, gamma=0.8, diagonal=diagonal)
        eq7 = chacal_attention(q, k, v, gamma=0.8, form="eq7", diagonal=diagonal)
        torch.testing.assert_close(eq5, 0.2 * A @ inverse @ v)
        torch.testing.assert_close(eq7, inverse @ (0.2 * A) @ v)


def test_chacal_on_three_tokens_is_what_a_hand_computes() -> None:
    """γ = 1/2. Solved values: W1 = v1, W2 = v2 + v1/4, W3 = v3 + v1/8 + W2/4; then Y = A W / 2."""
    pattern = torch.tensor([[[[1, 0, 0], [1 / 2, 1 / 2, 0], [1 / 4, 1 / 2, 1 / 4]]]])
    applied = ATTENTION["chacal"](gamma=0.5).mixing_matrix(pattern)[0, 0]
    assert applied.tolist() == [[1 / 2, 0, 0], [5 / 16, 1 / 4, 0], [27 / 128, 9 / 32, 1 / 8]]


def test_both_equations_are_one_with_the_full_diagonal_and_two_without() -> None:
    q, k, v = random_qkv()
    full = [chacal_attention(q, k, v, form=form, diagonal=True) for form in ("eq5", "eq7")]
    torch.testing.assert_close(*full)
    strict = [chacal_attention(q, k, v, form=form) for form in ("eq5", "eq7")]
    assert not torch.allclose(*strict, atol=1e-3)


def test_chacal_with_gamma_0_is_standard_attention() -> None:
    q, k, v = random_qkv()
    for form in ("eq5", "eq7"):
        torch.testing.assert_close(chacal_attention(q, k, v, gamma=0, form=form), StandardAttention().mix(q, k, v))


def test_chacal_is_the_geometric_sum_over_path_lengths() -> None:
    q, k, v = random_qkv()
    A = StandardAttention().pattern(q, k)
    A_s = A.tril(-1)
    paths, power = torch.zeros_like(A), torch.eye(7, dtype=A.dtype)
    for length in range(7):
        paths += 0.9**length * power
        power = power @ A_s
    torch.testing.assert_close(chacal_attention(q, k, v), 0.1 * A @ paths @ v)


def test_rows_of_what_chacal_applies_sum_to_less_than_one_and_of_other_variants_to_one_if_they_say_so() -> None:
    q, k, _ = random_qkv()
    assert not ATTENTION["chacal"].passes_constants and ATTENTION["standard"].passes_constants
    for kind in ATTENTION.values():
        layer = kind().double()
        rows = layer.mixing_matrix(layer.pattern(q, k)).sum(-1)
        if layer.passes_constants:
            torch.testing.assert_close(rows, torch.ones_like(rows))
        elif layer.gamma:
            assert bool((rows < 1).all())


def test_steps_are_not_told_of_a_subclass_whose_reading_is_newer_than_its_steps() -> None:
    class Changed(ATTENTION["chacal"]):  # type: ignore[misc]
        name = "changed"

        def read(self, pattern: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return super().read(pattern @ pattern, v)

    class Half(Changed):
        name = "half"

        def read(self, pattern: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return super().read(pattern, v)

        def step_terms(self, pattern: torch.Tensor) -> Iterator[torch.Tensor]:
            yield from super().step_terms(pattern)

    assert "no `step_terms`" in str(Changed().why_no_steps)
    assert "no `weighted_by_steps`" in str(Half().why_no_steps)
    assert all(kind().why_no_steps is None for kind in ATTENTION.values())


def test_tempered_with_constant_temperature_1_is_standard() -> None:
    q, k, v = random_qkv()
    beta = 1 / torch.tensor(6.0, dtype=torch.float64).log()
    torch.testing.assert_close(tempered_attention(q, k, v, beta=beta, n=6), StandardAttention().mix(q, k, v))


def test_tempered_at_the_second_position_scales_scores_by_beta_ln_2() -> None:
    q, k, v = random_qkv(pos=2)
    odds = (q[..., 1, :] * (k[..., 1, :] - k[..., 0, :])).sum(-1) / 3**0.5
    weight = torch.sigmoid(1.7 * torch.tensor(2.0).double().log() * odds).unsqueeze(-1)
    expected = weight * v[..., 1, :] + (1 - weight) * v[..., 0, :]
    torch.testing.assert_close(tempered_attention(q, k, v, beta=1.7)[..., 1, :], expected)


def test_beta_learns() -> None:
    layer = ATTENTION["tempered"](beta=0.5).double()
    layer.mix(*random_qkv()).square().sum().backward()
    assert layer.beta.grad is not None and layer.beta.grad != 0


def test_chacal_solves_in_single_precision_under_autocast() -> None:
    q, k, v = (x.float() for x in random_qkv())
    exact = chacal_attention(q, k, v)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.allclose(chacal_attention(q, k, v), exact, atol=0.02)
        half = chacal_attention(q.bfloat16(), k.bfloat16(), v.bfloat16())
    assert half.dtype == torch.bfloat16 and torch.allclose(half.float(), exact, atol=0.05)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda q, k, v: chacal_attention(q, k, v, gamma=1.0), "0 <= gamma < 1"),
        (lambda q, k, v: chacal_attention(q, k, v, form="eq6"), "eq5, eq7"),
        (lambda q, k, v: tempered_attention(q, k, v, beta=1, n=0), "at least 1"),
        (lambda q, k, v: tempered_attention(q, k, v, beta=1, n="length"), "position"),
    ],
)
def test_wrong_settings_are_refused(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(*random_qkv())


@pytest.mark.parametrize("n_query", [1, 2, 5])
def test_fewer_queries_than_keys_are_the_last_ones(n_query: int) -> None:
    q, k, v = torch.randn(3, 2, 2, 5, 4, dtype=torch.float64, generator=generator(3)).unbind(0)
    whole = tempered_attention(q, k, v, beta=0.5)[:, :, -n_query:]
    assert torch.allclose(tempered_attention(q[:, :, -n_query:], k, v, beta=0.5), whole, atol=1e-12)
    layer = ATTENTION["standard"]()
    assert torch.allclose(layer.mix(q[:, :, -n_query:], k, v), layer.mix(q, k, v)[:, :, -n_query:], atol=1e-12)


@pytest.mark.parametrize("ahead", [False, True], ids=["causal", "ahead"])
@pytest.mark.parametrize("n_pos", [1, 6, 300])  # of 300 there are blocks of rows, the last one with fewer
@pytest.mark.parametrize("form", ["eq5", "eq7"])
@pytest.mark.parametrize("diagonal", [False, True])
def test_chacal_reads_any_pattern_by_its_formula(form: str, diagonal: bool, n_pos: int, ahead: bool) -> None:
    A = torch.rand(1, 2, n_pos, n_pos, dtype=torch.float64, generator=generator(4)).softmax(-1)
    A = A if ahead else A.tril()
    v = torch.randn(1, 2, n_pos, 3, dtype=torch.float64, generator=generator(5))
    inner = A if diagonal else A - torch.diag_embed(A.diagonal(dim1=-2, dim2=-1))
    inverse = torch.linalg.inv(torch.eye(n_pos, dtype=torch.float64) - 0.9 * inner)
    matrix = 0.1 * (A @ inverse if form == "eq5" else inverse @ A)
    layer = ATTENTION["chacal"](form=form, diagonal=diagonal)
    assert torch.allclose(layer.read(A, v), matrix @ v, atol=1e-12)
    assert torch.allclose(layer.mixing_matrix(A), matrix, atol=1e-12)
    half = layer.mixing_matrix(A.bfloat16())
    assert half.dtype == torch.bfloat16 and torch.allclose(half.double(), matrix, atol=0.02)


@pytest.mark.parametrize("form", ["eq5", "eq7"])
@pytest.mark.parametrize("diagonal", [False, True])
def test_of_no_sequences_there_is_no_mixing_matrix(form: str, diagonal: bool) -> None:
    """A control leaves out an example that is alone in its length, and may leave none."""
    layer, none = ATTENTION["chacal"](form=form, diagonal=diagonal), torch.zeros(0, 2, 5, 5)
    assert layer.mixing_matrix(none).shape == none.shape and layer.read(none, none).shape == none.shape


def test_a_single_edge_edited_to_look_ahead_is_read() -> None:
    """In one head alone, and of negative weight: looked for among all heads and sequences at once."""
    A = torch.rand(2, 3, 9, 9, dtype=torch.float64, generator=generator(4)).softmax(-1).tril()
    A[1, 2, 3, 7] = -0.4
    inner = A - torch.diag_embed(A.diagonal(dim1=-2, dim2=-1))
    matrix = 0.1 * A @ torch.linalg.inv(torch.eye(9, dtype=torch.float64) - 0.9 * inner)
    assert torch.allclose(ATTENTION["chacal"]().mixing_matrix(A), matrix, atol=1e-12)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((2, 4), (5, 4), (5, 4)), "as many queries as keys"),
        (((5, 4), (5, 3), (5, 4)), "same d_head"),
        (((5, 4), (5, 4), (4, 4)), "as many positions"),
    ],
)
def test_shapes_that_do_not_fit_are_one_clear_line(shapes: tuple, message: str) -> None:
    q, k, v = (torch.zeros(1, 1, *shape) for shape in shapes)
    with pytest.raises(ValueError, match=message):
        chacal_attention(q, k, v)
