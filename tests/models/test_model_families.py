"""What is no causal stack of blocks that add to a residual is refused; precision is told from damage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, T5Config, T5ForConditionalGeneration

import workbench
from tests.models.tiny_models import FAMILIES, OTHER_FAMILIES, SUPPORTED, other, tiny, tokens
from workbench.instruments import matrix_entropy
from workbench.models.pretrained import Pretrained, set_attention

every_family = pytest.mark.parametrize("family", FAMILIES)


@pytest.mark.parametrize("name", OTHER_FAMILIES)
def test_another_family_is_refused_with_what_can_be_measured_of_it(name: str) -> None:
    why, kind, settings = OTHER_FAMILIES[name]
    model = other(kind, **settings)
    with pytest.raises(ValueError, match=why) as raised:
        Pretrained(model)
    said = str(raised.value)
    assert "workbench.instruments.matrix_entropy" in said and "\n" not in said and len(said) < 600
    with torch.no_grad():
        states = other(kind, **settings)(tokens(), output_hidden_states=True).hidden_states
    assert all(matrix_entropy(state).isfinite().all() for state in states)


@pytest.mark.parametrize(
    "model",
    [
        lambda: BertForMaskedLM(
            BertConfig(hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4)
        ),
        lambda: T5ForConditionalGeneration(T5Config(d_model=32, d_kv=8, d_ff=48, num_layers=1, num_heads=4)),
    ],
    ids=["encoder", "encoder and decoder"],
)
def test_what_is_no_language_model_that_goes_on_from_a_text_is_refused(model: Any, tmp_path: Path) -> None:
    model().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"is no causal language model of Transformers.*matrix_entropy"):
        workbench.load_model(tmp_path, progress=False)


@every_family
def test_double_precision_is_measured(family: str) -> None:
    """Norms and rotations of most compute in float32 whatever their weights are: the bridge differs by as much."""
    plain = tiny(family).double()
    with torch.no_grad():
        expected = plain(tokens()).logits
    logits = Pretrained(plain)(tokens())
    assert logits.dtype == torch.float64 and (logits - expected).abs().max() < 1e-5 * expected.abs().max()


@pytest.mark.parametrize("family", SUPPORTED)
@pytest.mark.parametrize("attention", ["chacal", "tempered"])
def test_double_precision_is_measured_with_a_variant(family: str, attention: str) -> None:
    plain = tiny(family).double()
    set_attention(plain, attention)
    Pretrained(plain)


@every_family
def test_half_precision_is_measured(family: str) -> None:
    for dtype in (torch.bfloat16, torch.float16):
        assert Pretrained(tiny(family).to(dtype))(tokens()).dtype == dtype


@every_family
def test_a_weight_that_is_no_number_is_named_and_no_bridge_is_blamed(family: str, tmp_path: Path) -> None:
    """Here of a token that no check comes across."""
    for wrong in (float("nan"), float("inf")):
        plain = tiny(family)
        name, weight = next((n, w) for n, w in plain.named_parameters() if w is plain.get_input_embeddings().weight)
        with torch.no_grad():
            weight[39, 5] = wrong
        plain.save_pretrained(tmp_path)
        with pytest.raises(ValueError, match=f"{name} has numbers that are NaN or infinite") as raised:
            workbench.load_model(tmp_path, progress=False)
        assert "bridge" not in str(raised.value)


def test_logits_beyond_a_type_are_said(tmp_path: Path) -> None:
    plain = tiny("llama")
    with torch.no_grad():
        plain.get_output_embeddings().weight *= 5e4
    plain.save_pretrained(tmp_path)
    workbench.load_model(tmp_path, dtype=torch.bfloat16, progress=False)
    with pytest.raises(ValueError, match="logits that are NaN or infinite in float16, with weights that are neither"):
        workbench.load_model(tmp_path, dtype=torch.float16, progress=False)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"max_position_embeddings": -1}, "context has 2 tokens or more, not -1"),
        ({"max_position_embeddings": 0}, "context has 2 tokens or more, not 0"),
        ({"rms_norm_eps": "small"}, "cannot read its config|cannot be run"),
    ],
    ids=str,
)
def test_a_model_that_cannot_be_run_is_one_line(changes: dict[str, Any], words: str) -> None:
    plain = tiny("llama")
    for field, value in changes.items():
        object.__setattr__(plain.config, field, value)
    for norm in (module for module in plain.modules() if hasattr(module, "variance_epsilon")):
        norm.variance_epsilon = plain.config.rms_norm_eps
    with pytest.raises(ValueError, match=words) as raised:
        Pretrained(plain)
    assert "\n" not in str(raised.value)
