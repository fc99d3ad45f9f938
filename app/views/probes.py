"""Probes: what can be decoded from the residual, beside controls; whether the model uses it; how fast it is learnt."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import streamlit as st

from workbench import figures
from workbench.app.config_in_words import plain, seconds
from workbench.app.fields import probe_question, url
from workbench.app.fields import widgets as fields
from workbench.app.fields.probe_question import Question, choose_question, most_gained
from workbench.app.fields.values import belongs_to_run
from workbench.app.fields.widgets import choose
from workbench.app.panels import code
from workbench.app.panels.code import Symbol
from workbench.app.panels.measuring import awaited
from workbench.app.panels.panel import Panel, folded, panel
from workbench.app.state import Look, Opened, current
from workbench.figures.probes import positions_in_words
from workbench.interventions import point_in_words
from workbench.judgement.words import by_place
from workbench.judgement.words import probes as words
from workbench.measurement import Measurement
from workbench.measurement.numbers import number
from workbench.probes import (
    Decodable,
    Description,
    Use,
    causal_test,
    description_length,
    gain,
    judge,
    probe,
)
from workbench.probes.description_length import CODES
from workbench.probes.erase_steer_interchange import EDITS
from workbench.util.words import capitalised

NOT_USED = (
    "Decodable does not mean used: that the label can be read does not show that the model reads it. The panel below "
    "tests that."
)
belongs_to_run("probe_place")


# Where in the model a label is decoded, as dim -> coordinate: the point, and the place where several are told apart.
At = dict[str, str]


@url.fragment
def view(look: Look) -> None:
    """All panels; one fragment, because all depend on the question."""
    decoded = _decoded(look)
    if decoded is None:
        return
    question, accuracies = decoded
    place, worth = _at_one_point(look, question, accuracies)
    _used(look, question, place, worth)
    _learnt(look, question, place)


def _decoded(look: Look) -> tuple[Question, Symbol] | None:
    """The question, and the figure of it over all layers; None where it cannot be answered, or not yet."""
    with panel("What can be decoded", "probe-layers") as p:
        known: list[Measurement | None] = []  # what is fitted, asked for once

        def fitted(question: Question) -> Measurement | None:
            with below, suppress(ValueError):  # said below, of the label that is chosen
                known.append(_fitted(look.opened, question))
            return known[0] if known else None

        fields_of_it, below = st.container(), st.container()
        with fields_of_it:
            question = choose_question(look.opened, fitted)
        with below:
            try:
                found = known[0] if known else _fitted(look.opened, question)
            except ValueError as error:
                st.error(plain(str(error)))
                return None
            if found is None:
                return None
            accuracies = _probes(look.opened, question, found)
            of_label = accuracies.select(label=question.label)
            measured: Measurement = code.value_of(of_label)
            draw = figures.probe_map if "place" in measured.dims else figures.probe_by_layer
            p.show(
                code.call(draw, of_label),
                {"probes": accuracies},
                f"{measured.caption} The same probe is fitted anew at every point. What a re-initialised model holds "
                "too was not learnt in training; what the current token alone gives away was not computed by the "
                "layers.",
                verdict=words.gained(measured, gain(measured)),
            )
    return question, accuracies


def _fitted(opened: Opened, question: Question) -> Measurement | None:
    """The probes of a question; None where they are not fitted yet: the page says so, or has a button for what is long.

    Raises:
        ValueError: if the labels mean nothing at these positions.
    """
    asked = question.without_label
    try:
        expected = probe_question.seconds_to_fit(opened, question)
    except ValueError:  # fitting says why
        expected = 0.0
    if expected <= probe_question.AT_ONCE:
        return _probed(opened.key, asked, opened)
    labels = f"{len(asked.together)} labels" if len(asked.together) > 1 else "this label"
    label = f"Fit probes of {labels} at every point, with their controls (about {seconds(expected)} or less, once)"
    if expected > probe_question.UNASKED and not fields.pressed(label, "probe_anyway"):
        return None
    found: Measurement | None = awaited(
        ("probes", opened.key, asked),
        lambda job: probe(opened.run, asked.together, **asked.settings(opened)),
        "what probes and their controls decode at every point",
        "There is nothing to decode",
    )
    return found


def _probes(opened: Opened, question: Question, found: Measurement) -> Symbol:
    return code.assign(
        "accuracies",
        probe,
        code.run(opened),
        list(question.together),
        **question.settings(opened),
        computed_by=lambda run, labels, **how: found,
    )


def _at_one_point(look: Look, question: Question, accuracies: Symbol) -> tuple[At, Decodable]:
    """One point (and one kind of position, where there are several) beside every control, and what that is worth."""
    with panel("At one point, beside its controls", "probe-card") as p:
        left, right = st.columns([3, 3], width=640)
        measured: Measurement = code.value_of(accuracies).select(label=question.label)
        points = list(measured.coords["point"])
        best = most_gained(measured, "point")
        point = choose("Decoded from", points, "probe_point", best, point_in_words, left)
        at = {"point": point}
        if "place" in measured.dims:
            trained = {name: measured.select(place=name, condition="trained") for name in measured.coords["place"]}
            places = [name for name, own in trained.items() if not np.isnan(own.values).all()]  # where it can be fitted
            at["place"] = choose("Where", places, "probe_place", places[0], positions_in_words, right)
        own = accuracies.select(label=question.label, **at)
        worth = judge(code.value_of(own))
        st.markdown(f"**{plain(capitalised(words.decodable(worth)))}.**")
        p.show(
            code.call(figures.probe_card, own),
            {"probe": own},
            "A label counts as decodable where the whole interval of the probe lies above that of every baseline; "
            "before attention there is nothing but token and position. What these two decide together, a lookup of "
            "their pairs knows; where pairs outnumber the rows fitted there is none, and nothing is called decodable. "
            "The control task, where it is drawn, gives each token a class at random: a probe that learns it as well "
            f"can learn any label of the token (Hewitt and Liang 2019). {NOT_USED}",
        )
    return at, worth


@folded("Is it used?", "probe-use")
def _used(p: Panel, look: Look, question: Question, at: At, worth: Decodable) -> None:
    left, right = st.columns([3, 3], vertical_alignment="bottom", width=640)
    how = choose("What is done to it", list(EDITS), "probe_how", "interchange", HOW.__getitem__, left)
    if fields.pressed("Run the causal test on held-out sequences", "probe_causal", right):
        try:
            uses = _uses(look.opened, question, at, how, worth)
        except ValueError as error:
            st.error(plain(str(error)))
            return
        name, use = next(iter(code.value_of(uses).items()))
        st.markdown(f"**{plain(capitalised(use.verdict()))}.**")
        if not use.rank:
            return
        p.show(
            code.call(figures.probe_use, uses[name].effect),
            {"effect": use.effect, "excess": use.excess, "sizes": use.sizes}
            | ({} if use.nulls is None else {"nulls": use.nulls}),
            use.effect.caption,
        )
    st.caption(
        "The directions in which the label can be read are found on other sequences, and what lies in them is "
        "changed inside the model. If the model reads the label there, its answers change, more than by an equally "
        "large edit in other directions, and by more than in re-initialised models or models with shuffled weights."
    )


def _uses(opened: Opened, question: Question, at: At, how: str, worth: Decodable) -> Symbol:
    return code.assign(
        "uses",
        causal_test,
        code.run(opened),
        question.label,
        point=at["point"],
        positions=question.positions,
        how=how,
        step=opened.step,
        places=[at["place"]] if "place" in at else None,
        computed_by=lambda run, label, **settings: _tested(opened.key, label, settings, opened, worth),
    )


def _learnt(look: Look, question: Question, at: At) -> None:
    if question.kind not in CODES:
        return
    with panel("How many examples the probe needs", "probe-learnt", folded=True) as p:
        if not p.open:
            return
        if fields.pressed("Measure the learning curve", "probe_code"):
            try:
                description = _description(look.opened, question, at["point"])
            except ValueError as error:
                st.error(plain(str(error)))
                return
            curve, bits = description.curve, description.bits
            if "place" in at:
                curve, bits = curve.select(place=at["place"]), bits.select(place=at["place"])
            described: Description = code.value_of(description)
            p.show(
                code.call(figures.probe_learning, curve, bits),
                {"curve": described.curve, "bits": described.bits},
                f"{described.curve.caption} A uniform guess costs {number(described.uniform)} bits a label; a probe "
                "that overfits noise costs more. A label that is easy to read is learnt from few sequences; a probe "
                "that has to compute it needs many.",
                verdict=by_place.changed(code.value_of(curve), code.value_of(curve).dims[-1]),
            )


def _description(opened: Opened, question: Question, point: str) -> Symbol:
    return code.assign(
        "description",
        description_length,
        code.run(opened),
        question.label,
        points=point,
        **question.settings(opened),
        computed_by=lambda run, label, **how: _described(opened.key, question, point, opened),
    )


HOW = {
    "interchange": "interchange it with another input's",
    "steer": "put another class in its place",
    "erase": "take it out",
}


@st.cache_data(show_spinner="Fitting probes and their controls at every point …", max_entries=128)
def _probed(key: tuple[Any, ...], question: Question, _opened: Opened) -> Measurement:
    return probe(_opened.run, question.together, **question.settings(_opened))


@st.cache_data(show_spinner="Editing the model on held-out sequences …", max_entries=128)
def _tested(
    key: tuple[Any, ...], label: str, settings: dict[str, Any], _opened: Opened, _worth: Decodable
) -> dict[str, Use]:
    uses = causal_test(_opened.run, label, **settings, judged={})
    return {name: replace(use, decodable=_worth) for name, use in uses.items()}


@st.cache_data(show_spinner="Fitting probes on ever more sequences …", max_entries=128)
def _described(key: tuple[Any, ...], question: Question, point: str, _opened: Opened) -> Description:
    return description_length(_opened.run, question.label, points=point, **question.settings(_opened))


view(current())
