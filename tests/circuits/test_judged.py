"""Circuits that leave out what works against the answer are not faithful, and few pairs or wrong answers show none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.circuits.conftest import clipped_chaser, doubled_chaser, random_model
from workbench.circuits import (
    Circuit,
    Comparison,
    Graph,
    faithfulness_curve,
    judge_circuit,
    judge_sizes,
    path_patching,
    smallest_faithful,
)
from workbench.judgement.faithful import Faithful
from workbench.measurement import Measurement
from workbench.models.hooked import hook
from workbench.tasks import make

PATHS = ("input->a0.h0<q>", "input->a0.h0<k>", "input->a0.h0<v>", "a0.h0->logits", "input->logits")
CLIPPING = ("a0.h0->m0", "m0->logits")
INHIBITION = ("input->a0.h1<q>", "input->a0.h1<k>", "input->a0.h1<v>", "a0.h1->logits")
traps = pytest.mark.parametrize("trap", ["an MLP that clips", "an inhibition head"])


def trapped(trap: str, n: int = 32) -> tuple[Comparison, Circuit, Circuit]:
    """A model of which one part works against the answer, the circuit without that part, and the one with it."""
    comparison = clipped_chaser(n) if trap == "an MLP that clips" else doubled_chaser((2.0, -1.0), n=n)
    graph = Graph.of(comparison.model)
    against = CLIPPING if trap == "an MLP that clips" else INHIBITION
    return comparison, Circuit.of(graph, PATHS), Circuit.of(graph, [*PATHS, *against])


@traps
def test_a_circuit_without_what_works_against_the_answer_overshoots_and_with_it_is_faithful(trap: str) -> None:
    comparison, without, whole = trapped(trap)
    judged = judge_circuit(comparison, without)
    assert judged.result is Faithful.OVERSHOOTS and 1.8 < judged.low <= judged.kept <= judged.high < 2.6
    assert judged.n == judged.known == 32 and judged.answers is not None and judged.answers >= 30  # do not tell
    judged = judge_circuit(comparison, whole)
    assert judged.result is Faithful.FAITHFUL and judged.kept == pytest.approx(1, abs=0.03)


@traps
def test_circuits_are_faithful_only_from_the_size_on_that_has_what_works_against_the_answer(trap: str) -> None:
    comparison, without, whole = trapped(trap)
    names = list(without.graph.names)
    rank = [2.0 * (name in without.names) + (name in whole.names) for name in names]
    scores = Measurement("s", np.array(rank), ("edge",), {"edge": names}, "logits")
    shares = [len(without) / len(names), len(whole) / len(names), 1.0]
    curve = faithfulness_curve(comparison, scores, shares=shares, selection="top")
    assert [one.result for one in judge_sizes(comparison, curve)] == ["overshoots", "faithful", "faithful"]
    assert smallest_faithful(comparison, curve) == shares[1]


def test_of_three_pairs_it_is_said_that_they_are_too_few_and_of_many_that_the_circuit_is_faithful() -> None:
    comparison, _, whole = trapped("an inhibition head")
    for n, result in ((3, Faithful.TOO_FEW), (16, Faithful.TOO_FEW), (32, Faithful.FAITHFUL)):
        judged = judge_circuit(comparison.of(comparison.pairs[:n]), whole)
        assert judged.kept == pytest.approx(1) and judged.n == n and judged.result is result


def test_the_answers_that_a_circuit_keeps_are_counted() -> None:
    comparison, _, whole = trapped("an inhibition head")
    cut = judge_circuit(comparison, whole.changed(["input->a0.h0<q>"]))
    assert cut.answers is not None and cut.answers < 32 and cut.result is Faithful.NOT


def test_a_model_without_the_answers_has_no_circuit_that_is_faithful_to_anything() -> None:
    comparison, _, _ = trapped("an inhibition head")
    task = make("pointer_chain", n=16, k=4, reading="root")
    untrained = replace(comparison, model=hook(random_model(task)))
    curve = faithfulness_curve(untrained, path_patching(untrained), shares=[0.5, 1.0])
    assert {one.result for one in judge_sizes(untrained, curve)} == {Faithful.NO_ANSWERS}
    assert smallest_faithful(untrained, curve) is None
