"""Projections on the encoder and decoder bases, and accuracy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from workbench.capture import LOGITS, Capture
from workbench.instruments import accuracy, overall, projection
from workbench.seeds import generator
from workbench.tasks.pointer_chain import PointerChain

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


def test_final_norm_is_applied_only_when_asked(stage: Stage) -> None:
    capture = planted(stage)
    plain, normed = projection.top_tokens(capture), projection.top_tokens(capture, final_norm=True)
    length = float(capture["blocks.0.hook_resid_mid"][0, 0].norm())
    assert normed.values[0, 0, 0, 0] * length == pytest.approx(plain.values[0, 0, 0, 0], rel=1e-5)
    assert normed.settings["final_norm"] is True and plain.settings["final_norm"] is False


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
