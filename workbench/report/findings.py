"""What was found, in three to seven sentences made from the numbers: the first thing that a report says.

What a model gets right and where it fails, which claims hold against which control and pass their causal test, which
tell nothing, and how sure one may be. Of many runs it says where they stand and in how many a claim holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from workbench.mechanisms import MECHANISMS
from workbench.mechanisms.verdict import Holds, Needed, Verdict
from workbench.report.claims import verdicts_of
from workbench.report.comparisons import OverSeeds, surest
from workbench.report.how_it_works import Claimed, claims_of, how_it_works, share
from workbench.report.seed_groups import SeedGroup

MOST = 7  # sentences
CLEAR_P = 0.05  # of a difference between groups of seeds, after Holm


def findings(groups: Sequence[SeedGroup], differences: Sequence[OverSeeds] = ()) -> list[str]:
    """What was found, in at most `MOST` sentences.

    Args:
        groups: the runs, seeds of one config together.
        differences: every later group of seeds compared with the first.
    """
    measured = [one for one in groups if one.results]
    if not measured:
        return []
    if len(measured) == 1:
        sentences = [statement.text for statement in how_it_works(measured[0])]
    else:
        sentences = [*_of_many(measured, differences)]
    return [*sentences[: MOST - 1], how_sure(measured)]


def _of_many(groups: Sequence[SeedGroup], differences: Sequence[OverSeeds]) -> Iterator[str]:
    """Of several configs or runs: where they stand, in how many each claim holds, and the clearest difference."""
    right = [(one, one["overall"].mean.select(unit="position")) for one in groups if "overall" in one]
    if right:
        ordered = sorted(right, key=lambda pair: -float(pair[1].values))
        (best, most), (worst, least) = ordered[0], ordered[-1]
        text = f"Of {len(right)} {_kind(groups)}, {best.name} gets most "
        yield f"{text}answers right ({share(most)}), {worst.name} fewest ({share(least)})."
    for name in MECHANISMS:
        verdicts = [claims_of(one, name) for one in groups if name in one]
        if verdicts:
            yield _in_how_many(verdicts, _kind(groups), _taken_alone(groups, name))
    yield from _clearest(differences)


def _kind(groups: Sequence[SeedGroup]) -> str:
    return "configs" if any(not one.alone for one in groups) else "runs"


def _taken_alone(groups: Sequence[SeedGroup], name: str) -> str:
    """In how many single runs a claim holds, in words; nothing where every group is a single run.

    Few seeds leave a wide interval, below which a control may lie although the claim holds in every one of them.
    """
    runs = [one for group in groups for one in group.members if name in one]
    if len(runs) == len(groups):
        return ""
    return f"{_holding([verdicts_of(one, name) for one in runs], 'runs')}, each taken alone, and over the seeds in "


def _in_how_many(of_each: Sequence[Sequence[Claimed]], kind: str, alone: str) -> str:
    """In how many groups a claim holds at every place or at some, and in how many the answers need it there.

    Args:
        of_each: the verdicts of each group.
        kind: what a group is.
        alone: in how many single runs it holds, in words, if groups have several.
    """
    needed = sum(any(claim.needed is Needed.AS_CLAIMED for claim in claims) for claims in of_each)
    tested = any(claim.needed is not Needed.UNTESTED for claims in of_each for claim in claims)
    text = f"{of_each[0][0].result.mean.name} holds beyond its controls in {alone}{_holding(of_each, kind)}"
    return f"{text}{f'; the answers need it in {needed}' if tested else ''}."


def _holding(of_each: Sequence[Sequence[Claimed | Verdict]], kind: str) -> str:
    """In how many runs or configs a claim holds at some place, and at every one: `5 of 9 configs (3 at every …)`."""
    beyond = [[one.holds is Holds.BEYOND for one in verdicts] for verdicts in of_each]
    everywhere, somewhere = sum(map(all, beyond)), sum(map(any, beyond))
    text = f"{somewhere} of {len(of_each)} {kind}"
    return text if everywhere == somewhere else f"{text} ({everywhere} at every place where it is read)"


def _clearest(differences: Sequence[OverSeeds]) -> Iterator[str]:
    """The clearest difference between groups of seeds, if it is clear after adjusting for how many were looked at."""
    rows = [(one, surest(one.differences).iloc[0]) for one in differences if len(one.differences)]
    if not rows:
        return
    one, row = min(rows, key=lambda pair: float(pair[1]["p_holm"]))
    if not float(row["p_holm"]) < CLEAR_P:
        yield f"No difference between groups of seeds is clear (smallest p after Holm {float(row['p_holm']):.2g})."
        return
    what = f"{row['measure']}{', ' + str(row['place']) if row['place'] else ''}"
    yield (
        f"The clearest difference over seeds is in {what}: {one.second} minus {one.first} is "
        f"{float(row['difference']):+.3g} [{float(row['low']):.3g}, {float(row['high']):.3g}], p after Holm "
        f"{float(row['p_holm']):.2g}."
    )


def how_sure(groups: Sequence[SeedGroup]) -> str:
    """What the numbers are over, and so what they cannot say."""
    samples = [member.sample for one in groups for member in one.members]
    n = dict.fromkeys(f"{sample.in_words} {sample.kind}" for sample in samples)
    seeds = {len(one.members) for one in groups}
    text = f"Measured on {' or '.join(n)} sequences"
    if seeds == {1}:
        return f"{text}; each run is one seed: intervals are over sequences, and say nothing of other seeds."
    few, many = min(seeds), max(seeds)
    return f"{text}; means and intervals are over {few if few == many else f'{few} to {many}'} seeds of each config."
