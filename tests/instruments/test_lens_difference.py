"""Two models through the lens: nothing between a model and itself, the textbook's numbers between two."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from workbench.capture import Capture, Subject, capture
from workbench.instruments.lens import lens_difference, logit_lens
from workbench.models import Decoder, DecoderConfig
from workbench.tasks import make
from workbench.util.seeds import generator

TASK = make("sorting", q=8, max_length=6)


def seen(seed: int, n_layers: int = 2, n: int = 16, task: object = TASK) -> Capture:
    config = DecoderConfig(d_vocab=10, n_ctx=TASK.n_ctx, n_layers=n_layers, d_model=16, n_heads=2)
    model = Decoder(config, generator(seed, "model"))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator(seed, "weights")) / 3)
    subject = Subject.of(model.eval(), task, f"model {seed}")  # type: ignore[arg-type]
    return capture(model, subject, TASK.sample(n, generator(2, "test"), split="test"), logit_lens.needs(subject))


def test_a_model_does_not_differ_from_itself() -> None:
    both = seen(0), seen(0)
    for how, same in (("kl", 0.0), ("same_top", 1.0), ("cosine", 1.0)):
        assert lens_difference.measure(*both, how=how).values == pytest.approx(same, abs=1e-12)


def test_at_the_last_point_it_is_the_difference_of_the_outputs() -> None:
    first, second = seen(0), seen(1)
    found = lens_difference.measure(first, second)
    mask = first.batch.loss_mask[3]
    p, q = (side.logits[3][mask].double().log_softmax(-1) for side in (first, second))
    assert found.values[-1, 3] == pytest.approx(float((p.exp() * (p - q)).sum(-1).mean()))
    top = lens_difference.measure(first, second, how="same_top").values[-1, 3]
    assert top == pytest.approx(float((p.argmax(-1) == q.argmax(-1)).double().mean()))
    cosine = (p.exp() * q.exp()).sum(-1) / p.exp().norm(dim=-1) / q.exp().norm(dim=-1)
    assert lens_difference.measure(first, second, how="cosine").values[-1, 3] == pytest.approx(float(cosine.mean()))


def test_models_of_different_depths_are_compared_where_both_have_a_layer() -> None:
    found = lens_difference.measure(seen(0, n_layers=3), seen(1, n_layers=1))
    assert found.coords["point"] == ["blocks.0.hook_resid_pre", "blocks.0.hook_resid_mid", "blocks.0.hook_resid_post"]
    assert found.units == "nats" and found.settings["model"] == "model 0 and model 1"


def test_unscored_examples_have_no_value() -> None:
    first = seen(0)
    nothing = replace(first, batch=replace(first.batch, loss_mask=torch.zeros_like(first.batch.loss_mask)))
    assert np.isnan(lens_difference.measure(nothing, seen(1)).values).all()


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ValueError, match="same tokens"):
        lens_difference.measure(seen(0), seen(1, n=8))
    with pytest.raises(ValueError, match="different vocabularies"):
        lens_difference.measure(seen(0), seen(1, task=make("sorting", q=9, max_length=6)))
    with pytest.raises(ValueError, match="cosine, kl, same_top"):
        lens_difference.measure(seen(0), seen(1), how="l2")
