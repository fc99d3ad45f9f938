"""How one model works, in a few statements made from its measurements: what it gets right, what it reads and holds,
what its answers need; and what a model that knows nothing fulfils too, which tells nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from workbench.inspection import Inspected, Result
from workbench.inspection.claims import edited_in, places_in_words, set_in_words
from workbench.interventions import REMOVED, head_in_words
from workbench.judgement import entropy
from workbench.judgement.extremes import extreme
from workbench.judgement.words import entropy as entropy_words
from workbench.judgement.words.extremes import MOST_NAMED, at, at_places
from workbench.measurement import Measurement
from workbench.measurement.controls import UNTRAINED
from workbench.measurement.controls.words import in_words
from workbench.mechanisms import MECHANISMS, sentence
from workbench.mechanisms.verdict import Holds, Needed, Tested, Verdict
from workbench.report.claims import by_verdict
from workbench.report.seed_groups import SeedGroup
from workbench.tasks import COUNTED
from workbench.util.seeds import generator
from workbench.util.words import capitalised

FAR_APART = 0.3  # of rates at two places, which one range would say too little of
MOST_CLAIMS = 3  # that are told one by one; the others are counted
TRAINED = 512  # sequences drawn as in training, to see how long they are

Chip = Literal["answers", "reads", "holds", "needed", "tells nothing", "spread", "collapse"]


@dataclass(frozen=True)
class Statement:
    """A sentence about how a model works.

    Attributes:
        text: the sentence.
        chips: what it is about: what attention `reads`, what the residual `holds`, whether answers `needed` it.
        claims: the mechanisms that it is about.
        name: what the sentence begins with, before a colon: the claim, with the places that it is about.
        brief: of a claim, how often it holds and whether answers need it, in a line: what follows its name on a card.
        more: the end of the sentence that can be left out where there is little room.
    """

    text: str
    chips: tuple[Chip, ...]
    claims: tuple[str, ...] = ()
    name: str = ""
    brief: str = ""
    more: str = ""

    @property
    def rest(self) -> str:
        """The sentence without the name that it begins with."""
        return self.text.removeprefix(f"{self.name}: ")

    @property
    def shorter(self) -> str:
        """The same without what can be left out."""
        return self.rest.removesuffix(self.more).rstrip()


@dataclass(frozen=True)
class Claimed:
    """The places at which a claim has the same verdict.

    Attributes:
        claim: the mechanism.
        result: of it.
        verdicts: those of the places.
        everywhere: whether these are all places where it is read.
    """

    claim: str
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
    def chips(self) -> tuple[Chip, ...]:
        """Claims about single heads are about what these read, the others about what the residual holds."""
        chips: list[Chip] = []
        if self.holds is Holds.BEYOND:
            chips.append("reads" if self.result.of_every_head else "holds")
        if self.needed in (Needed.AS_CLAIMED, Needed.LOST):
            chips.append("needed")
        return (*chips,)

    @property
    def name(self) -> str:
        """The claim, with the places if they are not all where it is read."""
        places = "" if self.everywhere else places_in_words(self.verdicts)
        return " ".join(filter(None, (self.result.mean.name, places)))


def how_it_works(one: SeedGroup) -> Iterator[Statement]:
    """What can be said of a single run, or of several seeds of one config, the most telling first."""
    yield from _answers(one)
    claimed = [claim for name in MECHANISMS if name in one for claim in claims_of(one, name)]
    claimed.sort(key=_weight)
    telling = [claim for claim in claimed if claim.holds is Holds.BEYOND or claim.needed is Needed.AS_CLAIMED]
    told, rest = telling[:MOST_CLAIMS], telling[MOST_CLAIMS:]
    for claim in told:
        more = _smallest_set(claim)
        text = f"{_claim(claim)} {more}".rstrip()
        yield Statement(text, claim.chips, (claim.claim,), claim.name, _brief(claim), more)
    if rest:
        hold = "holds beyond its controls too" if len(rest) == 1 else "hold beyond their controls too"
        text = f"{listed([claim.name for claim in rest])} {hold}."
        yield Statement(text, ("holds",), _names(rest))
    nothing = [claim for claim in claimed if claim.holds is Holds.NO_MORE and claim not in telling]
    if nothing:
        name = listed([claim.name for claim in nothing])
        text = f"{name}: no more often than under a control, which tells nothing."
        yield Statement(text, ("tells nothing",), _names(nothing), name)
    if not told:
        yield from _gold(one)
    yield from _entropy(one)


def _answers(one: SeedGroup) -> Iterator[Statement]:
    """What it gets right, and the group of answers in which it is worst."""
    if "overall" not in one:
        return
    shares = one["overall"].mean
    position, sequence = (shares.select(unit=unit) for unit in ("position", "sequence"))
    text = f"{one.name} gets {share(position)} of {COUNTED['position']} right"
    if not np.isclose(position.values, sequence.values):
        text += f", and {share(sequence)} of {COUNTED['sequence']}"
    sample, spread = one.members[0].sample, _spread(one.members[0])
    text += f", on {sample.in_words} {sample.kind} sequences{f' ({spread})' if spread else ''}"
    worst = _worst_group(one)
    yield Statement(f"{text}{f'; least right at {worst}' if worst else ''}.", ("answers",))


def _spread(one: Inspected) -> str:
    """What the test conditions range over, and what it was in training where they go beyond it."""
    spread, names = one.sample.spread, {name for condition in one.sample.conditions for name in condition}
    if not spread or len(names) > 1 or not one.run.config.steps:
        return spread
    (name,), task = names, one.run.task()
    trained = task.truth(task.sample(TRAINED, generator(0, "trained on"), split="train").tokens).labels.get(name)
    if trained is None:
        return spread
    least, most = int(trained[trained >= 0].min()), int(trained.max())
    beyond = any(not least <= condition[name] <= most for condition in one.sample.conditions)
    return f"{spread}, trained on {least} to {most}" if beyond else spread


def _worst_group(one: SeedGroup) -> str | None:
    """The groups of answers that are least right and not told apart, where the best group's interval lies above."""
    by_group = one["accuracy"].mean if "accuracy" in one else None
    least = None if by_group is None or len(by_group.dims) != 1 else extreme(by_group, "least")
    if by_group is None or least is None or least.anywhere:
        return None
    (dim,) = by_group.dims
    labels = [label for label, value in zip(by_group.coords[dim], by_group.values, strict=True) if not np.isnan(value)]
    worst = [by_group.select(**place) for place in least.places]
    rates = share(worst[0]) if len(worst) == 1 else _range([float(each.values) for each in worst])
    where = at_places(least).removeprefix("at ")
    return f"{where} of {_ends(labels)} ({rates})" if len(worst) <= MOST_NAMED else None


def _ends(labels: Sequence[Any]) -> str:
    """`0 to 3`, so that who reads of digit 1 knows where the count begins; of names, how many there are."""
    is_counted = all(isinstance(label, int) for label in labels)
    return f"{min(labels)} to {max(labels)}" if is_counted else f"{len(labels)}"


def claims_of(one: SeedGroup, name: str) -> list[Claimed]:
    """A claim, the places with the same verdict together."""
    alike = by_verdict(one, name)
    return [Claimed(name, one[name], verdicts, len(alike) == 1) for verdicts in alike]


def _names(claimed: Sequence[Claimed]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(claim.claim for claim in claimed))


def _weight(claim: Claimed) -> tuple[bool, bool, float]:
    """The claims to tell first: those that the answers need, then those beyond their controls, most often first."""
    rates = [verdict.rate for verdict in claim.verdicts if not np.isnan(verdict.rate)]
    return claim.needed is not Needed.AS_CLAIMED, claim.holds is not Holds.BEYOND, -max(rates, default=0.0)


NOT_AS_CLAIMED = "though they do not change as claimed"
NEED: dict[Needed, str] = {
    Needed.AS_CLAIMED: "The answers need it",
    Needed.LOST: f"The answers need it, {NOT_AS_CLAIMED}",
    Needed.NOT_NEEDED: "The answers do not need it",
    Needed.AS_ANY: "That answers need it cannot be told, since the same edit does about as much in models that know "
    "nothing",
    Needed.NOT_TOLD: "Whether the answers need it is not settled",
    Needed.TOO_FEW: "Whether the answers need it cannot be told from so few right answers",
}


def _claim(claim: Claimed) -> str:
    """One claim: what it says, how often it holds, and what an edit of what it is about does."""
    holds, needs = _holds(claim), _needs(claim)
    if claim.holds is not Holds.BEYOND and needs:
        said = f"{holds}, which alone tells nothing; but {needs[0].lower()}{needs[1:]}."
    else:
        said = " ".join(f"{part}." for part in (holds, needs) if part)
    return f"{claim.name}: {sentence(claim.claim)} {said}"


def _brief(claim: Claimed) -> str:
    """How often a claim holds, and whether its edit changes answers: the numbers of `_claim`."""
    controls = [one.strongest.value for one in claim.verdicts if one.strongest]
    tests = [one.tested for one in claim.verdicts if one.tested]
    text = f"in {_range([one.rate for one in claim.verdicts])} of cases"
    text += f" (strongest control: {_range(controls)})" if controls else ""
    if claim.needed is Needed.NOT_NEEDED:
        return f"{text}; the answers do not need it"
    if claim.needed not in (Needed.AS_CLAIMED, Needed.LOST) or not tests:
        return text
    where = f"edited in {edited_in(claim.result)}" if edited_in(claim.result) else "edited"
    return f"{text}; {where}: {_changed(tests)}"


def _holds(claim: Claimed) -> str:
    """How often a claim holds, beside its strongest control."""
    text = f"It holds in {rates_in_words(claim.verdicts)}"
    controls = [one.strongest for one in claim.verdicts if one.strongest]
    if not controls:
        return text
    names = ", ".join(dict.fromkeys(in_words(one.null) for one in controls))
    reached = _range([one.value for one in controls])
    if claim.holds is Holds.BEYOND:
        return f"{text}; in its strongest control ({names}), in {reached}"
    if len(claim.verdicts) > 1:
        places = len(claim.verdicts)
        return f"It holds at none of {places} places more often than in its strongest control ({names})"
    return f"{text}, no more often than in its strongest control ({names}: {reached})"


def rates_in_words(group: Sequence[Verdict]) -> str:
    """`45 to 57% of cases`; where places lie far apart, at which one it is most and at which least."""
    there = [one for one in group if not np.isnan(one.rate)]
    least, most = (pick(there, key=lambda one: one.rate, default=None) for pick in (min, max))
    if least is None or most is None or most.rate - least.rate < FAR_APART:
        return f"{_range([one.rate for one in group])} of cases"
    return f"{most.rate:.0%} of cases {at(dict(most.place))}, in {least.rate:.0%} {at(dict(least.place))}"


def _needs(claim: Claimed) -> str | None:
    """Whether answers need what is claimed, with what its edit does and what the same edit does elsewhere."""
    if claim.needed not in NEED:
        return None
    text = NEED[claim.needed]
    tests = [one.tested for one in claim.verdicts if one.tested]
    if not tests:
        return text
    where = f"edited in {edited_in(claim.result)}" if edited_in(claim.result) else "edited"
    elsewhere = [test.elsewhere for test in tests if not np.isnan(test.elsewhere)]
    text += f": {where}, {_changed(tests)}"
    text += f", elsewhere {_range(elsewhere)}" if elsewhere else ""
    if claim.needed is Needed.AS_ANY:
        text += f"; in those models, up to {_range([test.changed_in_nulls for test in tests])}"
    return text


def _changed(tests: Sequence[Tested]) -> str:
    """`33 to 62% of 59 to 64 right answers change`: each place has as many as can be tested there."""
    n = " to ".join(dict.fromkeys(f"{pick(test.n for test in tests):,}" for pick in (min, max)))
    return f"{_range([test.changed for test in tests])} of {n} right answers change"


def _smallest_set(claim: Claimed) -> str:
    """Which heads together carry what is claimed; empty where that was not looked for, or nothing was tested."""
    needed = None if claim.result.causal is None else claim.result.causal.needed
    if claim.needed not in NEED or needed is None or not needed.heads or not any(one.tested for one in claim.verdicts):
        return ""
    said = set_in_words(needed)
    return f"{capitalised(said)}."


def _gold(one: SeedGroup) -> Iterator[Statement]:
    """How much of its mass the head in focus lays on the task's true edges."""
    if "gold_mass" not in one or any(member.head is None for member in one.members):
        return
    result = one["gold_mass"].at_head()
    heads = "; ".join(dict.fromkeys(head_in_words(*member.head) for member in one.members if member.head))
    text = f"Of its attention, {heads} lays {share(result.mean)} on the task's true edges"
    tells = True
    if "mismatched" in result.controls:
        control = result.controls["mismatched"].mean
        text += f", and {share(control)} on those of other examples"
        tells = _above(result.mean, control)
    yield Statement(f"{text}{'' if tells else ', which tells nothing'}.", ("reads" if tells else "tells nothing",))


def head_in_focus(one: Inspected) -> str | None:
    """Why the head in focus is shown, and what removing it costs; None where nothing shows which one to choose."""
    if one.head is None:
        return None
    where, most = head_in_words(*one.head), "the most mass on the task's true edges, on other sequences"
    if "gold_mass" in one:
        result = one["gold_mass"].at_head()
        no_more = [name for name, control in result.controls.items() if not _above(result.mean, control.mean)]
        most += f", though no more than under a control ({', '.join(map(in_words, no_more))})" if no_more else ""
    needed = one.needed_head
    if one.fallen is None or needed is None or needed == one.head:
        return f"{capitalised(where)} has {most}{_cost(one.fallen)}."
    own, other = (share(one.fallen.select(**{REMOVED: head_in_words(*head)})) for head in (one.head, needed))
    return (
        f"The head that answers need most is {head_in_words(*needed)}: without it {other} of right answers fall. "
        f"{capitalised(where)} has {most}; without it {own} fall. Removed, a head takes all that it writes "
        "with it; an edit of what a claim is about does not, and may need other heads."
    )


def _cost(fallen: Measurement | None) -> str:
    """How many right answers fall without the head in focus, and without another one if those are more."""
    if fallen is None or np.isnan(fallen.values).all():
        return ""
    each = {label: fallen.select(**{REMOVED: label}) for label in fallen.coords[REMOVED]}
    (_, own), *others = each.items()
    text = f". Without it {share(own)} of right answers fall"
    more = [f"; without {label} {share(one)}" for label, one in others if one.values > own.values]
    return "".join([text, *more])


def _above(measured: Measurement, control: Measurement) -> bool:
    """Whether the interval of one lies above that of the other."""
    return measured.low is not None and control.high is not None and float(measured.low) > float(control.high)


def _entropy(one: SeedGroup) -> Iterator[Statement]:
    """How far representations spread along the layers, beside re-initialised models."""
    if "entropy" not in one or one["entropy"].mean.dims != ("layer",):
        return
    result = one["entropy"]
    fresh = result.controls.get(UNTRAINED)
    judged = entropy.judge(result.mean, result.examples, None if fresh is None else fresh.draws)
    if judged is not None:
        yield Statement(entropy_words.in_words(judged), ("spread", "collapse") if judged.collapsed else ("spread",))


def share(m: Measurement) -> str:
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


def listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
