"""A finite training set: every sequence once an epoch, the same for any number of workers, seeds and processes."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench
from workbench.runs import RunConfig, load_run, parse_config
from workbench.tasks import Batch
from workbench.training import preset_config, train_seeds, training_set
from workbench.training.data import training_batches
from workbench.training.optimizer_step import Step
from workbench.training.training_set import Piece, TrainingSet
from workbench.util.files import load_tensors

SMALL: dict[str, Any] = {"model": {"d_model": 16, "n_heads": 2}, "batch_size": 7, "eval_size": 8, "steps": 30}
HINTS: dict[str, Any] = {"task": {"hints": "successor,count"}, "mixture": {"main": 2, "successor": 1, "count": 1}}


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks and pools so small that a few sequences are many pools."""
    monkeypatch.setattr(training_set, "BLOCK", 8)
    monkeypatch.setattr(training_set, "POOL", 3)


def visited(one: TrainingSet, n: int, first: int, batches: int) -> list[tuple[int, int]]:
    """The sequences of some batches as (block, place in it)."""

    def places(piece: Piece) -> list[tuple[int, int]]:
        rows = [(block, row) for block in piece.pool for row in range(one._length(block))]
        return [rows[row] for row in piece.rows.tolist()]

    drawn = one.batches(n, first)
    return [place for _ in range(batches) for piece in next(drawn) for place in places(piece)]


@settings(max_examples=40)
@given(
    size=st.integers(1, 60),
    n=st.integers(1, 20),
    first=st.integers(0, 130),
    block=st.integers(1, 9),
    pool=st.integers(1, 4),
)
def test_every_sequence_is_visited_once_an_epoch_and_a_later_start_changes_nothing(
    size: int, n: int, first: int, block: int, pool: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_set, "BLOCK", block)
        patch.setattr(training_set, "POOL", pool)
        one = TrainingSet(3, "main", size)
        places = visited(one, n, 0, -(-3 * size // n))
        everything = {(b, row) for b in range(one.n_blocks) for row in range(one._length(b))}
        assert len(everything) == size
        for start in range(0, 3 * size, size):
            assert Counter(places[start : start + size]) == Counter(everything)
        rest = visited(one, n, first, 5)
        assert visited(one, 1, 0, first + len(rest))[first:] == rest


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("size", [20, 500])  # one pool; many
def test_each_epoch_has_an_order_of_its_own_that_mixes_all_of_a_pool(size: int) -> None:
    one = TrainingSet(0, "main", size)
    places = visited(one, size, 0, 3)
    epochs = [places[start : start + size] for start in range(0, 3 * size, size)]
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    for epoch in epochs:
        blocks = [block for block, _ in epoch[:24]]
        assert len(set(blocks)) == 3 and blocks != sorted(blocks)
    if size == 500:  # which blocks meet is drawn anew too
        assert len({frozenset(block for block, _ in epoch[:24]) for epoch in epochs}) == 3


def rows(batch: Batch) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Each sequence's scored targets and its tokens, without padding."""
    return [
        (tuple(targets[mask].tolist()), tuple(token for token in tokens.tolist() if token != 33))
        for tokens, targets, mask in zip(batch.tokens, batch.targets, batch.loss_mask, strict=True)
    ]


def drawn(first: int = 0, **changes: Any) -> list[tuple[Batch, ...]]:
    config = preset_config("sort-standard", {**SMALL, **changes})
    return list(training_batches(config.make_task(), config, first))


def same(first: list[tuple[Batch, ...]], second: list[tuple[Batch, ...]]) -> bool:
    flat = ([batch for step in steps for batch in step] for steps in (first, second))
    return all(
        a.head == b.head
        and torch.equal(a.tokens, b.tokens)
        and torch.equal(a.targets, b.targets)
        and torch.equal(a.loss_mask, b.loss_mask)
        for a, b in zip(*flat, strict=True)
    )


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("size", [14, 70])
def test_an_epoch_of_batches_is_the_set_that_each_of_its_blocks_draws(size: int) -> None:
    config = preset_config("sort-standard", {**SMALL, "train_size": size, "steps": 2 * size // 7})
    one, task = TrainingSet.of_heads(config)["main"], config.make_task()
    whole = Counter(row for block in range(one.n_blocks) for row in rows(one.draw(task, block)))
    assert whole.total() == size
    steps = [rows(batch) for (batch,) in training_batches(task, config)]
    for epoch in (steps[: size // 7], steps[size // 7 :]):
        assert Counter(row for batch in epoch for row in batch) == whole


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("changes", [{}, HINTS, {**HINTS, "mixing": "together"}], ids=["main", "in turn", "together"])
@pytest.mark.parametrize("size", [30, 200])
def test_batches_of_a_set_depend_on_the_step_alone_for_any_number_of_workers(
    size: int, changes: dict[str, Any]
) -> None:
    fields = {**changes, "train_size": size}
    alone = drawn(**fields)
    assert len(alone) == 30
    assert same(alone, drawn(workers=2, **fields))
    for first in (1, 4, 17):
        assert same(alone[first:], drawn(first, **fields))
    assert same(alone[17:], drawn(17, workers=1, **fields))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("changes", [{}, {**HINTS, "mixing": "together"}], ids=["main", "hints"])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_set_that_is_kept_is_drawn_once_and_one_that_is_not_gives_the_same_batches(
    changes: dict[str, Any], workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {**changes, "train_size": 100, "steps": 60, "workers": workers}  # more than four epochs
    asked: list[tuple[str, int]] = []
    real = training_set.in_order

    def counted(draw: Any, keys: Any, workers: int) -> Any:
        def noted() -> Iterator[Any]:
            for key in keys:
                asked.append(key)
                yield key

        return real(draw, noted(), workers)

    monkeypatch.setattr(training_set, "in_order", counted)
    kept = drawn(**fields)
    config = preset_config("sort-standard", {**SMALL, **fields})
    once = [(head, block) for head, one in TrainingSet.of_heads(config).items() for block in range(one.n_blocks)]
    assert sorted(asked) == sorted(once)
    asked.clear()
    monkeypatch.setattr(training_set, "KEPT", 0)
    assert same(kept, drawn(**fields))
    assert len(asked) > 4 * len(once)


@pytest.mark.usefixtures("small_blocks")
def test_the_runs_of_a_process_share_what_it_may_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    config = preset_config("sort-standard", {**SMALL, "train_size": 50})
    task = config.make_task()
    first, second, third = (training_batches(task, config) for _ in range(3))
    next(first)
    (size,) = (pools.size for pools in training_set._in_use)
    assert 50 * 20 * 3 < size <= 7 * 8 * 33 * 3  # bytes: a token, a target, the mask
    monkeypatch.setattr(training_set, "KEPT", size)
    assert same(list(second), list(training_batches(task, config)))
    assert [pools.size for pools in training_set._in_use if pools.size] == [size]
    del first
    next(third)
    assert [pools.size for pools in training_set._in_use if pools.size] == [size]


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(("q", "dtype"), [(200, torch.uint8), (255, torch.int16), (40_000, torch.int32)])
def test_a_vocabulary_of_any_size_is_kept_whole(q: int, dtype: torch.dtype) -> None:
    config = preset_config("sort-standard", {**SMALL, "task": {"q": q}, "train_size": 56, "steps": 8})
    task, one = (
        config.make_task(),
        TrainingSet.of_heads(preset_config("sort-standard", {**SMALL, "train_size": 56}))["main"],
    )
    assert training_set._draw(task, {"main": one}, ("main", 0)).tokens.dtype == dtype
    steps = [batch for (batch,) in training_batches(task, config)]
    assert all(batch.tokens.dtype == batch.targets.dtype == torch.int64 for batch in steps)

    def padded(parts: list[Batch]) -> list[list[int]]:
        return sorted(Batch.cat(parts, task.pad).tokens.tolist())

    assert padded(steps) == padded([one.draw(task, block) for block in range(7)])


def test_batches_are_trimmed_as_fresh_ones_are() -> None:
    for (batch,) in drawn(train_size=40):
        lengths = preset_config("sort-standard", SMALL).make_task().lengths(batch.tokens)
        assert int(lengths.max()) == batch.tokens.shape[1]


def test_a_smaller_set_is_the_beginning_of_a_larger_one_and_seeds_and_heads_have_their_own() -> None:
    config = preset_config("sort-standard", {"task": {"hints": "successor", "repetition": 0.0}})
    task = config.make_task()
    small, large = (TrainingSet(0, "main", size).draw(task, 0) for size in (100, 5000))
    assert len(small) == 100 and torch.equal(large.tokens[:100], small.tokens)
    others = TrainingSet(1, "main", 100), TrainingSet(0, "successor", 100), TrainingSet(0, "main", 5000)
    for other, block in zip(others, (0, 0, 1), strict=True):
        batch = other.draw(task, block)
        assert not torch.equal(batch.tokens[:100, :8], small.tokens[:, :8])
        assert not task.is_test(batch.tokens).any()
    assert len(TrainingSet(0, "main", 5000).draw(task, 4)) == 5000 - 4 * training_set.BLOCK


def test_each_head_has_its_share_of_the_set_so_that_epochs_end_together() -> None:
    """With the default mixture all have the same ("split equally among the two tasks", §3.1)."""
    config = preset_config("sort-standard", {"task": {"hints": "successor,count"}, "train_size": 3000})
    assert {head: one.size for head, one in TrainingSet.of_heads(config).items()} == {
        "main": 1000,
        "successor": 1000,
        "count": 1000,
    }
    config = preset_config("sort-standard", {**HINTS, "train_size": 3001})
    sizes = {head: one.size for head, one in TrainingSet.of_heads(config).items()}
    assert sum(sizes.values()) == 3001 and sizes["main"] in (1500, 1501) and sizes["count"] in (750, 751)


def test_the_log_says_which_epoch_it_is(tmp_path: Path) -> None:
    fields = {**SMALL, "train_size": 35, "log_every": 3, "eval_every": 4}
    metrics = workbench.train("sort-standard", out=tmp_path / "set", progress=False, **fields).metrics()
    assert metrics["epoch"].tolist() == [round(step * 7 / 35, 4) for step in metrics["step"]]
    assert metrics["epoch"].iloc[-1] == 6
    fresh = workbench.train("sort-standard", out=tmp_path / "fresh", progress=False, **{**fields, "train_size": None})
    assert "epoch" not in fresh.metrics()


def test_a_set_that_is_seen_again_and_again_is_learnt_by_heart(tmp_path: Path) -> None:
    fields = {**SMALL, "steps": 120, "batch_size": 8, "schedule": "constant", "log_every": 10, "learning_rate": 1e-2}
    by_heart, fresh = (
        workbench.train("sort-standard", out=tmp_path / str(size), progress=False, train_size=size, **fields)
        for size in (8, None)
    )
    losses = [run.metrics()["loss"].iloc[-5:].mean() for run in (by_heart, fresh)]
    assert losses[0] < 0.7 * losses[1]


def interrupt(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    step = Step.__call__

    def interrupted(self: Step, *arguments: Any) -> Any:
        if self.learner.step == at:
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, *arguments)

    monkeypatch.setattr(Step, "__call__", interrupted)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_that_was_stopped_within_an_epoch_goes_on_to_the_last_bit(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {**SMALL, **HINTS, "train_size": 100, "workers": workers, "log_every": 1, "eval_every": 10}
    whole = workbench.train("sort-standard", out=tmp_path / "whole", progress=False, **fields)
    with monkeypatch.context() as patch:
        interrupt(patch, at=16)
        stopped = workbench.train("sort-standard", out=tmp_path / "stopped", progress=False, **fields)
    assert stopped.step() == 17 and not stopped.finished
    again = workbench.resume(stopped.path, progress=False)
    a, b = (load_tensors(run.path / "weights.safetensors")[0] for run in (whole, again))
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert whole.metrics().drop(columns="seconds").equals(load_run(again.path).metrics().drop(columns="seconds"))


@pytest.mark.usefixtures("small_blocks")
def test_seeds_in_a_stack_have_the_kept_sets_that_they_have_alone(tmp_path: Path) -> None:
    fields = {**SMALL, "train_size": 50, "precision": "float64", "steps": 20, "log_every": 1}
    for run in train_seeds("sort-standard", tmp_path / "stack", 2, progress=False, **fields):
        seed = run.config.seed
        alone = workbench.train("sort-standard", out=tmp_path / f"{seed}", progress=False, seed=seed, **fields)
        a, b = run.model().state_dict(), alone.model().state_dict()
        assert max((a[key] - b[key]).abs().max().item() for key in a) < 1e-9


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_size": 6}, "train_size=6 is smaller than a batch of batch_size=7"),
        ({"train_size": 0}, "train_size: .* greater than or equal to 1, not 0"),
        (
            {**HINTS, "train_size": 27},
            "train_size=27 is divided among the heads main, successor, count: 6 for successor are fewer than a batch",
        ),
        ({"train_size": 2**52}, "training this config needs at least .* of memory"),
    ],
)
def test_a_set_that_cannot_be_is_explained_and_nothing_is_written(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        workbench.train("sort-standard", out=tmp_path / "run", progress=False, **{**SMALL, **changes})
    assert "\n" not in str(caught.value) and not (tmp_path / "run").exists()


def test_heads_that_share_a_batch_need_no_more_than_one() -> None:
    config = preset_config("sort-standard", {**SMALL, **HINTS, "train_size": 7, "mixing": "together"})
    assert {head: one.size for head, one in TrainingSet.of_heads(config).items()} == {
        "main": 3,
        "successor": 2,
        "count": 2,
    }
    assert len(drawn(train_size=7, mixing="together", **HINTS)) == 30


def test_a_config_from_before_trains_on_fresh_data() -> None:
    data = preset_config("sort-standard", {}).model_dump(mode="json")
    del data["train_size"]
    assert isinstance(parse_config(data), RunConfig) and parse_config(data).train_size is None
