"""Minimal pairs: what differs is what is said to, and both answers are the task's own."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from workbench import tasks
from workbench.tasks import Batch, Pairs, Task
from workbench.util.seeds import generator

CASES: list[tuple[str, dict[str, Any]]] = [
    ("pointer_chain", {"n": 12, "k": 3}),
    ("pointer_chain", {"n": 12, "k": 3, "reading": "root"}),
    ("property_chain", {"n": 9, "k": 3}),
    ("sorting", {"q": 9, "max_length": 6}),
    ("increment", {"max_length": 5}),
    ("increment", {"max_length": 5, "reversed": False}),
    ("multiplication", {"digits": 2}),
    ("multiplication", {"digits": 3, "mode": "chain_of_thought"}),
    ("multiplication", {"digits": 3, "mode": "chain_of_thought", "thoughts_removed": 4}),
    ("arithmetic", {"operators": 3}),
    ("arithmetic", {"operators": 3, "mode": "chain_of_thought", "brackets": "always"}),
    ("arithmetic", {"operators": 2, "min_operators": 1, "mode": "pause"}),
    ("lis", {"length": 8, "min_length": 5, "values": 40}),
    ("lis", {"length": 8, "values": 40, "mode": "chain_of_thought"}),
    ("boxes", {"n_boxes": 3, "min_operations": 2, "max_operations": 4}),
    ("boxes", {"style": "advanced", "ask": "one", "max_operations": 6}),
    ("box_moves", {"min_moves": 2, "max_moves": 4}),
    ("modular_addition", {}),
    ("associative_recall", {"d_vocab": 16, "length": 24}),
    ("induction", {"q": 20}),
    ("state_tracking", {"length": 6}),
    ("state_tracking", {"states_of": "S3", "moves": "swaps", "length": 9}),
    ("state_tracking", {"states_of": "parity", "length": 16}),
    ("dyck", {"kinds": 3}),
]
MADE = [
    (tasks.make(name, **settings), kind) for name, settings in CASES for kind in tasks.make(name, **settings).pair_kinds
]
each_kind = pytest.mark.parametrize(
    ("task", "kind"), MADE, ids=[f"{task.name}-{number}-{kind}" for number, (task, kind) in enumerate(MADE)]
)


def checked(task: Task, pairs: Pairs) -> None:
    """What holds of all pairs: the answers are the task's own, and questions have one length."""
    for side in (pairs.clean, pairs.corrupted):
        assert task.is_test(side.tokens).all()
        again = Batch.cat([task.answered(row) for row in side.tokens], task.pad)
        width = again.tokens.shape[1]
        assert torch.equal(side.tokens[:, :width], again.tokens) and (side.tokens[:, width:] == task.pad).all()
        assert torch.equal(side.targets[:, :width][again.loss_mask], again.targets[again.loss_mask])
    lengths = task.question_length(pairs.clean.tokens)
    assert torch.equal(lengths, task.question_length(pairs.corrupted.tokens))
    assert torch.equal(pairs.changed, pairs.clean.tokens != pairs.corrupted.tokens)
    assert pairs.asked.any(-1).all() and (pairs.asked <= (pairs.clean.loss_mask & pairs.corrupted.loss_mask)).all()
    first = pairs.changed.long().argmax(-1, keepdim=True)
    assert (torch.arange(pairs.asked.shape[1]) >= first)[pairs.asked].all()


def differs(pairs: Pairs) -> torch.Tensor:
    apart = pairs.clean.targets != pairs.corrupted.targets
    return apart.any(-1) if apart.ndim == 3 else apart


@each_kind
def test_both_answers_are_the_tasks_own_and_differ_where_they_are_said_to(task: Task, kind: str) -> None:
    pairs = task.minimal_pairs(9, generator(0, "pairs"), kind=kind)
    assert len(pairs) == 9 and pairs.kind == kind and not pairs.is_control
    checked(task, pairs)
    assert differs(pairs)[pairs.asked].all()
    in_question = torch.arange(pairs.asked.shape[1]) < task.question_length(pairs.clean.tokens)[:, None]
    n_changed = (pairs.changed & in_question).sum(-1)
    if kind == "pointer":
        assert (n_changed == 2).all()
    elif kind in ("numbers", "moves", "kind"):
        assert (n_changed <= 2).all()
    elif kind != "item":
        assert (n_changed == 1).all()
    # the tokens of the answer up to what is asked for are the same in both
    for changed, inside, asked in zip(pairs.changed, in_question, pairs.asked, strict=True):
        last = int(asked.nonzero()[-1])
        assert not (changed & ~inside)[: last + 1].any()


@each_kind
def test_a_control_changes_the_question_and_leaves_the_answers_asked_for(task: Task, kind: str) -> None:
    pairs = task.minimal_pairs(6, generator(1, "pairs"), kind=kind, relevant=False)
    checked(task, pairs)
    assert pairs.is_control and pairs.changed.any(-1).all() and not differs(pairs)[pairs.asked].any()
    apart = pairs.wrong != pairs.right
    assert (apart.any(-1) if apart.ndim == 3 else apart)[pairs.asked].all()


def test_pairs_are_drawn_from_the_generator_alone_and_conditions_narrow_them() -> None:
    task = tasks.make("sorting", q=9, max_length=6)
    first, again, other = (task.minimal_pairs(16, generator(seed, "pairs"), length=4) for seed in (0, 0, 1))
    assert torch.equal(first.corrupted.tokens, again.corrupted.tokens) and torch.equal(first.asked, again.asked)
    assert not torch.equal(first.corrupted.tokens, other.corrupted.tokens)
    assert (task.question_length(first.clean.tokens) == 4).all()


def test_a_change_of_one_symbol_by_hand() -> None:
    """5 3 3 9 becomes 5 3 3 1: the first output changes from 3 to 1, and only it is asked for."""
    task = tasks.make("sorting", q=9, max_length=6)
    pairs = task.minimal_pairs(64, generator(2, "pairs"))
    for clean, corrupted, asked in zip(pairs.clean.tokens, pairs.corrupted.tokens, pairs.asked, strict=True):
        n = int(task.question_length(clean[None]))
        before, after = sorted(clean[:n].tolist()), sorted(corrupted[:n].tolist())
        first = next(i for i in range(n) if before[i] != after[i])
        assert asked.nonzero()[:, 0].tolist() == [n + first]


def test_pairs_are_cut_into_halves_and_parts() -> None:
    pairs = tasks.make("multiplication").minimal_pairs(5, generator(3, "pairs"))
    even, odd = pairs.halves()
    assert (len(even), len(odd)) == (3, 2) and torch.equal(odd.clean.tokens, pairs.clean.tokens[1::2])
    assert torch.equal(pairs[1:3].asked, pairs.asked[1:3])
    with pytest.raises(ValueError, match="draw more pairs"):
        pairs[:1].halves()


def test_what_cannot_be_drawn_is_refused_in_words() -> None:
    sorting = tasks.make("sorting", q=9, max_length=6)
    with pytest.raises(ValueError, match=r"unknown kind of pair of sorting .symbl. \(did you mean .symbol."):
        sorting.minimal_pairs(4, generator(0), kind="symbl")
    with pytest.raises(ValueError, match="text has no pairs"):
        tasks.make("text", path=__file__, block=20).minimal_pairs(4, generator(0))
    with pytest.raises(ValueError, match="n must be at least 1, not 0"):
        sorting.minimal_pairs(0, generator(0))
    with pytest.raises(ValueError, match="hardly any change of kind 'pointer' that changes an answer"):
        tasks.make("pointer_chain", n=40, k=1).minimal_pairs(2, generator(0))
    with pytest.raises(ValueError, match="no condition 'lenght'"):
        sorting.minimal_pairs(2, generator(0), lenght=3)


LATER = [(task, kind) for task, kind in MADE if task.name in ("sorting", "increment", "multiplication", "boxes")]


@pytest.mark.parametrize(
    ("task", "kind"), LATER, ids=[f"{task.name}-{number}-{kind}" for number, (task, kind) in enumerate(LATER)]
)
def test_later_answers_have_other_answers_before_them(task: Task, kind: str) -> None:
    pairs = task.minimal_pairs(6, generator(0, "pairs"), kind=kind, later=True)
    checked(task, pairs)
    assert pairs.later and pairs[:3].later and pairs.to("cpu").later and not pairs.is_control
    assert differs(pairs)[pairs.asked].all()
    assert another_answer_before(task, pairs)[pairs.asked].all()
    first = task.minimal_pairs(6, generator(0, "pairs"), kind=kind)
    assert not first.later and not another_answer_before(task, first)[first.asked].any()
    control = task.minimal_pairs(6, generator(0, "pairs"), kind=kind, relevant=False, later=True)
    assert not control.later and not differs(control)[control.asked].any()


def another_answer_before(task: Task, pairs: Pairs) -> torch.Tensor:
    answers = torch.arange(pairs.asked.shape[1]) >= task.question_length(pairs.clean.tokens)[:, None]
    return (pairs.changed & answers).cumsum(-1) > 0


def test_a_task_of_single_answers_has_no_later_ones() -> None:
    chain = tasks.make("pointer_chain", n=12, k=3)
    with pytest.raises(
        ValueError, match="pointer_chain has hardly any change of kind 'pointer' that changes answers be"
    ):
        chain.minimal_pairs(4, generator(0), later=True)
