"""A card for each claim: what it says, whether it holds on this input, how often on others, and under controls."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import NamedTuple

import numpy as np
import streamlit as st

from workbench.app.config_in_words import plain
from workbench.app.fields.heads import n_hops
from workbench.app.state import Look
from workbench.inspection import Inspected, claims
from workbench.inspection.result import select_head
from workbench.measurement import Measurement
from workbench.measurement.controls.words import short
from workbench.measurement.places import place_in_words
from workbench.mechanisms import MECHANISMS, sentence, title
from workbench.mechanisms.verdict import Holds
from workbench.report.how_it_works import NOT_AS_CLAIMED, Statement
from workbench.util.words import capitalised


class Verdict(NamedTuple):
    """Whether a claim holds on one input, in words, with a colour and an icon that say the same."""

    words: str
    colour: str
    icon: str

    @staticmethod
    def of(values: list[float]) -> Verdict:
        """The verdict on one input, from a claim's scores at all places where it is read."""
        defined = [value for value in values if not np.isnan(value)]
        if not defined:
            return Verdict("cannot be told on this input", "gray", "remove")
        low, high = min(defined), max(defined)
        if low == 1:
            return Verdict("holds on this input", "green", "check")
        if high == 0:
            return Verdict("does not hold on this input", "red", "close")
        shares = " to ".join(dict.fromkeys((percent(low), percent(high))))
        return Verdict(f"on this input: {shares}, by row", "orange", "contrast")

    @staticmethod
    def beyond(places: list[claims.Verdict]) -> Verdict:
        """Whether the claim holds beyond its controls on held-out sequences, at all places where it is read."""
        beyond = sum(one.holds is Holds.BEYOND for one in places)
        if beyond == len(places):
            return Verdict("beyond its controls", "blue", "verified")
        if beyond:
            return Verdict(f"beyond its controls at {beyond} of {len(places)} places", "blue", "rule")
        if any(one.holds is Holds.NO_MORE for one in places):
            return Verdict("holds as often under a control", "gray", "balance")
        return Verdict(places[0].holds.value, "gray", "help")

    @staticmethod
    def need(told: Sequence[Statement]) -> list[Verdict]:
        """That the answers need a claim, where what is known of it says so; and how that goes with how often it holds.

        Args:
            told: what is known of the claim.
        """
        needed = [one for one in told if "needed" in one.chips]
        if not needed:
            return []
        words = "answers need it"
        if any(NOT_AS_CLAIMED in one.text for one in needed):
            words += ", not as claimed"
        elif not any({"reads", "holds"} & {*one.chips} for one in told):
            words = f"but {words}"
        return [Verdict(words, "violet", "bolt")]


def cards(look: Look, names: list[str], found: Inspected, told: Sequence[Statement] = ()) -> None:
    """Every claim's card, two in a row.

    Args:
        look: the run and the input.
        names: of the claims.
        found: the claims on held-out sequences, with the head in focus.
        told: what is known of the run already, its causal tests among it.
    """
    columns = st.columns(min(2, len(names)))
    for i, name in enumerate(names):
        with columns[i % len(columns)]:
            _card(look, name, found, told)


def _card(look: Look, name: str, found: Inspected, told: Sequence[Statement]) -> None:
    result = found[name].at_head()
    here = _here((*look.key, name), look, name)
    here = here if found.head is None else select_head(here, found.head)
    rate = result.mean
    nulls = {null: control.mean for null, control in result.controls.items()}
    several = bool(rate.dims)  # places at which it is read, each with a row
    lines = [
        f"{'| at ' if several else ''}| here | held-out | {' | '.join(short(null) for null in nulls)} |",
        ("|:--" if several else "") + "|" + "--:|" * (2 + len(nulls)),
    ]
    scores = []
    for index in np.ndindex(*rate.values.shape):
        where = {dim: rate.coords[dim][i] for dim, i in zip(rate.dims, index, strict=True)}
        inside = all(label in here.coords[dim] for dim, label in where.items())
        scores.append(float(here.select(**where).values[0]) if inside else float("nan"))
        cells = [
            _percent(scores[-1]),
            _with_interval(rate, index),
            *(_with_range(m, index) for m in nulls.values()),
        ]
        place = f"| {plain(place_in_words(where))} " if several else ""
        lines.append(f"{place}| {' | '.join(cells)} |")
    here_in_words, beyond = Verdict.of(scores), Verdict.beyond(claims.verdicts_on(found, name))
    with st.container(border=True, key=f"claim-card-{name}"):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"**{title(name)}**", width="content")
            need = Verdict.need([one for one in told if one.claims == (name,)])
            for verdict in (beyond, *need, here_in_words):
                st.badge(verdict.words, color=verdict.colour, icon=f":material/{verdict.icon}:")  # type: ignore[arg-type]
        st.markdown(plain(capitalised(sentence(name))))
        st.markdown("\n".join(lines))


@st.cache_data(show_spinner=False, max_entries=200)
def _here(key: tuple[object, ...], _look: Look, name: str) -> Measurement:
    """A claim's score on this input alone, with as many hops as pages show."""
    score = MECHANISMS[name].score
    known = {"n_hops": n_hops(_look)} if "n_hops" in signature(score).parameters else {}
    return score(_look.seen, **known)


def percent(share: float) -> str:
    """A share in words: only an exact 0 or 1 is written `0%` or `100%`."""
    if 0 < share < 0.005:
        return "under 1%"
    return "over 99%" if 0.995 < share < 1 else _percent(share)


def _percent(value: float | np.ndarray) -> str:
    return "–" if np.isnan(value) else f"{value:.0%}"


def _with_interval(m: Measurement, index: tuple[int, ...]) -> str:
    value = _percent(m.values[index])
    if m.low is None or m.high is None or np.isnan(m.low[index]):
        return value
    return f"**{value}** ({100 * m.low[index]:.0f}–{100 * m.high[index]:.0f})"


def _with_range(m: Measurement, index: tuple[int, ...]) -> str:
    """A control's rate; for several untrained models their mean with the range."""
    value = _percent(m.values[index])
    if "draws" not in m.settings or m.low is None or m.high is None or np.isnan(m.low[index]):
        return value
    low, high = f"{100 * m.low[index]:.0f}", f"{100 * m.high[index]:.0f}"
    return value if low == high else f"{value} ({low}–{high})"
