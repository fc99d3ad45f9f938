"""What was found of a run, in a few statements: what it gets right, what holds or is absent, what its answers need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Literal

from workbench.interventions import Head, head_in_words
from workbench.judgement.against_controls import Against
from workbench.judgement.claim import JudgedClaim, Judgement, Need, Often
from workbench.judgement.findings import AnswerRates, Findings, Focus, GoldMass, MeasuredOn, Share
from workbench.judgement.words import claims, entropy
from workbench.judgement.words.extremes import MOST_NAMED, at_places
from workbench.measurement.controls import control_in_words
from workbench.measurement.numbers import percents, share_with_interval
from workbench.mechanisms import sentence
from workbench.tasks import COUNTED, counted
from workbench.util.words import capitalised

MOST_CLAIMS = 3  # that are told one by one; of the others only how often they hold is

Chip = Literal["answers", "reads", "holds", "needed", "absent", "tells nothing", "spread", "collapse"]


@dataclass(frozen=True)
class Statement:
    """A sentence about how a model works.

    Attributes:
        text: the sentence.
        chips: what it is about: what attention `reads`, what the residual `holds`, whether answers `needed` it.
        claims: the mechanisms that it is about.
        name: what the sentence begins with, before a colon: the claim, with the places that it is about.
        brief: of a claim, how often it holds and whether answers need it, in a line: what follows its name on a card.
        parts: of a claim, its sentences after the name: what it says, how often it holds, what an edit of it does.
        more: the end of the sentence that can be left out where there is little room.
    """

    text: str
    chips: tuple[Chip, ...]
    claims: tuple[str, ...] = ()
    name: str = ""
    brief: str = ""
    parts: tuple[str, ...] = ()
    more: str = ""

    @property
    def rest(self) -> str:
        """The sentence without the name that it begins with."""
        return self.text.removeprefix(f"{self.name}: ")

    @property
    def shorter(self) -> str:
        """The same without what can be left out."""
        return self.rest.removesuffix(self.more).rstrip()


Group = tuple[JudgedClaim, tuple[Judgement, ...]]
"""A claim, and places of it with the same result."""


def statements(found: Findings) -> list[Statement]:
    """What can be said of a single run, or of several seeds of one config, the most telling first."""
    said = [] if found.answers is None else [_answers(found, found.answers)]
    groups = sorted(((claim, group) for claim in found.claims for group in claim.alike), key=_weight)
    telling, absent, other = (list[Group]() for _ in range(3))
    for claim, group in groups:
        gone = group[0].often is Often.NOT_FOUND and not group[0].needed
        (telling if group[0].tells else absent if gone else other).append((claim, group))
    said += [_claim(*group) for group in telling[:MOST_CLAIMS] or absent[:MOST_CLAIMS]]
    if more := telling[MOST_CLAIMS:]:
        said.append(_together(more, tuple(dict.fromkeys(chip for _, group in more for chip in _chips(group)))))
    if untold := absent if telling else absent[MOST_CLAIMS:]:
        said.append(_together(untold, ("absent",)))
    if other:
        said.append(_together(other, ("tells nothing",)))
    if not telling and found.gold is not None:
        said.append(_gold(found.gold))
    if found.spread is not None:
        collapse: tuple[Chip, ...] = ("collapse",) if found.spread.collapsed else ()
        said.append(Statement(entropy.in_words(found.spread), ("spread", *collapse)))
    return said


def _weight(group: Group) -> tuple[bool, bool, float]:
    """The claims to tell first: those beyond their controls, then those that the answers need, most often first."""
    _, judgements = group
    rates = [judgement.rate for judgement in judgements if not isnan(judgement.rate)]
    return not judgements[0].beyond, judgements[0].need is not Need.AS_CLAIMED, -max(rates, default=0.0)


def _claim(claim: JudgedClaim, group: Sequence[Judgement]) -> Statement:
    """One claim: what it says, how often it holds beside its controls, and what an edit of it does."""
    name, needs = claims.name_of(claim, group), claims.needing(group)
    parts = [sentence(claim.claim), *(f"{capitalised(part)}." for part in (claims.holding(group), needs) if part)]
    more = ""
    if needs and claim.needed_set is not None and claim.needed_set.heads and group[0].test is not None:
        parts.append(more := f"{capitalised(claims.needed_set(claim.needed_set))}.")
    return Statement(
        f"{name}: {' '.join(parts)}", _chips(group), (claim.claim,), name, _brief(group), tuple(parts), more
    )


def _brief(group: Sequence[Judgement]) -> str:
    """How often a claim holds and whether answers need it, without what it is beside."""
    often = f"{group[0].often}, in {percents(one.rate for one in group)} of cases"
    nearest = [judgement.strongest for judgement in group if judgement.strongest is not None]
    if nearest:
        beyond = group[0].against in (None, Against.BEYOND) or not group[0].found
        beside = "nearest control" if beyond else f"{claims.AGAINST[group[0].against or Against.TOO_FEW]}:"
        often += f" ({beside} {percents(one.rate for one in nearest)})"
    tests = [judgement.test.claimed for judgement in group if judgement.test is not None]
    if group[0].need is Need.NOT_NEEDED:
        return f"{often}; the answers do not need it"
    if not group[0].found and not group[0].needed:
        return often
    if not group[0].needed:
        return (
            f"{often}; whether the answers need it is not {'tested' if group[0].need is Need.UNTESTED else 'settled'}"
        )
    if not tests:
        return f"{often}; the answers need it"
    return f"{often}; the answers need it: edited, {percents(one.changed / one.n for one in tests)} of them change"


def _together(groups: Sequence[Group], chips: tuple[Chip, ...]) -> Statement:
    """Several claims in one statement, each with how often it holds; it begins with a name where it is about one."""
    said = "; ".join(f"{claims.name_of(*group)}: {claims.holding(group[1])}" for group in groups)
    name = claims.name_of(*groups[0]) if len(groups) == 1 else ""
    return Statement(f"{said}.", chips, tuple(dict.fromkeys(claim.claim for claim, _ in groups)), name)


def _chips(group: Sequence[Judgement]) -> tuple[Chip, ...]:
    """Claims about single heads are about what these read, the others about what the residual holds."""
    first = group[0]
    found: list[Chip] = []
    if first.often is Often.NOT_FOUND:
        found.append("absent")
    elif first.beyond:
        found.append("reads" if first.of_heads else "holds")
    if first.needed:
        found.append("needed")
    return tuple(found)


def _answers(found: Findings, answers: AnswerRates) -> Statement:
    """What it gets right, and the groups of answers in which it is worst."""
    whole = answers.sequence
    what = "predicts {} of next tokens" if whole is None else f"gets {{}} of {COUNTED['position']} right"
    text = f"{found.name} {what.format(share(answers.position))}"
    if whole is not None and abs(answers.position.value - whole.value) > 1e-8:
        text += f", and {share(whole)} of {COUNTED['sequence']}"
    sample, worst = found.samples[0], answers.worst
    text += f", on {_drawn(sample)} sequences{f' ({conditions_of(sample)})' if sample.spread else ''}"
    if worst is not None and len(worst.places) <= MOST_NAMED:
        rate = percents([worst.value, worst.reach])
        text += f"; least right {at_places(worst)} of {answers.groups} ({rate})"
    return Statement(f"{text}.", ("answers",))


def conditions_of(sample: MeasuredOn) -> str:
    """What the test conditions range over, and what it was in training where they go beyond it."""
    assert sample.spread is not None
    name, least, most = sample.spread
    trained = "" if sample.trained is None else f", trained on {sample.trained[0]} to {sample.trained[1]}"
    return f"{name} {least} to {most}{trained}"


def _drawn(sample: MeasuredOn) -> str:
    return f"{counted(sample.drawn, sample.distinct)} {sample.kind}"


def _gold(gold: GoldMass) -> Statement:
    heads = "; ".join(dict.fromkeys(head_in_words(*head) for head in gold.heads))
    text = f"Of its attention, {heads} lays {share(gold.mass)} on the task's true edges"
    tells = gold.control is None or gold.control.result is Against.BEYOND
    if gold.control is not None:
        text += f", and {percents([gold.control.rate])} on those of other examples"
    chip: Chip = "reads" if tells else "tells nothing"
    return Statement(f"{text}{'' if tells else ', which is not clearly more'}.", (chip,))


def focus(found: Focus | None) -> str | None:
    """Why the head in focus is shown, and what removing it costs; None where nothing shows which one to choose."""
    if found is None:
        return None
    where, most = head_in_words(*found.head), "the most mass on the task's true edges, on other sequences"
    if found.no_more_than:
        most += f", though {claims.AGAINST[Against.NOT_CLEAR]} ({', '.join(map(control_in_words, found.no_more_than))})"
    removed = dict(found.removed)
    if found.head not in removed:
        return f"{capitalised(where)} has {most}."
    own = share(removed[found.head])
    if found.needed is None or found.needed == found.head:
        others = [
            f"; without {head_in_words(*head)} {share(rate)}"
            for head, rate in removed.items()
            if head != found.head and rate.value > removed[found.head].value
        ]
        return f"{capitalised(where)} has {most}. Without it {own} of right answers change{''.join(others)}."
    return (
        f"The head that answers need most is {head_in_words(*found.needed)}: without it {share(removed[found.needed])} "
        f"of right answers change. {capitalised(where)} has {most}; without it {own} change. Removed, a head takes all "
        "that it writes with it; an edit of what a claim is about does not, and may need other heads."
    )


def another_needed(most: Head, needed: Head) -> str:
    """That answers need another head than the one with the most mass on the task's edges."""
    here, there = (head_in_words(*head) for head in (most, needed))
    return f"{capitalised(here)} has the most mass on the task's edges; answers need {there} more."


def of_models(found: Sequence[Findings]) -> str:
    """In how many of several models a claim about how they work holds, and in how many the answers need it."""
    judged = [[place for claim in one.claims for place in claim.places] for one in found]
    there = [any(place.beyond for place in places) for places in judged]
    needed = [any(place.beyond and place.needed for place in places) for places in judged]
    text = (
        f"In {sum(needed)} of {len(found)} models a claimed mechanism holds beyond its controls and the answers need it"
    )
    more = [
        (sum(there) - sum(needed), "one holds, and it is not shown that the answers need it"),
        (sum(bool(places) for places in judged) - sum(there), "none of those claimed does"),
        (sum(not places for places in judged), "none is claimed"),
    ]
    return f"{text}{''.join(f'; in {count} {what}' for count, what in more if count)}."


def what_it_costs(head: Head, on_edges: Share | None, lost: Share | None) -> str | None:
    """What answers lose without a head, and how much of its attention lies on the task's edges; None of neither."""
    parts = [] if lost is None else [f"without it {share(lost)} of right answers change"]
    parts += [] if on_edges is None else [f"{share(on_edges)} of its attention lies on the task's edges"]
    return f"{capitalised(head_in_words(*head))}: {', '.join(parts)}, over other sequences." if parts else None


def at_a_glance(found: Findings) -> tuple[str, str]:
    """What was found in a line: the most telling claim and its numbers; without a claim, what is absent."""
    said = statements(found)
    for statement in said:
        if statement.brief:
            return statement.name, statement.brief
    return "", " ".join([no_claim(found), *(statement.text for statement in said if "spread" in statement.chips)])


def no_claim(found: Findings) -> str:
    """What is said where no claim holds, or none is about a task."""
    if found.claims:
        return "No claim about how it works holds beyond its controls."
    if found.answers is not None and found.answers.sequence is None:
        return "No claim here is about how it predicts running text."
    return "How it finds its answers is not known: no claim here is about this task."


def how_sure(found: Sequence[Findings]) -> str:
    """What the numbers are over, and so what they cannot say."""
    n = dict.fromkeys(_drawn(sample) for run in found for sample in run.samples)
    seeds = {len(run.samples) for run in found}
    text = f"Measured on {' or '.join(n)} sequences"
    if seeds == {1}:
        return f"{text}; each run is one seed: intervals are over sequences, and say nothing of other seeds."
    few, many = min(seeds), max(seeds)
    return f"{text}; means and intervals are over {few if few == many else f'{few} to {many}'} seeds of each config."


def share(rate: Share) -> str:
    """A share in per cent, with its interval."""
    return share_with_interval(rate.value, rate.low, rate.high)
