"""What is computed a few positions at a time, and once for a capture, is what it is at once and anew."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from workbench.capture import Capture, Subject, capture
from workbench.instruments import shared
from workbench.instruments.lens import lens_agreement, logit_lens
from workbench.instruments.residual import projection
from workbench.models import Decoder, DecoderConfig
from workbench.models.hooked import hook
from workbench.tasks import make
from workbench.util.seeds import generator


@pytest.fixture(scope="module")
def seen() -> Capture:
    task = make("sorting", q=9, max_length=6)
    shape = {"n_layers": 2, "d_model": 16, "n_heads": 2, "d_vocab": len(task.vocabulary), "n_ctx": task.n_ctx}
    model = Decoder(DecoderConfig(**shape), generator(0)).eval()
    subject = Subject.of(model, task, "random")
    batch = task.sample(5, generator(1), split="test")
    return capture(hook(model), subject, batch, {*logit_lens.needs(subject), *projection.needs(subject)})


def test_a_few_positions_at_a_time_give_the_same(seen: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    measures = (projection.measure, logit_lens.measure, lens_agreement.measure)
    whole = [measure(seen).values for measure in measures]
    tokens = [logit_lens.lens_tokens(seen, 1), projection.top_tokens(replace(seen), top=3)]
    monkeypatch.setattr(shared, "AT_ONCE", 2 * len(seen.subject.encoder))
    for measure, values in zip(measures, whole, strict=True):
        np.testing.assert_allclose(measure(seen).values, values, atol=1e-6)
    again = [logit_lens.lens_tokens(seen, 1), projection.top_tokens(replace(seen), top=3)]
    for one, other in zip(tokens, again, strict=True):
        np.testing.assert_allclose(one.values, other.values, atol=1e-6)
        assert (one.labels == other.labels).all()


def test_no_more_rows_than_asked_stand_in_memory_and_each_is_in_its_place() -> None:
    x, sizes = torch.arange(24.0).view(2, 4, 3), []

    def of(part: torch.Tensor) -> torch.Tensor:
        sizes.append(len(part))
        return part.sum(-1)

    assert torch.equal(shared.by_rows(of, x, width=shared.AT_ONCE // 3), x.sum(-1)) and sizes == [3, 3, 2]


def test_top_tokens_are_computed_once_for_a_capture(seen: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    one, calls, usual = replace(seen), [], projection.components
    monkeypatch.setattr(projection, "components", lambda *given, **how: calls.append(1) or usual(*given, **how))
    decoder = projection.top_tokens(one, top=1, bases=("decoder",))
    assert len(calls) == 1 and decoder.coords["basis"] == ("decoder",)
    both = projection.top_tokens(one, top=5)
    assert len(calls) == 2  # the encoder alone is new
    assert (both.select(basis="decoder", rank=1).labels == decoder.select(basis="decoder", rank=1).labels).all()
    projection.top_tokens(one, top=9)
    assert len(calls) == 4  # more than are kept
    projection.top_tokens(one, top=5, how="cosine")
    projection.top_tokens(replace(one), top=5)
    assert len(calls) == 8
