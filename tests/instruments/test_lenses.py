"""Logit lens and tuned lens: exact where they must be, never worse for tuning, the same for the same seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.models.tiny_models import tiny
from workbench.capture import LOGITS, Capture, Subject, capture
from workbench.inspection import inspect_model
from workbench.instruments import shared
from workbench.instruments.lens import lens_agreement, logit_lens, tuned_lens
from workbench.instruments.lens.tuned_lens import TunedLens, train_lens
from workbench.measurement.controls.untrained import untrained
from workbench.models import Decoder, DecoderConfig
from workbench.models.compiled import sorter
from workbench.models.pretrained import Pretrained
from workbench.tasks import Batch, make, own_sequences
from workbench.util.files import save_tensors
from workbench.util.seeds import generator

Stage = Callable[..., Capture]
TASK = make("sorting", q=8, max_length=6)
SHAPE = {"d_vocab": 10, "n_ctx": TASK.n_ctx, "n_layers": 2, "d_model": 16, "n_heads": 2}


def random_model(**changes: object) -> Decoder:
    """Random weights large enough for the layers to matter, biases included."""
    model = Decoder(DecoderConfig(**{**SHAPE, **changes}), generator(0, "model"))  # type: ignore[arg-type]
    draws = generator(1, "weights")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=draws) / 3)
    return model.eval()


def seen(model: Decoder, n: int = 64) -> Capture:
    subject = Subject.of(model, TASK, "model")
    return capture(model, subject, TASK.sample(n, generator(2, "test"), split="test"), logit_lens.needs(subject))


def test_the_divergence_is_the_textbook_sum() -> None:
    p, q = torch.tensor([0.5, 0.25, 0.25]), torch.tensor([0.25, 0.25, 0.5])
    expected = 0.5 * np.log(2) + 0.25 * np.log(1 / 2)
    assert float(logit_lens.divergence(p.log() + 7, q.log() - 3)) == pytest.approx(expected)


@pytest.mark.parametrize("changes", [{}, {"unembed_bias": True}, {"norm": "none"}, {"tied": True}], ids=str)
def test_the_last_point_decodes_to_the_output_itself(changes: dict[str, object]) -> None:
    capture = seen(random_model(**changes))
    kl = logit_lens.measure(capture).mean().values
    assert kl[-1] == pytest.approx(0, abs=1e-12) and (kl[:-1] > 1e-3).all()
    agree = lens_agreement.measure(capture).mean()
    assert agree.select(against="final", point="blocks.1.hook_resid_post").values == 1


def test_only_scored_positions_count() -> None:
    capture = seen(random_model())
    vague = capture[LOGITS].clone()
    vague[~capture.batch.loss_mask] += 100 * torch.rand(10, generator=generator(0))
    changed = replace(capture, activations={**capture.activations, LOGITS: vague})
    assert logit_lens.measure(changed).values == pytest.approx(logit_lens.measure(capture).values)
    nothing = replace(capture.batch, loss_mask=torch.zeros_like(capture.batch.loss_mask))
    assert np.isnan(logit_lens.measure(replace(capture, batch=nothing)).values).all()
    assert np.isnan(lens_agreement.measure(replace(capture, batch=nothing)).values).all()


def test_the_sorter_says_its_answer_only_after_the_last_mlp() -> None:
    """Before it, the token itself and the next one are level, and the share of right ones is that of ties won."""
    agree = lens_agreement.measure(seen(sorter(8, None, TASK.n_ctx, pad=True))).mean().select(against="target")
    assert agree.values[-1] == 1 and (agree.values[:-1] < 0.9).all()


def test_a_tuned_lens_is_nearer_to_the_output_on_held_out_sequences() -> None:
    model = random_model()
    found = tuned_lens.measure(seen(model, 256), lens=train_lens(model, TASK, most_steps=200)).mean()
    logit, tuned = found.values
    assert (tuned[:-1] < 0.8 * logit[:-1]).all() and logit[-1] == tuned[-1] == pytest.approx(0, abs=1e-12)


def test_a_lens_is_trained_until_twice_the_training_is_worth_no_more_than_a_hundredth() -> None:
    """On sequences that neither training has seen; the far longer one starts anew, with other sequences."""
    model = random_model()
    lens = train_lens(model, TASK, batch_size=24)
    assert lens.settings["converged"] and 200 <= lens.settings["steps"] < 6400
    longer = train_lens(model, TASK, most_steps=2 * lens.settings["steps"], still=1e-9, batch_size=24, seed=1)
    first, second = (tuned_lens.measure(seen(model, 1024), lens=one) for one in (lens, longer))
    own, more = (one.mean().select(lens="tuned").values[:-1] for one in (first, second))
    assert (more > 0.99 * own - 0.001).all(), (own, more)
    assert f"{lens.settings['steps']} steps, until its loss stood still" in first.caption
    assert (
        "its loss was still falling"
        in tuned_lens.measure(seen(model), lens=train_lens(model, TASK, most_steps=3)).caption
    )


def test_a_lens_of_an_untrained_model_finds_next_to_nothing() -> None:
    model = untrained(random_model(), generator(0, "null"))
    found = tuned_lens.measure(seen(model), lens=train_lens(model, TASK, most_steps=5)).mean()
    assert (found.values < 0.01).all()


def test_training_is_decided_by_its_seed_and_leaves_the_model_alone() -> None:
    model = random_model()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    first, again, other = (train_lens(model, TASK, most_steps=3, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first.weight, again.weight) and not torch.equal(first.weight, other.weight)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())


def test_a_lens_of_some_points_leaves_the_others_as_they_are() -> None:
    point, model = "blocks.0.hook_resid_post", random_model()
    lens, x = train_lens(model, TASK, most_steps=2, points=[point]), torch.randn(3, 16, generator=generator(0))
    assert torch.equal(lens.translate("blocks.0.hook_resid_mid", x), x)
    assert torch.allclose(lens.translate(point, x), x + x @ lens.weight[0] + lens.bias[0])


def test_a_saved_lens_is_the_same_lens(tmp_path: Path) -> None:
    lens = train_lens(random_model(), TASK, most_steps=2)
    lens.save(tmp_path / "lens.safetensors")
    loaded = TunedLens.load(tmp_path / "lens.safetensors")
    assert torch.equal(loaded.weight, lens.weight) and torch.equal(loaded.bias, lens.bias)
    assert (loaded.points, loaded.settings) == (lens.points, lens.settings)


def test_what_is_no_lens_of_this_model_is_refused(tmp_path: Path) -> None:
    save_tensors(tmp_path / "x.safetensors", {"weight": torch.zeros(2)}, {})
    with pytest.raises(ValueError, match="is no tuned lens"):
        TunedLens.load(tmp_path / "x.safetensors")
    with pytest.raises(ValueError, match="there is no"):
        TunedLens.load(tmp_path / "y.safetensors")
    narrow = TunedLens(("blocks.0.hook_resid_mid",), torch.zeros(1, 8, 8), torch.zeros(1, 8))
    with pytest.raises(ValueError, match="for a d_model of 8, not 16"):
        tuned_lens.measure(seen(random_model()), lens=narrow)
    with pytest.raises(ValueError, match="at least 1 step, until a share above 0, not 0"):
        train_lens(random_model(), TASK, most_steps=0)


def test_lens_tokens_name_the_top_token_and_its_probability() -> None:
    capture = seen(random_model())
    found = logit_lens.lens_tokens(capture, 3)
    p, word = capture.logits[3, 0].softmax(-1).max(-1)
    last = found.select(point="blocks.1.hook_resid_post", position=found.coords["position"][0])
    assert last.labels is not None and str(last.labels) == TASK.words(word[None])[0]
    assert float(last.values) == pytest.approx(float(p), rel=1e-5)


def test_of_a_large_vocabulary_lenses_and_projections_read_a_sample_of_positions_and_say_so() -> None:
    """What is read is the mean over those positions, spread over the sequence, and the same by every instrument."""
    model, tokens = Pretrained(tiny("llama", vocab_size=40_000)), torch.arange(2, 62).view(3, 20)
    names = ["logit_lens", "lens_agreement", "projection"]
    found = inspect_model(model, tokens, n=3, only=names, causal=False)
    for name in names:
        assert "Read at 8 of the 20 positions of each sequence, drawn at random." in found[name].mean.caption
        assert found[name].mean.settings["positions read"] == 8
    subject = Subject.of(model, own_sequences(tokens, 40_000), "llama")
    of_all = capture(model, subject, Batch.next_token(tokens, 0, 19), logit_lens.needs(subject))
    scored = of_all.batch.loss_mask
    read = shared.positions_read(of_all, scored)
    assert (read.sum(1) == 8).all() and not (read & ~scored).any()
    assert (read[:, :10].sum(1) >= 3).all() and (read[:, 10:].sum(1) >= 3).all()
    point = "blocks.0.hook_resid_post"
    nats = logit_lens.divergence(of_all[LOGITS].double(), logit_lens.decode(subject, of_all[point]).double()).detach()
    told = logit_lens.measure(of_all, points=[point])
    assert told.values[0] == pytest.approx(nats.where(read, torch.nan).nanmean(1).numpy(), abs=1e-9)
    assert "Read at" not in logit_lens.measure(seen(random_model())).caption
