"""ChaCAL with a learned γ: its derivative is exact, per layer and per head, and it equals ChaCAL at every γ."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from workbench.models import Decoder, DecoderConfig
from workbench.models.attention import chacal_attention
from workbench.models.attention.learned_chacal import LearnedChacalAttention, learned_blocks

HEADS = {"layer": {}, "head": {"per": "head", "gammas": (0.2, 0.9, 0.6)}}


def some(n_pos: int) -> list[Tensor]:
    draws = torch.Generator().manual_seed(0)
    return [torch.randn(2, 3, n_pos, 4, generator=draws, dtype=torch.float64).requires_grad_() for _ in range(3)]


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize(("n_pos", "block"), [(1, None), (6, None), (9, 4)])
def test_the_derivative_of_gamma_is_that_of_finite_differences(n_pos: int, block: int | None, diagonal: bool) -> None:
    """Where the whole pattern is kept, and block by block."""
    theta = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)

    def read(q: Tensor, k: Tensor, v: Tensor, theta: Tensor) -> Tensor:
        return learned_blocks(q, k, v, theta.sigmoid(), diagonal=diagonal, block=block)

    assert torch.autograd.gradcheck(read, (*(x[:1, :2].detach().requires_grad_() for x in some(n_pos)), theta))


@pytest.mark.parametrize("per", HEADS)
@pytest.mark.parametrize("n_pos", [40, 200])
def test_both_paths_have_the_same_derivatives(n_pos: int, per: str) -> None:
    layer, inputs = LearnedChacalAttention(**HEADS[per]).double(), some(n_pos)
    paths = layer.mix(*inputs), layer.read(layer.pattern(*inputs[:2]), inputs[2])
    of_fast, of_whole = (torch.autograd.grad(z.sin().sum(), [*inputs, layer.theta]) for z in paths)
    torch.testing.assert_close(paths[0], paths[1], atol=1e-10, rtol=1e-10)
    for a, b in zip(of_fast, of_whole, strict=True):
        torch.testing.assert_close(a, b, atol=1e-8, rtol=1e-8)
    assert of_fast[-1].shape == (3 if per == "head" else 1,) and bool((of_fast[-1] != 0).all())


def test_each_head_is_chacal_with_its_gamma() -> None:
    layer, (q, k, v) = LearnedChacalAttention(**HEADS["head"]).double().eval(), some(20)
    read, pattern = layer.mix(q, k, v), layer.pattern(q, k)
    for head, gamma in enumerate((0.2, 0.9, 0.6)):
        one = slice(head, head + 1)
        expected = chacal_attention(q[:, one], k[:, one], v[:, one], gamma=gamma)
        torch.testing.assert_close(read[:, one], expected, atol=1e-6, rtol=1e-6)
        assert layer.of_head(head).gamma == pytest.approx(gamma, abs=1e-6)
        own = layer.of_head(head).mixing_matrix(pattern[:, one])
        torch.testing.assert_close(own, layer.mixing_matrix(pattern)[:, one], atol=1e-6, rtol=1e-6)
    assert layer.gamma is None and "0.2, 0.9, 0.6 of its heads" in layer.how_it_reads


@pytest.mark.parametrize("per", ["layer", "head"])
def test_a_decoder_learns_it_and_a_stack_of_seeds_has_the_same_derivative(per: str) -> None:
    shape: dict[str, Any] = {"n_layers": 1, "d_model": 12, "n_heads": 3, "d_vocab": 7, "n_ctx": 10}
    decoder = Decoder(DecoderConfig(attention={"variant": "learned_chacal", "per": per, "gamma": 0.5}, **shape))
    tokens = torch.randint(0, 7, (2, 10), generator=torch.Generator().manual_seed(0))
    weights = dict(decoder.named_parameters())
    theta = next(name for name in weights if name.endswith("theta"))
    assert weights[theta].shape == (3 if per == "head" else 1,)

    def loss(weights: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(decoder, weights, (tokens,)).square().sum()

    own = torch.autograd.grad(loss(weights), weights[theta])[0]
    stack = {name: torch.stack([weight.detach()] * 2) for name, weight in weights.items()}
    stacked = torch.func.vmap(torch.func.grad(loss))(stack)[theta]
    torch.testing.assert_close(stacked, torch.stack([own] * 2), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"gamma": 0.0}, "greater than 0"),
        ({"form": "eq7"}, "eq5"),
        ({"gammas": (0.5, 1.0)}, "between 0 and 1"),
    ],
)
def test_what_cannot_be_learned_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        LearnedChacalAttention(**settings)
    with pytest.raises(ValueError, match="gammas has 2 numbers, and the layer 3 heads"):
        LearnedChacalAttention.for_model(8, 3, gammas=(0.5, 0.6))
