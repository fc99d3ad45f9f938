"""On the compiled sorter every claim about sorting holds, and edits do to its answers what the claims say."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from workbench import interventions
from workbench.capture import Subject, capture
from workbench.mechanisms import MECHANISMS
from workbench.models.compiled import sorter
from workbench.models.hooked import HookedDecoder, hook
from workbench.tasks import Batch
from workbench.tasks.sorting import Sorting
from workbench.util.seeds import generator

TASK = Sorting(q=10, max_length=20)
CLAIMS = ("minimum", "copy", "successor", "identity_removed")
FORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "rotated": {"rotate_seed": 1},
    "layernorm": {"form": "layernorm"},
    "layernorm rotated": {"form": "layernorm", "rotate_seed": 2},
}
each_form = pytest.mark.parametrize("form", FORMS)
each_claim = pytest.mark.parametrize("name", CLAIMS)


@cache
def compiled(form: str) -> tuple[HookedDecoder, Subject, Batch]:
    model = sorter(TASK.q, n_ctx=TASK.n_ctx, pad=True, **FORMS[form])
    return hook(model), Subject.of(model, TASK, form), TASK.sample(200, generator(0, "compiled"))


@each_form
@each_claim
def test_every_claim_holds_on_the_compiled_sorter(name: str, form: str) -> None:
    model, subject, batch = compiled(form)
    found = MECHANISMS[name].score(capture(model, subject, batch, MECHANISMS[name].needs(subject)))
    if name == "copy":
        residuals = [point for point in found.coords["point"] if "resid" in point]
        found = found.select(point=residuals[0]).stack([found.select(point=p) for p in residuals], "point", residuals)
    defined = found.values[~np.isnan(found.values)]
    assert len(defined) > 150 and (defined == 1).all()


@each_form
@each_claim
def test_edits_of_what_is_claimed_decide_the_answer_and_edits_elsewhere_do_nothing(name: str, form: str) -> None:
    model, subject, batch = compiled(form)
    found = MECHANISMS[name].causal(model, subject, batch, generator(1, "causal")).mean("example")
    assert found.n is not None and found.n.min() > 100
    assert found.select(edit="claimed").values.tolist() == [1, 1]
    assert found.select(edit="elsewhere").values.tolist() == [0, 0]
    if "residual" in found.coords["edit"]:
        assert found.select(edit="residual").values.tolist() == [1, 1]


def test_without_its_last_mlp_the_sorter_puts_its_own_token_above_the_next() -> None:
    model, subject, batch = compiled("plain")
    labels = TASK.truth(batch.tokens).labels
    logits = interventions.activation(model, batch.tokens, "blocks.1.hook_resid_mid") @ subject.decoder.T
    differs = (labels["successor"] >= 0) & (labels["successor"] != labels["identity"])
    own, following = (
        logits.gather(-1, labels[name].clamp(min=0)[..., None])[..., 0][differs] for name in ("identity", "successor")
    )
    assert bool((own > following + 0.25).all())  # 1 and a half, less what leaks


@each_claim
def test_a_model_that_is_never_right_has_no_answers_to_test(name: str) -> None:
    model, subject, batch = compiled("plain")
    with model.hooks(fwd_hooks=[("unembed.hook_out", lambda logits, hook: torch.zeros_like(logits))]):
        nothing = Batch(batch.tokens.clamp(min=1), batch.targets, batch.loss_mask)  # answers token 0, never right
        found = MECHANISMS[name].causal(model, subject, nothing, generator(1, "causal"))
    assert np.isnan(found.values).all()


@each_claim
def test_the_same_generator_makes_the_same_edits(name: str) -> None:
    model, subject, batch = compiled("rotated")
    one, two = (MECHANISMS[name].causal(model, subject, batch[:40], generator(3)) for _ in range(2))
    np.testing.assert_array_equal(one.values, two.values)
    other = MECHANISMS[name].causal(model, subject, batch[:40], generator(4))
    assert one.dims == other.dims == ("edit", "outcome", "example")
    assert one.coords["edit"][0] == "claimed" and one.coords["edit"][-1] == "elsewhere"


def test_sequences_of_one_symbol_allow_no_test_of_a_successor_or_a_copy() -> None:
    model, subject, _ = compiled("plain")
    batch = TASK.parse("4 4 4")
    for name in ("copy", "identity_removed"):
        assert np.isnan(MECHANISMS[name].causal(model, subject, batch, generator(0)).values).all()


def test_exchanging_coordinates_twice_changes_nothing_and_once_leaves_what_is_orthogonal() -> None:
    rng = generator(0, "exchange")
    residual, basis = torch.randn(5, 3, 16, generator=rng).double(), torch.randn(7, 16, generator=rng).double()
    first, second = torch.tensor([0, 1, 2, 3, 4]), torch.tensor([1, 2, 3, 4, 4])
    once = interventions.exchanged(residual, basis, first, second)
    twice = interventions.exchanged(once, basis, first, second)
    torch.testing.assert_close(twice, residual)
    assert torch.equal(once[4], residual[4])  # a token with itself
    for i in range(4):
        plane = basis[torch.stack([first[i], second[i]])]
        coordinates = torch.linalg.lstsq(plane.T, residual[i].T).solution
        expected = residual[i] + (coordinates.flip(0) - coordinates).T @ plane
        torch.testing.assert_close(once[i], expected)


def test_exchanging_coordinates_of_orthonormal_vectors_exchanges_inner_products() -> None:
    basis = torch.linalg.qr(torch.randn(16, 16, generator=generator(1))).Q
    residual = torch.randn(2, 3, 16, generator=generator(2))
    once = interventions.exchanged(residual, basis, torch.tensor([3, 5]), torch.tensor([4, 6]))
    expected = residual @ basis.T
    expected[0][:, [3, 4]] = expected[0][:, [4, 3]]
    expected[1][:, [5, 6]] = expected[1][:, [6, 5]]
    torch.testing.assert_close(once @ basis.T, expected)


def test_an_allowed_option_is_chosen_wherever_there_is_one() -> None:
    allowed = torch.rand(500, 6, generator=generator(0)) < 0.3
    option, there = interventions.choose_one(allowed, generator(1))
    assert torch.equal(there, allowed.any(-1)) and allowed[there, option[there]].all()
    assert (option[~there] == 0).all() and len(option[there].unique()) == 6
