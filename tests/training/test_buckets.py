"""Batches dealt anew by length: the same sequences, little padding, and the same after a resume."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.killed import check_resumed, train_until_killed
from workbench.runs import RunConfig
from workbench.tasks import Batch
from workbench.training import preset_config
from workbench.training.data import training_batches

SMALL: dict[str, Any] = {"model": {"d_model": 16, "n_heads": 2}, "batch_size": 8, "eval_size": 8, "steps": 40}
HINTS: dict[str, Any] = {"task": {"hints": "successor,count"}, "mixture": {"main": 2, "successor": 1, "count": 1}}
KINDS: dict[str, dict[str, Any]] = {
    "fresh": {},
    "workers": {"workers": 2},
    "set": {"train_size": 64},
    "alternate": HINTS,
    "together": {**HINTS, "mixing": "together"},
}


def config(**changes: Any) -> RunConfig:
    return preset_config("sort-hints" if "task" in changes else "sort-standard", {**SMALL, **changes})


def batches(config: RunConfig, first: int = 0, n: int = 40) -> list[tuple[Batch, ...]]:
    return list(islice(training_batches(config.make_task(), config, first), n))


def same(one: list[tuple[Batch, ...]], other: list[tuple[Batch, ...]]) -> bool:
    pairs = [pair for steps in zip(one, other, strict=True) for pair in zip(*steps, strict=True)]
    return all(
        a.head == b.head
        and all(torch.equal(getattr(a, name), getattr(b, name)) for name in ("tokens", "targets", "loss_mask"))
        for a, b in pairs
    )


def sequences(config: RunConfig, steps: list[tuple[Batch, ...]]) -> Counter[tuple[Any, ...]]:
    """Each sequence of some steps with its head, what it is to predict and where, and how often it is there."""
    task, found = config.make_task(), Counter[tuple[Any, ...]]()
    for batch in (batch for step in steps for batch in step):
        for row, length in enumerate(task.lengths(batch.tokens).tolist()):
            parts = (batch.tokens, batch.targets, batch.loss_mask)
            found[(batch.head, *(tuple(part[row, :length].tolist()) for part in parts))] += 1
            assert not batch.loss_mask[row, length:].any()
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_steps_of_a_bucket_have_the_sequences_that_they_had(kind: str) -> None:
    as_drawn, dealt = config(**KINDS[kind]), config(**KINDS[kind], bucket_steps=8)
    before, after = batches(as_drawn), batches(dealt)
    assert not same(before, after)
    for start in range(0, 40, 8):
        here = slice(start, start + 8)
        assert sequences(as_drawn, before[here]) == sequences(dealt, after[here])
    sizes = [[(batch.head, len(batch)) for batch in step] for step in before]
    assert sizes == [[(batch.head, len(batch)) for batch in step] for step in after]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", [8, 13, 39])
def test_batches_from_any_step_on_are_those_of_the_whole_run(kind: str, first: int) -> None:
    dealt = config(**KINDS[kind], bucket_steps=8)
    assert same(batches(dealt, first), batches(dealt)[first:])


@pytest.mark.parametrize(
    ("preset", "task"), [("sort-standard", {}), ("increment-standard", {}), ("arithmetic-vanilla", {})]
)
def test_a_tenth_or_less_is_padding(preset: str, task: dict[str, Any]) -> None:
    def padding(bucket_steps: int) -> float:
        made = preset_config(preset, {"bucket_steps": bucket_steps, "task": task})
        steps = batches(made, n=64)
        real = sum(int(made.make_task().lengths(batch.tokens).sum()) for step in steps for batch in step)
        return 1 - real / sum(batch.tokens.numel() for step in steps for batch in step)

    assert padding(1) > 0.25 and padding(16) <= 0.1


def test_short_and_long_batches_come_in_no_order() -> None:
    """Of 40 buckets the first batch is the widest now and then, and the narrowest."""
    widths = [step[0].tokens.shape[1] for step in batches(config(steps=320, bucket_steps=8), n=320)]
    first = [widths[start : start + 8].index(max(widths[start : start + 8])) for start in range(0, 320, 8)]
    assert len(set(first)) > 4


def test_a_run_that_was_killed_within_a_bucket_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    dealt = config(bucket_steps=8, save_every=5)
    train_until_killed(dealt, tmp_path / "killed", 21)
    check_resumed(dealt, tmp_path / "killed", tmp_path / "whole")


def test_a_curriculum_is_asked_between_buckets() -> None:
    moves = [{"min_moves": n, "max_moves": n} for n in (1, 2)]
    given = {**SMALL, "task": {"name": "box_moves"}, "curriculum": moves}
    with pytest.raises(ValueError, match="eval_every=30 is no multiple of bucket_steps=8"):
        preset_config(None, {**given, "eval_every": 30, "bucket_steps": 8})
    dealt = preset_config(None, {**given, "eval_every": 16, "bucket_steps": 8})
    passed = iter([0, 1, 2])
    drawn = training_batches(dealt.make_task(), dealt, 0, lambda: next(passed))
    counts = [int(step[0].loss_mask.sum(-1).unique()) for step in drawn]
    assert counts == [1] * 16 + [2] * 16 + [5] * 8
