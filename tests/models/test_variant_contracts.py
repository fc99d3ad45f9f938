"""What every attention variant must do, whatever it computes: a new entry of ATTENTION is picked up by itself.

Variants as a user might write them (`toys`) must do it too, with the least that they say.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from tests.models.toys import TOYS
from workbench.models import Decoder, DecoderConfig
from workbench.models.attention import ATTENTION, Attention
from workbench.models.hooked import hook

KINDS = {**ATTENTION, **TOYS}
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "tempered": [{}, {"beta": 0.7}, {"beta": 0.7, "n": 7}, {"beta": 0.7, "n": "input", "delimiters": (5, 6)}],
    "chacal": [{"form": form, "diagonal": diagonal} for form in ("eq5", "eq7") for diagonal in (False, True)]
    + [{"gamma": 0.0}, {"gamma": 0.99}],
    "tempered_chacal": [
        {"beta": 0.7},
        {"beta": 0.7, "form": "eq7", "diagonal": True},
        {"beta": 0.7, "n": "input", "delimiters": (5, 6)},
    ],
}
CASES = [(name, settings) for name in KINDS for settings in SETTINGS.get(name, [{}])]
each_case = pytest.mark.parametrize(("name", "settings"), CASES, ids=str)


@pytest.fixture(autouse=True, scope="module")
def known_toys() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, kind in TOYS.items():
            patch.setitem(ATTENTION, name, kind)
        yield


def qkv(dtype: torch.dtype = torch.float64, pos: int = 9) -> list[torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    return [torch.randn(2, 3, pos, 4, dtype=dtype, generator=g) for _ in range(3)]


def variant(name: str, settings: dict[str, Any], dtype: torch.dtype = torch.float64) -> Attention:
    return KINDS[name](**settings).to(dtype)


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
def test_pattern_rows_are_causal_and_of_our_variants_distributions(name: str, settings: dict[str, Any]) -> None:
    layer, (q, k, _) = variant(name, settings), qkv()
    pattern = layer.pattern(q, k)
    if name not in TOYS:
        torch.testing.assert_close(pattern.sum(-1), torch.ones_like(pattern.sum(-1)))
    assert torch.equal(pattern, pattern.tril()) and bool((pattern >= 0).all())


@each_case
def test_rows_of_what_is_applied_sum_to_one_if_the_variant_says_so(name: str, settings: dict[str, Any]) -> None:
    layer, (q, k, _) = variant(name, settings), qkv()
    rows = layer.mixing_matrix(layer.pattern(q, k)).sum(-1)
    if layer.passes_constants:
        torch.testing.assert_close(rows, torch.ones_like(rows))


@each_case
def test_the_terms_by_steps_sum_to_what_is_applied_and_their_means_are_the_path_lengths(
    name: str, settings: dict[str, Any]
) -> None:
    layer, (q, k, _) = variant(name, settings), qkv()
    pattern = layer.pattern(q, k)
    if layer.why_no_steps:
        for asked in (layer.weighted_by_steps, layer.path_length, lambda A: list(layer.step_terms(A))):
            with pytest.raises(ValueError, match="does not say by how many steps"):
                asked(pattern)
        return
    terms = list(islice(layer.step_terms(pattern), 3000))
    torch.testing.assert_close(torch.stack(terms).sum(0), layer.mixing_matrix(pattern), atol=1e-9, rtol=1e-9)
    weighted = torch.stack([steps * term for steps, term in enumerate(terms, 1)]).sum(0)
    torch.testing.assert_close(layer.weighted_by_steps(pattern), weighted, atol=1e-7, rtol=1e-7)
    mean = weighted.sum(-1) / layer.mixing_matrix(pattern).sum(-1)
    torch.testing.assert_close(layer.path_length(pattern), mean, atol=1e-7, rtol=1e-7)


@each_case
def test_along_a_chain_the_term_of_h_steps_reads_what_is_h_positions_back(name: str, settings: dict[str, Any]) -> None:
    """Steps are told apart without the variant's own word: each position here points at the one before it."""
    layer, chain = variant(name, settings), torch.diag(torch.ones(6, dtype=torch.float64), -1)[None, None]
    back = torch.arange(7)[:, None] - torch.arange(7)
    read = layer.mixing_matrix(chain)[0, 0]
    assert layer.why_no_steps or not (read[back == 0]).any()
    for steps, term in enumerate([] if layer.why_no_steps else islice(layer.step_terms(chain), 7), 1):
        torch.testing.assert_close(term[0, 0], torch.where(back == steps, read, 0.0))


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
@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "none"])
def test_cached_generation_equals_recomputing(name: str, settings: dict[str, Any], positions: str) -> None:
    decoder, prompt = model(name, settings, positions=positions), tokens(pos=4)
    expected = prompt
    for _ in range(12):
        expected = torch.cat([expected, decoder(expected)[:, -1:].argmax(-1)], dim=1)
    assert torch.equal(decoder.generate(prompt, 12), expected)


@each_case
@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "none"])
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
    decoder, whole = model(name, settings).double(), tokens(pos=16)
    cache = decoder.cache(3)
    logits = torch.cat([decoder.extend(chunk, cache) for chunk in whole.split(cuts, dim=1)], dim=1)
    torch.testing.assert_close(logits, decoder(whole), atol=1e-10, rtol=1e-10)


@each_case
@pytest.mark.parametrize("norm", ["layernorm", "none"])
@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "none"])
def test_hooked_logits_equal_the_bare_ones(name: str, settings: dict[str, Any], norm: str, positions: str) -> None:
    decoder = model(name, settings, norm=norm, positions=positions, tied=norm == "none", unembed_bias=norm != "none")
    bare = decoder(tokens())
    scale = bare.abs().max().clamp(min=1)
    torch.testing.assert_close(hook(decoder)(tokens()) / scale, bare / scale, atol=1e-5, rtol=0)


@each_case
def test_the_pattern_that_is_seen_is_the_variants_and_an_edit_of_it_changes_what_is_read(
    name: str, settings: dict[str, Any]
) -> None:
    decoder = model(name, settings)
    hooked, layer = hook(decoder), decoder.layers[1].attn
    _, cache = hooked.run_with_cache(tokens())
    q, k = queries_and_keys(hooked, 1)
    v = cache["blocks.1.attn.hook_v"].transpose(1, 2)
    seen = cache["blocks.1.attn.hook_pattern"]
    torch.testing.assert_close(seen, layer.variant.pattern(q, k))

    def halve(pattern: torch.Tensor, hook: Any) -> torch.Tensor:
        return pattern / 2

    with hooked.hooks([("blocks.1.attn.hook_pattern", halve)]):
        _, edited = hooked.run_with_cache(tokens(), names_filter="blocks.1.attn.o.hook_out")
    expected = layer.merge(layer.variant.read(seen / 2, v))
    torch.testing.assert_close(edited["blocks.1.attn.o.hook_out"], expected, atol=1e-5, rtol=1e-5)


@each_case
def test_edited_scores_change_the_pattern_or_are_refused(name: str, settings: dict[str, Any]) -> None:
    decoder = model(name, settings)
    hooked, at = hook(decoder), "blocks.0.attn.hook_attn_scores"
    scores = hooked.run_with_cache(tokens())[1][at]

    def double(scores: torch.Tensor, hook: Any) -> torch.Tensor:
        return 2 * scores

    if name == "distance":
        assert bool(scores.isnan().all())
        with pytest.raises(ValueError, match="cannot be edited: its pattern does not come"):
            hooked.run_with_hooks(tokens(), fwd_hooks=[(at, double)])
        torch.testing.assert_close(hooked(tokens()), decoder(tokens()), atol=1e-4, rtol=1e-4)
        return
    torch.testing.assert_close(scores, decoder.layers[0].attn.variant.scores(*queries_and_keys(hooked)))
    with hooked.hooks([(at, double)]):
        _, edited = hooked.run_with_cache(tokens())
    variant = decoder.layers[0].attn.variant
    own = variant.scores
    variant.scores = lambda *given, **how: 2 * own(*given, **how)
    expected = variant.pattern(*queries_and_keys(hooked))
    torch.testing.assert_close(edited["blocks.0.attn.hook_pattern"], expected, atol=1e-5, rtol=1e-5)


def queries_and_keys(hooked: Any, layer: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """What a layer's variant computes its pattern of: the hooked queries, scaled by their inputs' lengths, and keys."""
    cache, variant = hooked.run_with_cache(tokens())[1], hooked.blocks[layer].attn.variant
    q, k = (cache[f"blocks.{layer}.attn.hook_{part}"].transpose(1, 2) for part in "qk")
    return variant.scale_by_input(q, variant.input_lengths(tokens())), k


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
