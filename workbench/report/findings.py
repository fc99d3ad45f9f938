"""What was found, in three to seven sentences made from the numbers: the first thing that a report says.

What a model gets right and where it fails, which claims hold against which control and pass their causal test, which
tell nothing, and how sure one may be. Of many runs it says where they stand and in how many a claim holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from workbench.inspection import Result
from workbench.inspection.claims import edited_in, places_in_words
from workbench.measurement import Measurement
from workbench.measurement.controls import UNTRAINED
from workbench.measurement.controls.words import in_words
from workbench.measurement.places import point_name
from workbench.mechanisms import MECHANISMS
from workbench.mechanisms.verdict import Holds, Needed, Verdict
from workbench.report.claims import by_verdict, verdicts_of
from workbench.report.comparisons import OverSeeds, surest
from workbench.report.seed_groups import SeedGroup

MOST = 7  # sentences
MOST_CLAIMS = 3  # that are told one by one; the others are counted
CLEAR_P = 0.05  # of a difference between groups of seeds, after Holm


@dataclass(frozen=True)
class Claimed:
    """The places at which a claim has the same verdict.

    Attributes:
        result: of the claim.
        verdicts: those of the places.
        everywhere: whether these are all places where it is read.
    """

    result: Result
    verdicts: Sequence[Verdict]
    everywhere: bool

    @property
    def holds(self) -> Holds:
        return self.verdicts[0].holds

    @property
    def needed(self) -> Needed:
        return self.verdicts[0].needed

    @property
    def name(self) -> str:
        """The claim, with the places if they are not all where it is read."""
        places = "" if self.everywhere else places_in_words(self.verdicts)
        return " ".join(filter(None, (self.result.mean.name, places)))


def findings(groups: Sequence[SeedGroup], differences: Sequence[OverSeeds] = ()) -> list[str]:
    """What was found, in at most `MOST` sentences.

    Args:
        groups: the runs, seeds of one config together.
        differences: every later group of seeds compared with the first.
    """
    measured = [one for one in groups if one.results]
    if not measured:
        return []
    sentences = [*_of_one(measured[0])] if len(measured) == 1 else [*_of_many(measured, differences)]
    return [*sentences[: MOST - 1], _how_sure(measured)]


def _of_one(one: SeedGroup) -> Iterator[str]:
    """Of a single run, or of several seeds of one config."""
    yield from _answers(one)
    claimed = [claim for name in MECHANISMS if name in one for claim in _claimed(one, name)]
    claimed.sort(key=_weight)
    telling = [claim for claim in claimed if claim.holds is Holds.BEYOND or claim.needed is Needed.AS_CLAIMED]
    told, rest = telling[:MOST_CLAIMS], telling[MOST_CLAIMS:]
    yield from map(_claim, told)
    if rest:
        yield f"Beyond their controls hold also: {_listed([claim.name for claim in rest])}."
    nothing = [claim.name for claim in claimed if claim.holds is Holds.NO_MORE and claim not in telling]
    if nothing:
        yield f"{_listed(nothing)}: no more often than under a control, which tells nothing."
    if not told:
        yield from _gold(one)
    yield from _entropy(one)


def _answers(one: SeedGroup) -> Iterator[str]:
    """What it gets right, and the group of answers in which it is worst."""
    if "overall" not in one:
        return
    shares = one["overall"].mean
    position, sequence = (shares.select(unit=unit) for unit in ("position", "sequence"))
    text = f"{one.name} gets {_share(position)} of its {one.members[0].sample.kind} answers right"
    if not np.isclose(position.values, sequence.values):
        text += f", and {_share(sequence)} of whole sequences"
    worst = _worst_group(one)
    yield f"{text}{f'; least right at {worst}' if worst else ''}."


def _worst_group(one: SeedGroup) -> str | None:
    """The group of answers that is least right, where its interval lies below that of the best group."""
    by_group = one["accuracy"].mean if "accuracy" in one else None
    if by_group is None or len(by_group.dims) != 1 or np.isnan(by_group.values).all():
        return None
    (dim,) = by_group.dims
    labels = by_group.coords[dim]
    worst, best = (
        by_group.select(**{dim: labels[int(pick(by_group.values))]}) for pick in (np.nanargmin, np.nanargmax)
    )
    apart = worst.high is not None and best.low is not None and float(worst.high) < float(best.low)
    return f"{dim} {labels[int(np.nanargmin(by_group.values))]} ({_share(worst)})" if apart else None


def _claimed(one: SeedGroup, name: str) -> list[Claimed]:
    """A claim, the places with the same verdict together."""
    alike = by_verdict(one, name)
    return [Claimed(one[name], verdicts, len(alike) == 1) for verdicts in alike]


def _weight(claim: Claimed) -> tuple[bool, bool, float]:
    """The claims to tell first: those that the answers need, then those beyond their controls, most often first."""
    rates = [verdict.rate for verdict in claim.verdicts if not np.isnan(verdict.rate)]
    return claim.needed is not Needed.AS_CLAIMED, claim.holds is not Holds.BEYOND, -max(rates, default=0.0)


NEED: dict[Needed, str] = {
    Needed.AS_CLAIMED: "the answers need it",
    Needed.LOST: "the answers need it, though they do not change as claimed",
    Needed.NOT_NEEDED: "the answers do not need it",
    Needed.AS_ANY: "that answers need it cannot be told, since the same edit does as much in models that know nothing",
    Needed.NOT_TOLD: "whether the answers need it is not settled",
    Needed.TOO_FEW: "whether the answers need it cannot be told from so few right answers",
}


def _claim(claim: Claimed) -> str:
    """One claim with its strongest control and its causal test."""
    text = f"{claim.name} holds in {_range([one.rate for one in claim.verdicts])} of cases"
    controls = [one.strongest for one in claim.verdicts if one.strongest]
    beyond = claim.holds is Holds.BEYOND
    if controls:
        names = ", ".join(dict.fromkeys(in_words(one.null) for one in controls))
        reached = _range([one.value for one in controls])
        text += f", where its strongest control reaches {reached} ({names})" if beyond else ""
        text += "" if beyond else f", no more often than under its strongest control ({names}, {reached})"
    if claim.needed not in NEED:
        return f"{text}."
    tests = [one.tested for one in claim.verdicts if one.tested]
    text += f"; {'' if beyond else 'but '}{NEED[claim.needed]}"
    if tests:
        where = f"edited in {edited_in(claim.result)}" if edited_in(claim.result) else "edited"
        elsewhere = [test.elsewhere for test in tests if not np.isnan(test.elsewhere)]
        text += f": {where}, {_range([test.changed for test in tests])} of right answers change"
        text += f", elsewhere {_range(elsewhere)}" if elsewhere else ""
    return f"{text}."


def _gold(one: SeedGroup) -> Iterator[str]:
    """How much of its mass the head in focus lays on the task's true edges."""
    if "gold_mass" not in one or any(member.head is None for member in one.members):
        return
    result = one["gold_mass"].at_head()
    heads = ", ".join("{}.{}".format(*member.head) for member in one.members if member.head)
    text = f"Of its attention head {heads} lays {_share(result.mean)} on the task's true edges"
    if "mismatched" in result.controls:
        text += f", and {_share(result.controls['mismatched'].mean)} on those of other examples"
    yield f"{text}."


def _entropy(one: SeedGroup) -> Iterator[str]:
    """Where along the layers representations collapse most, beside untrained models."""
    if "entropy" not in one or one["entropy"].mean.dims != ("layer",):
        return
    mean = one["entropy"].mean
    least = mean.coords["layer"][int(np.nanargmin(mean.values))]
    text = f"Matrix entropy is least at {point_name(least)} ({float(mean.select(layer=least).values):.2f} {mean.units}"
    control = one["entropy"].controls.get(UNTRAINED)
    if control is not None and least in control.mean.coords["layer"]:
        text += f"; untrained models {float(control.mean.select(layer=least).values):.2f}"
    yield f"{text})."


def _of_many(groups: Sequence[SeedGroup], differences: Sequence[OverSeeds]) -> Iterator[str]:
    """Of several configs or runs: where they stand, in how many each claim holds, and the clearest difference."""
    right = [(one, one["overall"].mean.select(unit="position")) for one in groups if "overall" in one]
    if right:
        ordered = sorted(right, key=lambda pair: -float(pair[1].values))
        (best, most), (worst, least) = ordered[0], ordered[-1]
        text = f"Of {len(right)} {_kind(groups)}, {best.name} gets most "
        yield f"{text}answers right ({_share(most)}), {worst.name} fewest ({_share(least)})."
    for name in MECHANISMS:
        verdicts = [_claimed(one, name) for one in groups if name in one]
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


def _how_sure(groups: Sequence[SeedGroup]) -> str:
    """What the numbers are over, and so what they cannot say."""
    samples = [member.sample for one in groups for member in one.members]
    n = dict.fromkeys(f"{sample.in_words} {sample.kind}" for sample in samples)
    seeds = {len(one.members) for one in groups}
    text = f"Measured on {' or '.join(n)} sequences"
    if seeds == {1}:
        return f"{text}; each run is one seed: intervals are over sequences, and say nothing of other seeds."
    few, many = min(seeds), max(seeds)
    return f"{text}; means and intervals are over {few if few == many else f'{few} to {many}'} seeds of each config."


def _share(m: Measurement) -> str:
    """A share in per cent, with its interval."""
    if np.isnan(m.values):
        return "none"
    text = f"{_tenths(float(m.values))}%"
    if m.low is None or m.high is None or np.isnan(m.low):
        return text
    return f"{text} [{_tenths(float(m.low))}, {_tenths(float(m.high))}]"


def _tenths(share: float) -> str:
    return f"{100 * share:.1f}".removesuffix(".0")


def _range(shares: Sequence[float]) -> str:
    """`98%`, or `12 to 98%`."""
    there = [100 * share for share in shares if not np.isnan(share)]
    if not there:
        return "none"
    ends = list(dict.fromkeys(f"{end:.0f}" for end in (min(there), max(there))))
    return f"{' to '.join(ends)}%"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
