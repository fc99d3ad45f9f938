"""One run's story: what was found of it, a sentence and its picture at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import pandas as pd
import plotly.graph_objects as go

from workbench import figures
from workbench.capture import Capture
from workbench.figures import Drawing
from workbench.inspection import Inspected
from workbench.inspection.findings import findings, focus
from workbench.inspection.learning_curves import learning_curves, logged_on
from workbench.inspection.seed_groups import SeedGroup, seed_groups
from workbench.instruments.attention import attention_graph
from workbench.instruments.residual.dominant_rows import WITHOUT, has_dominant, without_dominant
from workbench.interventions import head_in_words
from workbench.judgement.findings import Findings, Focus
from workbench.judgement.words import claims as claims_in_words
from workbench.judgement.words.figures import learnt
from workbench.judgement.words.findings import Statement, how_sure, statements
from workbench.judgement.words.findings import focus as focus_in_words
from workbench.measurement import Measurement
from workbench.runs import Run
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


def story(inspected: Inspected, seen: Capture | None = None, rest: Sequence[Chapter] | None = None) -> list[Chapter]:
    """A run's story, a chapter for each statement; the last says how sure one may be.

    Args:
        inspected: the run's measurements; what is told depends on which there are (accuracy, claims, `gold_mass`,
            `entropy`).
        seen: the run on one input (`workbench.see`), which the story begins with.
        rest: what the story is without an input, so that a page need not make it anew for another one.
    """
    if rest is None:
        (one,) = seed_groups([inspected])
        found = findings(one)
        rest = [_measured(one, chapter) for chapter in [*_told(found, inspected.run), _sure(found)]]
    numbers = {} if inspected.fallen is None else {"heads-removed": inspected.fallen}
    return [*_on_one_input(seen, inspected.needed_head or (0, 0), focus(inspected), numbers), *rest]


def of_findings(found: Findings, run: Run, seen: Capture | None = None) -> list[Chapter]:
    """The same of what is kept of a run, with nothing measured anew: some chapters are without their pictures.

    Args:
        found: what was found of it.
        run: the run, for its log.
        seen: the run on one input, which the story begins with.
    """
    head = found.focus and (found.focus.needed or found.focus.head)
    return [*_on_one_input(seen, head or (0, 0), found.focus, {}), *_told(found, run), _sure(found)]


def _on_one_input(
    seen: Capture | None, head: tuple[int, int], found: Focus | None, numbers: dict[str, Measurement]
) -> Iterator[Chapter]:
    """One input from its truth to its answers, through a head, and what is known of it."""
    if seen is None or seen.subject.no_pattern:
        return
    asks = seen.subject.task.summary
    ends = (
        "its tokens to the next ones"
        if seen.subject.task.running_text
        else "the task's truth above to the model's answers"
    )
    why = focus_in_words(found) or "Which head matters is not measured yet."
    text = f"{capitalised(asks)}. One input, from {ends} below, through {head_in_words(*head)}. {why}"
    picture = figures.canvas(seen, layer=head[0], head=head[1])
    weights = attention_graph.matrices(seen, 0, *head, n_hops=1)
    yield Chapter(TITLES["asked"], Statement(text, ()), [picture], LIMITS["asked"], {"attention": weights} | numbers)


def _told(found: Findings, run: Run) -> Iterator[Chapter]:
    """A chapter for each statement, and after the answers when they were learnt."""
    judged = {claim.claim: claim for claim in found.claims}
    for statement in statements(found):
        chips, pictures = ("answers", "absent", "tells nothing", "spread"), []
        chip = next((chip for chip in chips if chip in statement.chips), "holds" if statement.claims else "reads")
        title, limits = TITLES["reads" if chip == "tells nothing" and not statement.claims else chip], LIMITS[chip]
        if chip in ("absent", "holds") and len(statement.claims) == 1 and statement.name:
            title = statement.name  # a chapter about one claim is called by it
        if statement.claims:
            places = [place for name in statement.claims for place in judged[name].places]
            if statement.name and "tells nothing" not in statement.chips:
                (claim,) = (judged[name] for name in statement.claims)
                alike = [group for group in claim.alike if claims_in_words.name_of(claim, group) == statement.name]
                places, limits = list(alike[0]), CLAIM_LIMITS
            pictures = [figures.judged_claim(places)]
        yield Chapter(title, statement, pictures, limits)
        if "answers" in statement.chips:
            yield from _learnt(run)


def _learnt(run: Run) -> Iterator[Chapter]:
    """When its answers became right, as it was logged; nothing of a model that was not trained here."""
    curves = learning_curves(run, ["accuracy", "whole_answer"])
    accuracy, told = curves.get("accuracy"), learnt(curves, run.task())
    if told is None or accuracy is None or len(accuracy.values) < 2:
        return
    picture = figures.learning_curves({run.name: curves})
    limits = (
        f"One seed, as it was logged, on {logged_on(run)}. A share is reached at the first evaluation at or "
        "above it; what happened between two evaluations is not known."
    )
    yield Chapter(LEARNT, Statement(told, ("answers",)), [picture], limits, curves)


def _sure(found: Findings) -> Chapter:
    """What the numbers are over, what was not looked at, and so may well be, and every claim in a row of a table."""
    rows = [claims_in_words.row(claim, place) for claim in found.claims for place in claim.places]
    few = "" if found.samples[0].distinct >= 100 else " So few sequences leave wide intervals."
    limits = (
        "The claims are those that this workbench knows of; a model may also do something else that gives the same "
        f"answers. Train other seeds to see whether they do it the same way.{few}"
    )
    return Chapter(SURE, Statement(how_sure([found]), ()), (), limits, table=pd.DataFrame(rows) if rows else None)


def _measured(one: SeedGroup, chapter: Chapter) -> Chapter:
    """A chapter with the numbers that were measured, and with the pictures that take them."""
    if chapter.title in (LEARNT, SURE):
        return chapter
    if chapter.statement.claims:
        claims = chapter.statement.claims
        numbers = _numbers(one, claims)
        numbers |= {f"{name}-causal": test.mean for name in claims if (test := one[name].causal) is not None}
        return replace(chapter, numbers=numbers)
    if "answers" in chapter.statement.chips:
        pictures, numbers = [], {"overall": one["overall"].mean}
        if "accuracy" in one and len(one["accuracy"].mean.dims) == 1:
            numbers["accuracy"] = one["accuracy"].mean
            pictures = [figures.accuracy({one.name: one["accuracy"].mean}, {one.name: one["accuracy"].control_means})]
        return replace(chapter, pictures=pictures, numbers=numbers)
    spread = "spread" in chapter.statement.chips
    measure = "entropy" if spread else "gold_mass"
    numbers = _numbers(one, [measure])
    runs = {one.name: numbers[measure]}
    controls = {one.name: {name: numbers[f"{measure}-{name}"] for name in one[measure].controls}}
    if spread and has_dominant(one[measure].examples):
        rest = without_dominant(one[measure].examples).mean()
        runs[f"{one.name}, {WITHOUT}"] = numbers[f"{measure}-without-dominant-rows"] = rest
    draw = figures.by_layer if spread else figures.any_measure
    return replace(chapter, pictures=draw(runs, controls), numbers=numbers)


def _numbers(one: SeedGroup, names: Sequence[str]) -> dict[str, Measurement]:
    """What was measured of some measures, and of their controls."""
    numbers = {}
    for name in names:
        result = one[name].at_head()
        numbers[name] = result.mean
        numbers |= {f"{name}-{control}": each.mean for control, each in result.controls.items()}
    return numbers
