"""ChaCAL in blocks against the explicit path: values, gradients, transforms, memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from harness import peak_megabytes
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from workbench.models.attention import ATTENTION, chacal_attention
from workbench.models.attention.chacal_blocks import chacal_blocks
from workbench.util.seeds import generator

EVERY_FORM = pytest.mark.parametrize("form", ["eq5", "eq7"])
EITHER_DIAGONAL = pytest.mark.parametrize("diagonal", [False, True])


def inputs(*shape: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    rng = generator(0, "blocks", *shape)
    return [torch.randn(*shape, dtype=dtype, generator=rng).requires_grad_() for _ in range(3)]


def textbook(q: Tensor, k: Tensor, v: Tensor, gamma: float, form: Any, diagonal: bool) -> Tensor:
    layer = ATTENTION["chacal"](gamma=gamma, form=form, diagonal=diagonal)
    return layer.read(layer.pattern(q, k), v)


@EVERY_FORM
@EITHER_DIAGONAL
@pytest.mark.parametrize("gamma", [0.0, 0.9])
@pytest.mark.parametrize(
    ("n_pos", "block"),
    [(1, None), (7, 3), (16, 4), (16, 16), (33, 8)] + [(n, None) for n in (40, 64, 65, 97, 128, 129)],
)
def test_values_and_gradients_are_the_textbooks(
    form: Any, diagonal: bool, gamma: float, n_pos: int, block: Any
) -> None:
    q, k, v = inputs(2, 3, n_pos, 5)
    got = chacal_blocks(q, k, v, gamma=gamma, form=form, diagonal=diagonal, block=block)
    want = textbook(q, k, v, gamma, form, diagonal)
    weight = torch.randn(want.shape, dtype=want.dtype, generator=generator(1))
    assert torch.allclose(got, want, atol=1e-11)
    grads = [torch.autograd.grad((y * weight).sum(), (q, k, v)) for y in (got, want)]
    assert all(torch.allclose(a, b, atol=1e-10) for a, b in zip(*grads, strict=True))


@EVERY_FORM
@EITHER_DIAGONAL
@pytest.mark.parametrize("block", [4, None])
@pytest.mark.parametrize("n_pos", [1, 3, 4, 5])  # 1, block − 1, block, block + 1
def test_gradients_are_those_of_finite_differences(form: Any, diagonal: bool, n_pos: int, block: Any) -> None:
    assert torch.autograd.gradcheck(
        lambda q, k, v: chacal_blocks(q, k, v, gamma=0.9, form=form, diagonal=diagonal, block=block),
        inputs(2, n_pos, 3),
    )


@settings(max_examples=60, deadline=None)
@given(
    form=st.sampled_from(["eq5", "eq7"]),
    diagonal=st.booleans(),
    gamma=st.sampled_from([0.0, 0.5, 0.9, 0.999]),
    n_pos=st.integers(1, 40),
    block=st.none() | st.integers(1, 41),
    d_head=st.integers(1, 5),
    scale=st.sampled_from([0.01, 1.0, 30.0]),
)
def test_any_shape_in_any_block_is_the_textbooks(
    form: Any, diagonal: bool, gamma: float, n_pos: int, block: int | None, d_head: int, scale: float
) -> None:
    q, k, v = inputs(2, n_pos, d_head)
    q = (q * scale).detach().requires_grad_()
    got = chacal_blocks(q, k, v, gamma=gamma, form=form, diagonal=diagonal, block=block)
    want = textbook(q[None], k[None], v[None], gamma, form, diagonal)[0]
    torch.testing.assert_close(got, want, atol=1e-9, rtol=1e-9)
    grads = [torch.autograd.grad(y.sin().sum(), (q, k, v)) for y in (got, want)]
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b, atol=1e-8, rtol=1e-8)


def test_values_may_be_wider_than_keys_and_batches_may_broadcast() -> None:
    q, k, _ = inputs(4, 2, 9, 3)
    v = torch.randn(2, 9, 7, dtype=torch.float64, generator=generator(2))
    got = chacal_blocks(q, k[:1], v, gamma=0.8, form="eq5", diagonal=False, block=4)
    want = textbook(q, k[:1].expand_as(q), v.expand(4, 2, 9, 7), 0.8, "eq5", False)
    assert torch.allclose(got, want, atol=1e-11)


@EVERY_FORM
@pytest.mark.parametrize("block", [4, None])
def test_gradients_per_example_through_vmap_are_those_of_each_example(form: Any, block: Any) -> None:
    q, k, v = (x.detach() for x in inputs(4, 2, 9, 5))

    def loss(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return chacal_blocks(q, k, v, gamma=0.9, form=form, diagonal=False, block=block).sin().sum()

    per_example = torch.func.grad(loss, argnums=(0, 1, 2))
    together = torch.func.vmap(per_example, in_dims=(0, None, 0))(q, k[0], v)
    for i in range(4):
        for a, b in zip(together, per_example(q[i], k[0], v[i]), strict=True):
            assert torch.allclose(a[i], b, atol=1e-12)


def test_a_second_derivative_is_refused_with_the_way_round() -> None:
    q, k, v = inputs(1, 1, 5, 3)
    (first,) = torch.autograd.grad(
        chacal_blocks(q, k, v, gamma=0.9, form="eq5", diagonal=False).sum(), q, create_graph=True
    )
    with pytest.raises(RuntimeError, match=r"no second derivative; the explicit one has: layer\.read"):
        torch.autograd.grad(first.sum(), q)


def test_half_precision_is_solved_in_float32() -> None:
    q, k, v = inputs(1, 2, 40, 8, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        half = chacal_blocks(*(x.bfloat16() for x in (q, k, v)), gamma=0.9, form="eq5", diagonal=False)
    assert half.dtype == torch.bfloat16
    rounded = textbook(*(x.bfloat16().float() for x in (q, k, v)), 0.9, "eq5", False)
    assert torch.allclose(half.float(), rounded, atol=1e-2)


def test_a_block_holds_at_least_one_row() -> None:
    with pytest.raises(ValueError, match="at least 1 row"):
        chacal_blocks(*inputs(1, 1, 4, 2), gamma=0.9, form="eq5", diagonal=False, block=0)


def test_memory_at_length_8192_stays_under_a_gigabyte() -> None:
    setup = """
from workbench.models.attention import chacal_attention
q, k, v = (torch.randn(1, 8, 8192, 64, requires_grad=True) for _ in range(3))
"""
    # one 8192 × 8192 pattern of 8 heads alone is 2048 megabytes
    assert 50 < peak_megabytes(setup, "chacal_attention(q, k, v).sum().backward()") < 1024


@pytest.mark.parametrize("n_pos", [20, 150])
def test_it_compiles_as_one_graph(n_pos: int) -> None:
    q, k, v = inputs(2, 2, n_pos, 8)
    compiled = torch.compile(chacal_attention, fullgraph=True, backend="aot_eager")
    results = [(y := form(q, k, v), torch.autograd.grad(y.sin().sum(), q)[0]) for form in (compiled, chacal_attention)]
    for a, b in zip(*results, strict=True):
        assert torch.allclose(a, b, atol=1e-12)
