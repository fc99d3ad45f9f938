"""Scores are what one works out by hand, a method at random is at chance, and a wrong answer is told in one line."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import combinations, compress
from math import isnan, nan

import numpy as np
import pytest
import torch

from workbench.benchmark.methods import METHODS
from workbench.benchmark.questions import Answer, Asks, Posed, carry, posed
from workbench.benchmark.scoring import SCORES, calls, covered, ranking, score
from workbench.benchmark.subjects import SUBJECTS, Effect, make
from workbench.circuits import Comparison, Graph
from workbench.circuits.rewired import rewired_logits, writes
from workbench.util.seeds import generator

NAMES = ("a", "b", "c", "d")


def of(name: str, asks: Asks, label: str = "", null: str = "") -> Posed:
    found = [part for part in posed(name, 3, null) if part.question.asks is asks]
    return next(part for part in found if label in ("", part.question.label))


def test_a_ranking_is_scored_as_one_counts_it() -> None:
    # True are a and c. Pairs (true, other): a>b, a>d, c<b, c=d -> (1 + 1 + 0 + ½) / 4.
    scores = {"a": -4.0, "b": 3.0, "c": 1.0, "d": -1.0}
    found = ranking(scores, NAMES, frozenset("ac"))
    # Precision: a at the first place 1/1; c shares the last two places with d, of four 2 are true.
    assert found == pytest.approx({"auroc": 2.5 / 4, "precision": (1 + 2 / 4) / 2, "tied": 1 / 2})
    assert all(isnan(value) for value in ranking(scores, NAMES, frozenset(NAMES)).values())
    level = ranking(dict.fromkeys(NAMES, 0.0), NAMES, frozenset("a"))
    assert level == {"auroc": 0.5, "precision": 0.25, "tied": 1.0}
    rounded = ranking({"a": 1.0, "b": 1e-9, "c": -3e-9, "d": 0.0}, NAMES, frozenset("ab"))
    assert rounded["tied"] == 0.5 and rounded["auroc"] == 0.75


def test_calls_and_intervals_are_counted_as_one_counts_them() -> None:
    found = calls({"a": True, "b": False, "c": True}, NAMES, frozenset("ab"))
    assert found == {"power": 0.5, "false_alarms": 0.5, "silent": 0.25}
    nothing_true = calls({}, NAMES, frozenset())
    assert isnan(nothing_true["power"]) and (nothing_true["false_alarms"], nothing_true["silent"]) == (0.0, 1.0)
    effects = {"a": 0.5, "b": 1.0, "c": 0.0, "d": 4.0, "e": 0.0}
    held = covered({"a": (0.0, 1.0), "b": (1.5, 2.5), "c": (-1.0, 0.0), "e": (-1e-9, 1e-9)}, effects)
    assert held == {"coverage": pytest.approx(2 / 3), "width": 0.25}
    assert covered({"e": (0.0, 0.0)}, effects) == {}


def sets_of(edges: list[str]) -> list[frozenset[str]]:
    """All sets of these, or where they are many the empty one and 64 others."""
    if len(edges) <= 10:
        return [frozenset(chosen) for size in range(len(edges) + 1) for chosen in combinations(edges, size)]
    shares, places = torch.rand(64, 1, generator=generator(0)), torch.rand(64, len(edges), generator=generator(1))
    return [frozenset(), *(frozenset(compress(edges, chosen)) for chosen in (places < shares).tolist())]


@pytest.mark.parametrize("name", SUBJECTS)
def test_edges_carry_a_change_exactly_where_some_set_of_others_lets_them(name: str) -> None:
    """Sets of edges that do anything are put into the corrupted run, and each edge beside each set."""
    planted = make(name, 1, torch.float64)
    comparison = Comparison(planted.hooked(), planted.task().minimal_pairs(8, generator(0)))
    graph, pairs = Graph.of(comparison.model), comparison.pairs
    corrupted = writes(comparison, pairs.corrupted.tokens)
    edges = [edge for edge, effect in planted.truth.edges.items() if effect is not Effect.IDLE]
    sets = sets_of(edges)

    @cache
    def logits(changed: frozenset[str]) -> torch.Tensor:
        return rewired_logits(comparison, pairs.clean.tokens, graph.edges & ~graph.mask(sorted(changed)), corrupted)

    found = [
        edge
        for edge in edges
        if any(
            bool(((logits(chosen | {edge}) - logits(chosen))[pairs.asked].abs() > 1e-9).any())
            for chosen in sets
            if edge not in chosen
        )
    ]
    assert carry(planted, comparison) == found


def test_the_true_answer_is_best_and_its_opposite_worst() -> None:
    part = of("inhibition_head", Asks.EDGES)
    names, true = part.question.candidates, part.true
    best = Answer(
        {n: float(n in true) for n in names}, {n: n in true for n in names}, dict.fromkeys(names, (-9.0, 9.0))
    )
    found = score(part, best, lambda question: best)
    values = {name: SCORES[name].best for name in found if not name.endswith(("coverage", "width"))}
    assert {name: found[name] for name in values} == pytest.approx(values) and found["edges_coverage"] == 1
    worst = Answer({n: float(n not in true) for n in names}, {n: n not in true for n in names})
    found = score(part, worst, lambda question: worst)
    assert (found["edges_auroc"], found["edges_power"], found["edges_false_alarms"]) == (0, 0, 1)
    assert found["edges_unfaithful"] > 0.5


def test_effects_and_faithfulness_are_those_of_a_model_worked_out_by_hand() -> None:
    """The head says the symbol with a logit of 1, and the other takes 0.6 of it away: 1 and −0.6 for each of two."""
    part = of("inhibition_head", Asks.EDGES)
    to_logits = sorted(effect for edge, effect in part.effects.items() if edge.endswith("->logits"))
    assert to_logits == pytest.approx([-1.2, 0, 0, 2])
    nodes = of("inhibition_head", Asks.NODES)
    assert sorted(nodes.effects.values()) == pytest.approx([-1.2, 0, 2])


def test_at_random_every_score_is_at_chance() -> None:
    rng = np.random.default_rng(0)
    names = [str(number) for number in range(40)]
    true = frozenset(names[:10])
    found = [ranking(dict(zip(names, rng.random(40), strict=True)), names, true) for _ in range(400)]
    assert np.mean([each["auroc"] for each in found]) == pytest.approx(SCORES["edges_auroc"].chance, abs=0.02)
    harmonic = sum(1 / place for place in range(1, 41)) / 40  # of 10 true ones among 40 in random order
    expected = 9 / 39 * (1 - harmonic) + harmonic
    assert np.mean([each["precision"] for each in found]) == pytest.approx(expected, abs=0.02)
    parts = [part for seed in range(12) for part in posed("inhibition_head", seed, "re-initialised")]
    alarms = [v for part in parts for v in score(part, METHODS["random"](part.question), METHODS["random"]).values()]  # type: ignore[arg-type]
    assert np.mean(alarms) == pytest.approx(0.5, abs=0.1)


def test_a_method_sees_no_truth_name_or_seed_and_the_same_subject_is_asked_the_same() -> None:
    for part in posed("inhibition_head", 7):
        run = part.question.run
        assert (
            (run.name, run.seed) == ("a model", None) and not run.about and not run.truth.edges and not run.truth.labels
        )
        assert part.question.seed != 7
    first, again = (METHODS["random"](of("inhibition_head", Asks.EDGES).question) for _ in range(2))
    assert first == again


def test_nothing_is_true_of_a_model_that_knows_nothing() -> None:
    for null in ("re-initialised", "weights shuffled"):
        parts = posed("exclusive_or", 3, null)
        assert {part.question.asks for part in parts} == {Asks.EDGES, Asks.NODES, Asks.USED}
        for part in parts:
            yes = Answer(calls=dict.fromkeys(part.question.candidates, True))
            assert score(part, yes, lambda question: None) == {f"{part.question.asks}_in_nulls": 1.0}


@pytest.mark.parametrize("name", ["exclusive_or", "induction"])  # of the second any place may have a label
def test_shuffled_labels_tell_nothing_and_leave_model_and_answers_as_they_are(name: str) -> None:
    parts, subject = posed(name, 3, "labels shuffled"), make(name, 3)
    assert {part.question.asks for part in parts} == {Asks.DECODABLE, Asks.USED} and not any(p.true for p in parts)
    task, batch = parts[0].question.run.task(), subject.task().sample(512, generator(0), split="test")
    again = task.sample(512, generator(0), split="test")
    assert torch.equal(again.tokens, batch.tokens) and torch.equal(again.targets, batch.targets)
    label = parts[0].question.label
    own, dealt = (of.truth(batch.tokens).labels[label] for of in (subject.task(), task))
    known = own >= 0
    assert torch.equal(known, dealt >= 0) and torch.equal(own[known].sort().values, dealt[known].sort().values)
    chance = float((own[known].bincount() / known.sum()).square().sum())
    assert float((own == dealt)[known].float().mean()) == pytest.approx(chance, abs=0.1)
    for part in parts:
        yes = Answer(calls=dict.fromkeys(part.question.candidates, True))
        assert score(part, yes, lambda question: None) == {f"{part.question.asks}_in_nulls": 1.0}


def test_a_subspace_is_obeyed_where_the_variable_lives_and_no_other_is() -> None:
    part = of("late", Asks.WHERE, "first")
    truth = make("late", 3).truth
    rooms = {held.point: torch.tensor(held.directions).T.float() for held in truth.labels if held.used}
    elsewhere = next(torch.tensor(held.directions).T.float() for held in truth.labels if not held.used)
    bases = {point: rooms.get(point, elsewhere) for point in part.question.candidates}
    found = score(part, Answer(bases=bases), lambda question: Answer(bases=bases))
    assert found == {"where_accuracy": 1.0, "where_elsewhere": 0.0, "where_arbitrary": 0.0}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"a0.h0": 1.0}, "a method returns an Answer, or None where it has none, not a dict"),
        (Answer(scores={"a9.h9": 1.0}), "scores name 'a9.h9', which is not asked about"),
        (Answer(scores={"a0.h0": 1.0}), "scores are of every candidate or of none, and 'a0.h1' has none"),
        (Answer(scores={"a0.h0": 1.0, "a0.h1": nan, "m0": 0.0}), "scores are finite numbers"),
        (Answer(calls={"a0.h0": 0.7}), "calls are true or false"),  # type: ignore[dict-item]
        (Answer(intervals={"m0": (1.0, 0.0)}), "the lower one first"),
        (Answer(intervals={"m0": (nan, 0.0)}), "the lower one first"),
    ],
)
def test_a_wrong_answer_is_told_what_is_wrong(answer: Answer, message: str) -> None:
    part = of("inhibition_head", Asks.NODES)
    with pytest.raises(ValueError, match=message) as raised:
        score(part, answer, lambda question: answer)
    assert "\n" not in str(raised.value)


def test_a_basis_is_orthonormal() -> None:
    part = of("late", Asks.WHERE)
    width = part.question.run.decoder.config.d_model
    wrong = Answer(bases=dict.fromkeys(part.question.candidates, 2 * torch.eye(width, 1)))
    with pytest.raises(ValueError, match="is not orthonormal"):
        score(part, wrong, lambda question: wrong)
    assert replace(part.question, seed=1).rows is part.question.rows
