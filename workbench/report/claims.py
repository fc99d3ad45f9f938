"""What may be said of each claim, in lines for people: beside its strongest control, and whether it is needed."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.inspection import Inspected
from workbench.inspection.claims import holding_in_words, needing_in_words, places_in_words, set_in_words, verdicts_on
from workbench.mechanisms import MECHANISMS
from workbench.mechanisms.heads import where_in_words
from workbench.mechanisms.verdict import Holds, Needed, Verdict, verdicts
from workbench.report.groups import Shown

Column = Inspected | Shown


def verdicts_of(one: Column, name: str) -> list[Verdict]:
    """What may be said of a claim of a run, or of several seeds, at each place where it is read."""
    if isinstance(one, Inspected):
        return verdicts_on(one, name)
    found = one.draws.get(name), one.causal.get(name), one.causal_draws.get(name)
    return verdicts(one.measured[name], one.controls[name], *found)


Lines = list[tuple[str, list[list[str]]]]
"""A heading for each run, or config of several seeds; what is said, each a line with perhaps more under it."""


def claim_lines(columns: Sequence[Column]) -> Lines:
    """What may be said of each claim, at places that are judged alike."""
    found = []
    for one in columns:
        lines = [line for name in MECHANISMS if name in one.measured for line in _lines(one, name)]
        if lines:
            found.append((f"{one.name}{_heads(one)}", lines))
    return found


def _heads(one: Column) -> str:
    """Which head claims about heads are of."""
    members = [one] if isinstance(one, Inspected) else one.members
    if not any("head" in members[0].measured[name].dims for name in MECHANISMS if name in members[0].measured):
        return ""
    if len(members) == 1:
        return f", of {where_in_words([members[0].shown_head])}" if members[0].shown_head else ""
    return ", each seed's own head: " + ", ".join(
        "{}.{}".format(*member.shown_head) for member in members if member.shown_head
    )


def _lines(one: Column, name: str) -> list[list[str]]:
    title = one.measured[name].name
    alike: dict[tuple[Holds, Needed], list[Verdict]] = {}
    for verdict in verdicts_of(one, name):
        alike.setdefault((verdict.holds, verdict.needed), []).append(verdict)
    lines = []
    for group in alike.values():
        first = f"{title}{places_in_words(group)}: {holding_in_words(group)}"
        lines.append([first, *needing_in_words(group, _edited(one, name))])
    if isinstance(one, Inspected) and name in one.needed_heads:
        lines.append([f"{title}: {set_in_words(one.needed_heads[name])}"])
    return lines


def _edited(one: Column, name: str) -> str:
    return str(one.causal[name].settings.get("edited", "")) if name in one.causal else ""
