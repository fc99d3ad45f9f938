"""Tempering by the length of each input: what n is, and that nothing after the input changes it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.models.test_compiled import multisets, sorted_exactly
from workbench.models import Decoder, DecoderConfig
from workbench.models.attention import ATTENTION, tempered_attention
from workbench.models.attention.tempered import input_lengths
from workbench.models.compiled import sorter
from workbench.models.hooked import hook
from workbench.util.seeds import generator

END, PAD = 9, 10
INPUT = {"variant": "tempered", "beta": 0.8, "n": "input", "delimiters": [END]}


def decoder(attention: Any, **shape: Any) -> Decoder:
    small = {"n_layers": 1, "d_model": 16, "n_heads": 2, "d_vocab": 11, "n_ctx": 16, "positions": "none", **shape}
    model = Decoder(DecoderConfig(attention=attention, **small), generator(0)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator(1, *parameter.shape))
    return model.double()


def sequence(*symbols: int, width: int | None = None) -> Tensor:
    """Symbols, the delimiter, the symbols in order; padded on the right."""
    row = [*symbols, END, *sorted(symbols)]
    return torch.tensor([row + [PAD] * ((width or len(row)) - len(row))])


def test_an_input_is_as_long_as_the_tokens_before_its_first_delimiter_and_never_longer() -> None:
    tokens = torch.tensor([[3, 1, 2, END, 1, 2, 3, PAD], [END, 1, 2, END, 1, 2, 3, PAD], [3, 1, 2, 4, 5, 6, 7, 8]])
    assert input_lengths(tokens, [END]).tolist() == [[1, 2, 3, 3, 3, 3, 3, 3], [1] * 8, [1, 2, 3, 4, 5, 6, 7, 8]]
    assert input_lengths(tokens[2:], [7, 5]).tolist() == [[1, 2, 3, 4, 4, 4, 4, 4]]


def test_from_the_delimiter_on_it_is_the_model_whose_length_is_given() -> None:
    """One layer: there every key is the same in both, and so are the queries of inputs of that length."""
    given = decoder({**INPUT, "n": 3, "delimiters": []})
    by_input, tokens = decoder(INPUT), sequence(5, 2, 7)
    by_input.load_state_dict(given.state_dict())
    torch.testing.assert_close(by_input(tokens)[:, 2:], given(tokens)[:, 2:])
    assert not torch.allclose(by_input(sequence(5, 2, 7, 7))[:, 4:], given(sequence(5, 2, 7, 7))[:, 4:], atol=1e-3)


def test_up_to_the_delimiter_it_is_the_model_by_position() -> None:
    by_position = decoder({**INPUT, "n": "position", "delimiters": []})
    by_input, tokens = decoder(INPUT), sequence(5, 2, 7)
    torch.testing.assert_close(by_input(tokens)[:, :3], by_position(tokens)[:, :3])
    assert not torch.allclose(by_input(tokens)[:, 3:], by_position(tokens)[:, 3:], atol=1e-3)


@pytest.mark.parametrize("variant", ["tempered", "tempered_chacal"])
def test_neither_padding_nor_neighbours_in_the_batch_change_a_sequence(variant: str) -> None:
    model = decoder([{**INPUT, "variant": variant}] * 2, n_layers=2)
    short, long = sequence(5, 2, width=11), sequence(1, 1, 8, 0, 4)
    together = model(torch.cat([short, long]))
    torch.testing.assert_close(together[0, :5], model(sequence(5, 2))[0])
    torch.testing.assert_close(together[1], model(long)[0])


@pytest.mark.parametrize("variant", ["tempered", "tempered_chacal"])
def test_prompts_that_end_in_their_input_or_their_answer_decode_together_as_alone(variant: str) -> None:
    model = decoder([{**INPUT, "variant": variant}, "standard"], n_layers=2)
    prompts = [sequence(5, 2, 7)[0, :4], sequence(1, 1, 8, 0)[0, :2], sequence(4, 6)[0], sequence(3)[0, :2]]
    for prompt, row in zip(prompts, model.generate(prompts, 5), strict=True):
        expected = prompt[None]
        for _ in range(5):
            expected = torch.cat([expected, model(expected)[:, -1:].argmax(-1)], dim=1)
        assert torch.equal(row, expected[0])


def test_the_bridge_computes_it_and_cannot_start_from_a_residual_alone() -> None:
    model = decoder([INPUT, "standard"], n_layers=2)
    hooked, tokens = hook(model), torch.cat([sequence(5, 2, width=9), sequence(1, 8, 0, 4)])
    logits, cache = hooked.run_with_cache(tokens)
    torch.testing.assert_close(logits, model(tokens))
    assert torch.equal(hooked(tokens, stop_at_layer=1), cache["blocks.1.hook_resid_pre"])
    with pytest.raises(ValueError, match="queries of layer 0 depend on the length of each input"):
        hooked(cache["blocks.1.hook_resid_pre"], start_at_layer=1)


def test_every_query_may_have_its_own_length() -> None:
    q, k, v = (torch.randn(2, 3, 6, 4, generator=generator(2, i), dtype=torch.float64) for i in range(3))
    positions = torch.arange(1, 7).expand(2, 6)
    torch.testing.assert_close(
        tempered_attention(q, k, v, beta=0.7, n=positions), tempered_attention(q, k, v, beta=0.7)
    )
    lengths = torch.tensor([[4] * 6, [9] * 6])
    found = tempered_attention(q, k, v, beta=0.7, n=lengths)
    for i, n in enumerate((4, 9)):
        torch.testing.assert_close(
            found[i], tempered_attention(q[i : i + 1], k[i : i + 1], v[i : i + 1], beta=0.7, n=n)[0]
        )
    layer = ATTENTION["tempered"](beta=0.7, n="input", delimiters=(END,)).double()
    torch.testing.assert_close(layer.mix(layer.scale_by_input(q, lengths), k, v), found)
    with pytest.raises(ValueError, match=r"a length for each of 2 × 6 queries, not \[2\]"):
        tempered_attention(q, k, v, beta=0.7, n=torch.tensor([4, 9]))


def test_the_compiled_sorter_sorts_by_the_length_of_the_input_too() -> None:
    """Theorem 5.1 sets τ = 3 ln n with n the length of the input (Appendix A.4.1)."""
    by_position = sorter(10)
    attention = {**by_position.config.attention[0], "n": "input", "delimiters": [10]}
    model = Decoder(dataclasses.replace(by_position.config, attention=attention)).eval()
    model.load_state_dict(by_position.state_dict())
    for length in (2, 3, 5, 20, 100):
        for name, symbols in multisets(10, length, 16, generator(length)).items():
            assert sorted_exactly(model, 10, symbols).all(), f"{name} of {length}"


def test_an_end_must_be_named() -> None:
    with pytest.raises(ValueError, match='n="input" needs delimiters'):
        decoder({**INPUT, "delimiters": []})
