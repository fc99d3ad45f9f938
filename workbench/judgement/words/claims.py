"""A judged claim in words: first how often, then beside which controls, then whether the answers need it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from workbench.judgement.against_controls import WORST_FIRST, Against, Compared
from workbench.judgement.claim import JudgedClaim, Judgement, Need, NeededSet, Often, Test, hardest
from workbench.measurement import Measurement
from workbench.measurement.controls import control_in_words
from workbench.measurement.numbers import between, counted, percent, percents, share_with_interval, whole
from workbench.measurement.places import at_point, place_in_words
from workbench.mechanisms.heads import LEAST_LOST, where_in_words
from workbench.util.words import capitalised

Group = Sequence[Judgement]
"""Places of one claim with the same result."""

NEED = {
    Need.AS_CLAIMED: "the answers need it",
    Need.LOST: "the answers need it, though not clearly as claimed",
    Need.NOT_NEEDED: "the answers do not need it",
    Need.IDLE: "the edit of it changes few answers, where another edit changes many",
    Need.AS_ELSEWHERE: "whether the answers need it cannot be told, as its edit changes not clearly more of them than "
    "the same edit elsewhere",
    Need.AS_NULLS: "whether the answers need it cannot be told, as its edit changes no more of them than in an "
    "uninformed model",
    Need.NOT_COMPARED: "whether the answers need it is not compared, as too few can be edited elsewhere or in "
    "uninformed models",
    Need.NOT_SETTLED: "whether the answers need it is not settled",
    Need.TOO_FEW: "whether the answers need it cannot be told from so few right answers",
}

AGAINST = {
    Against.BEYOND: "beyond its controls",
    Against.NO_MORE: "no more than under a control",
    Against.NOT_CLEAR: "not clearly more than under a control",
    Against.TOO_FEW: "too few to compare with a control",
}


def lines(claim: JudgedClaim) -> list[list[str]]:
    """A claim for the terminal and the report: a line for places with the same result, its causal test under it."""
    text = [[f"{name_of(claim, group)}: {holding(group)}", *filter(None, [needing(group)])] for group in claim.alike]
    if claim.needed_set is not None:
        text.append([f"{claim.title}: {needed_set(claim.needed_set)}"])
    return text


def tested(claim: JudgedClaim) -> list[str]:
    """A claim's causal test: a line for places with the same result, then one about the needed heads."""
    said = [(_places(group), needing(group)) for group in claim.alike if needing(group)]
    text = [f"{where}: {need}" if where and len(claim.alike) > 1 else need for where, need in said]
    if claim.needed_set is not None:
        text.append(needed_set(claim.needed_set))
    return [capitalised(line) for line in text]


def row(claim: JudgedClaim, judgement: Judgement) -> dict[str, str]:
    """A row of a table: the claim at one place, how often it holds, beside what, and what came of it."""
    nearest = judgement.strongest
    name = name_of(claim, [judgement]) if len(claim.places) > 1 else claim.title
    return {
        "claim": name,
        "holds": str(judgement.often),
        "in": share_with_interval(judgement.rate, judgement.low, judgement.high),
        "of": f"{judgement.n:,} {'seeds' if judgement.seeds else 'cases'}",
        "nearest control": compared(nearest) if nearest else "–",
        "edited answers that change": _of([(judgement.test.claimed.changed, judgement.test.claimed.n)])
        if judgement.test
        else "–",
        "result": "; ".join(filter(None, (str(judgement.against or "no control"), str(judgement.need)))),
    }


def in_short(most: Judgement, places: Group, tested: Group) -> tuple[str, str, str]:
    """A claim for badges: how often it holds, how that compares with its controls, and that the answers need it.

    Args:
        most: the place where it holds most.
        places: every place where it is read.
        tested: the same with its causal test, where that is known; empty where it is not.

    Returns `always: 98% after MLP 0`, with the place where they differ; `beyond its controls at 1 of 2 places`, empty
    where it is found nowhere; and `answers need it`, and whether it is there beyond its controls too, empty if they do
    not, or it is not known.
    """
    often, against, need = "too few cases to say how often", "", ""
    if most.often is not Often.UNKNOWN:
        differ = len({percent(place.rate) for place in places}) > 1
        often = f"{most.often}: {percent(most.rate)}{f' {place_in_words(most.place)}' if differ else ''}"
    held = [place for place in places if place.found and place.against is not None]
    if held:
        beyond = sum(place.beyond for place in held)
        at = f" at {beyond} of {len(held)} places" if 0 < beyond < len(held) else ""
        results = [Against.BEYOND] if beyond else [place.against for place in held]
        against = f"{AGAINST[next(result for result in WORST_FIRST if result in results)]}{at}"
    if needs := {place.need for place in tested if place.needed}:
        need = "answers need it" if Need.AS_CLAIMED in needs else "answers need it, not as claimed"
        need = need if any(place.beyond for place in tested) else f"but {need}"
    return often, against, need


def on_one_input(scores: Sequence[float]) -> str:
    """Whether a claim holds on one input, for a badge, from its scores at all places where it is read."""
    said = {
        Often.ALWAYS: "holds on this input",
        Often.NOT_FOUND: "does not hold on this input",
        Often.UNKNOWN: "cannot be told on this input",
    }
    return said.get(Often.on_one_input(scores), f"on this input: {percents(scores)}, by row")


def need_in_a_word(group: Group) -> str:
    """Whether the answers need a claim at any of these places: `needed`, `not needed`, or that it is not known."""
    needs = {judgement.need for judgement in group}
    if any(judgement.needed for judgement in group):
        return "needed"
    if needs <= {Need.NOT_NEEDED, Need.UNTESTED}:
        return "not needed" if Need.NOT_NEEDED in needs else "need not tested"
    return "need not settled"


def how_many(claims: Sequence[Group], needs: Mapping[str, str] | None = None) -> str:
    """How many of some claims are there beyond their controls somewhere, and each with how often it holds at most.

    Args:
        claims: each at every place where it is read.
        needs: claim -> `need_in_a_word`, where it is known.
    """
    beyond = [places for places in claims if any(judgement.beyond for judgement in places)]
    text = f"{len(beyond)} of {len(claims)} claims hold beyond their controls"
    if len(claims) == 1:
        text = f"The one claim {'holds' if beyond else 'does not hold'} beyond its controls"
    text += f": {', '.join(_at_most(places, needs or {}) for places in beyond)}" if beyond else ""
    others = [_at_most(places, needs or {}) for places in claims if places not in beyond]
    if not others:
        return f"{text}."
    link = "; not so " if beyond else ": " if len(claims) == 1 else "; none of "
    return f"{text}{link}{', '.join(others)}."


def _at_most(places: Group, needs: Mapping[str, str]) -> str:
    """`Minimum at the delimiter (79.2%, needed)`: at the place where it holds most, of those beyond controls if any."""
    told = [judgement for judgement in places if judgement.beyond] or places
    most = max(told, key=lambda judgement: judgement.rate if judgement.rate == judgement.rate else -1.0)
    said = [percent(most.rate)]
    if not most.beyond and most.found and most.against is not None:
        said.append(AGAINST[most.against])
    if most.claim in needs and (most.beyond or needs[most.claim] == "needed"):  # of what is not there it tells nothing
        said.append(needs[most.claim] if most.beyond else f"but {needs[most.claim]}")
    return f"{most.title} ({', '.join(said)})"


def name_of(claim: JudgedClaim, group: Group) -> str:
    """The claim, with the places of the group if they are not all where it is read."""
    return claim.title if len(group) == len(claim.places) else f"{claim.title}, {_places(group)}"


def _places(group: Group) -> str:
    """`hops 1 to 7` or `after attention 0, after MLP 1`; empty where there is one place only."""
    if not group[0].place:
        return ""
    (dim,) = group[0].place
    labels = [judgement.place[dim] for judgement in group]
    if dim == "point":
        return ", ".join(map(at_point, labels))
    if len(labels) == 1:
        return f"{dim} {labels[0]}"
    first, last = labels[0], labels[-1]
    if isinstance(first, int) and labels == list(range(first, first + len(labels))):
        return f"{dim}s {first} to {last}"
    return f"{dim}s {', '.join(map(str, labels))}"


def holding(group: Group) -> str:
    """How often a claim holds, and how that compares: `sometimes, in 24% [18, 31] of 256 cases, beyond …`."""
    first, often = group[0], group[0].often
    if often is Often.UNKNOWN:
        most = max(judgement.n for judgement in group)
        return f"not known, as only {most} case{'' if most == 1 else 's'} can test it"
    n, rate = between(judgement.n for judgement in group), percents(judgement.rate for judgement in group)
    if len(group) == 1:
        rate = share_with_interval(first.rate, first.low, first.high)
    said = f"in {rate} of cases over {n} seeds" if first.seeds else f"in {rate} of {n} cases"
    if first.against is None:
        said += "; no control was measured"
    elif first.seeds:
        beyond = [sum(seed.beyond for seed in judgement.seeds) for judgement in group]
        said += f"; beyond its controls in {between(beyond)} of {len(first.seeds)} seeds"
    elif not first.found:
        said += f"; nearest control: {_nearest(group)}"
    else:
        said += f", {AGAINST[first.against]} (nearest: {_nearest(group)})"
    return f"{often} ({said})" if often is Often.NOT_FOUND else f"{often}, {said}"


def _nearest(group: Group) -> str:
    """The nearest control: `re-initialised models, 7 of 512 in 8 models`; of several places the range of rates."""
    each = [judgement.strongest for judgement in group if judgement.strongest is not None]
    if len(each) == 1:
        return compared(each[0])
    names = " or ".join(dict.fromkeys(control_in_words(control.against) for control in each))
    return f"{names}, {percents(one.rate for one in each)}"


def compared(control: Compared) -> str:
    """`re-initialised models, 7 of 512 in 8 models`."""
    return f"{control_in_words(control.against)}, {tried([(control.hits, control.n)], control.models)}"


def tried(counts: Sequence[tuple[float, int]], models: int | None, outcome: str = "") -> str:
    """Hits of tries of a control: `7 of 512 in 8 models`, at several places `0 to 1.1% of 52 to 64 in 8 models`."""
    hits = f"{_of(counts)} {outcome}".rstrip() if any(n for _, n in counts) else "none to count"
    return f"{hits} in {models} models" if models else hits


def beside_controls(own: Measurement, controls: Iterable[Compared]) -> str | None:
    """A single share and how it compares with the control that is hardest to exceed; None where it is not known.

    Args:
        own: without dims.
        controls: it held against each of them.
    """
    if np.isnan(own.values):
        return None
    nearest = hardest(controls)
    text = f"{own.name}: {percent(float(own.values))}"
    if nearest is None:
        return f"{text}."
    return f"{text}, {AGAINST[nearest.result]} (nearest: {control_in_words(nearest.against)}, {percent(nearest.rate)})."


def needing(group: Group) -> str:
    """Whether the answers need a claim: what its edit does, beside the same edit elsewhere and in uninformed models."""
    need = group[0].need
    if group[0].seeds:  # in how many of them; at several places, at any of these
        by_seed = list(zip(*(judgement.seeds for judgement in group), strict=True))
        if all(judgement.need is Need.UNTESTED for seed in by_seed for judgement in seed):
            return ""
        needed = sum(any(judgement.needed for judgement in seed) for seed in by_seed)
        return f"the answers need it in {needed} of {len(by_seed)} seeds"
    if need is Need.UNTESTED:
        return ""
    tests = [judgement.test for judgement in group if judgement.test is not None]
    if not tests:
        return NEED[need]
    where = f"edited in {tests[0].where}" if tests[0].where else "edited"
    text = NEED[need]
    unclear = hardest(null for test in tests for null in test.nulls if null.result is Against.NOT_CLEAR)
    if need is Need.NOT_SETTLED and unclear is not None:
        text += f", as not clearly more change than in {control_in_words(unclear.against)}"
    text += f": {where}, {_changed(tests)}"
    elsewhere = [(test.elsewhere.changed, test.elsewhere.n) for test in tests if test.elsewhere is not None]
    text += f"; elsewhere, {_of(elsewhere)} change" if elsewhere else ""
    if need is Need.IDLE:
        others: dict[str, list[tuple[float, int]]] = {}  # edit that does something -> changed of how many, by place
        for test in tests:
            for edited in test.others:
                if edited is not test.elsewhere and edited.low > LEAST_LOST:
                    others.setdefault(edited.edit, []).append((edited.changed, edited.n))
        text += "".join(f"; {edit}, {_of(counts)} change" for edit, counts in others.items())
    return text + _uninformed(tests)


def _changed(tests: Sequence[Test]) -> str:
    """`33 of 64 right answers change, 30 as claimed`; of several places, the ranges of shares and numbers."""
    claimed = [test.claimed for test in tests]
    changed = _of([(edited.changed, edited.n) for edited in claimed])
    as_claimed = percents(edited.as_claimed / edited.n for edited in claimed if edited.n)
    if len(claimed) == 1:
        as_claimed = f"{whole(claimed[0].as_claimed, claimed[0].n):,}"
    return f"{changed} right answers change, {as_claimed} as claimed"


def _of(counts: Sequence[tuple[float, int]]) -> str:
    """`33 of 64`; of several counts `33 to 62% of 59 to 64`."""
    if len(counts) == 1:
        return counted(*counts[0])
    return f"{percents(hits / n for hits, n in counts if n)} of {between(n for _, n in counts)}"


def _uninformed(tests: Sequence[Test]) -> str:
    """What the same edit does in each kind of uninformed model, in counts."""
    kinds = [null.against for null in tests[0].nulls]
    if not kinds:
        return "; no uninformed model was edited"
    outcome = "change" if tests[0].decided_by == "changed" else "change as claimed"
    said = []
    for kind in kinds:
        each = [(null.hits, null.n) for test in tests for null in test.nulls if null.against == kind]
        models = next(null.models for null in tests[0].nulls if null.against == kind)
        said.append(f"{control_in_words(kind)}, {tried(each, models, outcome)}")
    return f"; {'; '.join(said)}"


def needed_set(found: NeededSet) -> str:
    """The smallest set of heads whose edit changes nearly as many answers as in every head, or why none is."""
    if not found.everywhere:
        return "no right answer could be edited, so no set of heads can be found"
    if not found.heads:
        return f"no set of heads is needed: the edit in every head changes {_by_hop(found.everywhere, found.hops)}"
    lost = [
        (value, inside) for value, inside in zip(found.everywhere, found.in_set, strict=False) if value >= LEAST_LOST
    ]
    if not lost:  # found on other sequences than it was tested on
        changed = f"here the edit in every head changes {_by_hop(found.everywhere, found.hops)}"
        return f"the set found on other sequences, {where_in_words(found.heads)}, is not confirmed: {changed}"
    inside, everywhere = percents(inside for _, inside in lost), percents(value for value, _ in lost)
    hops = [hop for hop, value in zip(found.hops, found.everywhere, strict=False) if value >= LEAST_LOST]
    at = f" at hop{'s' * (len(hops) > 1)} {', '.join(map(str, hops))}" if 0 < len(hops) < len(found.hops) else ""
    return (
        f"the smallest set of heads whose edit changes nearly as many answers as in every head is "
        f"{where_in_words(found.heads)}: {inside} of right answers change{at} (in every head {everywhere}; found on "
        "other sequences)"
    )


def _by_hop(shares: Sequence[float], hops: Sequence[int]) -> str:
    if not hops:
        return f"{percent(shares[0])} of right answers"
    each = ", ".join(f"hop {hop} {percent(value)}" for hop, value in zip(hops, shares, strict=True))
    return f"{'few' if max(shares) < LEAST_LOST else 'some'} right answers by hop ({each})"
