"""Jacobian lens: the Jacobians are autograd's and TransformerLens's, and a planted linear end is decoded exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.models.tiny_models import tiny
from tests.models.transformer_lens_table import gpt2, ours
from workbench.capture import LOGITS, Capture, Subject, capture
from workbench.instruments import LENSES
from workbench.instruments.lens import jacobian_lens, lens_agreement, logit_lens
from workbench.instruments.lens.jacobian_lens import JacobianLens, fit_lens, mean_jacobians
from workbench.instruments.lens.tuned_lens import TunedLens
from workbench.instruments.residual.projection import from_embedding
from workbench.measurement.controls.untrained import untrained
from workbench.models import Decoder, DecoderConfig
from workbench.models.hooked import hook
from workbench.models.pretrained import Pretrained
from workbench.tasks import make
from workbench.util.seeds import generator

TASK = make("sorting", q=8, max_length=4)
SHAPE: dict[str, Any] = {"d_vocab": 10, "n_ctx": TASK.n_ctx, "n_layers": 2, "d_model": 8, "n_heads": 2}
KINDS: list[dict[str, Any]] = [
    {},
    {"attention": "chacal"},
    {"attention": "tempered"},
    {"d_mlp": 0},
    {"norm": "rmsnorm", "positions": "rotary", "activation": "swiglu"},
]


def random_model(**changes: Any) -> Decoder:
    """Random weights large enough for the layers to matter, biases included."""
    model = Decoder(DecoderConfig(**{**SHAPE, **changes}), generator(0, "model"))
    draws = generator(1, "weights")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=draws) / 3)
    return model.eval()


def points_of(model: Any) -> list[str]:
    return from_embedding(Subject.of(model, TASK, "model"))


def seen(model: Decoder, n: int = 32) -> Capture:
    subject = Subject.of(model, TASK, "model")
    return capture(model, subject, TASK.sample(n, generator(2, "test"), split="test"), logit_lens.needs(subject))


def rest(model: Decoder, point: str, residual: Tensor, tokens: Tensor) -> Tensor:
    """The residual at the end from one at a point, layer by layer."""
    _, layer, name = point.split(".")
    lengths, x = model.input_lengths(tokens), residual
    for i in range(int(layer), len(model.layers)):
        block: Any = model.layers[i]
        if i > int(layer) or name == "hook_resid_pre":
            x = block.resid_mid(x, lengths[i])
        if i > int(layer) or name != "hook_resid_post":
            x = block.resid_post(x)
    return x


def explicit(model: Decoder, tokens: Tensor, counted: Tensor, point: str) -> Tensor:
    """The definition: the whole Jacobian of each sequence by autograd, added up over targets, averaged over sources."""
    given = dict(model.walk(tokens))[point].detach()
    each = []
    for i in range(len(tokens)):

        def end(x: Tensor, i: int = i) -> Tensor:
            return rest(model, point, x[None], tokens[i : i + 1])[0]

        whole = torch.autograd.functional.jacobian(end, given[i])  # [target, out, source, in]
        at = counted[i].nonzero()[:, 0].tolist()
        each.append(sum(whole[t, :, s] for s in at for t in at if t >= s) / len(at))
    return torch.stack(each).mean(0)


@pytest.mark.parametrize("changes", KINDS, ids=str)
def test_the_jacobians_are_autograds_in_float64_and_float32(changes: dict[str, Any]) -> None:
    batch = TASK.sample(3, generator(3), split="train")
    for dtype, error in ((torch.float64, 1e-12), (torch.float32, 2e-5)):
        model = random_model(**changes).to(dtype)
        points = points_of(model)
        found = mean_jacobians(model, batch.tokens, batch.loss_mask, points)
        assert found.dtype == dtype
        for jacobian, point in zip(found, points[:-1], strict=True):
            expected = explicit(model, batch.tokens, batch.loss_mask, point)
            assert (jacobian - expected).abs().max() < error * expected.abs().max(), point


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "made", [lambda: ours("standard"), lambda: ours("chacal"), gpt2], ids=["standard", "chacal", "gpt2"]
)
def test_the_jacobians_are_transformer_lenss(made: Callable[[], Any]) -> None:
    """Its positions: all but the first ones that it skips, and the last."""
    from transformer_lens.tools.analysis.jacobian_lens import JacobianLens as Theirs

    s = made()
    theirs = Theirs.fit(s.model, [s.text, s.other], corpus="two", skip_first_positions=1, show_progress=False)
    tokens = torch.cat([s.model.to_tokens(text) for text in (s.text, s.other)])
    counted = torch.ones_like(tokens, dtype=torch.bool)
    counted[:, 0] = counted[:, -1] = False
    points = [f"blocks.{layer}.hook_resid_post" for layer in range(2)]
    found = mean_jacobians(s.model, tokens, counted, points)
    assert (found[0] - torch.eye(len(found[0]))).abs().max() > 0.01, "the second layer does nothing"
    assert (found[0] - theirs.jacobians[0]).abs().max() < 1e-5


@pytest.mark.parametrize("attention", ["standard", "chacal"])
def test_a_decoder_and_its_hooked_copy_have_the_same_jacobians_however_many_sequences_are_taken_at_once(
    attention: str,
) -> None:
    model, batch = random_model(attention=attention), TASK.sample(5, generator(3))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    whole = mean_jacobians(model, batch.tokens, batch.loss_mask, points_of(model))
    for one in (model, hook(model)):
        parts = mean_jacobians(one, batch.tokens, batch.loss_mask, points_of(model), at_once=1)
        assert torch.allclose(whole, parts, atol=1e-5)
    frozen = random_model(attention=attention).requires_grad_(False)
    assert torch.equal(mean_jacobians(frozen, batch.tokens, batch.loss_mask, points_of(model)), whole)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())


def test_a_hugging_face_model_has_the_jacobians_of_its_own_blocks() -> None:
    """A GPT-2 by its own modules, at the point after attention too, where the residual is not an output of any."""
    plain = tiny("gpt2")
    ids = torch.randint(2, 40, (2, 6), generator=generator(0))
    everywhere = torch.ones_like(ids, dtype=torch.bool)
    points = ["blocks.1.hook_resid_pre", "blocks.1.hook_resid_mid", "blocks.1.hook_resid_post"]
    with torch.no_grad():
        pre = plain(ids, output_hidden_states=True).hidden_states[1]
    block: Any = plain.transformer.h[1]

    def after_attention(x: Tensor) -> Tensor:
        return x + block.mlp(block.ln_2(x))

    def whole(x: Tensor) -> Tensor:
        return after_attention(x + block.attn(block.ln_1(x[None]))[0][0])

    found = mean_jacobians(Pretrained(plain), ids, everywhere, points)
    mid = [x + block.attn(block.ln_1(x[None]))[0][0] for x in pre]
    for jacobian, function, given in zip(found, (whole, after_attention), (pre, mid), strict=True):
        each = [torch.autograd.functional.jacobian(function, x.detach()).sum(0).mean(1) for x in given]
        assert (jacobian - torch.stack(each).mean(0)).abs().max() < 1e-5


def test_a_planted_linear_end_is_decoded_exactly() -> None:
    """The second layer is x ↦ M x: its MLP is rectified twice, with opposite signs, its attention writes 0."""
    model = Decoder(DecoderConfig(**SHAPE | {"d_mlp": 16, "activation": "relu", "norm": "none"}), generator(0)).eval()
    M = torch.randn(8, 8, generator=generator(4))
    second: Any = model.layers[1]
    with torch.no_grad():
        second.attn.o.weight.zero_()
        second.mlp.fc_in.weight.copy_(torch.cat([torch.eye(8), -torch.eye(8)]))
        second.mlp.fc_out.weight.copy_(torch.cat([M - torch.eye(8), torch.eye(8) - M], dim=1))
    lens, found = fit_lens(model, TASK, n=8), seen(model)
    for point in ("blocks.0.hook_resid_post", "blocks.1.hook_resid_mid"):
        there = found[point]
        decoded = logit_lens.decode(found.subject, lens.translate(point, there))
        assert torch.allclose(decoded, there @ M.T @ model.unembedding.weight.T, atol=1e-5)
        assert torch.allclose(decoded, found[LOGITS], atol=1e-5)
    kl = jacobian_lens.measure(found, lens=lens).mean()
    assert kl.select(lens="Jacobian", point="blocks.0.hook_resid_post").values == pytest.approx(0, abs=1e-9)
    assert kl.select(lens="logit", point="blocks.0.hook_resid_post").values > 1e-6
    agree = lens_agreement.measure(found, lens=lens).mean()
    assert agree.select(against="final", point="blocks.0.hook_resid_post").values == 1
    assert agree.settings["lens"] == "Jacobian"
    table = logit_lens.lens_tokens(found, 0, lens=lens)
    assert table.settings["lens"] == "Jacobian" and table.labels is not None
    assert (table.labels[2] == table.labels[-1]).all()


def test_the_last_point_decodes_to_the_output_itself_and_an_untrained_model_changes_nothing() -> None:
    model = random_model()
    logit, jacobian = jacobian_lens.measure(seen(model), lens=fit_lens(model, TASK, n=4)).mean().values
    assert logit[-1] == jacobian[-1] == pytest.approx(0, abs=1e-12) and not np.allclose(logit[:-1], jacobian[:-1])
    fresh = untrained(model, generator(0, "null"))
    found = jacobian_lens.measure(seen(fresh), lens=fit_lens(fresh, TASK, n=4)).mean()
    assert (found.values < 0.01).all()


def test_a_lens_of_some_layers_still_goes_to_the_end() -> None:
    model = random_model(n_layers=3)
    subject = Subject.of(model, TASK, "model").only([0])
    lens, all_points = jacobian_lens.fit(model, subject, 0)["lens"], fit_lens(model, TASK)
    assert lens.points == ("blocks.0.hook_resid_pre", "blocks.0.hook_resid_mid", "blocks.0.hook_resid_post")
    assert torch.equal(lens.weight, all_points.weight[:3])


def test_the_seed_decides_the_lens_and_a_saved_one_is_the_same(tmp_path: Path) -> None:
    model = random_model()
    lens, again, other = (fit_lens(model, TASK, n=4, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(lens.weight, again.weight) and not torch.equal(lens.weight, other.weight)
    lens.save(tmp_path / "lens.safetensors")
    loaded = JacobianLens.load(tmp_path / "lens.safetensors")
    assert torch.equal(loaded.weight, lens.weight) and (loaded.points, loaded.settings) == (lens.points, lens.settings)
    with pytest.raises(ValueError, match="is no tuned lens"):
        TunedLens.load(tmp_path / "lens.safetensors")


def test_every_lens_is_listed_once_and_is_made_as_it_says() -> None:
    model = random_model()
    assert list(LENSES) == ["logit", "tuned", "Jacobian"]
    found, subject = seen(model, 4), Subject.of(model, TASK, "model")
    lens = LENSES["Jacobian"].fit(model, subject, 0)["lens"]
    assert logit_lens.lens_tokens(found, 0, lens=lens).settings["lens"] == "Jacobian"
    assert not hasattr(LENSES["logit"], "fit")


def test_what_cannot_be_averaged_is_refused_in_one_line() -> None:
    model, batch = random_model(), TASK.sample(2, generator(0))
    points, nowhere = points_of(model), torch.zeros_like(batch.loss_mask)
    with pytest.raises(ValueError, match="at least 1 sequence, not 0"):
        fit_lens(model, TASK, n=0)
    with pytest.raises(ValueError, match=r"points before the last; there is: blocks.0.hook_resid_pre, "):
        fit_lens(model, TASK, points=[points[-1]])
    with pytest.raises(ValueError, match="no position of these sequences counts"):
        mean_jacobians(model, batch.tokens, nowhere, points)
    with pytest.raises(ValueError, match=r"in the order of the forward pass: blocks.0.hook_resid_pre, "):
        mean_jacobians(model, batch.tokens, batch.loss_mask, points[::-1])
    with pytest.raises(ValueError, match=r"a decoder has no 'blocks.7.hook_resid_pre'"):
        mean_jacobians(model, batch.tokens, batch.loss_mask, ["blocks.7.hook_resid_pre", points[-1]])
    lens = fit_lens(model, TASK, n=1)
    with pytest.raises(ValueError, match="for a d_model of 4, not 8"):
        narrow = replace(lens, weight=lens.weight[:, :4, :4], bias=lens.bias[:, :4])
        jacobian_lens.measure(seen(model), lens=narrow)


def test_sequences_without_a_position_that_counts_are_left_out() -> None:
    model, batch = random_model(), TASK.sample(3, generator(0))
    mask = batch.loss_mask.clone()
    mask[1] = False
    found, some = (
        mean_jacobians(model, t, m, points_of(model))
        for t, m in ((batch.tokens, mask), (batch.tokens[[0, 2]], mask[[0, 2]]))
    )
    assert torch.allclose(found, some, atol=1e-6)
