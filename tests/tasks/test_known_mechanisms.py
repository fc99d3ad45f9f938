"""Tasks whose mechanisms are known: answers by an independent way, drawings of the docstrings, distributions."""

from __future__ import annotations

import collections

import numpy as np
import pytest
import torch

from workbench import tasks
from workbench.tasks import Batch, Task
from workbench.util.seeds import generator


def words_of(task: Task, batch: Batch) -> tuple[str, str]:
    """Tokens of the first sequence, and its targets where scored (a dot elsewhere), as the docstrings draw them."""
    words = task.words(batch.tokens[0])
    asked = batch.loss_mask[0].tolist()
    targets = [task.vocabulary.words[t] if on else "." for t, on in zip(batch.targets[0].tolist(), asked, strict=True)]
    return " ".join(words), " ".join(targets)


@pytest.mark.parametrize(
    ("name", "settings", "typed", "tokens", "targets"),
    [
        ("modular_addition", {"p": 53}, "40 + 21", "40 21 =", ". . 8"),
        (
            "associative_recall",
            {"d_vocab": 12, "length": 16, "pairs": 2, "fill": "blank"},
            "k2 v8 k4 v7 . . k4 . . . . . k2 . . .",
            "k2 v8 k4 v7 . . k4 . . . . . k2 . . .",
            ". . . . . . v7 . . . . . v8 . . .",
        ),
        (
            "induction",
            {"q": 26, "min_length": 5, "max_length": 5},
            "h c x a m c",
            "h c x a m c x a m",
            ". . . . . x a m .",
        ),
        (
            "state_tracking",
            {"states_of": "S3", "length": 5},
            "132 231 213 132 321",
            "132 231 213 132 321",
            "132 321 231 213 312",
        ),
        ("dyck", {"length": 8}, "([][()])", "( [ ] [ ( ) ] )", ") ] ) ] ) ] ) ·"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isidentifier() else "",
)
def test_the_drawing_of_each_docstring_is_what_the_task_makes(
    name: str, settings: dict[str, object], typed: str, tokens: str, targets: str
) -> None:
    task = tasks.make(name, **settings)
    assert words_of(task, task.parse(typed)) == (tokens, targets)
    drawn = " ".join(type(task).__doc__.replace("|", " ").split())
    assert tokens in drawn


def test_sums_are_those_of_python_and_a_part_of_all_pairs_is_trained_on() -> None:
    task = tasks.make("modular_addition", p=31, train_fraction=0.3)
    every = task.every()
    assert every.targets[:, 2].tolist() == [(a + b) % 31 for a in range(31) for b in range(31)]
    trained = {tuple(row[:2]) for row in task.sample(20_000, generator(0), split="train").tokens.tolist()}
    tested = {tuple(row[:2]) for row in task.sample(20_000, generator(0), split="test").tokens.tolist()}
    assert not trained & tested and len(trained | tested) == 31 * 31
    assert len(trained) == pytest.approx(0.3 * 31 * 31, rel=0.15)
    assert any((b, a) in tested for a, b in trained), "the order of the two matters to the split, as in the paper"
    truth = task.truth(every.tokens)
    assert truth.labels["wraps"][:, 2].tolist() == [int(a + b >= 31) for a in range(31) for b in range(31)]


def zoology(n: int, rng: np.random.Generator) -> list[tuple[list[int], list[int]]]:
    """Multi-query associative recall from its description, one example at a time: tokens and where queries stand."""
    made = []
    for _ in range(n):
        keys, values = rng.choice(np.arange(1, 16), 3, replace=False), rng.choice(np.arange(16, 32), 3, replace=False)
        places = np.arange(1, 10) ** (0.1 - 1)  # (24 - 6) / 2 of them
        gaps = rng.choice(9, 3, replace=False, p=places / places.sum())
        tokens = rng.integers(0, 32, 24)
        tokens[0:6:2], tokens[1:6:2], tokens[6 + 2 * gaps] = keys, values, keys
        made.append((tokens.tolist(), sorted((6 + 2 * gaps).tolist())))
    return made


def test_associative_recall_has_the_distribution_of_its_paper() -> None:
    task = tasks.make("associative_recall", d_vocab=32, length=24, pairs=3, power=0.1)
    drawn = task.draw(20_000, generator(0))
    expected = zoology(20_000, np.random.default_rng(0))
    for position in range(24):
        ours = np.bincount(drawn.tokens[:, position], minlength=32) / 20_000
        theirs = np.bincount([tokens[position] for tokens, _ in expected], minlength=32) / 20_000
        assert np.abs(ours - theirs).max() < 0.012, position
    ours = np.array(collections_of_gaps(drawn.tokens.tolist()))
    theirs = np.array(collections_of_gaps([tokens for tokens, _ in expected]))
    assert np.abs(ours - theirs).max() < 0.012
    blank = tasks.make("associative_recall", d_vocab=32, length=24, pairs=3, power=0.1, fill="blank")
    empty = blank.draw(300, generator(1))
    assert (empty.loss_mask.sum(1) == 3).all() and ((empty.tokens[:, 6:] != 0) == empty.loss_mask[:, 6:]).all()


def collections_of_gaps(rows: list[list[int]]) -> list[float]:
    """How often the key of the first pair stands at each place behind the pairs."""
    return [float(np.mean([row[at] == row[0] for row in rows])) for at in range(6, 24)]


def test_recalled_values_are_those_behind_the_keys() -> None:
    task = tasks.make("associative_recall", d_vocab=16, length=24, pairs=4)
    batch = task.draw(200, generator(2))
    for row, targets, asked in zip(
        batch.tokens.tolist(), batch.targets.tolist(), batch.loss_mask.tolist(), strict=True
    ):
        known = dict(zip(row[0:8:2], row[1:8:2], strict=True))
        for at, token in enumerate(row):
            assert asked[at] == (at >= 8 and token in known)
            if asked[at]:
                assert targets[at] == known[token]
        assert sum(asked) >= 4
    edges = task.truth(batch.tokens).edges
    for example, hop, query, key in edges.tolist():
        assert batch.tokens[example, key - (hop == 1)] == batch.tokens[example, query]


def test_induction_goes_on_as_before_from_any_symbol() -> None:
    task = tasks.make("induction", q=20, min_length=4, max_length=9)
    batch = task.draw(2000, generator(3))
    starts = collections.Counter()
    for row, targets, asked in zip(
        batch.tokens.tolist(), batch.targets.tolist(), batch.loss_mask.tolist(), strict=True
    ):
        row = [token for token in row if token != task.pad]
        first = next(i for i in range(1, len(row)) if row[i] in row[:i])
        start = row.index(row[first])
        starts[first, start] += 1
        assert len(set(row[:first])) == first and row[first:] == row[start:first]
        at = [i for i, on in enumerate(asked) if on]
        assert at == list(range(first, len(row) - 1)) and at
        assert [targets[i] for i in at] == row[first + 1 :]
    assert {n for n, _ in starts} == set(range(4, 10)), "every length"
    assert {s for n, s in starts if n == 9} == set(range(8)), "every start but the last"


def test_a_state_is_the_product_of_permutations() -> None:
    for group, order in (("S3", 6), ("S4", 24), ("A5", 60), ("S5", 120)):
        task = tasks.make("state_tracking", states_of=group, length=6)
        assert len(task.vocabulary) == order
        batch = task.draw(40, generator(4))
        for row, targets in zip(batch.tokens, batch.targets, strict=True):
            state = "12345"[: len(task.vocabulary.words[0])]
            for word, target in zip(task.words(row), task.words(targets), strict=True):
                state = "".join(state[int(i) - 1] for i in word)
                assert state == target
    parity = tasks.make("state_tracking", states_of="parity", length=30)
    batch = parity.draw(50, generator(5))
    assert torch.equal(batch.targets, batch.tokens.cumsum(1) % 2)
    swaps = tasks.make("state_tracking", moves="swaps", length=5)
    moved = {
        sum(a != b for a, b in zip(word, "12345", strict=True))
        for word in swaps.words(swaps.draw(99, generator(6)).tokens.flatten())
    }
    assert moved == {2}
    with pytest.raises(ValueError, match="no element that swaps"):
        tasks.make("state_tracking", states_of="parity", moves="swaps")


def test_brackets_are_those_of_a_stack() -> None:
    task = tasks.make("dyck", kinds=3, depth=3, length=40)
    batch, opening = task.draw(300, generator(7)), collections.Counter()
    truth = task.truth(batch.tokens)
    for i, (row, targets) in enumerate(zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True)):
        stack: list[int] = []
        for at, (token, target) in enumerate(zip(row, targets, strict=True)):
            if 0 < len(stack) < 3:
                opening[token < 3] += 1
            if token < 3:
                stack.append(at)
            else:
                assert row[stack.pop()] == token - 3
            assert len(stack) <= 3
            assert target == (row[stack[-1]] + 3 if stack else 6)
            assert int(truth.labels["depth"][i, at]) == len(stack)
            hops = (
                {(int(h), int(k)) for _, h, q, k in truth.edges[truth.edges[:, 0] == i].tolist() if q == at}
                if i < 2
                else None
            )
            assert hops is None or hops == {(len(stack) - n, where) for n, where in enumerate(stack)}
    assert opening[True] / opening.total() == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(
    ("name", "settings", "typed", "message"),
    [
        ("modular_addition", {}, "3", "type two numbers from 0 to 52"),
        ("modular_addition", {}, "3 99", "type two numbers from 0 to 52"),
        ("associative_recall", {"length": 8, "pairs": 1}, "k1 v32", "8 tokens, 1 pairs first, not 2"),
        ("associative_recall", {"length": 8, "pairs": 1}, "v40 v32 . . . . . .", "begins with 1 pairs"),
        ("associative_recall", {"length": 8, "pairs": 1}, "k1 v32 . . . . . .", "nothing is asked"),
        ("induction", {"q": 26}, "a b c", "then one of them again"),
        ("induction", {"q": 26}, "a b b c a", "all different but the last"),
        ("induction", {"q": 26}, "a b c c", "not of the end"),
        ("state_tracking", {"moves": "swaps"}, "23451", "no move of this task"),
        ("box_moves", {"n_filled": 1}, "The ball is in Box A .", "1 to 5 sentences as .* 7 words are not that"),
        ("box_moves", {"n_filled": 1}, "The ball is in Box A. Move the ball of Box A to Box B.", "word 10 is 'ball'"),
        ("box_moves", {"n_filled": 1}, "The A is in Box A. Move the contents of Box A to Box B.", "an object was exp"),
        ("box_moves", {"n_filled": 1}, "The ball is in Box A. Move the contents of Box B to Box C.", "cannot be done"),
        ("box_moves", {"n_filled": 1}, "The ball is in Box A. Move the contents of Box A to Box A.", "cannot be done"),
        (
            "box_moves",
            {"n_filled": 2},
            "The ball is in Box A, the ball is in Box B. Move the contents of Box A to Box C.",
            "the ball is named twice",
        ),
        ("dyck", {}, "(]", "']' at position 1 closes nothing"),
        ("dyck", {"depth": 1}, "((", "more than 1 brackets"),
    ],
)
def test_what_is_no_question_is_refused_in_words(
    name: str, settings: dict[str, object], typed: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        tasks.make(name, **settings).parse(typed)


def test_settings_that_cannot_be_met_are_refused() -> None:
    for name, settings, message in (
        ("associative_recall", {"pairs": 9}, "36 tokens, not 32"),
        ("associative_recall", {"d_vocab": 8, "pairs": 4}, "3 keys"),
        ("associative_recall", {"length": 31}, "even length"),
        ("induction", {"min_length": 9, "max_length": 5}, "min_length <= max_length"),
        ("dyck", {"kinds": 1, "depth": 1}, "one word"),
        ("box_moves", {"min_moves": 6}, "min_moves <= max_moves"),
        ("box_moves", {"n_filled": 6}, "leaves none of 6 boxes"),
        ("box_moves", {"n_filled": 4, "n_objects": 3}, "need as many objects"),
    ):
        with pytest.raises(ValueError, match=message):
            tasks.make(name, **settings)
