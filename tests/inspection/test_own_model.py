"""Models that know nothing of this library, inspected: as a module, as a bridge, or as activations alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import workbench
from tests.models.own_modules import CONTEXT, KINDS, PARTS, VOCABULARY, Language
from workbench import report, tasks
from workbench.capture import Capture
from workbench.inspection import Inspected, inspect_model
from workbench.instruments.attention import graph_measures
from workbench.instruments.residual import entropy, projection
from workbench.models import ModuleKind, OwnModel, Parts
from workbench.runs import save_model
from workbench.tasks import own_sequences
from workbench.util.seeds import generator

FEW: dict[str, Any] = {"n": 12, "seed": 0}


def tokens(n: int = 12, seed: int = 0) -> Tensor:
    return torch.randint(VOCABULARY, (n, CONTEXT), generator=generator(seed, "tokens"))


@pytest.fixture(scope="module")
def model() -> OwnModel:
    module = KINDS["fused"].fresh({}, generator(0, "model"))
    return OwnModel(module, PARTS, CONTEXT, name="fused", build=lambda draws: KINDS["fused"].fresh({}, draws))


@pytest.fixture(scope="module")
def inspected(model: OwnModel) -> Inspected:
    return inspect_model(model, tokens(), **FEW)


def test_a_module_that_knows_nothing_of_us_is_measured_with_its_control(inspected: Inspected) -> None:
    """Thirteen instruments; the tuned lens, which is trained first, is the fourteenth."""
    assert len(inspected.results) >= 13 and len(inspected.sample) == 12
    assert all(
        np.isfinite(inspected[name].mean.values).all() for name in ("entropy", "loss", "logit_lens", "projection")
    )
    assert inspected["entropy"].controls["untrained"].draws is not None


@pytest.mark.slow
def test_a_lens_is_trained_on_the_sequences_given_for_that(model: OwnModel) -> None:
    given = own_sequences(tokens(), VOCABULARY, training=tokens(64, 1))
    lens = inspect_model(model, given, only=["tuned_lens"], name="lens", **FEW)
    assert np.isfinite(lens["tuned_lens"].mean.values).all()


def test_a_report_is_written_of_it(inspected: Inspected, tmp_path: Path) -> None:
    written = report.write([inspected], tmp_path / "report")
    assert "2 layers, fused" in written.says and "Measured on 12 given sequences" in written.says
    assert "not trained here" in written.html.read_text()
    assert (tmp_path / "report/data/own model/entropy.csv").is_file()


def test_without_what_builds_it_anew_there_is_no_untrained_control() -> None:
    alone = OwnModel(KINDS["fused"].fresh({}, generator(0, "model")), PARTS, CONTEXT)
    found = inspect_model(alone, tokens(), only=["entropy"], **FEW)
    assert "untrained" not in found["entropy"].controls


def test_where_no_pattern_is_seen_only_what_reads_one_is_left_out() -> None:
    module = KINDS["unseen"].fresh({}, generator(0, "model"))
    found = inspect_model(OwnModel(module, PARTS, CONTEXT), tokens(), **FEW)
    assert "no attention pattern is seen" in found.left_out["graph_measures"]
    assert "no attention pattern is seen" in found.left_out["head_roles"]
    assert {"entropy", "logit_lens", "projection", "loss"} <= {*found}


def test_a_bridge_and_the_module_within_it_are_measured_alike(tmp_path: Path) -> None:
    """GPT-2 through TransformerLens's bridge, and as a module with a note of its parts: claims and edits too."""
    from transformer_lens.model_bridge import TransformerBridge
    from transformers import GPT2Config, GPT2LMHeadModel

    task = tasks.make("sorting", q=8, min_length=2, max_length=5)
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(task.vocabulary), n_positions=task.n_ctx, n_embd=16, n_layer=2, n_head=2, initializer_range=0.3
    )
    gpt2 = GPT2LMHeadModel(config).eval()
    gpt2.save_pretrained(tmp_path / "gpt2")
    parts = Parts(
        embed="transformer.wte",
        blocks="transformer.h",
        attn="attn",
        mlp="mlp",
        final_norm="transformer.ln_f",
        unembed="lm_head",
    )
    bridge = TransformerBridge.boot_transformers(str(tmp_path / "gpt2"))
    one = inspect_model(bridge, task, n=8)
    other = inspect_model(OwnModel(gpt2, parts, task.n_ctx), task, n=8)
    assert {*one} == {*other} >= {"attention_graph", "minimum", "successor", "logit_lens"}
    for name in one:
        np.testing.assert_allclose(one[name].examples.values, other[name].examples.values, atol=1e-5)
    given = task.sample(4, workbench.generator(0)).tokens
    cut = [("blocks.1.attn.hook_pattern", lambda pattern, hook: pattern.tril(-1))]
    with bridge.hooks(fwd_hooks=cut), torch.no_grad():
        expected = bridge(given)
    hooked = OwnModel(gpt2, parts, task.n_ctx).hooked()
    with hooked.hooks(fwd_hooks=cut), torch.no_grad():
        torch.testing.assert_close(hooked(given), expected, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_activations_captured_elsewhere_are_measured_as_the_model_is(model: OwnModel, inspected: Inspected) -> None:
    """In plain PyTorch: hooks on the blocks give the residual, and nothing of this library ran the model."""
    module: Any = model.module
    given = inspected.example.batch.tokens
    held: dict[str, Tensor] = {"blocks.0.hook_resid_pre": module.tok(given)}
    for layer, block in enumerate(module.layers):
        block.norm2.register_forward_pre_hook(
            lambda m, args, at=f"blocks.{layer}.hook_resid_mid": held.update({at: args[0]})
        )
        block.register_forward_hook(lambda m, args, out, at=f"blocks.{layer}.hook_resid_post": held.update({at: out}))
    module(given)
    seen = Capture.of(held, given, encoder=module.tok.weight, decoder=module.output.weight, final_norm=module.norm)
    for instrument in (entropy, projection):
        expected = instrument.measure(inspected.example).values
        np.testing.assert_allclose(instrument.measure(seen).values, expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match=r"'blocks.0.attn.hook_pattern' was not captured"):
        graph_measures.measure(seen)
    with pytest.raises(ValueError, match="is of 1 sequences, and there are 2"):
        Capture.of(held, given.expand(2, -1), encoder=module.tok.weight, decoder=module.output.weight)
    with pytest.raises(ValueError, match="no activation is of a block"):
        Capture.of({}, given, encoder=module.tok.weight, decoder=module.output.weight)


def test_a_run_folder_is_measured_as_the_model_in_memory(
    model: OwnModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(workbench.models.MODELS, "fused", ModuleKind(Language, PARTS))
    save_model(tmp_path / "run", model.module, "fused", tokens())
    written = report.inspect([tmp_path / "run"], n=12, only=["entropy"], out=tmp_path / "report")
    held = inspect_model(model, tokens(), only=["entropy"], **FEW)
    np.testing.assert_allclose(written.inspected[0]["entropy"].mean.values, held["entropy"].mean.values)
