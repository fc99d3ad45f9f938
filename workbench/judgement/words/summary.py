"""What was found of several runs or configs: where they stand, in how many a claim holds, the clearest difference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan

from workbench.judgement.claim import JudgedClaim, Judgement
from workbench.judgement.findings import Difference, Findings
from workbench.judgement.words.findings import how_sure, share, statements
from workbench.measurement.numbers import difference, p_value, percents
from workbench.util.words import listed

MOST = 7  # sentences
FEW = 4  # groups, of which fewer are named


def sentences(groups: Sequence[Findings], clearest: Difference | None = None) -> list[str]:
    """What was found, in at most `MOST` sentences; of a single group, what is said of it.

    Args:
        groups: the runs, seeds of one config together.
        clearest: the clearest difference between groups of seeds, if there are several.
    """
    if not groups:
        return []
    said = (
        [statement.text for statement in statements(groups[0])] if len(groups) == 1 else [*_of_many(groups, clearest)]
    )
    return [*said[: MOST - 1], how_sure(groups)]


def _of_many(groups: Sequence[Findings], clearest: Difference | None) -> Iterator[str]:
    kind = "configs" if any(len(group.samples) > 1 for group in groups) else "runs"
    known = [
        (group.name, group.answers.position)
        for group in groups
        if group.answers and not isnan(group.answers.position.value)
    ]
    right = sorted(known, key=lambda pair: -pair[1].value)
    if len(right) > 1:
        (best, most), (worst, least) = right[0], right[-1]
        text = (
            f"Of {len(right)} {kind}, {best} gets most answers right ({share(most)}), {worst} fewest ({share(least)})."
        )
        alike = f"All {len(right)} {kind} get about as many answers right ({percents([least.value, most.value])})."
        yield text if most.above(least) else alike
    names = dict.fromkeys(claim.claim for group in groups for claim in group.claims)
    for name in names:
        yield _in_how_many([(group.name, one) for group in groups for one in group.claims if one.claim == name], kind)
    if clearest is not None and clearest.clear:
        apart = difference(clearest.value, clearest.low, clearest.high, clearest.units)
        yield (
            f"The clearest difference over seeds is in {clearest.what}: {clearest.second} minus {clearest.first} is "
            f"{apart}, {p_value(clearest.p)} after Holm."
        )
    elif clearest is not None:
        yield f"No difference between groups of seeds is clear (smallest p after Holm: {p_value(clearest.p)})."


def _in_how_many(groups: Sequence[tuple[str, JudgedClaim]], kind: str) -> str:
    """In how many groups a claim is there beyond its controls, at every place or at some, and in how many it is needed.

    Of groups of several seeds, in how many single runs too.
    """
    of_each = [claim for _, claim in groups]
    seeds: list[Sequence[Judgement]] = []
    for claim in of_each:
        several = list(zip(*(place.seeds for place in claim.places), strict=True))
        seeds += several or [claim.places]
    alone = "" if len(seeds) == len(of_each) else f"{_holding(seeds, 'runs')}, each taken alone, and over the seeds in "
    text = f"{of_each[0].title} holds beyond its controls in {alone}{_holding([one.places for one in of_each], kind)}"
    there = [name for name, claim in groups if any(place.beyond for place in claim.places)]
    text += f" ({listed(there)})" if 0 < len(there) < min(len(groups), FEW) else ""
    tested = any(place.test is not None for places in seeds for place in places)
    needed = sum(any(place.needed for place in places) for places in seeds)
    return f"{text}{f'; the answers need it in {needed} of {len(seeds)} runs' if tested else ''}."


def _holding(of_each: Sequence[Sequence[Judgement]], kind: str) -> str:
    """`5 of 9 configs (3 at every place where it is read)`."""
    beyond = [[place.beyond for place in places] for places in of_each]
    everywhere, somewhere = sum(map(all, beyond)), sum(map(any, beyond))
    text = f"{somewhere} of {len(of_each)} {kind}"
    return text if everywhere == somewhere else f"{text} ({everywhere} at every place where it is read)"
