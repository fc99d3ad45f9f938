"""Claims about models that say nothing: where scores tie, each claim holds as often as chance has it."""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
import pytest
import torch

from tests.util.test_ties import each_task, seen, small, zeroed
from workbench import interventions
from workbench.capture import LOGITS, Subject
from workbench.instruments.answers import overall
from workbench.instruments.residual import projection
from workbench.mechanisms import MECHANISMS, chain_following, minimum
from workbench.mechanisms.entity_state import _read
from workbench.models.compiled import sorter
from workbench.tasks import make


def test_a_sorter_that_writes_nothing_has_the_minimum_by_chance_alone() -> None:
    """Its residual at ⊥ holds the token's own embedding, at right angles to the whole decoder basis: all are level."""
    task = make("sorting", q=10, max_length=8)
    model = sorter(10, None, task.n_ctx, pad=True)
    with torch.no_grad():
        for layer in model.layers:
            layer.attn.o.weight.zero_()
            layer.mlp.fc_out.weight.zero_()
    subject = Subject.of(model, task, "silent")
    points = sorted({*minimum.needs(subject), *projection.needs(subject), LOGITS})
    silent = seen(model, task, points, n=256)
    assert minimum.score(silent).values == pytest.approx(1 / 10)  # of the symbols: ⊥ and padding are no answer
    assert overall.measure(silent).values[0] == pytest.approx(1 / 12)
    top = projection.measure(silent).select(basis="decoder")
    assert top.values == pytest.approx(1 / 12)


@each_task
def test_no_claim_holds_of_zeros_more_often_than_of_a_random_order(name: str) -> None:
    """A decoder of zeros: every score of a token is level, and attention uniform."""
    task = small(name)
    model = zeroed(task)
    subject = Subject.of(model, task, "zeros")
    claims = {name: claim for name, claim in MECHANISMS.items() if claim.why_not(subject) is None}
    points = sorted({LOGITS, *(point for claim in claims.values() for point in claim.needs(subject))})
    zeros = seen(model, task, points)
    symbols = getattr(task, "q", 0)  # of sorting, whose claims compare these alone
    for claim_name, claim in claims.items():
        found = claim.score(zeros).values
        found = found[~np.isnan(found)]
        if claim_name in ("minimum", "copy"):
            assert found == pytest.approx(1 / symbols), claim_name
        elif claim_name == "identity_removed":
            assert found == pytest.approx(2 / symbols / symbols)
        elif claim_name == "successor":
            assert found.min() >= 1 / comb(symbols, 2) - 1e-6 and found.max() <= 1 / symbols + 1e-6
        elif claim_name == "partial_product":
            assert found == pytest.approx(0.5)
        elif claim_name == "carry":
            labels, place = zeros.truth.labels, zeros.truth.labels["digit"] >= 0
            most = int(labels["carry"][place].max()) + 1
            assert ((found >= 1 / most - 1e-6) & (found <= 0.5 + 1e-6)).all() and len(np.unique(found)) < 64
        elif claim_name == "chain_following":
            ancestors = task.truth(zeros.batch.tokens).arrays.get("ancestors")
            if ancestors is not None:  # at hop h every query has one ancestor that far, beside q − d keys that are none
                depth = (ancestors >= 0).sum(-1).double()
                among = 1 + torch.arange(ancestors.shape[1]) - depth
                one = torch.where(depth > 0, 1 / among, torch.nan).nanmean(-1)
                assert chain_following.score(zeros).values[0, 0, 0] == pytest.approx(one.numpy())
        else:
            assert found.max() <= 1, claim_name


def test_entity_state_gives_clauses_of_equal_length_equal_shares_of_a_uniform_row() -> None:
    clause = torch.tensor([[0, 0, 0, 1, 1, 1, 2, 2, 2, -1]])
    gold = torch.full((1, 10), -1)
    gold[0, 9] = 1
    uniform = torch.full((1, 1, 10, 10), 0.1)
    assert _read(uniform, clause, gold).tolist() == [[pytest.approx(1 / 3)]]


def test_an_edit_that_leaves_a_tie_is_never_as_claimed_and_a_tie_before_is_not_tested(stand_in: Any) -> None:
    point = "blocks.0.hook_resid_post"
    tokens = torch.tensor([[0, 1], [1, 1], [2, 1]])
    answers = torch.tensor([0, 1, 2])
    eye = torch.eye(3)
    model = stand_in(point, lambda t: eye[t].clone(), lambda x: x)
    start = torch.zeros(3, dtype=torch.long)
    span = torch.tensor([[True, False]] * 3)
    predicted = torch.tensor([1, 0, 0])
    put = torch.stack([eye[[1, 1]], torch.ones(2, 3), eye[[2, 2]]])  # as claimed, a tie, as before
    subject = type("S", (), {"name": "stage"})()
    edits = {"claimed": interventions.SpanEdit(point, span, put, predicted)}
    found = interventions.outcomes(model, subject, tokens, start, answers, edits, name="x", caption="y").values[0]
    assert found.tolist() == [[1, 0, 0], [1, 1, 0]]
    flat = stand_in(point, lambda t: torch.zeros(*t.shape, 3), lambda x: x)
    found = interventions.outcomes(flat, subject, tokens, start, start, edits, name="x", caption="y").values
    assert np.isnan(found).all()
