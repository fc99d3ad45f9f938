"""A card for each claim: what it says, whether it holds on this input, how often on others, and under controls."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
import streamlit as st

from workbench.app.config_in_words import plain
from workbench.app.fields.heads import n_hops
from workbench.app.state import Look
from workbench.inspection import Inspected
from workbench.inspection.judged import judgements
from workbench.inspection.result import ControlResult, select_head
from workbench.judgement.claim import Judgement, Often
from workbench.judgement.findings import Findings
from workbench.judgement.words import claims as words
from workbench.measurement import Measurement, numbers
from workbench.measurement.controls import control_in_words
from workbench.measurement.places import place_in_words
from workbench.mechanisms import MECHANISMS, sentence, title
from workbench.util.words import capitalised

ICONS = {often: "rule" for often in Often} | {
    Often.ALWAYS: "verified",
    Often.MOSTLY: "verified",
    Often.NOT_FOUND: "search_off",
    Often.UNKNOWN: "help",
}


HERE = {
    Often.ALWAYS: ("green", "check"),
    Often.SOMETIMES: ("orange", "contrast"),
    Often.NOT_FOUND: ("red", "close"),
    Often.UNKNOWN: ("gray", "remove"),
}
"""How often a claim holds on one input -> the colour and the icon of its badge."""


class Verdict(NamedTuple):
    """Whether a claim holds, in words, with a colour and an icon that say the same."""

    words: str
    colour: str
    icon: str

    @staticmethod
    def of(scores: list[float]) -> Verdict:
        """The verdict on one input, from a claim's scores at all places where it is read."""
        return Verdict(words.on_one_input(scores), *HERE[Often.on_one_input(scores)])

    @staticmethod
    def on_many(places: Sequence[Judgement], known: Findings | None) -> list[Verdict]:
        """What is judged of a claim: how often it holds where it does most, beside its controls, and if it is needed.

        Args:
            places: on held-out sequences, at every place where it is read.
            known: what is known of the run already, its causal tests among it.
        """
        most = max(places, key=lambda one: one.rate if one.rate == one.rate else -1.0)
        claims = known.claims if known else ()
        tested = [place for claim in claims if claim.claim == most.claim for place in claim.places]
        said = words.in_short(most, places, tested)
        seal = most.beyond and most.often in (Often.ALWAYS, Often.MOSTLY)
        often = Verdict(said[0], "blue" if seal else "gray", ICONS[most.often])
        beyond = any(one.beyond for one in places)
        against = Verdict(said[1], *(("blue", "done_all") if beyond else ("gray", "balance")))
        need = Verdict(said[2], "violet", "bolt")
        if beyond and tested and not need.words:
            need = Verdict(words.need_in_a_word(tested), "gray", "bolt")
        return [one for one in (often, against, need) if one.words]


def cards(look: Look, names: list[str], found: Inspected, known: Findings | None = None) -> None:
    """Every claim's card, two in a row.

    Args:
        look: the run and the input.
        names: of the claims.
        found: the claims on held-out sequences, with the head in focus.
        known: what is known of the run already, its causal tests among it.
    """
    columns = st.columns(min(2, len(names)))
    for i, name in enumerate(names):
        with columns[i % len(columns)]:
            _card(look, name, found, known)


def _card(look: Look, name: str, found: Inspected, known: Findings | None) -> None:
    result = found[name].at_head()
    here = _here((*look.key, name), look, name)
    here = here if found.head is None else select_head(here, found.head)
    rate = result.mean
    several = bool(rate.dims)  # places at which it is read, each with a row
    controls = " | ".join(control_in_words(name, short=True) for name in result.controls)
    lines = [
        f"{'| at ' if several else ''}| here | held-out | {controls} |",
        ("|:--" if several else "") + "|" + "--:|" * (2 + len(result.controls)),
    ]
    scores = []
    for index in np.ndindex(*rate.values.shape):
        where = {dim: rate.coords[dim][i] for dim, i in zip(rate.dims, index, strict=True)}
        inside = all(label in here.coords[dim] for dim, label in where.items())
        scores.append(float(here.select(**where).values[0]) if inside else float("nan"))
        cells = [
            numbers.percent(scores[-1]),
            f"**{numbers.share_with_interval(float(rate.values[index]), *rate.select(**where).ends)}**",
            *(_of_control(control, where) for control in result.controls.values()),
        ]
        place = f"| {plain(place_in_words(where))} " if several else ""
        lines.append(f"{place}| {' | '.join(cells)} |")
    here_in_words = Verdict.of(scores)
    with st.container(border=True, key=f"claim-card-{name}"):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"**{title(name)}**", width="content")
            for verdict in (*Verdict.on_many(judgements(found, name), known), here_in_words):
                st.badge(verdict.words, color=verdict.colour, icon=f":material/{verdict.icon}:")  # type: ignore[arg-type]
        st.markdown(plain(capitalised(sentence(name))))
        st.markdown("\n".join(lines))


@st.cache_data(show_spinner=False, max_entries=200)
def _here(key: tuple[object, ...], _look: Look, name: str) -> Measurement:
    """A claim's score on this input alone, with as many hops as pages show."""
    score = MECHANISMS[name].score
    known = {"n_hops": n_hops(_look)} if "n_hops" in signature(score).parameters else {}
    return score(_look.seen, **known)


def _of_control(control: ControlResult, where: dict[str, Any]) -> str:
    """A control's rate; of several re-initialised models their mean with the range."""
    mean = control.mean.select(**where)
    rate = float(mean.values)
    return numbers.percent(rate) if control.draws is None else numbers.share_with_range(rate, *mean.ends)
