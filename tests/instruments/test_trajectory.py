"""Tokens followed from the embedding to the last layer, by value and by rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.util.test_ties import small, zeroed
from workbench.capture import Capture, Subject, capture
from workbench.instruments.residual import projection
from workbench.instruments.residual.trajectory import ranks, trajectory
from workbench.models.compiled import sorter
from workbench.models.hooked import hook
from workbench.tasks import TASKS, make
from workbench.util.seeds import generator

Stage = Callable[..., Capture]
TASK = make("sorting", q=9, max_length=6)
MODEL = sorter(9, None, TASK.n_ctx, pad=True)


@pytest.fixture(scope="module")
def sorted_once() -> Capture:
    """5 3 8 ⊥ 3 5 8 through the compiled sorter."""
    subject = Subject.of(MODEL, TASK, "sorter")
    return capture(MODEL, subject, TASK.parse("5 3 8"), projection.from_embedding(subject))


def test_the_sorter_follows_its_proof(sorted_once: Capture) -> None:
    """At the output 3: its own token stays in E, itself and 5 are the peaks of D after attention 1, 3 is then gone."""
    found = trajectory(sorted_once, 0, 4)
    assert found.settings["roles"] == {"own": "3", "target": "5", "identity": "3", "successor": "5"}
    assert list(found.coords["token"])[:2] == ["3", "5"]
    own, following = (found.select(token=token) for token in ("3", "5"))
    assert own.select(basis="encoder").values == pytest.approx(np.ones(5))
    assert own.select(basis="decoder").values == pytest.approx([0, 1, 1, 1, 0], abs=0.01)
    assert following.select(basis="decoder").values == pytest.approx([0, 0, 0, 0.5, 0.5], abs=0.01)


def test_ranks_count_the_tokens_above(sorted_once: Capture) -> None:
    found = ranks(sorted_once, 0, 3, tokens=[2])  # the minimum, 3, at ⊥
    assert found.units == "rank"
    assert found.select(token="3", basis="decoder", point="blocks.0.hook_resid_mid").values == 1
    above = trajectory(sorted_once, 0, 4, tokens=range(11)).select(basis="encoder", point="blocks.1.hook_resid_post")
    order = ranks(sorted_once, 0, 4, tokens=range(11)).select(basis="encoder", point="blocks.1.hook_resid_post")
    expected = [sum(above.values > value) + (1 + sum(above.values == value)) / 2 for value in above.values]
    assert order.values.tolist() == expected


def test_no_token_is_on_top_of_a_zero_vector(stage: Stage) -> None:
    seen = stage([[1, 2]], n_layers=1, activations={})
    nothing = Capture({name: torch.zeros_like(x) for name, x in seen.activations.items()}, seen.batch, seen.subject)
    assert list(trajectory(nothing, 0, 1).coords["token"]) == ["w2"]


@pytest.mark.parametrize("how", projection.UNITS)
def test_a_trajectory_is_the_projection_at_each_point(stage: Stage, how: Any) -> None:
    seen = stage([[1, 2, 3]])
    found = trajectory(seen, 0, 2, tokens=range(5), how=how)
    point = "blocks.1.hook_resid_mid"
    expected = projection.components(seen.subject, seen[point][0, 2], "decoder", how=how)
    assert found.select(basis="decoder", point=point).values == pytest.approx(expected.numpy(), rel=1e-5, abs=1e-6)
    assert found.units == projection.UNITS[how]


def test_what_one_layer_s_attention_writes_can_be_followed(sorted_once: Capture) -> None:
    """At ⊥ the first attention writes the minimum to D and nothing to E."""
    written = capture(hook(MODEL), sorted_once.subject, sorted_once.batch, ["blocks.0.hook_attn_out"])
    found = trajectory(written, 0, 3, tokens=range(11), points=["blocks.0.hook_attn_out"]).values[:, 0]
    assert found[0] == pytest.approx(np.zeros(11), abs=1e-6)
    assert found[1] == pytest.approx(np.eye(11)[2], abs=1e-3)  # but for what the softmax leaves the others


def test_what_is_written_to_the_residual_has_no_norm_of_its_own(stage: Stage) -> None:
    seen = stage([[1, 2, 3]], activations={"blocks.0.hook_attn_out": torch.full((1, 3, 8), 2.0)})
    point = "blocks.0.hook_attn_out"
    found = trajectory(seen, 0, 2, tokens=range(5), points=[point]).select(basis="decoder", point=point)
    assert found.values == pytest.approx((2.0 * seen.subject.decoder[:5].sum(-1)).numpy(), rel=1e-5)


def test_wrong_requests_are_refused(sorted_once: Capture) -> None:
    with pytest.raises(ValueError, match="no position 7; example 0 has 7 tokens"):
        trajectory(sorted_once, 0, 7)
    with pytest.raises(ValueError, match="no example 1; the batch has 1"):
        trajectory(sorted_once, 1, 0)
    with pytest.raises(ValueError, match=r"no token 11; the vocabulary has 0\.\.10"):
        ranks(sorted_once, 0, 0, tokens=[11])


@pytest.mark.parametrize("name", [name for name in TASKS if TASKS[name].token_labels])
def test_every_task_with_labels_of_tokens_can_be_followed(name: str) -> None:
    """Also one that names a label which its settings leave out, such as the value of a third property."""
    task = small(name)
    model = zeroed(task)
    subject = Subject.of(model, task, name)
    seen = capture(hook(model), subject, task.sample(2, generator(1)), projection.from_embedding(subject))
    own = task.token_labels[0]
    position = int((seen.truth.labels[own][0] >= 0).long().argmax())
    assert {"own", own} <= set(trajectory(seen, 0, position).settings["roles"])
