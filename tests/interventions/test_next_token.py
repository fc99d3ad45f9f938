"""What comes next in a text, and the heads that it rests on, against the same removals made by hand."""

from __future__ import annotations

import pytest
import torch

from tests.models.tiny_models import tiny
from workbench import figures
from workbench.capture import Capture, Subject, capture
from workbench.inspection import hook_names
from workbench.interventions import CutEdge, NextToken, RemoveHead, next_token, try_edit
from workbench.judgement.words.next_token import comes_next
from workbench.models.hooked import hook
from workbench.models.pretrained import Pretrained
from workbench.tasks import own_sequences


def given(n: int = 1) -> tuple[object, Capture]:
    """A tiny Llama, whose heads share keys and values, on a few tokens."""
    model = Pretrained(tiny("llama"), None, "tiny")
    tokens = torch.randint(3, model.config.d_vocab, (2, 9), generator=torch.Generator().manual_seed(1))
    words = [f"w{i}" for i in range(model.config.d_vocab)]
    task = own_sequences(tokens, model.config.d_vocab, words=words)
    subject, hooked = Subject.of(model, task, "tiny"), hook(model)
    batch = task.sample(n, torch.Generator().manual_seed(0))
    return hooked, capture(hooked, subject, batch, hook_names(subject))


@pytest.mark.parametrize("position", [None, 4])
def test_it_is_what_removing_each_head_by_hand_gives(position: int | None) -> None:
    hooked, seen = given()
    found, at = next_token(hooked, seen, position), 8 if position is None else position
    p = seen.logits[0, at].double().softmax(-1)
    top = p.topk(5)
    assert found.likeliest.values == pytest.approx(top.values.numpy())
    assert list(found.likeliest.labels) == [f"w{i}" for i in top.indices.tolist()]
    assert found.without is not None and len(found.heads) == 5, "of eight heads, all were removed"
    token = int(top.indices[0])
    by_hand = {}
    for layer in range(2):
        for head in range(4):
            after = try_edit(hooked, seen, RemoveHead(layer, head)).after
            by_hand[layer, head] = float(after.logits[0, at].double().softmax(-1)[token])
    assert found.without.values == pytest.approx([by_hand[head] for head in found.heads], rel=1e-5)
    moved = sorted(by_hand, key=lambda head: -abs(torch.tensor(by_hand[head] / float(p[token])).log()))
    assert list(found.heads) == moved[:5], "those that move it most come first"


def test_what_a_head_reads_is_the_key_with_most_of_its_pattern() -> None:
    hooked, seen = given()
    found = next_token(hooked, seen)
    layer, head = found.heads[0]
    row = seen[f"blocks.{layer}.attn.hook_pattern"][0, head, 8]
    key = int(row.argmax())
    word = seen.subject.task.words(seen.batch.tokens[0, key : key + 1])[0]
    assert found.without is not None and found.without.labels is not None
    assert found.without.labels[0] == f"{word} at {key}, {float(row[key]):.0%}"


def test_it_is_said_and_drawn_with_every_head() -> None:
    hooked, seen = given()
    found = next_token(hooked, seen)
    said = comes_next(found, "w1 w2")
    assert said.startswith(f"After “w1 w2” comes most likely “{found.likeliest.labels[0]}” (")
    body = figures.next_token(found).body
    assert all(f'data-cell="{layer},{head}"' in body for layer, head in found.heads)
    assert "Without" not in comes_next(NextToken(found.likeliest), "w1")
    assert "data-cell" not in figures.next_token(NextToken(found.likeliest)).body


def test_more_than_one_input_and_no_position_are_refused() -> None:
    hooked, seen = given(2)
    with pytest.raises(ValueError, match="not of a batch of 2"):
        next_token(hooked, seen)
    hooked, seen = given()
    with pytest.raises(ValueError, match="no position 9; the input has 9 tokens"):
        next_token(hooked, seen, 9)


def test_an_edit_of_running_text_is_told_by_the_next_token_and_not_by_answers() -> None:
    hooked, seen = given()
    tried = try_edit(hooked, seen, CutEdge(8, 0))
    assert "likeliest next token" in tried.verdict() and "answer" not in tried.verdict()
    assert "of the 8 positions before, the likeliest changes at none" in tried.verdict(), "only the last one reads less"
    drawn = figures.edited(tried).body
    assert "next token" in drawn and "right answer<" not in drawn
