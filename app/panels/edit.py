"""The panel "Try an edit": something is changed inside the model on this input, and the answers are compared.

The panel is a fragment: if a click in another fragment is to redraw it, it is called inside that one.
"""

from __future__ import annotations

import re
from typing import Any

import streamlit as st

from workbench import figures, interventions
from workbench.app.config_in_words import plain
from workbench.app.fields import edit as edits
from workbench.app.fields import url
from workbench.app.fields.values import keep, listed, put, start_anew
from workbench.app.fields.widgets import first_drawn
from workbench.app.panels import code
from workbench.app.panels.code import Symbol
from workbench.app.panels.panel import Panel, folded
from workbench.app.state import Look
from workbench.figures.token_page import WIDEST
from workbench.instruments.residual import projection
from workbench.interventions import CutEdge, Edit, Edited, MoveEdge
from workbench.util.words import capitalised

SAYS = (
    "The model runs once more with the edit made inside it; everything after the edit is computed anew. Purple frame: "
    "the answer changed; green: it is right. Δ log p: the change of the right answer's log-probability, in nats. This "
    "shows that the edited part can matter for the answers to this one input, given the true tokens before them; it "
    "does not show what that part holds, nor how often it matters (see the causal tests). Cutting or removing a part "
    "also puts later layers in a state that they never met in training, which alone may cost the answer."
)


TITLE = "Try an edit: cut an edge, remove a head, or swap what is held, on this input"
CLICKED = "cut"  # in the URL: the edge that was clicked or dragged last
CLICKED_ON = "clicked_on"  # in the session: its input


@url.fragment
@folded(TITLE, "edit")
def try_an_edit(p: Panel, look: Look) -> None:
    """Fields for an edit, one-click edits, and this input's answers before and after."""
    edit, head = edits.choose_edit(look)
    row = st.container(horizontal=True, gap="small")
    for words, one in edits.suggested(look, head).items():
        row.button(capitalised(words), key=f"edit-{words}", on_click=edits.fill, args=(look, one))
    try:
        tried = _tried(look, edit)
    except ValueError as error:
        st.error(plain(str(error)))
        return
    edited: Edited = code.value_of(tried)
    start_anew(["edit_start"], repr(edited.edit), "edit_start")
    n_pos = len(projection.sequence(look.seen, 0))
    # At first such that the answer that the edit changes most is in the drawing.
    start = first_drawn(n_pos, "edit_start", max(0, (edited.most or 0) - WIDEST // 2))
    p.show(
        code.call(figures.edited, tried, start=start),
        {"answers": edited.answers},
        SAYS,
        token=lambda position: edits.move(look, edit, position),
    )


def change_edge(look: Look, layer: int, head: int, query: int, key: int, to: int | None = None) -> None:
    """For an edge of attention that was clicked, cut it; for one dragged `to` another key, move it there.

    The panel shows that, and the line under the drawing; the link has `4.1:9-3`, of a moved one `4.1:9-3>2`.
    """
    edit = CutEdge(query, key, layer, head) if to is None else MoveEdge(query, key, to, layer, head)
    try:
        edit.places(len(projection.sequence(look.seen, 0)))
    except ValueError:  # a browser may send anything
        return
    if edits.refused(look, type(edit)) is None:
        edits.fill(look, edit)
    keep(CLICKED, [f"{layer}.{head}:{query}-{key}{'' if to is None else f'>{to}'}"])
    st.session_state[CLICKED_ON] = look.key


def clicked(look: Look) -> Symbol | None:
    """What became of this input by the edge that was clicked or dragged, or that a link has; None where there is none.

    A place that there is not, of a link from elsewhere, is none; another input forgets it.
    """
    names, _ = listed(CLICKED)
    on = st.session_state.get(CLICKED_ON)
    found = re.fullmatch(r"(\d{1,6})\.(\d{1,6}):(\d{1,6})-(\d{1,6})(?:>(\d{1,6}))?", names[0]) if names else None
    if found is None or on not in (None, look.key):
        _undo()
        return None
    layer, head, query, key, to = (None if part is None else int(part) for part in found.groups())
    edit = CutEdge(query, key, layer, head) if to is None else MoveEdge(query, key, to, layer, head)  # type: ignore[arg-type]
    keep(CLICKED, names[:1])
    st.session_state[CLICKED_ON] = look.key
    if reason := edits.refused(look, type(edit)):
        st.info(plain(reason))
        return None
    try:
        return _tried(look, edit)
    except ValueError:
        _undo()
        return None


def answer_to_click(edited: Symbol, place: Any) -> None:
    """One line that says what the cut or the move of an edge does.

    Args:
        edited: from `clicked`.
        place: an `st.empty`, in which the line replaces what was there.
    """
    tried: Edited = code.value_of(edited)
    edit = tried.edit
    assert isinstance(edit, CutEdge | MoveEdge)
    where = f"(layer {edit.layer}, head {edit.head})"
    done = f":material/content_cut: **Cut {edit.query} → {edit.key} {where}**"
    if isinstance(edit, MoveEdge):
        done = f":material/move_down: **Moved {edit.query} → {edit.key} to {edit.to} {where}**"
    with place.container(key="clicked"):
        says, undo, details = st.columns([7, 1, 1.1], vertical_alignment="center")
        says.markdown(f"{done}: {plain(tried.verdict())}.")
        undo.button("Undo", icon=":material/undo:", key="clicked-undo", on_click=_undo)
        details.button("Details", key="clicked-details", on_click=put, args=("show-edit", True))


def _undo() -> None:
    keep(CLICKED, [])
    st.session_state.pop(CLICKED_ON, None)


def _tried(look: Look, edit: Edit) -> Symbol:
    return code.assign(
        "tried",
        interventions.try_edit,
        code.hooked(look.opened),
        code.seen(look),
        edit,
        computed_by=lambda hooked, seen, edit: _run((*look.key, repr(edit)), look, edit),
    )


# A resource, not data: it refers to the model's facts, which are shared and never copied.
@st.cache_resource(show_spinner="Running the edited model …", max_entries=64)
def _run(key: tuple[object, ...], _look: Look, _edit: Edit) -> Edited:
    seen = _look.seen  # before the lock, which capturing takes too
    with _look.opened.lock:
        return interventions.try_edit(_look.opened.hooked, seen, _edit)
