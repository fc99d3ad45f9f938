"""Methods that say of a label where it is held, and where the answers rest on it."""

from __future__ import annotations

from typing import cast

from workbench import probes
from workbench.benchmark.questions import Answer, Asks, Question
from workbench.judgement.decodable import BASELINES, CONTROL, FREQUENT, TRAINED
from workbench.judgement.used import AT_LEAST, CHANGED
from workbench.probes.causal_test import EDITED, Experiment
from workbench.runs import Run

ASKED = (Asks.DECODABLE, Asks.USED)
NO = (probes.Worth.NO_BETTER, probes.Worth.TOKEN_AND_POSITION)


def probe_alone(question: Question) -> Answer | None:
    """A logistic probe clearly above the most frequent label; what it decodes is said to be used, as is often done."""
    if question.asks not in ASKED:
        return None
    points, run = list(question.candidates), cast(Run, question.run)  # it stands for one
    accuracy = probes.probe(run, question.label, points=points, seed=question.seed, controls=[FREQUENT])
    probe, frequent = (accuracy.select(condition=name) for name in (TRAINED, FREQUENT))
    assert probe.low is not None and frequent.high is not None
    above = (probe.low > frequent.high).tolist()
    return Answer(dict(zip(points, probe.values.tolist(), strict=True)), dict(zip(points, above, strict=True)))


def probe_controlled(question: Question) -> Answer | None:
    """A logistic probe beside every baseline and a control task, judged; it says nothing of use."""
    if question.asks is not Asks.DECODABLE:
        return None
    return Answer(calls={p: worth is probes.Worth.DECODABLE for p, worth in _worth(question).items() if not worth.open})


def _worth(question: Question) -> dict[str, probes.Worth]:
    """What a controlled probe's accuracy is worth at each point."""
    points, controls = list(question.candidates), [*BASELINES, CONTROL]
    run = cast(Run, question.run)
    accuracy = probes.probe(run, question.label, points=points, seed=question.seed, controls=controls)
    return {point: probes.judge(accuracy.select(point=point)).worth for point in points}


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
