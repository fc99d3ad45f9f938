"""Models of Hugging Face with fresh and with shuffled weights: of the same shape, without loading anything."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.models.architecture_table import build
from tests.models.tiny_models import tiny, tokens
from workbench.measurement.controls.untrained import shuffled, untrained
from workbench.models.pretrained import Pretrained, set_attention
from workbench.util.seeds import generator

ARCHITECTURES = ("gpt2", "gpt_neox", "llama", "gemma2", "falcon", "gpt_oss", "opt")
"""Queries, keys and values in one matrix, tied and untied embeddings, functions in place of methods, experts."""


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_fresh_weights_are_those_that_transformers_begins_training_with(name: str) -> None:
    model: Any = Pretrained(build(name))
    before, state = model(tokens()), torch.get_rng_state()
    fresh: Any = untrained(model, generator(0, "a"))
    assert torch.equal(torch.get_rng_state(), state), "what others draw stays as it was"
    torch.manual_seed(int(torch.randint(2**31, (), generator=generator(0, "a"))))
    expected = Pretrained(AutoModelForCausalLM.from_config(model.module.original_model.config).eval())
    with torch.no_grad():
        torch.testing.assert_close(fresh(tokens()), expected(tokens()))
        assert not torch.allclose(fresh(tokens()), untrained(model, generator(1, "a"))(tokens()), atol=1e-4)
    assert torch.equal(model(tokens()), before), "the model itself stays as it is"
    names = [
        each for each in ("blocks.1.attn.hook_pattern", "blocks.1.hook_resid_mid") if each in fresh.hooked().hook_dict
    ]
    seen, wanted = (each.hooked().run_with_cache(tokens(), names_filter=names)[1] for each in (fresh, expected))
    assert names and all(torch.allclose(seen[each], wanted[each], atol=1e-6) for each in names)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_shuffled_weights_are_the_same_numbers_and_tied_ones_stay_tied(name: str) -> None:
    model: Any = Pretrained(build(name))
    other = shuffled(model, generator(0, "a"))
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        assert mine.shape == theirs.shape and torch.equal(mine.flatten().sort()[0], theirs.flatten().sort()[0])
    assert not torch.allclose(model(tokens()), other(tokens()), atol=1e-3)
    assert torch.equal(other(tokens()), shuffled(model, generator(0, "a"))(tokens()))
    tied = [Counter(map(id, each.module.original_model.state_dict(keep_vars=True).values())) for each in (model, other)]
    assert sorted(tied[0].values()) == sorted(tied[1].values())


def test_a_fresh_model_has_the_variant_of_each_layer_and_the_precision() -> None:
    module: Any = tiny("llama")
    module.to(torch.bfloat16)
    set_attention(module, ["standard", "chacal"])
    model = Pretrained(module)
    fresh = untrained(model, generator(0, "a"))
    assert [layer.name for layer in fresh.attention] == [layer.name for layer in model.attention]
    assert {weight.dtype for weight in fresh.parameters()} == {torch.bfloat16}
    bare = Pretrained(AutoModelForCausalLM.from_config(tiny("llama").config).to(torch.bfloat16).eval())
    assert fresh(tokens()).shape == bare(tokens()).shape
