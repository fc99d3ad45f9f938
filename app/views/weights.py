"""What a head would read and write, in the weights alone: circuits between tokens, singular vectors, composition."""

from __future__ import annotations

from typing import Any

import numpy as np
import streamlit as st

from workbench import figures
from workbench.app.config_in_words import plain
from workbench.app.fields import url
from workbench.app.fields.values import belongs_to_run, put
from workbench.app.fields.widgets import choose
from workbench.app.panels import code
from workbench.app.panels.cell import drawing_and_cell
from workbench.app.panels.head_grid import choose_head
from workbench.app.panels.panel import Panel, folded, panel
from workbench.app.state import Look, current
from workbench.capture import Subject
from workbench.instruments.weights import composition, token_circuits
from workbench.judgement.words.figures import largest_of_rows, spread_of_scores
from workbench.measurement import Measurement

CIRCUITS = {
    "QK": "QK: which key a query scores",
    "QK token-position": "QK: which position a token scores",
    "QK position-position": "QK: which position a position scores",
    "OV": "OV: what reading a token writes",
    "pattern": "pattern: the QK circuit after softmax",
    "mixing": "what the layer makes of the pattern",
}
belongs_to_run("entry_from", "entry_to")
SAYS = "What the head does on an input can differ, and a re-initialised model has such maps too."


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
    drawing, inspector = drawing_and_cell()
    with drawing, panel("Between tokens", "weights-circuit") as p:
        field = st.container()
        layer, head = choose_head(look)
        facts = subject(look)
        spread = code.assign("spread", token_circuits.spreads, facts, layer, head)
        kinds = [*token_circuits.circuits_of(look.opened.subject), "pattern", "mixing"]
        spreads: Measurement = code.value_of(spread)
        # At first the circuit by which the head's scores differ most: what it matches.
        widest = str(spreads.coords["circuit"][int(spreads.values.argmax())]) if spreads.values.size else "QK"
        kind = choose("Circuit", kinds, "circuit_kind", widest, CIRCUITS.__getitem__, field, width=330)
        shown: Any = kind if kind in token_circuits.ENDS else "QK"
        try:
            if kind in token_circuits.ENDS:
                m = code.assign("circuit", token_circuits.circuit, facts, layer, head, kind)
            else:
                read = code.assign("read", token_circuits.reads, facts, layer, head)
                m = code.named("circuit", read.select(matrix=kind))
        except ValueError as error:
            st.info(plain(str(error)))
            return
        with inspector:
            cell = entry(look, (layer, head), shown, code.value_of(m))
        figure = code.call(figures.token_circuit, m, chosen=cell)
        says = (
            f"{code.value_of(m).caption} Click a cell, or move with the arrow keys, to see how it comes about. {SAYS}"
        )
        verdict = [largest_of_rows(code.value_of(m))]
        if kind != "OV":
            verdict.insert(0, spread_of_scores(spreads))
        p.show(figure, {"circuit": m}, says, verdict=" ".join(filter(None, verdict)) or None, cell=to_entry)
    directions(look, (layer, head), shown[:2])


def to_entry(row: str, column: int) -> None:
    """Show how a cell comes about, from a click on it."""
    if row.isdecimal():
        put("entry_from", int(row))
        put("entry_to", column)


def entry(look: Look, head: tuple[int, int], kind: str, m: Measurement) -> tuple[int, int]:
    """The panel of one entry of the circuit, by its directions: at first that of the strongest cell of `m`.

    Returns its row and column.
    """
    names = ("Token read", "Logit of") if kind == "OV" else ("Query", "Key")
    with panel("One entry, by its directions", "weights-entry") as p:
        row = st.container(horizontal=True, vertical_alignment="bottom")
        words, strongest = m.coords, np.unravel_index(np.abs(m.values).argmax(), m.values.shape)
        start, end = (
            choose(name, range(len(words[dim])), f"entry_{dim}", int(at), words[dim].__getitem__, row, width=150)
            for name, dim, at in zip(names, ("from", "to"), strongest, strict=True)
        )
        e = code.assign("entry", token_circuits.path, subject(look), *head, kind, start=start, end=end)
        p.show(code.call(figures.circuit_entry, e), {"entry": e}, code.value_of(e).caption)
    return start, end


@folded("Its singular vectors", "weights-singular")
def directions(p: Panel, look: Look, head: tuple[int, int], kind: str) -> None:
    """The singular vectors of the circuit that is shown, on both bases."""
    m = code.assign("vectors", token_circuits.singular_vectors, subject(look), *head, kind)
    p.show(code.call(figures.singular_vectors, m), {"singular-vectors": m}, code.value_of(m).caption)


@url.fragment
def composing(look: Look) -> None:
    if composition.why_not(look.opened.subject) is not None:
        return
    with panel("Which heads could compose", "weights-composition", folded=True) as p:
        if not p.open:
            return
        by = {"Q": "query", "K": "key", "V": "value"}
        kind = choose("By the later head's", list(composition.KINDS), "composed_by", "K", by.__getitem__, st, width=190)
        m = code.assign("composed", composition.measure, subject(look))
        figure = code.call(figures.composition_scores, m, kind)
        p.show(figure, {"composition": m}, code.value_of(m).caption)


look = current()
if reason := token_circuits.why_not(look.opened.subject):
    st.info(plain(reason))
else:
    circuits(look)
    composing(look)
