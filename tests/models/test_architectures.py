"""Every architecture of the decoder: hooked, decoded with a cache, trained, stopped and resumed, and inspected."""

from __future__ import annotations

import math
import os
import signal
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import torch
from torch import Tensor
from transformer_lens import ActivationCache

import workbench
from workbench.capture import Subject
from workbench.cli import main
from workbench.figures.paper_projection import paper_projection
from workbench.inspection import inspect_run
from workbench.instruments.residual.trajectory import trajectory
from workbench.interventions import ReadBy, SpanEdit, points, try_edit, writes
from workbench.mechanisms import identity_removed
from workbench.mechanisms.suggestions import suggestions
from workbench.models import Decoder, DecoderConfig
from workbench.models.hooked import hook
from workbench.models.norms_and_mlps import MLPS
from workbench.models.positions import POSITIONS, RotaryPositions
from workbench.runs import Run, load_run
from workbench.tasks import make
from workbench.training.optimizer_step import Step
from workbench.util.files import load_tensors
from workbench.util.seeds import generator

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "attention-only": {"d_mlp": 0},
    "grouped queries": {"n_kv_heads": 2},
    "one key for all": {"n_kv_heads": 1},
    "rotary": {"positions": "rotary"},
    "scalable": {"attention": "scalable"},
    "all that Llama has": {
        "positions": "rotary",
        "n_kv_heads": 2,
        "activation": "swiglu",
        "d_mlp": 24,
        "norm": "rmsnorm",
    },
    "SwiGLU": {"activation": "swiglu", "d_mlp": 24},
}
VARIANTS = ["standard", "tempered", "chacal", {"variant": "chacal", "form": "eq7", "diagonal": True}]
SHAPE: dict[str, Any] = {"n_layers": 2, "d_model": 16, "n_heads": 4, "d_vocab": 11, "n_ctx": 16}
TRAINED = {"task": {"n": 8, "k": 2}, "batch_size": 4, "eval_size": 8, "steps": 12, "save_every": 3}
each_architecture = pytest.mark.parametrize("name", ARCHITECTURES)
each_variant = pytest.mark.parametrize("attention", VARIANTS, ids=str)


def decoder(dtype: torch.dtype = torch.float64, **shape: Any) -> Decoder:
    """A small decoder with all its weights far from their gentle start."""
    draws = generator(1)
    model = Decoder(DecoderConfig(**{**SHAPE, **shape}), draws).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=draws).to(dtype)
    return model.eval()


def tokens(batch: int = 3, pos: int = 12) -> Tensor:
    return torch.randint(0, 11, (batch, pos), generator=generator(2))


def seen(model: Decoder) -> tuple[Any, ActivationCache]:
    hooked = hook(model)
    return hooked, hooked.run_with_cache(tokens())[1]


@each_architecture
@each_variant
def test_the_hooked_model_and_the_cache_compute_what_the_model_does(name: str, attention: Any) -> None:
    model = decoder(**{"attention": attention, **ARCHITECTURES[name]})
    logits = model(tokens())
    torch.testing.assert_close(hook(model)(tokens()), logits, atol=1e-10, rtol=1e-10)
    for cuts in ([1] * 12, [5, 1, 6]):
        cache = model.cache(3)
        read = torch.cat([model.extend(chunk, cache) for chunk in tokens().split(cuts, dim=1)], dim=1)
        torch.testing.assert_close(read, logits, atol=1e-10, rtol=1e-10)
    prompts = [tokens()[0, :7], tokens()[1, :2]]
    for prompt, row in zip(prompts, model.generate(prompts, 6), strict=True):
        for _ in range(6):
            prompt = torch.cat([prompt, model(prompt[None])[0, -1:].argmax(-1)])
        assert torch.equal(row, prompt)


@each_architecture
def test_the_future_changes_nothing_and_parameters_are_counted(name: str) -> None:
    model, other = decoder(**ARCHITECTURES[name]), tokens().clone()
    other[:, 8:] = (other[:, 8:] + 1) % 11
    torch.testing.assert_close(model(other)[:, :8], model(tokens())[:, :8], atol=1e-10, rtol=1e-10)
    of_variants = sum(weight.numel() for variant in model.attention for weight in variant.parameters())
    assert model.config.n_parameters + of_variants == sum(weight.numel() for weight in model.parameters())


@each_architecture
def test_the_residual_is_the_sum_of_what_was_written(name: str) -> None:
    _, cache = seen(decoder(**ARCHITECTURES[name]))
    parts = cache.decompose_resid()
    torch.testing.assert_close(parts.sum(0), cache["blocks.1.hook_resid_post"], atol=1e-10, rtol=1e-10)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """A run of each architecture, trained by the command line."""
    root = tmp_path_factory.mktemp("architectures")
    return {name: _train(root / name, ARCHITECTURES[name]) for name in ARCHITECTURES}


def _train(out: Path, shape: dict[str, Any]) -> Run:
    model = {"d_model": 16, "n_heads": 4, "n_layers": 2, **shape}
    fields = {f"task.{name}": value for name, value in TRAINED["task"].items()}  # type: ignore[attr-defined]
    fields |= {name: value for name, value in TRAINED.items() if name != "task"}
    fields |= {f"model.{name}": value for name, value in model.items()}
    given = [f"--{name}={value}" for name, value in fields.items()]
    assert main(["train", "chain-chacal", "--out", str(out), "--quiet", *given]) == 0
    return load_run(out)


@each_architecture
def test_training_learns_every_weight_and_a_saved_run_opens_the_same(name: str, trained: dict[str, Run]) -> None:
    run = trained[name]
    model, config = run.model(), run.config.model
    for field, value in ARCHITECTURES[name].items():
        assert field == "attention" or getattr(config, field) == value
    fresh = Decoder(config, generator(0)).state_dict()
    assert all(not torch.equal(fresh[key], weight) for key, weight in model.state_dict().items())
    batch = run.task().sample(4, generator(1)).tokens
    torch.testing.assert_close(run.hooked()(batch), model(batch), atol=1e-5, rtol=1e-5)


@each_architecture
def test_a_run_that_was_stopped_resumes_exactly(
    name: str, trained: dict[str, Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Step.__call__

    def interrupted(self: Step, batches: Any, rate: float) -> Any:
        if self.learner.step == 7:
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, batches, rate)

    with monkeypatch.context() as patch:
        patch.setattr(Step, "__call__", interrupted)
        workbench.train(trained[name].config, out=tmp_path / "run", progress=False)
    assert not load_run(tmp_path / "run").finished
    workbench.resume(tmp_path / "run", progress=False)
    ours, theirs = (load_tensors(path / "weights.safetensors")[0] for path in (tmp_path / "run", trained[name].path))
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[key], theirs[key]) for key in ours)


@each_architecture
def test_every_instrument_measures_it_or_says_why_not(name: str, trained: dict[str, Run]) -> None:
    inspected = inspect_run(trained[name], n=4, seed=0)
    assert {"projection", "logit_lens", "accuracy"} <= set(inspected.results)
    subject = Subject.of(trained[name].model(), trained[name].task(), name)
    batch = trained[name].task().sample(1, generator(0))
    capture = workbench.see(trained[name], batch)
    assert {*points(subject)} <= set(trained[name].hooked().hook_dict)
    for words, edit in suggestions(capture, 0, 0).items():
        assert try_edit(trained[name].hooked(), capture, edit).verdict(), words
    every = trajectory(capture, 0, 1, tokens=range(len(subject.encoder)))
    assert paper_projection(every).data


def test_without_an_mlp_the_points_before_and_after_it_are_one_and_nobody_lists_what_it_wrote() -> None:
    model = decoder(d_mlp=0, norm="layernorm")
    assert not any("mlp" in name or "ln2" in name for name in model.state_dict())
    hooked, cache = seen(model)
    assert torch.equal(cache["blocks.1.hook_resid_mid"], cache["blocks.1.hook_resid_post"])
    assert "blocks.0.hook_mlp_out" not in hooked.hook_dict and hooked.cfg.attn_only
    halved = hooked.run_with_hooks(tokens(), fwd_hooks=[("blocks.0.hook_resid_mid", lambda x, hook: x / 2)])
    after = hooked.run_with_hooks(tokens(), fwd_hooks=[("blocks.0.hook_resid_post", lambda x, hook: x / 2)])
    assert torch.equal(halved, after) and not torch.equal(halved, hooked(tokens()))
    subject = Subject.of(model, make("pointer_chain", n=8, k=2), "attention-only")
    assert subject.residuals == ["blocks.0.hook_resid_mid", "blocks.1.hook_resid_mid"]
    assert writes(subject) == ["blocks.0.hook_attn_out", "blocks.1.hook_attn_out"]


def test_a_claim_about_the_last_mlp_says_that_there_is_none() -> None:
    task = make("sorting")
    shape = {**SHAPE, "d_vocab": len(task.vocabulary), "n_ctx": task.n_ctx, "d_mlp": 0}
    subject = Subject.of(Decoder(DecoderConfig(**shape), generator(0)), task, "attention-only")
    assert identity_removed.why_not(subject) == "the model has no MLP, of which this claim is (d_mlp = 0)"


def test_every_mlp_and_way_to_know_positions_can_be_named_in_a_config() -> None:
    assert get_args(get_type_hints(DecoderConfig)["activation"]) == tuple(MLPS)
    assert get_args(get_type_hints(DecoderConfig)["positions"]) == tuple(POSITIONS)


def test_swiglu_is_llamas_mlp() -> None:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaMLP

    theirs = LlamaMLP(LlamaConfig(hidden_size=16, intermediate_size=24, num_attention_heads=4, mlp_bias=True)).double()
    ours = decoder(activation="swiglu", d_mlp=24).layers[0].mlp
    for name, source in (("up_proj", ours.fc_in), ("gate_proj", ours.gate), ("down_proj", ours.fc_out)):
        getattr(theirs, name).load_state_dict(source.state_dict())
    x = torch.randn(3, 5, 16, dtype=torch.float64, generator=generator(0))
    torch.testing.assert_close(ours(x), theirs(x), atol=1e-12, rtol=1e-12)


def test_the_gate_of_an_mlp_is_seen_and_edited_under_transformer_lens_names() -> None:
    model = decoder(activation="swiglu", d_mlp=24)
    hooked, cache = seen(model)
    pre, linear, post = (cache[f"blocks.0.mlp.{name}"] for name in ("hook_pre", "hook_pre_linear", "hook_post"))
    torch.testing.assert_close(torch.nn.functional.silu(pre) * linear, post)
    assert hooked.W_gate.shape == hooked.W_in.shape == (2, 16, 24) and hooked.W_out.shape == (2, 24, 16)
    for name in ("hook_pre", "hook_pre_linear", "hook_post"):
        edited = hooked.run_with_hooks(tokens(), fwd_hooks=[(f"blocks.0.mlp.{name}", lambda x, hook: x / 2)])
        assert not torch.allclose(edited, hooked(tokens()), atol=1e-3)


def test_scores_of_rotary_positions_are_those_of_the_papers_rotation_of_pairs() -> None:
    """Eq. 15: the score of query m and key n is Re Σ_i q_i k_i* e^(i(m−n)θ_i), with pairs as complex numbers."""
    q, k = torch.randn(2, 1, 1, 9, 6, dtype=torch.float64, generator=generator(0)).unbind(0)
    rotary, at = RotaryPositions(6), torch.arange(40, 49)
    scores = rotary(q, at) @ rotary(k, at).mT
    as_complex = [torch.complex(*x.chunk(2, dim=-1))[0, 0] for x in (q, k)]
    theta = torch.tensor([10_000 ** (-2 * i / 6) for i in range(3)], dtype=torch.float64)
    for m in range(9):
        for n in range(9):
            turned = torch.polar(torch.ones(3, dtype=torch.float64), (m - n) * theta)
            wanted = (as_complex[0][m] * as_complex[1][n].conj() * turned).sum().real
            torch.testing.assert_close(scores[0, 0, m, n], wanted, atol=1e-12, rtol=1e-12)


def test_rotary_positions_are_not_stored_and_their_scores_do_not_move_with_the_sequence() -> None:
    model = decoder(positions="rotary", n_layers=1, n_ctx=64)
    assert not any("rotary" in name or "position" in name for name in model.state_dict())
    attention, q = model.layers[0].attn, torch.randn(1, 4, 5, 4, dtype=torch.float64)
    here, far = (attention.rotary(q, torch.arange(5) + start) for start in (0, 1000))
    torch.testing.assert_close(here @ here.mT, far @ far.mT, atol=1e-10, rtol=1e-10)
    half = attention.rotary(q.bfloat16(), torch.arange(5) + 1000)
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.double(), far, atol=0.03, rtol=0.03)


def test_turned_queries_and_keys_are_seen_and_an_edit_of_them_counts() -> None:
    hooked, cache = seen(decoder(positions="rotary"))
    assert "hook_pos_embed" not in hooked.hook_dict and hooked.cfg.positional_embedding_type == "rotary"
    before, after = cache["blocks.1.attn.hook_k"], cache["blocks.1.attn.hook_rot_k"]
    wanted = RotaryPositions(4)(before.transpose(1, 2), torch.arange(12)).transpose(1, 2)
    torch.testing.assert_close(after, wanted)
    assert torch.equal(before[:, 0], after[:, 0]) and not torch.allclose(before[:, 1], after[:, 1], atol=1e-3)
    for point in ("hook_rot_q", "hook_rot_k"):
        edited = hooked.run_with_hooks(tokens(), fwd_hooks=[(f"blocks.0.attn.{point}", lambda x, hook: x / 2)])
        assert not torch.allclose(edited, hooked(tokens()), atol=1e-3)


@each_variant
def test_grouped_queries_are_a_model_whose_heads_have_the_same_keys_and_values(attention: Any) -> None:
    grouped = decoder(n_kv_heads=2, positions="rotary", attention=attention)
    weights = grouped.state_dict()
    for name, weight in weights.items():
        if ".attn.k." in name or ".attn.v." in name:
            weights[name] = weight.unflatten(0, (2, 4)).repeat_interleave(2, dim=0).flatten(0, 1)
    whole = decoder(positions="rotary", attention=attention)
    whole.load_state_dict(weights)
    torch.testing.assert_close(grouped(tokens()), whole(tokens()), atol=1e-12, rtol=1e-12)
    assert [keys.shape[1] for keys in grouped.cache(1).keys] == [2, 2]


def test_what_heads_share_and_what_each_has_of_it_can_be_seen_and_edited() -> None:
    hooked, cache = seen(decoder(n_kv_heads=2))
    shared, own = cache["blocks.0.attn.hook_v"], cache["blocks.0.attn.hook_v_of_head"]
    assert shared.shape == (3, 12, 2, 4) and torch.equal(own, shared[:, :, [0, 0, 1, 1]])
    assert hooked.cfg.n_key_value_heads == 2 and hooked.W_K.shape == (2, 2, 16, 4)

    def changed(point: str, head: int) -> list[bool]:
        edit = (f"blocks.0.attn.{point}", lambda x, hook: x.index_fill(2, torch.tensor([head]), 0))
        with hooked.hooks(fwd_hooks=[edit]):
            _, edited = hooked.run_with_cache(tokens())
        z = "blocks.0.attn.hook_z"
        return [not torch.allclose(edited[z][:, :, i], cache[z][:, :, i]) for i in range(4)]

    assert changed("hook_v", 1) == [False, False, True, True]
    assert changed("hook_v_of_head", 1) == changed("hook_k_of_head", 1) == [False, True, False, False]
    logits = hooked(tokens())
    hooked.set_use_split_qkv_input(True)
    torch.testing.assert_close(hooked(tokens()), logits)


def test_one_input_for_all_of_a_head_is_refused_where_heads_share() -> None:
    with pytest.raises(ValueError, match="with 2 heads of keys and values for 4 of queries they share theirs"):
        hook(decoder(n_kv_heads=2)).set_use_attn_in(True)


def test_an_edit_read_by_one_head_leaves_the_others_of_its_group() -> None:
    model = decoder(n_kv_heads=1)
    hooked, cache = seen(model)
    point = "blocks.1.hook_resid_pre"
    span = torch.zeros(3, 12, dtype=torch.bool)
    span[:, 2] = True
    edit = SpanEdit(point, span, torch.zeros_like(cache[point]), tokens()[:, 0])
    with hooked.hooks(fwd_hooks=ReadBy(lambda layer: edit, [(1, 2)]).hooks(hooked, tokens())):
        _, edited = hooked.run_with_cache(tokens())
    z = "blocks.1.attn.hook_z"
    same = [torch.equal(edited[z][:, :, head], cache[z][:, :, head]) for head in range(4)]
    assert same == [True, True, False, True]


def test_each_head_of_scalable_softmax_has_a_temperature_of_its_own_and_learns_it() -> None:
    """Head h is softmax(s_h ln n · z), which the paper writes n^(s z_i) / Σ_j n^(s z_j)."""
    model = decoder(attention="scalable")
    _, cache = seen(model)
    attention = model.layers[0].attn
    assert attention.variant.s.shape == (4,)
    q, k = (cache[f"blocks.0.attn.hook_{part}"].transpose(1, 2) for part in "qk")
    z, n = q @ k.mT / 4**0.5, torch.arange(1, 13, dtype=torch.float64)
    for head in range(4):
        power = (n[:, None] ** (attention.variant.s[head] * z[:, head])).tril()
        torch.testing.assert_close(cache["blocks.0.attn.hook_pattern"][:, head], power / power.sum(-1, keepdim=True))
    model(tokens()).square().sum().backward()
    assert bool((attention.variant.s.grad != 0).all())


def test_with_equal_temperatures_scalable_softmax_is_tempered() -> None:
    scalable, tempered = (
        decoder(attention=each) for each in ({"variant": "scalable", "s": 0.4}, {"variant": "tempered", "beta": 0.4})
    )
    weights = {name: weight for name, weight in scalable.state_dict().items() if not name.endswith(".s")}
    tempered.load_state_dict(weights, strict=False)
    with torch.no_grad():
        for one, other in zip(scalable.layers, tempered.layers, strict=True):
            one.attn.variant.s.fill_(0.6)
            other.attn.variant.beta.fill_(0.6)
    torch.testing.assert_close(scalable(tokens()), tempered(tokens()), atol=1e-12, rtol=1e-12)


def test_a_new_runs_scalable_softmax_starts_at_1_for_the_median_training_sequence(trained: dict[str, Run]) -> None:
    start = trained["scalable"].config.model.attention[0]["s"]
    assert start * math.log(trained["scalable"].task().median_training_length()) == pytest.approx(1, abs=1e-3)
    assert decoder(attention="scalable").config.attention_layer(0).s.tolist() == pytest.approx([1 / math.log(8)] * 4)
