"""Methods that say of a label where it is held, and where the answers rest on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from workbench import probes
from workbench.benchmark.questions import Answer, Asks, Question
from workbench.benchmark.scoring import Method
from workbench.judgement.decodable import BASELINES, CONTROL, FREQUENT, SHUFFLED, TRAINED
from workbench.judgement.used import AT_LEAST, CHANGED
from workbench.probes.causal_test import EDITED, Experiment
from workbench.runs import Run


def probed(
    about: str, beside: str = FREQUENT, kind: str = "logistic", asks: Sequence[Asks] = (Asks.DECODABLE,)
) -> Method:
    """A method that calls a label held where a probe decodes it clearly better than something else is decoded.

    Args:
        about: what it does, in a sentence.
        beside: the baseline that it is held against.
        kind: of the probe.
        asks: the questions that it answers, the same way whichever it is.
    """

    def method(question: Question) -> Answer | None:
        if question.asks not in asks:
            return None
        points, run = list(question.candidates), cast(Run, question.run)  # it stands for one
        accuracy = probes.probe(run, question.label, points=points, kind=kind, seed=question.seed, controls=[beside])
        probe, other = (accuracy.select(condition=name) for name in (TRAINED, beside))
        assert probe.low is not None and other.high is not None
        above = (probe.low > other.high).tolist()
        return Answer(dict(zip(points, probe.values.tolist(), strict=True)), dict(zip(points, above, strict=True)))

    method.__doc__ = about
    return method


def description_length(question: Question) -> Answer | None:
    """Bits that a label costs given the residual, clearly fewer than a shuffled label costs; it says nothing of use."""
    if question.asks is not Asks.DECODABLE:
        return None
    points, run = list(question.candidates), cast(Run, question.run)
    found = probes.description_length(run, question.label, points=points, seed=question.seed, controls=[SHUFFLED])
    code, other = (found.bits.select(condition=name) for name in (TRAINED, SHUFFLED))
    assert code.high is not None and other.low is not None
    saved = (found.uniform - code.values).tolist()
    shorter = (code.high < other.low).tolist()
    return Answer(dict(zip(points, saved, strict=True)), dict(zip(points, shorter, strict=True)))


def probe_controlled(question: Question) -> Answer | None:
    """A logistic probe beside every baseline and a control task, judged; it says nothing of use."""
    if question.asks is not Asks.DECODABLE:
        return None
    points, run, controls = list(question.candidates), cast(Run, question.run), [*BASELINES, CONTROL]
    accuracy = probes.probe(run, question.label, points=points, seed=question.seed, controls=controls)
    worth = {point: probes.judge(accuracy.select(point=point)).worth for point in points}
    return Answer(calls={point: of is probes.Worth.DECODABLE for point, of in worth.items() if not of.open})


def _edited(question: Question, how: str, null_draws: int) -> dict[str, probes.Use]:
    run = cast(Run, question.run)
    experiment = Experiment.of(
        run, question.label, "labelled", how=how, n=EDITED, seed=question.seed, step=None, rank=None
    )
    (place,) = experiment.fit_rows.names
    found = experiment.uses([(point, place) for point in question.candidates], null_draws=null_draws)
    return {point: use for (point, _), use in found.items()}


def erasure(question: Question) -> Answer | None:
    """The label's directions (LEACE) are erased: used where at least one answer in a hundred changes, no control."""
    if question.asks is not Asks.USED:
        return None
    calls = {}
    for point, use in _edited(question, "erase", 0).items():
        low = use.effect.select(outcome=CHANGED).low
        calls[point] = bool(low is not None and low[0] > AT_LEAST)  # NaN where there was nothing to erase
    return Answer(calls=calls)


def causal_test(question: Question) -> Answer | None:
    """The label's directions are exchanged, beside control edits and the same in uninformed models, and judged."""
    if question.asks is not Asks.USED:
        return None
    used = {point: use.judged.used for point, use in _edited(question, "interchange", 5).items()}
    return Answer(calls={point: call for point, call in used.items() if call is not None})
