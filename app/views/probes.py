"""What can be decoded from the residual, what that is worth, whether the model uses it, and how fast it is learnt."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import streamlit as st

from workbench import figures
from workbench.app.fields import address
from workbench.app.fields import widgets as fields
from workbench.app.fields.widgets import choose, position_in
from workbench.app.panels.panel import code, panel
from workbench.app.state import Look, Opened, current, plain
from workbench.figures.probes import positions_in_words
from workbench.instruments.residual.projection import from_embedding
from workbench.interventions import point_in_words
from workbench.measurement import Measurement
from workbench.probes import (
    KINDS,
    PRESETS,
    Description,
    Judgement,
    Use,
    applicable,
    causal_test,
    description_length,
    judge,
    label_names,
    labels,
    probe,
    rules_for,
)
from workbench.probes.description_length import CODES
from workbench.probes.use import EDITS
from workbench.util.seeds import generator

COUNTS = (64, 128, 256, 512, 1024, 2048)
OWN, AT = "a question of your own", "at one position"
QUICK = 5e9  # vectors times their width, classes, points and fits: what takes longer is fitted when asked for
FIGURES = "from workbench import figures"
HELD_OUT = "held out from training; 3 in 10 try the probe"
NOT_USED = "Decodable is not used: that it can be read does not say that the model reads it. Below, that is tested."


@dataclass(frozen=True)
class Asked:
    """What is probed: labels that are fitted together, and the one that is shown.

    Attributes:
        together: the labels.
        label: of them.
        positions: see `probes.positions`.
        kind: of probe.
        n: sequences.
    """

    together: tuple[str, ...]
    label: str
    positions: str | int
    kind: str
    n: int

    def settings(self, opened: Opened) -> str:
        """As a line of Python has them."""
        return f"positions={self.positions!r}, kind={self.kind!r}, n={self.n}{opened.and_at}"


@address.fragment
def view(look: Look) -> None:
    """All panels; one fragment, because all depend on what is asked."""
    asked = _decoded(look)
    if asked is None:
        return
    question, found = asked
    point, place, worth = _card(look, question, found)
    _used(look, question, point, place, worth)
    _learnt(look, question, point, place)


def _decoded(look: Look) -> tuple[Asked, Measurement] | None:
    """What is asked, and the figure of it over all layers; None where it cannot be answered, or not yet."""
    with panel("What can be decoded", "probe-layers") as p:
        question = _fields(look.opened)
        with st.container():
            if not _quick(look.opened, question):
                return None
            try:
                whole = _probed(look.opened.key, question, look.opened)
            except ValueError as error:
                st.error(plain(str(error)))
                return None
            found = whole.select(label=question.label)
            draw = "probe_map" if "place" in found.dims else "probe_by_layer"
            p.show(
                getattr(figures, draw)(found),
                {"probes": whole},
                code(
                    look,
                    f"found = probe(run, {list(question.together)}, {question.settings(look.opened)})",
                    f"figure = figures.{draw}(found.select(label={question.label!r}))",
                    imports=("from workbench.probes import probe", FIGURES),
                    inputs=False,
                ),
                f"{found.caption} The same probe is fitted anew at every point. What an untrained model holds too is "
                "no work of training; what the current token alone tells is no work of the layers.",
            )
    return question, found


def _card(look: Look, question: Asked, found: Measurement) -> tuple[str, str | None, Judgement]:
    """One point, and one place where there are several, with every control; which, and what it is worth."""
    with panel("At one point, beside its controls", "probe-card") as p:
        left, right = st.columns([3, 3], width=640)
        points = list(found.coords["point"])
        point = choose("Decoded from", points, "probe_point", points[-1], point_in_words, left)
        place, selected = None, {"label": question.label, "point": point}
        if "place" in found.dims:
            places = [name for name in found.coords["place"] if _told_apart(found.select(place=name))]
            place = choose("Where", places, "probe_place", places[0], positions_in_words, right)
            selected["place"] = place
        own = found.select(**{dim: name for dim, name in selected.items() if dim != "label"})
        worth = judge(own)
        st.markdown(f"**{plain(str(worth)[:1].upper() + str(worth)[1:])}.**")
        chosen = ", ".join(f"{dim}={name!r}" for dim, name in selected.items())
        p.show(
            figures.probe_card(own),
            {"probe": own},
            code(
                look,
                f"found = probe(run, {list(question.together)}, {question.settings(look.opened)})",
                f"figure = figures.probe_card(found.select({chosen}))",
                imports=("from workbench.probes import probe", FIGURES),
                inputs=False,
            ),
            "It counts as decodable where its whole interval lies above that of every baseline; before attention there "
            "is nothing but token and position. The control task gives each token a class at random: a probe that "
            "learns that too is not selective, but where the token itself can be read every probe does. "
            f"{NOT_USED}",
        )
    return point, place, worth


def _told_apart(found: Measurement) -> bool:
    return not np.isnan(found.select(condition="trained").values).all()


def _used(look: Look, question: Asked, point: str, place: str | None, worth: Judgement) -> None:
    with panel("Is it used?", "probe-use") as p:
        left, right = st.columns([3, 3], vertical_alignment="bottom", width=640)
        how = choose("What is done to it", list(EDITS), "probe_how", "interchange", HOW.__getitem__, left)
        if fields.toggle("Edit the model on held-out sequences", "probe_causal", right):
            try:
                use = _tested(look.opened.key, question, point, place, how, look.opened, worth)
            except ValueError as error:
                st.error(plain(str(error)))
                return
            said = use.verdict()
            st.markdown(f"**{plain(said[:1].upper() + said[1:])}.**")
            if not use.rank:
                return
            options = f"point={point!r}, positions={question.positions!r}, how={how!r}{look.opened.and_at}"
            wanted = "" if place is None else f", places=[{place!r}]"
            p.show(
                figures.probe_use(use.effect),
                {"effect": use.effect, "excess": use.excess, "sizes": use.sizes}
                | ({} if use.nulls is None else {"nulls": use.nulls}),
                code(
                    look,
                    f"uses = causal_test(run, {question.label!r}, {options}{wanted})",
                    "figure = figures.probe_use(next(iter(uses.values())).effect)",
                    imports=("from workbench.probes import causal_test", FIGURES),
                    inputs=False,
                ),
                use.effect.caption,
            )
        st.caption(
            "The directions in which the label can be read are found on other sequences, and what lies in them is "
            "changed inside the model. If the model reads the label there, its answers change, and neither an edit "
            "beside it, made as large, does as much, nor the same edit in models that know nothing."
        )


def _learnt(look: Look, question: Asked, point: str, place: str | None) -> None:
    if question.kind not in CODES:
        return
    with panel("How fast it is learnt", "probe-learnt") as p:
        if fields.toggle("Fit on ever more sequences", "probe_code"):
            try:
                found = _described(look.opened.key, question, point, look.opened)
            except ValueError as error:
                st.error(plain(str(error)))
                return
            at = {} if place is None else {"place": place}
            chosen = "" if place is None else f".select(place={place!r})"
            p.show(
                figures.probe_learning(found.curve.select(**at), found.bits.select(**at)),
                {"curve": found.curve, "bits": found.bits},
                code(
                    look,
                    f"found = description_length(run, {question.label!r}, points={point!r}, "
                    f"{question.settings(look.opened)})",
                    f"figure = figures.probe_learning(found.curve{chosen}, found.bits{chosen})",
                    imports=("from workbench.probes import description_length", FIGURES),
                    inputs=False,
                ),
                f"{found.curve.caption} Knowing nothing costs {found.uniform:.2f} bits a label. What is held plainly "
                "is learnt from few sequences; what a probe must dig for needs many.",
            )
        st.caption("Description length by online coding: labels are sent in blocks, each coded by the probe so far.")


HOW = {
    "interchange": "exchange it with another input's",
    "steer": "put another class in its place",
    "erase": "take it out",
}


def _fields(opened: Opened) -> Asked:
    """A preset's question, or one's own."""
    task = opened.subject.task
    first, second, third = st.columns([5, 3, 2], vertical_alignment="bottom")
    presets = [*applicable(task), OWN]
    name = choose("Question", presets, "probe_preset", presets[0], question_in_words, first)
    if name == OWN:
        known = list(label_names(task))
        label = choose("Label of the task's truth", known, "probe_label", known[0], in_words, second)
        positions, kind = _own(opened)
        together: tuple[str, ...] = (label,)
        standing = 512
    else:
        preset = PRESETS[name]
        known = preset.names(task)
        label = choose("Label of the task's truth", known, "probe_label", known[0], in_words, second)
        rule = preset.rule(label)
        assert isinstance(rule, str)
        positions, kind, standing = rule, preset.kind, preset.n
        together = tuple(other for other in known if preset.rule(other) == rule)
    n = choose("Sequences", COUNTS, "probe_n", standing, str, third, help=HELD_OUT)
    return Asked(together, label, positions, kind, n)


def _own(opened: Opened) -> tuple[str | int, str]:
    first, second, third = st.columns([3, 3, 4], vertical_alignment="bottom")
    task = opened.subject.task
    rules = [*rules_for(task), AT]
    rule = choose("Where", rules, "probe_where", rules[0], positions_in_words, first)
    kind = choose("Probe", KINDS, "probe_kind", KINDS[0], in_words, second)
    if rule != AT:
        return rule, kind
    position = position_in("Position", task.n_ctx, "probe_position", 0, third)
    return position or 0, kind


def in_words(name: str) -> str:
    return name.replace("_", " ")


def question_in_words(name: str) -> str:
    return PRESETS[name].question if name in PRESETS else name


def _quick(opened: Opened, question: Asked) -> bool:
    """Whether it is fitted at once; what takes long has a field that asks for it."""
    task = opened.subject.task
    known = labels(task, task.sample(4, generator(0, "how much there is to decode")).tokens)
    vectors, classes = 0, 0
    for name in question.together:
        values = known[name] if known[name].ndim == 2 else known[name].amax(-1)
        vectors = max(vectors, round(question.n * float((values >= 0).sum()) / len(values)))
        classes += max(2, int(values.max()) + 1) if known[name].ndim == 2 else 2 * known[name].shape[-1]
    pooled = question.positions in ("labelled", "scored", "outputs", "each")
    vectors = vectors if pooled else question.n
    points = len(from_embedding(opened.subject))
    if 4.0 * vectors * classes * points * opened.subject.encoder.shape[1] <= QUICK:
        return True
    st.info(
        f"Some {vectors:,} vectors of {classes} classes are to be fitted at {points} points. That can take minutes."
    )
    return fields.toggle("Fit all the same", "probe_anyway")


@st.cache_data(show_spinner="Fitting probes and their controls at every point …", max_entries=128)
def _probed(key: tuple[Any, ...], question: Asked, _opened: Opened) -> Measurement:
    how: dict[str, Any] = {"positions": question.positions, "kind": question.kind, "n": question.n}
    return probe(_opened.run, question.together, step=_opened.step, **how)


@st.cache_data(show_spinner="Editing the model on held-out sequences …", max_entries=128)
def _tested(
    key: tuple[Any, ...],
    question: Asked,
    point: str,
    place: str | None,
    how: str,
    _opened: Opened,
    _worth: Judgement,
) -> Use:
    wanted = None if place is None else [place]
    found = causal_test(
        _opened.run,
        question.label,
        point=point,
        positions=question.positions,
        how=how,
        step=_opened.step,
        places=wanted,
        judged={},
    )
    return replace(next(iter(found.values())), judged=_worth)


@st.cache_data(show_spinner="Fitting probes on ever more sequences …", max_entries=128)
def _described(key: tuple[Any, ...], question: Asked, point: str, _opened: Opened) -> Description:
    how: dict[str, Any] = {"positions": question.positions, "kind": question.kind, "n": question.n}
    return description_length(_opened.run, question.label, points=point, step=_opened.step, **how)


view(current())
