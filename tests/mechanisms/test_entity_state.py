"""Entity state: found where a head was made to read the right clause; its edits retell the text as they should."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from workbench.capture import Capture, Subject
from workbench.measurement import Measurement
from workbench.mechanisms import entity_state
from workbench.models import Decoder, DecoderConfig
from workbench.models.attention import ATTENTION
from workbench.models.hooked import hook
from workbench.tasks.boxes import OBJECTS, Boxes
from workbench.util.seeds import generator

TASK = Boxes(n_boxes=3, n_objects=20, capacity=2, min_operations=1, max_operations=4)
BATCH = TASK.sample(64, generator(0, "boxes"))
TRUTH = TASK.truth(BATCH.tokens)
CLAUSE, GOLD = TRUTH.labels["clause"], entity_state._gold_clauses(TRUTH)
POINT = "blocks.0.hook_resid_pre"


def capture_of(pattern: Tensor) -> Capture:
    empty = torch.zeros(1, 1)
    subject = Subject("planted", TASK, empty, empty, torch.nn.Identity(), (ATTENTION["standard"](),))
    return Capture({"blocks.0.attn.hook_pattern": pattern[:, None].float()}, BATCH, subject)


def on_clause(wanted: Tensor) -> Tensor:
    """A pattern that looks evenly at one clause from each query."""
    mass = (CLAUSE[:, None, :] == wanted[:, :, None]).float()
    return mass / mass.sum(-1, keepdim=True).clamp(min=1)


def test_a_head_on_the_gold_clause_reads_the_state_and_one_on_another_clause_does_not() -> None:
    found = entity_state.score(capture_of(on_clause(GOLD)))
    assert found.dims == ("layer", "head", "example") and (found.values == 1).all()
    another = torch.where(GOLD > 0, GOLD - 1, GOLD + 1)
    assert (entity_state.score(capture_of(on_clause(another))).values == 0).all()


def test_a_head_that_looks_everywhere_reads_the_longest_clause() -> None:
    everywhere = torch.ones(*BATCH.tokens.shape, BATCH.tokens.shape[1])
    found = entity_state.score(capture_of(everywhere)).values[0, 0]
    longest = [torch.bincount(row[row >= 0]) for row in CLAUSE]
    for example, sizes in enumerate(longest):
        asked = GOLD[example][GOLD[example] >= 0]
        longest_ones = (sizes == sizes.max()).sum()  # equally long ones tie
        expected = ((sizes[asked] == sizes.max()) / longest_ones).double().mean().item()
        assert found[example] == pytest.approx(expected)


def test_the_gold_clause_is_the_last_that_changed_the_box() -> None:
    text = "The book is in Box A , there is nothing in Box B , there is nothing in Box C . Put the bag into Box B ."
    batch = TASK.parse(text + " Move the contents of Box A to Box C .")
    gold = entity_state._gold_clauses(TASK.truth(batch.tokens))[0]
    words = TASK.words(batch.tokens[0])
    answered = {box: {int(gold[i + 1])} for i, box in enumerate(words[1:]) if words[i] == "Box" and gold[i + 1] >= 0}
    assert answered == {"A": {4}, "B": {3}, "C": {4}}


def state(tokens: Tensor) -> Tensor:
    """At each token of the text what every box holds after its clause, in truth."""
    truth, rows = TASK.truth(tokens), torch.arange(len(tokens))[:, None]
    return truth.arrays["contents"].float()[rows, truth.labels["clause"].clamp(min=0)].flatten(2)


def answer_from(reads: Tensor, residual: Tensor) -> Tensor:
    """The next object of each box in the answer, read from the last token of the clauses `[batch, query]` given."""
    logits = torch.zeros(*reads.shape, len(TASK.vocabulary))
    for i, query in (reads >= 0).nonzero().tolist():
        words = TASK.words(BATCH.tokens[i, : query + 1])
        begin = len(words) - words[::-1].index("Box")
        end = int((CLAUSE[i] == reads[i, query]).nonzero().max())
        held = residual[i, end].view(TASK.boxes, TASK.n_objects)["ABC".index(words[begin])]
        left = [o for o in range(TASK.n_objects) if held[o] and OBJECTS[o] not in words[begin:]]
        if left:
            logits[i, query, TASK.vocabulary.id(OBJECTS[left[0]])] = 1
    return logits


def outcome(model: Any) -> Measurement:
    subject = capture_of(torch.zeros(64, 1, 1)).subject
    return entity_state.causal(model, subject, BATCH, generator(1)).mean("example")


def test_a_model_that_reads_the_state_at_the_gold_clause_bears_the_claim_out(stand_in) -> None:  # type: ignore[no-untyped-def]
    found = outcome(stand_in(POINT, state, partial(answer_from, GOLD)))
    assert found.n is not None and found.n.min() > 40
    assert found.values.tolist() == [[1, 1], [1, 1], [0, 0]] and found.coords["edit"][-1] == "elsewhere"


def test_a_model_that_reads_the_clause_before_does_not(stand_in) -> None:  # type: ignore[no-untyped-def]
    found = outcome(stand_in(POINT, state, partial(answer_from, GOLD - 1)))  # right where the box has not changed
    assert found.n is not None and found.n.min() > 5
    assert found.values.tolist() == [[0, 0], [1, 1], [1, 1]]


def test_the_text_is_retold_with_one_object_made_another_and_stays_a_text_about_boxes(stand_in) -> None:  # type: ignore[no-untyped-def]
    model = stand_in(POINT, state, partial(answer_from, GOLD))
    outcome(model)
    retold, claimed = model.runs[0], model.edits[0]
    for i in claimed.span.any(-1).nonzero()[:, 0].tolist():
        question = int(TASK.question_length(BATCH.tokens[i : i + 1])[0])
        before, after = (TASK.words(tokens[i, :question]) for tokens in (BATCH.tokens, retold))
        changed = {(a, b) for a, b in zip(before, after, strict=True) if a != b}
        assert len(changed) == 1
        ((old, new),) = changed
        assert abs(OBJECTS.index(old) - OBJECTS.index(new)) == 1 and new not in before and old not in after
        answered = TASK.words(TASK.parse(" ".join(after)).tokens[0])[question:]
        expected = [new if word == old else word for word in TASK.words(BATCH.tokens[i])[question:]]
        assert answered == expected[: len(answered)] and TASK.vocabulary.words[int(claimed.predicted[i])] == new


def test_a_model_that_is_never_right_has_no_answers_to_test() -> None:
    config = DecoderConfig(n_layers=1, d_model=16, n_heads=2, d_vocab=len(TASK.vocabulary), n_ctx=TASK.n_ctx)
    model = Decoder(config, generator(0)).eval()
    with torch.no_grad():
        model.unembedding.weight.zero_()
    found = entity_state.causal(hook(model), Subject.of(model, TASK, "m"), BATCH, generator(1))
    assert found.coords["edit"] == ["claimed", "whole text", "elsewhere"] and np.isnan(found.values).all()
