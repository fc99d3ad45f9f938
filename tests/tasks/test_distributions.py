"""Every distribution that a task states, by a χ² test on fixed seeds: p < 10⁻⁴ would be one false alarm in 10,000."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from workbench import tasks
from workbench.tasks import Task
from workbench.tasks.boxes import Boxes
from workbench.tasks.boxes_story import read
from workbench.tasks.expressions import OPERATORS, _split
from workbench.tasks.split import SPLITS
from workbench.util.seeds import generator

ALARM = 1e-4


def assert_follows(counts: Mapping[Any, int], shares: Mapping[Any, float]) -> None:
    """The counts are a sample of the stated shares."""
    assert set(counts) <= set(shares), set(counts) - set(shares)
    assert math.isclose(sum(shares.values()), 1, abs_tol=1e-9)
    n = sum(counts.values())
    observed = [counts.get(key, 0) for key in shares]
    assert stats.chisquare(observed, [n * share for share in shares.values()]).pvalue > ALARM


def uniform(values: Any) -> dict[Any, float]:
    values = list(values)
    return dict.fromkeys(values, 1 / len(values))


def skewed(short: range, long: range) -> dict[int, float]:
    return {n: 0.8 / len(short) for n in short} | {n: 0.2 / len(long) for n in long}


def tally(values: torch.Tensor | np.ndarray) -> Counter[int]:
    return Counter(values.tolist())


@pytest.mark.parametrize(
    ("name", "settings", "shares"),
    [
        ("sorting", {"q": 100, "max_length": 20, "skew": "paper"}, skewed(range(2, 6), range(6, 21))),
        ("sorting", {"max_length": 16}, uniform(range(2, 17))),
        ("increment", {}, skewed(range(2, 5), range(5, 11))),
        ("increment", {"skew": "uniform"}, uniform(range(2, 11))),
        ("lis", {"length": 12, "min_length": 5, "values": 40}, uniform(range(5, 13))),
    ],
)
def test_lengths(name: str, settings: dict[str, Any], shares: dict[int, float]) -> None:
    task = tasks.make(name, **settings)
    assert_follows(tally(task.question_length(task.draw(50_000, generator(1)).tokens)), shares)


@pytest.mark.parametrize("split_side", ["train", "test"])
def test_the_split_leaves_lengths_as_they_are(split_side: Any) -> None:
    """Where there are many questions of a length; of the short ones, few, chance decides which are kept back."""
    task = tasks.make("sorting", q=100, min_length=4, max_length=12)
    assert_follows(
        tally(task.question_length(task.sample(50_000, generator(2), split=split_side).tokens)), uniform(range(4, 13))
    )


def distinct_symbols(tokens: torch.Tensor, length: int) -> torch.Tensor:
    symbols = tokens[:, :length].sort(-1).values
    return 1 + (symbols[:, 1:] != symbols[:, :-1]).sum(-1)


@pytest.mark.parametrize("length", [20, 19])
def test_one_training_sequence_in_ten_has_at_most_half_as_many_symbols_and_no_test_sequence(length: int) -> None:
    """Test sets are uniform: 20 of 100 symbols have 10 distinct ones in fewer than 1 of 10⁶ sequences."""
    task = tasks.make("sorting", q=100, min_length=length, max_length=length)
    for drawn in (task.draw(50_000, generator(3)), task.sample(50_000, generator(3), split="train")):
        few = distinct_symbols(drawn.tokens, length) <= length // 2
        assert_follows(tally(few.long()), {1: 0.1, 0: 0.9})
    for condition in ({}, {"length": length}):
        test = task.sample(20_000, generator(3), split="test", **condition)
        assert int(distinct_symbols(test.tokens, length).min()) > length // 2


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8])
def test_half_of_a_length_is_rounded_down_and_at_least_one_symbol(length: int) -> None:
    task = tasks.make("sorting", q=50, min_length=length, max_length=8, repetition=1.0)
    most = distinct_symbols(task.draw(2000, generator(14), length=length).tokens, length).max()
    assert int(most) == max(1, length // 2)


def test_every_hint_of_a_test_sequence_is_drawn_as_its_task_is_tested() -> None:
    task = tasks.make("sorting", q=100, min_length=20, max_length=20, hints="successor")
    train, test = (
        distinct_symbols(task.sample(10_000, generator(15), split=side, head="successor").tokens, 20) for side in SPLITS
    )
    assert (train <= 10).float().mean().item() == pytest.approx(0.1, abs=0.015) and int(test.min()) > 10


@pytest.mark.parametrize(("length", "repeats"), [(12, 2), (12, 5), (20, 3)])
def test_rep_draws_each_of_its_symbols_equally_often_and_uniformly(length: int, repeats: int) -> None:
    task = tasks.make("sorting", q=30, max_length=20)
    symbols = task.draw(5000, generator(4), length=length, repeats=repeats).tokens[:, :length]
    assert_follows(tally(symbols[:, 0]), uniform(range(30)))  # one of each sequence: its symbols depend on each other
    for row in symbols[:500].tolist():
        rest = Counter(row)
        often = [symbol for symbol, count in rest.items() if count >= repeats]
        assert len(often) >= length // repeats


def test_the_count_hint_is_a_tie_half_the_time_and_otherwise_uniform_up_to_5() -> None:
    task = tasks.make("sorting", q=50, min_length=16, max_length=16, hints="count")
    batch = task.draw(30_000, generator(5), head="count")
    found: Counter[int] = Counter()
    for row in batch.tokens.tolist():
        counts = Counter(token for token in row if token < 50)
        found[max(counts.values()) - min(counts.values())] += 1
    assert_follows(found, {0: 0.5} | dict.fromkeys(range(1, 6), 0.1))


def test_runs_of_nines() -> None:
    task = tasks.make("increment", min_length=4, max_length=4)
    digits = task.draw(100_000, generator(6)).tokens[:, :4]
    run = (digits.flip(1) == 9).long().cumprod(-1).sum(-1)
    # in a tenth of them k nines, k uniform over 1..4, behind digits that are as likely nines as ever (the first: 1/9)
    free = [0.9, 0.09, 0.009, 0.001 * 8 / 9, 0.001 / 9]
    shares = {k: 0.9 * free[k] for k in range(5)}
    for k in range(1, 5):
        for more in range(4 - k):
            shares[k + more] += 0.1 / 4 * 0.9 * 0.1**more if k + more < 3 else 0.1 / 4 * 0.1**more * 8 / 9
        shares[4] += 0.1 / 4 * (0.1 ** max(0, 3 - k) / 9 if k < 4 else 1)
    assert_follows(tally(run), shares)


def test_no_runs_of_nines_are_made_in_test_numbers() -> None:
    task = tasks.make("increment", min_length=8, max_length=8, nines=1.0)
    test = task.sample(50_000, generator(6), split="test").tokens[:, :8]
    run = (test.flip(1) == 9).long().cumprod(-1).sum(-1)
    assert_follows(tally(run.clamp(max=3)), {0: 0.9, 1: 0.09, 2: 0.009, 3: 0.001})
    assert bool((task.sample(50, generator(6), split="train").tokens[:, 7] == 9).all())


def test_pointer_chains_have_uniform_values_and_uniform_shuffles() -> None:
    task = tasks.make("pointer_chain", n=9, k=3)
    tokens = task.draw(20_000, generator(7)).tokens
    assert_follows(tally(tokens[:, :3].flatten()), uniform(range(9)))
    for start in (3, 6):
        shuffles = Counter(map(tuple, tokens[:, start : start + 3].tolist()))
        assert_follows(shuffles, uniform(itertools.permutations(range(start - 3, start))))


def test_operands_are_uniform_among_those_of_their_digits() -> None:
    tokens = tasks.make("multiplication", digits=2).draw(50_000, generator(8)).tokens
    for first in (0, 3):
        assert_follows(tally(tokens[:, first] + 10 * tokens[:, first + 1]), uniform(range(10, 100)))


def boxes_of(style: str, n: int) -> tuple[Boxes, list[str]]:
    task = tasks.make("boxes", style=style)
    assert isinstance(task, Boxes)
    batch = task.draw(n, generator(9))
    return task, [task.question(row) for row in batch.tokens]


def test_advanced_boxes_have_log_uniform_operations() -> None:
    _, texts = boxes_of("advanced", 20_000)
    shares = {k: math.log((k + 1) / k) / math.log(32) for k in range(1, 32)}
    assert_follows(Counter(text.count(".") - 1 for text in texts), shares)


def test_advanced_boxes_keep_half_of_them_filled_with_one_item_at_first() -> None:
    _, texts = boxes_of("advanced", 500)
    for text in texts:
        story = read(text)
        assert all(len(items) == 1 for items in story.contents[3].values())
        filled = [sum(bool(items) for items in contents.values()) for contents in story.contents[3:]]
        assert filled == [4] * len(filled)
        assert max(len(items) for contents in story.contents for items in contents.values()) <= 3


def test_default_boxes_start_with_clipped_poisson_contents_and_never_overflow() -> None:
    task, texts = boxes_of("default", 1500)
    sizes: Counter[int] = Counter()
    first: Counter[str] = Counter()
    for text in texts:
        story = read(text)
        sizes.update(len(items) for items in story.contents[task.boxes - 1].values())
        first.update(text.split(",")[0].split()[-1])
        assert max(len(items) for contents in story.contents for items in contents.values()) <= 3
        assert text.count(".") - 1 == 32
    assert_follows(sizes, {k: stats.poisson(2).pmf(k) for k in range(3)} | {3: stats.poisson(2).sf(2)})
    assert_follows(first, uniform("ABCDEFG"))


def test_what_a_put_brings_is_a_random_non_empty_subset_where_nothing_can_overflow() -> None:
    """With every box empty the first operation can only be a put, and every size is possible."""
    task = tasks.make("boxes", n_boxes=2, capacity=3, min_operations=1, max_operations=1, n_objects=6)
    sizes: Counter[int] = Counter()
    for row in task.draw(60_000, generator(10)).tokens:
        text = task.question(row)
        if text.count("nothing") == 2:
            assert "Put" in text
            sizes[text.split("Put")[1].count("the ")] += 1
    assert_follows(sizes, {1: 3 / 7, 2: 3 / 7, 3: 1 / 7})


def test_answers_and_operators_of_arithmetic_are_uniform() -> None:
    task = tasks.make("arithmetic", operators=4)
    batch = task.draw(20_000, generator(11))
    assert_follows(tally(batch.targets[batch.loss_mask]), uniform(range(11)))
    signs = batch.tokens[(batch.tokens >= 11) & (batch.tokens < 15)]
    assert_follows(tally(signs - 11), uniform(range(4)))


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("value", [0, 3])
def test_a_number_becomes_any_pair_of_its_value_equally_often(operator: str, value: int) -> None:
    p = 5
    rng = np.random.default_rng(12)
    found = Counter(_split(value, operator, p, *rng.random(2)) for _ in range(20_000))
    pairs = {
        "+": [(a, b) for a in range(p) for b in range(p) if (a + b) % p == value],
        "-": [(a, b) for a in range(p) for b in range(p) if (a - b) % p == value],
        "×": [(a, b) for a in range(p) for b in range(p) if a * b % p == value],
        "÷": [(b * value % p, b) for b in range(1, p)],
    }[operator]
    assert_follows(found, uniform(pairs))


def test_lis_numbers_lie_above_the_lengths_and_answers_spread() -> None:
    task = tasks.make("lis", length=50)
    batch = task.draw(5000, generator(13))
    numbers, answer = batch.tokens[:, :50], batch.targets[batch.loss_mask]
    assert int(numbers.min()) >= 51 and int(numbers.max()) < 250
    assert len(set(answer.tolist())) > 35 and int(answer.max()) == 50  # a single planted run can be everything


MANY: list[tuple[str, dict[str, Any]]] = [
    ("pointer_chain", {"n": 12, "k": 3}),
    ("boxes", {"style": "advanced", "max_operations": 4}),
    ("sorting", {"q": 10, "max_length": 6}),
    ("increment", {"max_length": 6}),
    ("multiplication", {"digits": 3}),
    ("arithmetic", {"operators": 2}),
    ("lis", {"length": 4, "values": 12}),
    ("text", {"path": str(Path(__file__)), "block": 16}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "settings"), MANY, ids=[name for name, _ in MANY])
def test_train_and_test_share_no_example_over_a_million_draws(name: str, settings: dict[str, Any]) -> None:
    """Settings so small that the draws meet nearly every question there is."""
    task = tasks.make(name, **settings)
    sides = [_fingerprints(task, side, n) for side, n in (("train", 900_000), ("test", 100_000))]
    assert len(np.intersect1d(*sides)) == 0 and min(map(len, sides)) > 1


def _fingerprints(task: Task, side: Any, n: int) -> np.ndarray:
    found: list[bytes] = []
    for start in range(0, n, 50_000):
        batch = task.sample(50_000, generator(start, side), split=side)
        asked = task.question_length(batch.tokens).tolist()
        found += [_pack(row[:a]) for row, a in zip(batch.tokens.tolist(), asked, strict=True)]
    return np.unique(np.frombuffer(b"".join(found), dtype=np.uint64))


def _pack(row: list[int]) -> bytes:
    return hashlib.blake2b(str(row).encode(), digest_size=8).digest()
