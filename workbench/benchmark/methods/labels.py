"""Methods that say of a label where it is held, and where the answers rest on it."""

from __future__ import annotations

from typing import cast

from workbench import probes
from workbench.benchmark.questions import Answer, Asks, Question
from workbench.judgement.decodable import BASELINES, CONTROL, FREQUENT, SHUFFLED, TRAINED, UNTRAINED
from workbench.judgement.used import AT_LEAST, CHANGED
from workbench.probes.causal_test import EDITED, Experiment
from workbench.runs import Run


def _probed(question: Question, beside: str = FREQUENT, kind: str = "logistic") -> Answer:
    """What a probe decodes at each point; called where that is clearly above what is decoded of something else."""
    points, run = list(question.candidates), cast(Run, question.run)  # it stands for one
    accuracy = probes.probe(run, question.label, points=points, kind=kind, seed=question.seed, controls=[beside])
    probe, other = (accuracy.select(condition=name) for name in (TRAINED, beside))
    assert probe.low is not None and other.high is not None
    above = (probe.low > other.high).tolist()
    return Answer(dict(zip(points, probe.values.tolist(), strict=True)), dict(zip(points, above, strict=True)))


def probe_alone(question: Question) -> Answer | None:
    """A logistic probe clearly above the most frequent label; what it decodes is said to be used, as is often done."""
    return _probed(question) if question.asks in (Asks.DECODABLE, Asks.USED) else None


def probe_mlp(question: Question) -> Answer | None:
    """A probe with a hidden layer clearly above the most frequent label; it says nothing of use."""
    return _probed(question, kind="mlp") if question.asks is Asks.DECODABLE else None


def nearest_mean(question: Question) -> Answer | None:
    """The value whose mean is nearest, clearly more often right than the most frequent one; it says nothing of use."""
    return _probed(question, kind="nearest_mean") if question.asks is Asks.DECODABLE else None


def probe_untrained(question: Question) -> Answer | None:
    """A logistic probe clearly above the same in re-initialised models; it says nothing of use."""
    return _probed(question, UNTRAINED) if question.asks is Asks.DECODABLE else None


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
