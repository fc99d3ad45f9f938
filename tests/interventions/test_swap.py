"""Swaps: at the last layer the source's own answer, of a run with itself nothing, and each is the `Patch` it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from workbench import figures
from workbench.capture import Capture, Subject, capture
from workbench.instruments.residual.projection import from_embedding
from workbench.interventions import Patch, Places, swap, try_edit
from workbench.models import Decoder, DecoderConfig
from workbench.models.compiled import sorter
from workbench.models.hooked import HookedDecoder, hook
from workbench.tasks import make
from workbench.util.seeds import generator

TASK = make("sorting", q=9, max_length=8)
SOURCE, TARGET = (TASK.parse(text) for text in ("9 8 8 9 8", "7 2 4 4 6"))
AT = Places(5, 5)  # the delimiter: the answers are 8 and 2


def random_model(**changes: Any) -> Decoder:
    shape: dict[str, Any] = {"n_layers": 2, "d_model": 16, "n_heads": 2, **changes}
    model = Decoder(DecoderConfig(**shape, d_vocab=len(TASK.vocabulary), n_ctx=TASK.n_ctx), generator(0, "model"))
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(10 if weight.ndim == 2 else 1)
    return model.eval()


def given(model: Decoder) -> tuple[HookedDecoder, Subject]:
    return hook(model), Subject.of(model, TASK, "model")


@pytest.mark.parametrize("attention", ["standard", "chacal"])
def test_at_the_last_layer_the_target_gives_the_source_s_own_answer_as_likely_as_the_source(attention: str) -> None:
    model = random_model(attention=attention)
    found = swap(*given(model), SOURCE.tokens[0], TARGET.tokens[0], Places(6, 4))
    own = model(SOURCE.tokens)[0, 6].softmax(-1)
    last = found.select(run="swapped").select(**dict.fromkeys(("from", "into"), from_embedding(given(model)[1])[-1]))
    assert float(last.values) == pytest.approx(own.max().item(), rel=1e-4)
    assert str(last.labels) == found.settings["answer"] == TASK.words(own.argmax()[None])[0]


def test_a_run_swapped_with_itself_from_a_layer_into_the_same_one_is_untouched() -> None:
    model = random_model()
    found = swap(*given(model), SOURCE.tokens[0], SOURCE.tokens[0], Places(5, 5, 7))
    swapped, untouched = (found.select(run=run) for run in ("swapped", "untouched"))
    assert np.diag(swapped.values) == pytest.approx(np.diag(untouched.values), rel=1e-4)
    assert swapped.labels is not None and untouched.labels is not None
    assert (np.diag(swapped.labels) == np.diag(untouched.labels)).all()
    assert not np.allclose(swapped.values, untouched.values), "other layers' residuals change nothing"


def test_every_swap_is_a_patch_from_one_point_into_another() -> None:
    hooked, subject = given(random_model(attention="chacal"))
    found = swap(hooked, subject, SOURCE.tokens[0], TARGET.tokens[0], Places(5, 5, 6)).select(run="swapped")
    seen: Capture = capture(hooked, subject, TARGET, ["unembed.hook_out"])
    answer = int(hooked(SOURCE.tokens)[0, 5].argmax())
    for i, source in enumerate(found.coords["from"]):
        for j, into in enumerate(found.coords["into"]):
            tried = try_edit(hooked, seen, Patch(into, "9 8 8 9 8", 5, other_point=source))
            assert float(tried.after.logits[0, 6].softmax(-1)[answer]) == pytest.approx(found.values[i, j], rel=1e-4)
    words = Patch("blocks.1.hook_resid_mid", "1", 5, 3, "blocks.0.hook_resid_pre").in_words(TASK)
    assert words == (
        "position 5 holds what position 3 of another input holds (layer 1, after attention, from the embedding)"
    )


def test_the_sorter_holds_the_minimum_only_after_its_first_attention_and_random_residuals_do_not() -> None:
    """Its delimiter answers the least number: the source's 8, where the target's is 2."""
    model = sorter(9, n_ctx=TASK.n_ctx, pad=True)
    found = swap(*given(model), SOURCE.tokens[0], TARGET.tokens[0], AT, n_random=4)
    after, before = "blocks.0.hook_resid_mid", "blocks.0.hook_resid_pre"
    assert found.settings["answer"] == "8" and found.settings["n_random"] == 4
    untouched = found.select(run="untouched").values[0, 0]
    own = found.select(run="swapped", **{"from": after, "into": after})
    assert float(own.values) == pytest.approx(model(SOURCE.tokens)[0, 5].softmax(-1).max().item(), rel=1e-4)
    assert str(own.labels) == "8" and float(own.values) > 1.5 * untouched
    embedding = found.select(run="swapped", **{"from": before, "into": before})
    assert float(embedding.values) == pytest.approx(untouched, rel=1e-4) and str(embedding.labels) == "2"
    assert found.select(run="random", **{"from": after, "into": after}).values < 0.9 * own.values
    drawn = figures.swap(found)
    assert (
        "the source says 8 at 5:⊥; the target, untouched, 2 at 5:⊥; put in at 5:⊥" in drawn.layout.title.subtitle.text
    )
    assert drawn.data[0].text[1][1] == "8"


def test_what_cannot_be_swapped_is_refused_in_one_line() -> None:
    hooked, subject = given(random_model())
    source, target = SOURCE.tokens[0], TARGET.tokens[0]
    for places, changes, message in (
        (Places(99, 5), {}, "no position 99"),
        (Places(5, 99), {}, "no position 99"),
        (Places(5, 5, 4), {}, "put at position 5 is not seen at position 4"),
        (AT, {"points": ["blocks.7.hook_resid_mid"]}, "unknown point 'blocks.7.hook_resid_mid'"),
        (AT, {"n_random": 0}, "at least 1 random sequence, not 0"),
    ):
        with pytest.raises(ValueError, match=message):
            swap(hooked, subject, source, target, places, **changes)  # type: ignore[arg-type]
    flat = random_model()
    with torch.no_grad():
        flat.unembedding.weight.zero_()
    with pytest.raises(ValueError, match="tie at position 5 of the source"):
        swap(*given(flat), source, target, AT)
