"""The verdicts on each claim as text: whether it holds beyond its strongest control, and whether answers need it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from workbench.inspection import Inspected
from workbench.inspection.claims import (
    edited_in,
    holding_in_words,
    needing_in_words,
    places_in_words,
    set_in_words,
    verdicts_on,
)
from workbench.measurement.controls.words import in_words
from workbench.mechanisms import MECHANISMS
from workbench.mechanisms.heads import where_in_words
from workbench.mechanisms.verdict import Holds, Needed, Verdict
from workbench.report.seed_groups import SeedGroup

Column = Inspected | SeedGroup


def verdicts_of(one: Column, name: str) -> list[Verdict]:
    """The verdicts on a claim of a run, or of several seeds, at each place where it is read."""
    return verdicts_on(one, name)


def by_verdict(one: Column, name: str) -> list[list[Verdict]]:
    """The same, those of places with the same verdict together."""
    alike: dict[tuple[Holds, Needed], list[Verdict]] = {}
    for verdict in verdicts_of(one, name):
        alike.setdefault((verdict.holds, verdict.needed), []).append(verdict)
    return list(alike.values())


Lines = list[tuple[str, list[list[str]]]]
"""A heading for each run, or config of several seeds, with its verdicts: each a line, and further lines under it."""


def claim_lines(columns: Sequence[Column]) -> Lines:
    """The verdicts on every claim, those of places with the same verdict in one line."""
    by_column = []
    for one in columns:
        lines = [line for name in MECHANISMS if name in one for line in _lines(one, name)]
        if lines:
            by_column.append((f"{one.name}{_heads(one)}", lines))
    return by_column


def _heads(one: Column) -> str:
    """Words for the head that claims about heads are read at."""
    members = members_of(one)
    if not any(members[0][name].of_every_head for name in MECHANISMS if name in members[0]):
        return ""
    if len(members) == 1:
        return f", of {where_in_words([members[0].head])}" if members[0].head else ""
    return ", each seed's own head: " + "; ".join(where_in_words([member.head]) for member in members if member.head)


def how_sure_of_each(one: Column) -> pd.DataFrame:
    """A row for every claim at every place where it is read: how often it holds, beside what, and the verdict."""
    return pd.DataFrame([row for name in MECHANISMS if name in one for row in _rows(one, name)])


def _rows(one: Column, name: str) -> Iterator[dict[str, str]]:
    mean = one[name].at_head().mean
    for verdict in verdicts_of(one, name):
        own, control = mean.select(**verdict.place), verdict.strongest
        ends = [f"{float(end):.0%}" for end in (own.low, own.high) if end is not None and not np.isnan(end)]
        yield {
            "claim": ", ".join(filter(None, (mean.name, places_in_words([verdict])))),
            "n": "–" if own.n is None else f"{int(own.n):,}",
            "holds in": "–" if np.isnan(verdict.rate) else f"{verdict.rate:.0%}",
            "95 % interval": " to ".join(ends) or "–",
            "strongest control": f"{control.value:.0%} ({in_words(control.null)})" if control else "–",
            "right answers edited": "–" if verdict.tested is None else f"{verdict.tested.n:,}",
            "verdict": f"{verdict.holds.value}; {verdict.needed.value}",
        }


def members_of(one: Column) -> Sequence[Inspected]:
    """The runs behind a column."""
    return one.members if isinstance(one, SeedGroup) else [one]


def _lines(one: Column, name: str) -> list[list[str]]:
    """The verdicts on one claim, a line for places that have the same, with the causal test under it."""
    result = one[name]
    lines = []
    for group in by_verdict(one, name):
        claim = ", ".join(filter(None, (result.mean.name, places_in_words(group))))
        first = f"{claim}: {holding_in_words(group)}"
        lines.append([first, *needing_in_words(group, edited_in(result))])
    if result.causal is not None and result.causal.needed is not None:
        lines.append([f"{result.mean.name}: {set_in_words(result.causal.needed)}"])
    return lines
