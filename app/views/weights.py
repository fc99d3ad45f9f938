"""What a head would read and write, in the weights alone: circuits between tokens, singular vectors, composition."""

from __future__ import annotations

from typing import Any

import streamlit as st
import torch

from workbench import figures
from workbench.app.config_in_words import plain
from workbench.app.fields import url
from workbench.app.fields.heads import choose_head
from workbench.app.fields.widgets import choose
from workbench.app.panels import code
from workbench.app.panels.panel import panel
from workbench.app.state import Look, current
from workbench.capture import Subject
from workbench.instruments.weights import composition, token_circuits

CIRCUITS = {
    "QK": "QK: which key a query scores",
    "OV": "OV: what reading a token writes",
    "pattern": "pattern: the QK circuit after softmax",
    "mixing": "what the layer makes of the pattern",
}
SAYS = "What the head does on an input can differ, and an untrained model has such maps too."


def subject(look: Look) -> code.Symbol:
    """The model's facts, as `subject`."""
    opened = look.opened
    return code.assign(
        "subject",
        Subject.of,
        code.model(opened),
        code.task(opened),
        opened.subject.name,
        computed_by=lambda *given: opened.subject,
    )


@url.fragment
def circuits(look: Look) -> None:
    with panel("Between tokens", "weights-circuit") as p:
        row = st.container(horizontal=True, vertical_alignment="bottom")
        with row.container(width=190):
            layer, head = choose_head(look)
        kind = choose("Circuit", list(CIRCUITS), "circuit_kind", "QK", CIRCUITS.__getitem__, row, width=330)
        facts = subject(look)
        try:
            if kind in ("QK", "OV"):
                m = code.assign("circuit", token_circuits.circuit, facts, layer, head, kind)
            else:
                read = code.assign("read", token_circuits.reads, facts, layer, head)
                m = code.named("circuit", read.select(matrix=kind))
        except ValueError as error:
            st.info(plain(str(error)))
            return
        p.show(code.call(figures.token_circuit, m), {"circuit": m}, f"{code.value_of(m).caption} {SAYS}")
    shown: Any = "OV" if kind == "OV" else "QK"
    directions(look, (layer, head), shown)
    entry(look, (layer, head), shown)


def directions(look: Look, head: tuple[int, int], kind: str) -> None:
    """The singular vectors of the circuit that is shown, on both bases."""
    with panel("Its singular vectors", "weights-singular", folded=True) as p:
        if not p.open:
            return
        m = code.assign("vectors", token_circuits.singular_vectors, subject(look), *head, kind)
        p.show(code.call(figures.singular_vectors, m), {"singular-vectors": m}, code.value_of(m).caption)


def entry(look: Look, head: tuple[int, int], kind: str) -> None:
    """One entry of the circuit that is shown, by its directions."""
    with panel("One entry, by its directions", "weights-entry", folded=True) as p:
        if not p.open:
            return
        words = look.opened.subject.task.words(torch.arange(len(look.opened.subject.encoder)))
        row = st.container(horizontal=True, vertical_alignment="bottom")
        names = ("Query", "Key") if kind == "QK" else ("Token read", "Logit of")
        start = choose(names[0], range(len(words)), "entry_from", 0, words.__getitem__, row, width=150)
        end = choose(names[1], range(len(words)), "entry_to", 0, words.__getitem__, row, width=150)
        m = code.assign("entry", token_circuits.path, subject(look), *head, kind, start=start, end=end)
        p.show(code.call(figures.circuit_entry, m), {"entry": m}, code.value_of(m).caption)


@url.fragment
def composing(look: Look) -> None:
    if composition.why_not(look.opened.subject) is not None:
        return
    with panel("Which heads could compose", "weights-composition", folded=True) as p:
        if not p.open:
            return
        kind = choose("By the later head's", list(composition.KINDS), "composed_by", "K", _by, st, width=190)
        m = code.assign("composed", composition.measure, subject(look))
        figure = code.call(figures.composition_scores, m, kind)
        p.show(figure, {"composition": m}, code.value_of(m).caption)


def _by(kind: str) -> str:
    return {"Q": "query", "K": "key", "V": "value"}[kind]


look = current()
if reason := token_circuits.why_not(look.opened.subject):
    st.info(plain(reason))
else:
    circuits(look)
    composing(look)
