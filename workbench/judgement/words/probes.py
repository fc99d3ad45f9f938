"""What is said of a label: whether it can be decoded, whether it is used, and what is known of it in all."""

from __future__ import annotations

from workbench.judgement.decodable import (
    ADDED,
    CONTROL,
    FREQUENT,
    LEAST_SELECTIVITY,
    PAIRS,
    SHUFFLED,
    TOKEN,
    TRAINED,
    Decodable,
    Worth,
)
from workbench.judgement.extremes import extreme
from workbench.judgement.probed import Finding, Status
from workbench.judgement.used import CHANGED, FOLLOWED, FRESH, MOVED, SHUFFLED_WEIGHTS, Conclusion, Untested, Used
from workbench.judgement.words.extremes import at_places
from workbench.measurement import Measurement
from workbench.measurement.intervals import LEAST_FOR_A_VERDICT
from workbench.measurement.numbers import POINTS, between, number, percent, with_interval
from workbench.measurement.places import at_point, point_name

BASELINE = {
    TOKEN: "the current token alone",
    ADDED: "a probe of token and position, added",
    PAIRS: "a lookup of (token, position) pairs",
    SHUFFLED: "shuffled labels",
    FREQUENT: "the most frequent label",
}
WORTH = {
    Worth.DECODABLE: "decodable",
    Worth.TOKEN_AND_POSITION: "explained by token and position alone",
    Worth.LEARNS_ANYTHING: "undecided, the probe can learn anything here",
    Worth.CANNOT_RULE_OUT: "undecided, token and position together cannot be ruled out",
    Worth.NO_BETTER: "no better than its baselines",
    Worth.UNDECIDED: "undecided whether better than its baselines",
    Worth.TOO_FEW: "undecided",
    Worth.NO_INTERVAL: "undecided",
    Worth.NO_BASELINE: "no baseline to compare with",
    Worth.ONE_VALUE: "nothing to tell apart",
}
CONCLUSION = {
    Conclusion.USED: "used",
    Conclusion.UNUSED: "not used",
    Conclusion.LIKE_CONTROLS: "undecided whether used, the control edits do nearly as much",
    Conclusion.LIKE_NULLS: "undecided whether used, re-initialised or shuffled models do nearly as much",
    Conclusion.TOKEN_AND_POSITION: "undecided whether used, token and position alone explain what is read there",
    Conclusion.NOT_COMPARED: "undecided whether used, not compared with enough re-initialised and shuffled models",
    Conclusion.NO_OTHERS: "undecided whether used, no other direction is left to compare with",
    Conclusion.TOO_FEW: "undecided whether used, too few sequences",
    Conclusion.UNTESTED: "not tested",
}
UNTESTED = {
    Untested.NO_PLACE: "the sequences drawn have no such place",
    Untested.NO_DIRECTION: "no direction holds more of it than of shuffled labels",
    Untested.NO_PARTNER: "no sequence has a partner with another label and one with the same",
}
DOES = {
    CHANGED: "changes {} of the answers",
    MOVED: "moves {} of the answers' probability",
    FOLLOWED: "turns {} of the answers into the other input's",
}
NULLS = {FRESH: "re-initialised models", SHUFFLED_WEIGHTS: "models with shuffled weights"}
STATUS = {status: status.value for status in Status} | {
    Status.TOKEN_AND_POSITION: WORTH[Worth.TOKEN_AND_POSITION],
    Status.NOT_DECODABLE: "decoded no better than from its baselines",
}


def decodable(judged: Decodable) -> str:
    """What a probe's accuracy is worth: 'decodable: 97% [94, 99] of 301 rows, against 31% for …; control task …'."""
    begin = WORTH[judged.worth]
    if judged.worth is Worth.ONE_VALUE:
        return f"{begin}: the label has one value there"
    counted = f"{judged.n} {'seed' if judged.seeds else 'sequence'}{'' if judged.n == 1 else 's'}"
    if judged.worth is Worth.TOO_FEW:
        begin += f", {counted} and a verdict needs {LEAST_FOR_A_VERDICT}"
    elif judged.worth is Worth.NO_INTERVAL:
        begin += ", there is no interval"
    of = f"{judged.tested:,} rows" if judged.tested is not None and not judged.seeds else counted
    reached, is_share = judged.trained, judged.units == "share"
    read = with_interval(reached.value, reached.low, reached.high, judged.units if is_share else "")
    numbers = f"{'' if is_share else 'R² '}{read} of {of}"
    if judged.best is not None:
        numbers += f", against {_value(judged.baselines[judged.best].value, judged)} for {BASELINE[judged.best]}"
    return "; ".join([f"{begin}: {numbers}", *_reservations(judged)])


def _reservations(judged: Decodable) -> list[str]:
    """What else bears on the accuracy: the lookup that could not be made, re-initialised models, the control task."""
    said = []
    if judged.worth is Worth.TOKEN_AND_POSITION and judged.before_attention:
        said.append("before attention nothing else is there")
    if judged.lookup_refused:
        many = f"{judged.pairs:,} pairs, {judged.fitted:,} rows fitted"
        known = judged.worth is Worth.CANNOT_RULE_OUT
        said.append(many if known else f"token and position together cannot be ruled out: {many}")
    if judged.untrained is not None:
        models = f"the best of {judged.untrained_models} re-initialised models"
        gain = "" if judged.gained else ", so no clear gain from training"
        name = models if judged.untrained_models > 1 else "a re-initialised model"
        said.append(f"{_value(judged.untrained.value, judged)} from {name}{gain}")
    if judged.selectivity is not None and judged.control is not None:
        in_points = number(100 * judged.selectivity, POINTS, places=1)
        selectivity = in_points if judged.units == "share" else number(judged.selectivity)
        control = f"control task {_value(judged.control, judged)}, selectivity {selectivity}"
        said.append(control + (": the probe can learn any label of the token here" if judged.learns_control else ""))
    return said


def _value(value: float, judged: Decodable) -> str:
    return percent(value) if judged.units == "share" else f"R² {number(value)}"


def gained(accuracy: Measurement, gains: Measurement) -> str | None:
    """Where the trained model gains most over its baselines, and how much is decoded there; None of no probe.

    Args:
        accuracy, gains: of one label, `probe(…)` and `gain(accuracy)`.
    """
    most = extreme(gains, "most")
    if most is None:
        return None
    own = [float(accuracy.select(condition=TRAINED, **place).values) for place in most.places]
    reached, beside = (between(values, accuracy.units) for values in (own, [value - most.value for value in own]))
    where = at_places(most)
    if all(str(place.get("place")).isdecimal() for place in most.places):  # as `figures.probes` has it
        where = where.replace("place ", "position ")
    text = (
        f"Furthest beyond its baselines {where}: {reached} decoded; the best baseline or re-initialised model {beside}."
    )
    if CONTROL not in accuracy.coords["condition"]:
        return text
    control = [float(accuracy.select(condition=CONTROL, **place).values) for place in most.places]
    if not any(value - other < LEAST_SELECTIVITY for value, other in zip(own, control, strict=True)):
        return text
    learnt = between(control, accuracy.units)
    return f"{text} The probe also learns a random class for each token (control task: {learnt})."


def used(judged: Used) -> str:
    """What a causal test shows: 'used: the edit turns 86% of the answers into …, its control edits at most 2% …'."""
    begin = CONCLUSION[judged.conclusion]
    if judged.untested is not None:
        return f"{begin}: {UNTESTED[judged.untested]}"
    if judged.conclusion is Conclusion.TOO_FEW:
        begin += f" ({judged.n} of at least {LEAST_FOR_A_VERDICT})"
    parts = [f"{begin}: {_edit(judged)}" if judged.clearest else begin]
    if judged.decodable is not None:
        seen = judged.decodable.worth is Worth.DECODABLE
        unseen = f"but a probe does not show that it can be read here ({decodable(judged.decodable)})"
        parts.append("the label is decodable here" if seen else unseen)
    return "; ".join(parts)


def _edit(judged: Used) -> str:
    """The edit beside its control edits and uninformed models, by the clearest outcome."""
    outcome = judged.clearest
    assert outcome is not None
    does = DOES[outcome.name].format(percent(outcome.effect))
    said = (
        f"the edit {does}, its control edits at most {percent(max(outcome.controls.values()))} ({judged.n} sequences)"
    )
    if not outcome.nulls:
        return said
    said += f"; its lead is {percent(outcome.tally.rate)}"
    for null in outcome.nulls:
        said += f", in {null.models} {NULLS[null.against]} {percent(null.rate)} (the highest {percent(null.most)})"
    return said


def finding(found: Finding) -> str:
    """What is known of a label, its probe and its causal tests, in a few lines."""
    where = found.label.replace("_", " ") + (f" at {found.place}" if found.place else "")
    first = f", first {at_point(found.point)}" if found.point else ""
    lines = [f"{where}: {STATUS[found.status]}{first}", decodable(found.decodable)]
    if found.test is not None:
        lines.append(used(found.test))
        if len(found.tests) > 1:
            by_conclusion: dict[Conclusion, list[str]] = {}
            for point, test in found.tests.items():
                by_conclusion.setdefault(test.conclusion, []).append(point_name(point))
            parts = "; ".join(f"{', '.join(points)}: {CONCLUSION[c]}" for c, points in by_conclusion.items())
            lines.append(f"tested at {len(found.tests)} points, corrected for their number: {parts}")
    return "\n    ".join(lines)
