"""Projections on the encoder and decoder bases, and accuracy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from workbench.capture import LOGITS, Capture, Subject, capture
from workbench.instruments.answers import accuracy, overall
from workbench.instruments.residual import projection
from workbench.models import Decoder
from workbench.tasks.pointer_chain import PointerChain
from workbench.training import preset_config
from workbench.training.presets import PRESETS
from workbench.util.seeds import generator

Stage = Callable[..., Capture]


def planted(stage: Stage) -> Capture:
    """Residuals that are the own token's encoder vector after attention, and token 3's decoder vector after the MLP."""
    capture = stage([[1, 2, 3], [3, 1, 6]], pad=6, n_layers=1, d_model=64)
    encoder, decoder = capture.subject.encoder, capture.subject.decoder
    acts = dict(capture.activations)
    acts["blocks.0.hook_resid_mid"] = encoder[capture.batch.tokens]
    acts["blocks.0.hook_resid_post"] = decoder[3].expand(2, 3, -1)
    return replace(capture, activations=acts)


def test_projecting_gives_inner_products() -> None:
    residual, basis = torch.randn(2, 5, 4, generator=generator(0)), torch.randn(7, 4, generator=generator(1))
    found = projection.project(residual, basis)
    assert found.shape == (2, 5, 7)
    assert found[1, 2, 3].item() == pytest.approx(float(residual[1, 2] @ basis[3]), abs=1e-5)


def test_planted_tokens_are_found_in_the_basis_they_were_written_in(stage: Stage) -> None:
    found = projection.measure(planted(stage))
    own = found.select(token="own", example=0)
    assert own.select(basis="encoder", point="blocks.0.hook_resid_mid").values == 1
    assert own.select(basis="decoder", point="blocks.0.hook_resid_post").values == pytest.approx(1 / 3)


def test_padding_is_not_scored(stage: Stage) -> None:
    found = projection.measure(planted(stage)).select(token="own", basis="decoder", point="blocks.0.hook_resid_post")
    assert found.values[1] == pytest.approx(1 / 2)  # [3, 1, PAD] against a constant 3


def test_top_tokens_of_one_example_are_sorted_and_named(stage: Stage) -> None:
    found = projection.top_tokens(planted(stage), example=1, top=4)
    assert found.dims == ("basis", "point", "position", "rank") and found.values.shape == (2, 2, 2, 4)
    assert list(found.coords["position"]) == ["0:w3", "1:w1"]
    assert (np.diff(found.values, axis=-1) <= 0).all()
    best = found.select(basis="decoder", point="blocks.0.hook_resid_post", rank=1)
    assert best.labels is not None and best.labels.tolist() == ["w3", "w3"]
    assert "label" in found.frame()


def test_the_decoder_basis_is_read_after_the_final_norm_and_the_encoder_basis_never(stage: Stage) -> None:
    capture = planted(stage)
    normed, plain = projection.top_tokens(capture), projection.top_tokens(capture, final_norm=False)
    length = float(capture["blocks.0.hook_resid_mid"][0, 0].norm())
    encoder, decoder = ([m.select(basis=basis).values[0, 0, 0] for m in (normed, plain)] for basis in projection.BASES)
    assert encoder[0] == encoder[1]
    assert decoder[0] * length == pytest.approx(decoder[1], rel=1e-5) and abs(length - 1) > 0.1
    assert normed.settings["final_norm"] is True and plain.settings["final_norm"] is False


def of_every_kind() -> list[str]:
    """A preset of each kind of model: its attention, norm, positions and task."""
    found: dict[str, str] = {}
    for name in PRESETS:
        config = preset_config(name, {})
        model = config.model
        kind = (str(model.attention), model.norm, model.positions, model.tied, config.task["name"])
        found.setdefault(str(kind), name)
    return list(found.values())


@pytest.mark.parametrize("preset", of_every_kind())
@pytest.mark.parametrize("unembed_bias", [False, True])
def test_the_last_row_of_the_decoder_basis_says_what_the_model_says(preset: str, unembed_bias: bool) -> None:
    """With a final norm that scales and shifts each direction differently, so that leaving it out would show."""
    config = preset_config(preset, {"model": {"unembed_bias": unembed_bias}})
    task = config.make_task()
    model = Decoder(config.model, generator(0, preset))
    chance = generator(1, preset)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.startswith("final_norm") or name == "unembedding.bias":
                parameter.copy_(torch.randn(parameter.shape, generator=chance))
    batch = task.sample(8, generator(0, "batch"))
    subject = Subject.of(model, task, preset)
    last = projection.from_embedding(subject)[-1]
    with torch.no_grad():
        seen, logits = capture(model, subject, batch, [last]), model(batch.tokens)
    found = projection.components(subject, seen[last], "decoder")
    assert torch.allclose(found, logits, atol=1e-4)
    for example in range(8):
        table = projection.top_tokens(seen, example=example, top=1, points=[last]).select(basis="decoder", rank=1)
        length = int(task.lengths(batch.tokens)[example])
        assert table.labels is not None
        assert table.labels[0].tolist() == task.words(logits[example, :length].argmax(-1))
    if config.model.norm == "layernorm":
        plain = projection.components(subject, seen[last], "decoder", final_norm=False)
        assert (plain.argmax(-1) != logits.argmax(-1)).any()


def test_wrong_requests_are_refused(stage: Stage) -> None:
    with pytest.raises(ValueError, match="no example 2; the batch has 2"):
        projection.top_tokens(planted(stage), example=2)
    with pytest.raises(ValueError, match="between 1 and the vocabulary's 7, not 9"):
        projection.top_tokens(planted(stage), top=9)
    with pytest.raises(ValueError, match="unknown basis 'enc'"):
        projection.basis(planted(stage).subject, "enc")


def test_accuracy_by_depth_and_overall_agree_with_planted_logits(stage: Stage) -> None:
    task = PointerChain(n=12, k=3, reading="root")
    batch = task.sample(5, generator(0, "accuracy"))
    logits = torch.nn.functional.one_hot(batch.targets, 12).float()
    logits[0, -1] = -logits[0, -1]  # one wrong answer, at depth 3 of example 0
    capture = stage(batch.tokens)
    capture = replace(
        capture,
        activations={**capture.activations, LOGITS: logits},
        batch=batch,
        given_truth=task.truth(batch.tokens),
        subject=replace(capture.subject, task=task),
    )
    found = accuracy.measure(capture)
    assert found.dims == ("depth", "example") and list(found.coords["depth"]) == [1, 2, 3]
    assert found.values[:, 0] == pytest.approx([1, 1, 2 / 3]) and (found.values[:, 1:] == 1).all()
    whole = overall.measure(capture)
    assert whole.select(unit="position").values == pytest.approx([8 / 9, 1, 1, 1, 1])
    assert whole.select(unit="sequence").values.tolist() == [0, 1, 1, 1, 1]
