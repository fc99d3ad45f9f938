"""Sequences drawn twice: each question is kept once, and no two of a task's test conditions share any."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from workbench.tasks import TASKS, Task, counted, distinct, make, once_each
from workbench.util.seeds import generator

FEW: dict[str, dict[str, Any]] = {
    "pointer_chain": {"n": 6, "k": 2},
    "property_chain": {"n": 6, "k": 2, "properties": 2},
    "boxes": {"n_boxes": 2, "n_objects": 2, "capacity": 1, "min_operations": 1, "max_operations": 2},
    "box_moves": {"n_boxes": 4, "n_filled": 2, "n_objects": 3, "min_moves": 1, "max_moves": 2},
    "sorting": {"q": 4, "max_length": 4},
    "increment": {"max_length": 3},
    "multiplication": {"digits": 1},
    "arithmetic": {"min_operators": 1, "operators": 2, "p": 5},
    "lis": {"length": 3, "min_length": 2, "values": 9},
    "modular_addition": {"p": 11},
    "associative_recall": {"d_vocab": 8, "length": 8, "pairs": 1, "fill": "blank"},
    "induction": {"q": 4, "min_length": 3, "max_length": 4},
    "state_tracking": {"states_of": "S3", "length": 3},
    "dyck": {"length": 8},
}
"""Settings that leave a task few questions."""


def questions(task: Task, tokens: torch.Tensor) -> list[tuple[int, ...]]:
    ends = task.question_length(tokens).tolist()
    return [tuple(row[:end]) for row, end in zip(tokens.tolist(), ends, strict=True)]


@pytest.mark.parametrize("name", FEW)
def test_each_question_is_kept_once_in_the_order_in_which_it_first_came(name: str) -> None:
    task = make(name, **FEW[name])
    batch = task.sample(300, generator(0, name), split="test")
    every = questions(task, batch.tokens)
    assert len(set(every)) < len(every), "these settings leave too many questions for the test to say anything"
    kept = once_each(task, batch)
    assert questions(task, kept.tokens) == list(dict.fromkeys(every))
    first = distinct(task, batch.tokens).tolist()
    assert [every.index(question) for question in every] == first
    assert torch.equal(kept.targets, batch.targets[sorted(set(first))])
    assert torch.equal(kept.loss_mask, batch.loss_mask[sorted(set(first))])


@pytest.mark.parametrize("name", [name for name in FEW if len(make(name, **FEW[name]).conditions) > 1])
def test_no_two_test_conditions_share_a_question(name: str) -> None:
    task = make(name, **FEW[name])
    sides = [
        set(questions(task, task.sample(200, generator(0, name), split="test", **condition).tokens))
        for condition in task.conditions
    ]
    assert sum(map(len, sides)) == len(set.union(*sides))


def test_what_is_counted_is_said_where_it_differs() -> None:
    assert counted(256, 256) == "256" and counted(2048, 139) == "2,048 drawn, 139 distinct"
    assert {*FEW, "text"} == {*TASKS}
