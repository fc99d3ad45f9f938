"""What every attention variant must do, whatever it computes: a new entry of ATTENTION is picked up by itself."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from workbench.models import Decoder, DecoderConfig
from workbench.models.attention import ATTENTION, Attention
from workbench.models.hooked import hook

SETTINGS: dict[str, list[dict[str, Any]]] = {
    "tempered": [{}, {"beta": 0.7}, {"beta": 0.7, "n": 7}],
    "chacal": [{"form": form, "diagonal": diagonal} for form in ("eq5", "eq7") for diagonal in (False, True)]
    + [{"gamma": 0.0}, {"gamma": 0.99}],
    "tempered_chacal": [{"beta": 0.7}, {"beta": 0.7, "form": "eq7", "diagonal": True}],
}
CASES = [(name, settings) for name in ATTENTION for settings in SETTINGS.get(name, [{}])]
each_case = pytest.mark.parametrize(("name", "settings"), CASES, ids=str)


def qkv(dtype: torch.dtype = torch.float64, pos: int = 9) -> list[torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    return [torch.randn(2, 3, pos, 4, dtype=dtype, generator=g) for _ in range(3)]


def variant(name: str, settings: dict[str, Any], dtype: torch.dtype = torch.float64) -> Attention:
    return ATTENTION[name](**settings).to(dtype)


def model(name: str, settings: dict[str, Any], **shape: Any) -> Decoder:
    """A small decoder with all its weights, biases too, far from their gentle start."""
    wanted = {"n_layers": 2, "d_model": 24, "n_heads": 3, "d_head": 5, "d_vocab": 13, "n_ctx": 16, **shape}
    decoder = Decoder(DecoderConfig(attention={"variant": name, **settings}, **wanted))
    g = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=g)
    return decoder.eval()


def tokens(batch: int = 3, pos: int = 9) -> torch.Tensor:
    return torch.randint(0, 13, (batch, pos), generator=torch.Generator().manual_seed(2))


@each_case
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_fast_path_equals_reading_the_pattern(
    name: str, settings: dict[str, Any], dtype: torch.dtype, tolerance: float
) -> None:
    layer, (q, k, v) = variant(name, settings, dtype), qkv(dtype)
    torch.testing.assert_close(layer.mix(q, k, v), layer.read(layer.pattern(q, k), v), atol=tolerance, rtol=0)


@each_case
def test_reading_is_the_mixing_matrix_times_the_values(name: str, settings: dict[str, Any]) -> None:
    layer, (q, k, v) = variant(name, settings), qkv()
    pattern = layer.pattern(q, k)
    torch.testing.assert_close(layer.read(pattern, v), layer.mixing_matrix(pattern) @ v)


@each_case
def test_pattern_rows_are_causal_distributions(name: str, settings: dict[str, Any]) -> None:
    layer, (q, k, _) = variant(name, settings), qkv()
    pattern = layer.pattern(q, k)
    torch.testing.assert_close(pattern.sum(-1), torch.ones_like(pattern.sum(-1)))
    assert torch.equal(pattern, pattern.tril()) and bool((pattern >= 0).all())


@each_case
@pytest.mark.parametrize("cuts", [[1] * 9, [4, 5], [1, 7, 1], [9]])
def test_extending_in_pieces_equals_mixing_at_once(name: str, settings: dict[str, Any], cuts: list[int]) -> None:
    layer, (q, k, v) = variant(name, settings), qkv()
    memory = torch.full((2, 3, 9, layer.memory_width(4)), torch.nan, dtype=torch.float64)
    read, start = [], 0
    with torch.no_grad():
        for length in cuts:
            end = start + length
            new = slice(start, end)
            read.append(layer.extend(q[:, :, new], k[:, :, :end], v[:, :, new], memory[:, :, :end]))
            start = end
    torch.testing.assert_close(torch.cat(read, dim=-2), layer.mix(q, k, v), atol=1e-12, rtol=0)


@each_case
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_any_length_in_any_pieces_is_the_textbooks(name: str, settings: dict[str, Any], data: st.DataObject) -> None:
    """Fast path, its gradients, and decoding, each against the whole pattern."""
    n_pos = data.draw(st.integers(1, 70), "positions")
    cuts = sorted(data.draw(st.sets(st.integers(1, n_pos), max_size=5), "cuts") | {n_pos})
    layer, inputs = variant(name, settings), [x.requires_grad_() for x in qkv(pos=n_pos)]
    want = layer.read(layer.pattern(*inputs[:2]), inputs[2])
    got = layer.mix(*inputs)
    torch.testing.assert_close(got, want, atol=1e-10, rtol=1e-10)
    for a, b in zip(*(torch.autograd.grad(z.sin().sum(), inputs) for z in (got, want)), strict=True):
        torch.testing.assert_close(a, b, atol=1e-8, rtol=1e-8)
    q, k, v = (x.detach() for x in inputs)
    memory, read = torch.zeros(2, 3, n_pos, layer.memory_width(4), dtype=torch.float64), []
    with torch.no_grad():
        for start, end in pairwise([0, *cuts]):
            new = slice(start, end)
            read.append(layer.extend(q[:, :, new], k[:, :, :end], v[:, :, new], memory[:, :, :end]))
    torch.testing.assert_close(torch.cat(read, dim=2), want.detach(), atol=1e-10, rtol=1e-10)


@each_case
def test_one_token_may_be_at_another_position_in_each_sequence(name: str, settings: dict[str, Any]) -> None:
    layer, (q, k, v) = variant(name, settings), qkv()
    memory, at = torch.zeros(2, 3, 9, layer.memory_width(4), dtype=torch.float64), torch.tensor([4, 7])
    with torch.no_grad():
        layer.extend(q[:, :, :7], k[:, :, :7], v[:, :, :7], memory[:, :, :7])  # the first has 4 tokens, then padding
        rows = (x[torch.arange(2), :, at].unsqueeze(2) for x in (q, v))
        z = layer.extend(next(rows), k[:, :, :8], next(rows), memory[:, :, :8], at)
    torch.testing.assert_close(z[:, :, 0], layer.mix(q, k, v)[torch.arange(2), :, at], atol=1e-12, rtol=0)


@each_case
def test_gradients_are_right(name: str, settings: dict[str, Any]) -> None:
    layer = variant(name, settings)
    inputs = [x[:1, :1, :5].requires_grad_() for x in qkv()]
    assert torch.autograd.gradcheck(layer.mix, inputs)
    assert torch.autograd.gradcheck(lambda q, k, v: layer.read(layer.pattern(q, k), v), inputs)


@each_case
def test_a_later_token_never_changes_an_earlier_logit(name: str, settings: dict[str, Any]) -> None:
    decoder, first = model(name, settings), tokens()
    second = first.clone()
    second[:, 6:] = (second[:, 6:] + 1) % 13
    a, b = decoder(first), decoder(second)
    torch.testing.assert_close(a[:, :6], b[:, :6], atol=1e-6, rtol=0)
    assert not torch.allclose(a[:, 6:], b[:, 6:], atol=1e-3)


@each_case
@pytest.mark.parametrize("positions", ["learned", "none"])
def test_cached_generation_equals_recomputing(name: str, settings: dict[str, Any], positions: str) -> None:
    decoder, prompt = model(name, settings, positions=positions), tokens(pos=4)
    expected = prompt
    for _ in range(12):
        expected = torch.cat([expected, decoder(expected)[:, -1:].argmax(-1)], dim=1)
    assert torch.equal(decoder.generate(prompt, 12), expected)


@each_case
@pytest.mark.parametrize("positions", ["learned", "none"])
def test_prompts_of_different_lengths_decode_together_as_alone(
    name: str, settings: dict[str, Any], positions: str
) -> None:
    decoder = model(name, settings, positions=positions)
    prompts = [row[:length] for row, length in zip(tokens(4, 8), (8, 1, 5, 5), strict=True)]
    together = decoder.generate(prompts, 8)
    assert [len(row) for row in together] == [16, 9, 13, 13]
    for prompt, row in zip(prompts, together, strict=True):
        assert torch.equal(row, decoder.generate(prompt[None], 8)[0])


@each_case
@pytest.mark.parametrize("cuts", [[16], [1] * 16, [7, 9], [5, 1, 1, 6, 3]])
def test_chunks_have_the_logits_of_the_whole(name: str, settings: dict[str, Any], cuts: list[int]) -> None:
    decoder, whole = model(name, settings), tokens(pos=16)
    cache = decoder.cache(3)
    logits = torch.cat([decoder.extend(chunk, cache) for chunk in whole.split(cuts, dim=1)], dim=1)
    torch.testing.assert_close(logits, decoder(whole), atol=1e-5, rtol=1e-5)


@each_case
@pytest.mark.parametrize("norm", ["layernorm", "none"])
@pytest.mark.parametrize("positions", ["learned", "none"])
def test_hooked_logits_equal_the_bare_ones(name: str, settings: dict[str, Any], norm: str, positions: str) -> None:
    decoder = model(name, settings, norm=norm, positions=positions, tied=norm == "none", unembed_bias=norm != "none")
    bare = decoder(tokens())
    scale = bare.abs().max().clamp(min=1)
    torch.testing.assert_close(hook(decoder)(tokens()) / scale, bare / scale, atol=1e-5, rtol=0)


@each_case
def test_every_gradient_of_a_model_is_finite(name: str, settings: dict[str, Any]) -> None:
    decoder = model(name, settings)
    decoder(tokens()).logsumexp(-1).sum().backward()
    for parameter_name, parameter in decoder.named_parameters():
        assert parameter.grad is not None and bool(parameter.grad.isfinite().all()), parameter_name


@each_case
def test_save_and_load_are_bit_exact(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    decoder = model(name, settings)
    save_file(decoder.state_dict(), tmp_path / "weights.safetensors")
    again = Decoder(decoder.config).eval()
    again.load_state_dict(load_file(tmp_path / "weights.safetensors"))
    assert torch.equal(again(tokens()), decoder(tokens()))


@each_case
def test_half_precision_stays_close_to_single(name: str, settings: dict[str, Any]) -> None:
    decoder = model(name, settings)
    with torch.autocast("cpu", torch.bfloat16):
        half = decoder(tokens())
    assert half.dtype == torch.bfloat16
    full = decoder(tokens())
    assert (half.float() - full).abs().max() < 0.15 * full.abs().max()
