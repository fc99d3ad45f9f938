"""An edit of one input does to the model what it says, there and nowhere else, and its effect is told as it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from workbench.capture import Capture, Subject, capture
from workbench.interventions import (
    CutEdge,
    Edit,
    Edited,
    Exchange,
    MoveEdge,
    Patch,
    RemoveHead,
    RemoveWrite,
    cut_edges,
    point_in_words,
    points,
    try_edit,
    writes,
)
from workbench.interventions.edit_protocol import heads_at
from workbench.interventions.edits import AVERAGED
from workbench.mechanisms.suggestions import another, strongest_edge, suggestions
from workbench.models import Decoder, DecoderConfig
from workbench.models.compiled import chaser, sorter
from workbench.models.hooked import HookedDecoder, hook
from workbench.tasks import Batch, Task, make
from workbench.util.seeds import generator

SORTING, CHAIN = make("sorting", q=9, max_length=8), make("pointer_chain", n=16, k=4, reading="root")


def seen_by(model: Decoder, task: Task, batch: Batch) -> tuple[HookedDecoder, Capture]:
    subject, hooked = Subject.of(model, task, "subject"), hook(model)
    patterns = [f"blocks.{layer}.attn.hook_pattern" for layer in range(subject.n_layers)]
    return hooked, capture(hooked, subject, batch, [*patterns, "unembed.hook_out"])


def small(task: Task, n_layers: int = 2) -> Decoder:
    config = DecoderConfig(
        n_layers=n_layers, d_model=16, n_heads=2, d_vocab=len(task.vocabulary), n_ctx=task.n_ctx, positions="learned"
    )
    return Decoder(config, generator(0, "model")).eval()


@pytest.fixture(scope="module")
def untrained() -> tuple[HookedDecoder, Capture]:
    return seen_by(small(CHAIN), CHAIN, CHAIN.sample(1, generator(0, "edits")))


@pytest.fixture(scope="module")
def sorted_one() -> tuple[HookedDecoder, Capture]:
    return seen_by(sorter(9, n_ctx=SORTING.n_ctx, pad=True), SORTING, SORTING.parse("5 3 3 9 1"))


@pytest.fixture(scope="module")
def chased() -> tuple[HookedDecoder, Capture]:
    return seen_by(chaser(16, 4, reading="root"), CHAIN, CHAIN.sample(1, generator(2, "edits")))


def after(given: tuple[HookedDecoder, Capture], edit: Edit) -> torch.Tensor:
    return try_edit(*given, edit).after.logits


def test_without_the_edge_that_an_answer_rests_on_exactly_that_answer_changes(chased: Any) -> None:
    """Nothing rests on what the last block reads. What is left of the sum is the token of the last position reached."""
    _, seen = chased
    tokens = seen.batch.tokens[0].tolist()
    for query in range(12, 16):
        tried = try_edit(*chased, CutEdge(query, tokens[query], layer=0, head=0))
        assert np.flatnonzero(tried.changed).tolist() == [query]
        assert tried.right[0, 4:].all() and not tried.right[1, query]
        assert int(tried.after.logits[0, query].argmax()) == tokens[query]


def test_an_edge_early_on_the_chains_costs_only_answers_that_rest_on_it(chased: Any) -> None:
    _, seen = chased
    tokens, ancestors = seen.batch.tokens[0].tolist(), seen.truth.arrays["ancestors"][0].tolist()
    for query in range(4, 8):
        resting = {position for position in range(16) if position == query or query in ancestors[position]}
        changed = set(np.flatnonzero(try_edit(*chased, CutEdge(query, tokens[query])).changed).tolist())
        assert query in changed and changed <= resting and len(resting) > 1


def test_an_edge_moved_to_another_key_changes_the_answer_that_rests_on_it_alone(chased: Any) -> None:
    _, seen = chased
    tokens, roots = seen.batch.tokens[0].tolist(), seen.batch.targets[0].tolist()
    for query in range(12, 16):
        to = next(one for one in range(12) if roots[one] != roots[query])
        tried = try_edit(*chased, MoveEdge(query, tokens[query], to, layer=0, head=0))
        assert np.flatnonzero(tried.changed).tolist() == [query] and not tried.right[1, query]


def test_a_moved_edge_keeps_the_sum_of_its_row_and_touches_nothing_else(untrained: Any) -> None:
    model, seen = untrained
    for layer, head in ((0, 1), (None, 0), (1, None)):
        hooks = MoveEdge(9, 3, 5, layer, head).hooks(model, seen)
        assert [name for name, _ in hooks] == [
            f"blocks.{at}.attn.hook_pattern" for at in ([0, 1] if layer is None else [layer])
        ]
        for name, move in hooks:
            before = seen[name]
            after = move(before, None)
            expected = before.clone()
            for one in [0, 1] if head is None else [head]:
                expected[0, one, 9, 5] += expected[0, one, 9, 3]
                expected[0, one, 9, 3] = 0
            assert torch.equal(after, expected) and torch.allclose(after.sum(-1), before.sum(-1))


def test_a_cut_edge_is_that_of_cut_edges_in_every_place_that_is_not_named(untrained: Any) -> None:
    model, seen = untrained
    for layer, head in ((0, 1), (None, 0), (1, None), (None, None)):
        expected = cut_edges(model, seen.batch, None, [(0, 9, 3)], heads=heads_at(model, layer, head))
        assert torch.equal(after(untrained, CutEdge(9, 3, layer, head)), expected)
    everything = cut_edges(model, seen.batch, None, [(0, 9, key) for key in range(10)], heads=[(1, 0)])
    assert torch.equal(after(untrained, CutEdge(9, None, 1, 0)), everything)
    unread = cut_edges(model, seen.batch, 0, [(0, query, 9) for query in range(9, 16)])
    assert torch.equal(after(untrained, CutEdge(None, 9, 0)), unread)


def test_a_removed_head_is_one_whose_output_weights_are_zero(untrained: Any) -> None:
    without = small(CHAIN)
    with torch.no_grad():
        without.layers[1].attn.o.weight[:, 8:] = 0  # type: ignore[union-attr, operator, index]
    expected = without(untrained[1].batch.tokens)
    assert torch.allclose(after(untrained, RemoveHead(1, 1)), expected, atol=1e-6)
    assert not torch.allclose(expected, untrained[1].logits, atol=1e-3)


def test_a_head_s_average_is_over_all_positions_of_held_out_inputs(untrained: Any) -> None:
    model, seen = untrained
    other = CHAIN.sample(AVERAGED, generator(0, "what heads read on average"), split="test").tokens
    _, cache = model.run_with_cache(other)
    mean = cache["blocks.0.attn.hook_z"][:, :, 1].mean((0, 1))

    def put(z: torch.Tensor, hook: Any) -> torch.Tensor:
        z[:, 9, 1] = mean
        return z

    with model.hooks(fwd_hooks=[("blocks.0.attn.hook_z", put)]):
        expected = model(seen.batch.tokens)
    assert torch.allclose(after(untrained, RemoveHead(0, 1, "mean", 9)), expected, atol=1e-5)
    assert not torch.allclose(after(untrained, RemoveHead(0, 1, "zero", 9)), expected, atol=1e-5)


def test_padding_has_no_part_in_a_head_s_average(sorted_one: Any) -> None:
    """At the end of each input the sorter's ⊥ and outputs are read, at padding nothing is."""
    model, _ = sorted_one
    tokens = SORTING.sample(AVERAGED, generator(0, "what heads read on average"), split="test").tokens
    _, cache = model.run_with_cache(tokens)
    real = tokens != SORTING.pad
    mean = cache["blocks.0.attn.hook_z"][:, :, 0][real].mean(0)
    ((name, put),) = RemoveHead(0, 0, "mean").hooks(*sorted_one)
    z = put(torch.zeros(1, sorted_one[1].batch.tokens.shape[1], 2, len(mean)), None)
    assert name == "blocks.0.attn.hook_z" and torch.allclose(z[0, 3, 0], mean, atol=1e-6) and not z[:, :, 1].any()
    assert not real.all()


def test_a_removed_write_is_an_mlp_that_says_nothing(untrained: Any) -> None:
    without = small(CHAIN)
    with torch.no_grad():
        for parameter in without.layers[0].mlp.fc_out.parameters():  # type: ignore[union-attr, operator]
            parameter.zero_()
    expected = without(untrained[1].batch.tokens)
    assert torch.allclose(after(untrained, RemoveWrite("blocks.0.hook_mlp_out")), expected, atol=1e-6)


@pytest.mark.parametrize(
    "edit",
    [
        CutEdge(9, 3),
        MoveEdge(9, 3, 8),
        RemoveHead(0, 1, position=9),
        RemoveWrite("blocks.0.hook_attn_out", 9),
        Exchange("blocks.0.hook_resid_mid", 3, 5, 9, "encoder"),
        Patch("blocks.0.hook_resid_post", "0 0 0 0 3 2 1 0 7 6 5 4 11 10 9 8", 9),
    ],
    ids=lambda edit: type(edit).__name__,
)
def test_an_edit_at_a_position_changes_nothing_before_it_and_leaves_the_model_as_it_was(
    untrained: Any, edit: Edit
) -> None:
    model, seen = untrained
    logits = after(untrained, edit)
    assert torch.equal(logits[0, :9], seen.logits[0, :9]) and not torch.allclose(logits[0, 9], seen.logits[0, 9])
    assert torch.equal(model(seen.batch.tokens), seen.logits)
    assert list(edit.places(16)) == [9]


def test_a_patch_of_every_position_is_the_other_input_and_one_at_the_end_its_answer(untrained: Any) -> None:
    model, _ = untrained
    other = "9 9 9 9 3 2 1 0 7 6 5 4 11 10 9 8"
    expected = model(CHAIN.parse(other).tokens)
    assert torch.equal(after(untrained, Patch("blocks.0.hook_resid_pre", other)), expected)
    last = after(untrained, Patch("blocks.1.hook_resid_post", other, position=12, other_position=10))
    assert torch.allclose(last[0, 12], expected[0, 10], atol=1e-5)
    assert torch.equal(last[0, 13:], untrained[1].logits[0, 13:])


def test_the_sorter_begins_with_the_token_that_the_minimum_was_exchanged_for(sorted_one: Any) -> None:
    words = SORTING.words(sorted_one[1].batch.tokens[0])
    delimiter = words.index("⊥")
    tried = try_edit(*sorted_one, Exchange("blocks.0.hook_resid_mid", 0, 4, delimiter))
    assert np.flatnonzero(tried.changed).tolist() == [delimiter]
    assert tried.answers.labels is not None and tried.answers.labels[:, delimiter].tolist() == ["1", "5"]
    assert tried.verdict().startswith("1 of 5 answers changes (1 lost): position 5 says “5” in place of “1”")


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (CutEdge(3, 5), "position 3 cannot read position 5, which comes after it"),
        (CutEdge(None, None), "name a query or a key"),
        (MoveEdge(3, 1, 5), "position 3 cannot read position 5, which comes after it"),
        (MoveEdge(3, 1, 1), "leads there already"),
        (MoveEdge(16, 5, 3), "no position 16"),
        (MoveEdge(9, 3, 1, layer=2), "no layer 2; the model has 2"),
        (CutEdge(16, 5), "no position 16; the input has 16, from 0"),
        (CutEdge(3, -1), "no position -1"),
        (CutEdge(9, 3, layer=2), "no layer 2; the model has 2"),
        (CutEdge(9, 3, head=2), "no head 2; the model has 2"),
        (RemoveHead(0, 5), "no head 5"),
        (RemoveHead(0, 1, "median"), "unknown way to remove a head 'median'"),  # type: ignore[arg-type]
        (RemoveHead(0, 1, position=99), "no position 99"),
        (RemoveWrite("blocks.0.hook_resid_mid"), "unknown point 'blocks.0.hook_resid_mid'"),
        (RemoveWrite("blocks.7.hook_mlp_out"), "unknown point 'blocks.7.hook_mlp_out'"),
        (Exchange("blocks.0.hook_resid_mid", 3, 16, 9), "no token 16; the vocabulary has 16"),
        (Exchange("blocks.0.hook_resid_mid", 3, 3, 9), "these are the same one"),
        (Exchange("blocks.0.hook_resid_mid", 3, 4, 9, "other"), "unknown basis 'other'"),
        (Exchange("blocks.0.attn.hook_z", 3, 4, 9), "unknown point"),
        (Patch("blocks.0.hook_resid_mid", "1 2 3 4", None), "the other input has 4 tokens, this one 16"),
        (Patch("blocks.0.hook_resid_mid", "1 2 3 4", 9), "of the other input: there is no position 9"),
        (Patch("blocks.0.hook_resid_mid", "1 2 3 4", None, 2), "say which"),
        (Patch("blocks.0.hook_resid_mid", "1 2 3", 2), "whole blocks of 4"),
        (Patch("blocks.0.hook_resid_mid", "1 2 3 4", 40), "no position 40"),
    ],
    ids=str,
)
def test_what_is_not_there_is_refused_in_one_line(untrained: Any, edit: Edit, said: str) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        try_edit(*untrained, edit)
    assert "\n" not in str(refused.value)


def test_several_inputs_are_refused(untrained: Any) -> None:
    model, seen = untrained
    with pytest.raises(ValueError, match="one input, not on a batch of 2"):
        try_edit(model, replace(seen, batch=CHAIN.sample(2, generator(0))), CutEdge(9, 3))


def test_answers_are_the_right_one_s_log_probability_before_and_after(untrained: Any) -> None:
    _, seen = untrained
    tried = try_edit(*untrained, RemoveWrite("blocks.1.hook_mlp_out"))
    for i, run in enumerate((tried.before, tried.after)):
        expected = run.logits[0].log_softmax(-1)[torch.arange(16), seen.batch.targets[0]]
        assert np.allclose(tried.answers.values[i, 4:], expected[4:], atol=1e-6)
    assert np.isnan(tried.answers.values[:, :4]).all()
    moved = np.abs(np.exp(tried.answers.values[1, 4:]) - np.exp(tried.answers.values[0, 4:]))
    if not tried.changed.any():
        assert tried.most == 4 + int(moved.argmax())
    assert tried.answers.frame().shape == (32, 4)


def test_of_sets_the_members_found_are_told_and_a_change_is_another_set() -> None:
    task = make("pointer_chain", n=16, k=4)
    batch = task.sample(1, generator(3, "edits"))
    given = seen_by(chaser(16, 4), task, batch)
    tried = try_edit(*given, CutEdge(15, int(batch.tokens[0, 15])))
    assert np.flatnonzero(tried.changed).tolist() == [15] and tried.most == 15
    assert tried.answers.labels is not None and tried.answers.labels[0, 15] == "3 of 3"
    assert tried.verdict().startswith("1 of 12 answers changes (1 lost): of the set asked for at position 15, 3 of 3")
    before, targets = tried.before.logits[0, 15].log_softmax(-1), batch.targets[0, 15]
    assert np.isclose(tried.answers.values[0, 15], before[targets].mean(), atol=1e-5)


def test_an_edit_that_does_nothing_says_so(sorted_one: Any) -> None:
    tried = try_edit(*sorted_one, CutEdge(1, 0, 0, 1))
    assert not tried.changed.any()
    assert tried.verdict() == (
        "none of 5 answers changes; no right answer becomes more or less likely by half a percentage point"
    )


def test_an_input_that_asks_for_nothing_has_nothing_to_tell() -> None:
    given = seen_by(small(CHAIN), CHAIN, CHAIN.parse("5 6 7 8"))
    tried = try_edit(*given, CutEdge(2, 1))
    assert tried.verdict() == "this input asks for no answer" and tried.most is None


def test_wrong_answers_that_change_are_told_from_lost_and_mended_ones(untrained: Any) -> None:
    _, seen = untrained
    logits = torch.nn.functional.one_hot(seen.batch.targets, 16).float() * 50
    wrong = logits.roll(1, dims=-1)
    lost, mended = wrong.clone(), logits.clone()
    lost[0, 5:], mended[0, 5:] = logits[0, 5:], wrong[0, 5:]

    def told(before: torch.Tensor, now: torch.Tensor) -> Edited:
        runs = [Capture({"unembed.hook_out": each}, seen.batch, seen.subject) for each in (before, now)]
        return Edited(CutEdge(9, 3), runs[0], runs[1])

    assert told(logits, lost).verdict().startswith("1 of 12 answers changes (1 lost): position 4 says")
    assert "the right answer falls from 100% to <0.1%" in told(logits, lost).verdict()
    assert told(wrong, mended).verdict().startswith("1 of 12 answers changes (1 put right)")
    assert told(wrong, wrong.roll(1, dims=-1)).verdict().startswith("12 of 12 answers change (wrong before and after)")


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (MoveEdge(9, 3, 1, 0, 1), "position 9 reads position 1 in place of 3 (layer 0, head 1)"),
        (CutEdge(9, 3, 0, 1), "position 9 cannot read position 3 (layer 0, head 1)"),
        (CutEdge(9, None), "position 9 cannot read anything (every layer, every head)"),
        (CutEdge(None, 3, 1), "no position can read position 3 (layer 1, every head)"),
        (RemoveHead(0, 1), "layer 0, head 1 writes nothing"),
        (RemoveHead(0, 1, "mean", 4), "layer 0, head 1 writes its average at position 4"),
        (RemoveWrite("blocks.1.hook_mlp_out", 4), "layer 1, the MLP's write: nothing is written at position 4"),
        (
            Patch("blocks.0.hook_resid_pre", "1 2 3 4", 4, 5),
            "position 4 holds what position 5 of another input holds (the embedding)",
        ),
        (
            Patch("blocks.0.hook_resid_mid", "1 2 3 4"),
            "every position holds what it holds in another input (layer 0, after attention)",
        ),
        (
            Exchange("blocks.0.hook_resid_post", 3, 4, 4),
            "the coordinates of 3 and 4 in the decoder basis are exchanged at position 4 (layer 0, after the MLP)",
        ),
    ],
    ids=str,
)
def test_edits_are_said_in_words_and_written_as_python(edit: Edit, words: str) -> None:
    assert edit.in_words(CHAIN) == words
    assert eval(repr(edit)) == edit and hash(edit) == hash(eval(repr(edit)))


def test_points_are_the_residual_and_what_is_written_to_it(untrained: Any) -> None:
    model, seen = untrained
    assert set(points(seen.subject)) <= set(model.hook_dict) and set(writes(seen.subject)) < set(points(seen.subject))
    assert all("hook" not in point_in_words(point) for point in points(seen.subject))


def test_every_suggestion_can_be_tried_and_those_of_sorting_do_what_they_promise(sorted_one: Any) -> None:
    found = suggestions(sorted_one[1], 0, 0)
    tried = {name: try_edit(*sorted_one, edit) for name, edit in found.items()}
    for name in ("exchange the minimum and another", "exchange the next token and another"):
        edit = found[name]
        assert isinstance(edit, Exchange) and edit.position is not None
        assert np.flatnonzero(tried[name].changed).tolist() == [edit.position]
        assert int(tried[name].after.logits[0, edit.position].argmax()) == edit.second == 8  # the 9, the largest
    wrong = found["let the last MLP remove the wrong token"]
    assert isinstance(wrong, Exchange) and wrong.position is not None
    assert int(tried["let the last MLP remove the wrong token"].after.logits[0, wrong.position].argmax()) == wrong.first


def test_of_a_chain_the_true_edge_of_the_last_answer_is_suggested(chased: Any) -> None:
    edit = suggestions(chased[1], 0, 0)["cut a gold edge of the last answer"]
    assert edit == CutEdge(15, int(chased[1].batch.tokens[0, 15]))


def test_of_multiplication_a_replaced_digit_is_suggested_as_another_product() -> None:
    task = make("multiplication")
    given = seen_by(small(task), task, task.parse("19 * 34"))
    edit = suggestions(given[1], 0, 0)["replace a digit in the last layer's input"]
    assert edit == Patch("blocks.0.hook_resid_post", "10 * 34", 0)
    try_edit(*given, edit)


@pytest.mark.parametrize("text", ["4", "4 4", "9 1"])
def test_the_shortest_inputs_have_suggestions_that_can_be_tried(text: str) -> None:
    given = seen_by(small(SORTING), SORTING, SORTING.parse(text))
    for edit in suggestions(given[1], 1, 1).values():
        try_edit(*given, edit)


def test_the_strongest_edge_is_the_largest_entry_beside_the_diagonal(untrained: Any) -> None:
    _, seen = untrained
    weight = seen["blocks.1.attn.hook_pattern"][0, 1].tril(-1)
    assert strongest_edge(seen, 1, 1) == divmod(int(weight[4:].argmax()) + 64, 16)
    assert strongest_edge(seen, 1, 1, query=2) == (2, int(weight[2].argmax()))
    assert strongest_edge(seen, 1, 1, query=0) is None
    with pytest.raises(ValueError, match="no position 16"):
        strongest_edge(seen, 1, 1, query=16)
    with pytest.raises(ValueError, match="no head 2"):
        strongest_edge(seen, 1, 2)


def test_another_input_is_of_the_same_length_with_another_answer_and_never_the_same(sorted_one: Any) -> None:
    other = SORTING.parse(another(sorted_one[1]))
    assert other.tokens.shape == sorted_one[1].batch.tokens.shape
    assert other.targets[0, 5] != sorted_one[1].batch.targets[0, 5]  # the minimum
    again = seen_by(small(SORTING), SORTING, other)[1]
    assert another(again) != SORTING.question(other.tokens[0])
