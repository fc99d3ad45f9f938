"""One run's story: what was found of it, a sentence and its picture at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import pandas as pd
import plotly.graph_objects as go

from workbench import figures
from workbench.capture import Capture
from workbench.figures import Drawing
from workbench.inspection import Inspected, claims
from workbench.inspection.findings import findings, focus
from workbench.inspection.found import Kept
from workbench.inspection.learning_curves import learning_curves, logged_on
from workbench.inspection.seed_groups import SeedGroup, seed_groups
from workbench.instruments.attention import attention_graph
from workbench.instruments.residual.dominant_rows import WITHOUT, has_dominant, without_dominant
from workbench.interventions import head_in_words
from workbench.judgement.findings import Findings
from workbench.judgement.words import claims as claims_in_words
from workbench.judgement.words.figures import learnt
from workbench.judgement.words.findings import Statement, how_sure, statements
from workbench.judgement.words.findings import focus as focus_in_words
from workbench.measurement import Measurement
from workbench.report.sections import causal_of, controls_of
from workbench.util.words import capitalised

Picture: TypeAlias = go.Figure | Drawing


@dataclass(frozen=True)
class Chapter:
    """A finding with its pictures.

    Attributes:
        title: the question that it answers, or the claim that it is about.
        statement: what was found, in a sentence made from the measurements.
        pictures: what it was found in.
        limits: what the pictures do not show.
        numbers: what the pictures were drawn from, by name.
        table: what is best read as one; None where there is none.
    """

    title: str
    statement: Statement
    pictures: Sequence[Picture]
    limits: str
    numbers: Mapping[str, Measurement] = field(default_factory=dict)
    table: pd.DataFrame | None = None


TITLES = {
    "asked": "What is it asked?",
    "answers": "What does it get right?",
    "reads": "What does it read?",
    "holds": "What else holds?",
    "absent": "What is absent?",
    "tells nothing": "What tells nothing?",
    "spread": "How far do its representations spread?",
}
LEARNT, SURE = "When was it learnt?", "How sure is this?"
LIMITS = {
    "asked": "One input; all that follows is about many.",
    "answers": "Accuracy does not show how the answers are found.",
    "reads": "Mass on true edges does not show what is read there, nor that the model needs it.",
    "holds": "A claim that holds shows how an answer could be made, not that the model makes it so.",
    "absent": "What is claimed was not read where it is looked for; it may be held elsewhere, or in another basis.",
    "tells nothing": "These claims may still be true of this model; what was measured does not show it.",
    "spread": "Low entropy need not hurt: a model may have thrown away what its answers do not need.",
}
CLAIM_LIMITS = (
    "First how often the claim holds, beside its nearest control; then, where it was tested, what an edit of what "
    "is claimed does to right answers, beside the same edit elsewhere. A claim that holds shows how an answer could be "
    "made; only the edit shows that the model makes it so."
)


def story(inspected: Inspected, seen: Capture | None = None) -> list[Chapter]:
    """A run's story, a chapter for each statement; the last says how sure one may be.

    Args:
        inspected: the run's measurements; what is told depends on which there are (accuracy, claims, `gold_mass`,
            `entropy`).
        seen: the run on one input (`workbench.see`), which the story begins with.
    """
    return with_input(of_many_inputs(inspected), inspected, seen)


def of_many_inputs(inspected: Inspected) -> list[Chapter]:
    """The chapters that no single input is in."""
    (one,) = seed_groups([inspected])
    found = findings(one)
    rows = [claims_in_words.row(claim, place) for claim in found.claims for place in claim.places]
    table = pd.DataFrame(rows) if rows else None
    sure = Chapter(SURE, Statement(how_sure([found]), ()), (), _not_sure(inspected), table=table)
    return [*_told(inspected, one, found), sure]


def with_input(
    chapters: Sequence[Chapter], inspected: Inspected, seen: Capture | None, known: Kept | None = None
) -> list[Chapter]:
    """Those chapters behind one input, so that a page need not make them anew for another.

    Args:
        chapters: from `of_many_inputs`.
        inspected: the run's measurements.
        seen: the run on one input; None for none.
        known: what is kept of the run, which names its head while not all is measured yet.
    """
    return [*_on_one_input(inspected, seen, known), *chapters]


def title_of(statement: Statement) -> str:
    """The title of the chapter about a statement."""
    if "answers" in statement.chips:
        return TITLES["answers"]
    if "absent" in statement.chips and not statement.name:
        return TITLES["absent"]
    if statement.claims and "tells nothing" not in statement.chips:
        return statement.name or TITLES["holds"] if len(statement.claims) == 1 else TITLES["holds"]
    if statement.claims:
        return TITLES["tells nothing"]
    return TITLES["spread" if "spread" in statement.chips else "reads"]


def _on_one_input(inspected: Inspected, seen: Capture | None, known: Kept | None) -> Iterator[Chapter]:
    """One input from its truth to its answers, through the head in focus."""
    if seen is None or seen.subject.no_pattern:
        return
    layer, head = _head_of(known) or inspected.needed_head or (0, 0)
    asks = seen.subject.task.summary
    ends = (
        "its tokens to the next ones"
        if seen.subject.task.running_text
        else "the task's truth above to the model's answers"
    )
    text = f"{capitalised(asks)}. One input, from {ends} below, through "
    kept = None if known is None else focus_in_words(known.findings.focus)
    why = kept or focus_in_words(focus(inspected)) or "Which head matters is not measured yet."
    text += f"{head_in_words(layer, head)}. {why}"
    picture = figures.canvas(seen, layer=layer, head=head)
    weights = attention_graph.matrices(seen, 0, layer, head, n_hops=1)
    numbers = {"attention": weights} | ({} if inspected.fallen is None else {"heads-removed": inspected.fallen})
    yield Chapter(TITLES["asked"], Statement(text, ()), [picture], LIMITS["asked"], numbers)


def _head_of(known: Kept | None) -> tuple[int, int] | None:
    return None if known is None or known.findings.focus is None else known.findings.focus.needed


def _told(inspected: Inspected, one: SeedGroup, found: Findings) -> Iterator[Chapter]:
    """A chapter for each statement, and after the answers when they were learnt."""
    for statement in statements(found):
        if "answers" in statement.chips:
            yield _answers(one, statement)
            yield from _learnt(inspected)
        elif statement.name and "tells nothing" not in statement.chips:
            yield _claims(one, statement)
        else:
            yield _other(one, statement)


def _answers(one: SeedGroup, statement: Statement) -> Chapter:
    pictures, numbers = [], {"overall": one["overall"].mean}
    if "accuracy" in one and len(one["accuracy"].mean.dims) == 1:
        numbers["accuracy"] = one["accuracy"].mean
        pictures = [figures.accuracy({one.name: one["accuracy"].mean}, controls_of([one], "accuracy"))]
    return Chapter(title_of(statement), statement, pictures, LIMITS["answers"], numbers)


def _learnt(inspected: Inspected) -> Iterator[Chapter]:
    """When its answers became right, as it was logged; nothing of a model that was not trained here."""
    curves = learning_curves(inspected.run, ["accuracy", "whole_answer"])
    accuracy, told = curves.get("accuracy"), learnt(curves, inspected.run.task())
    if told is None or accuracy is None or len(accuracy.values) < 2:
        return
    picture = figures.learning_curves({inspected.name: curves})
    limits = (
        f"One seed, as it was logged, on {logged_on(inspected.run)}. A share is reached at the first evaluation at or "
        "above it; what happened between two evaluations is not known."
    )
    yield Chapter(LEARNT, Statement(told, ("answers",)), [picture], limits, curves)


def _claims(one: SeedGroup, statement: Statement) -> Chapter:
    """A claim: its rates, and its causal test."""
    (name,) = statement.claims
    pictures: list[Picture] = [_rates(one, [name])]
    numbers = _numbers(one, [name])
    tests = {claim: test for claim, test in causal_of(one).items() if claim == name}
    if tests:
        pictures += figures.causal({one.name: tests})
        numbers[f"{name}-causal"] = tests[name]
    return Chapter(title_of(statement), statement, pictures, CLAIM_LIMITS, numbers)


def _numbers(one: SeedGroup, names: Sequence[str]) -> dict[str, Measurement]:
    """What was measured of some measures, and of their controls."""
    numbers = {}
    for name in names:
        result = one[name].at_head()
        numbers[name] = result.mean
        numbers |= {f"{name}-{control}": each.mean for control, each in result.controls.items()}
    return numbers


def _rates(one: SeedGroup, names: Sequence[str]) -> go.Figure:
    (inspected,) = one.members
    return figures.mechanisms({one.name: claims.beside(inspected, names=names)})


def _other(one: SeedGroup, statement: Statement) -> Chapter:
    """What is about no single claim: those that tell nothing, where it looks, how its representations spread."""
    if statement.claims:
        picture, numbers = [_rates(one, statement.claims)], _numbers(one, statement.claims)
        limits = next(
            (LIMITS[chip] for chip in ("absent", "tells nothing") if chip in statement.chips), LIMITS["holds"]
        )
        return Chapter(title_of(statement), statement, picture, limits, numbers)
    chip = "spread" if "spread" in statement.chips else "reads"
    measure = {"spread": "entropy", "reads": "gold_mass"}[chip]
    numbers = _numbers(one, [measure])
    runs = {one.name: numbers[measure]}
    controls = {one.name: {name: numbers[f"{measure}-{name}"] for name in one[measure].controls}}
    if chip == "spread" and has_dominant(one[measure].examples):
        rest = without_dominant(one[measure].examples).mean()
        runs[f"{one.name}, {WITHOUT}"] = numbers[f"{measure}-without-dominant-rows"] = rest
    draw = figures.by_layer if chip == "spread" else figures.any_measure
    return Chapter(title_of(statement), statement, draw(runs, controls), LIMITS[chip], numbers)


def _not_sure(inspected: Inspected) -> str:
    """What was not looked at, and so may well be."""
    few = "" if len(inspected.sample) >= 100 else " So few sequences leave wide intervals."
    return (
        "The claims are those that this workbench knows of; a model may also do something else that gives the same "
        f"answers. Train other seeds to see whether they do it the same way.{few}"
    )
