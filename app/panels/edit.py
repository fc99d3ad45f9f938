"""The panel "Try an edit": something is changed inside the model on this input, and the answers are compared.

What its fields hold is in the session, and so in the URL, under the names of the edit's own fields
(`workbench.interventions`): `edit_kind` (a key of `KINDS`), `edit_layer` and `edit_head` (a number or `every`),
`edit_query`, `edit_key` and `edit_position` (a position or `every`), `edit_other_position` (a position, or None for
the same), `edit_point` (a hook name), `edit_by`, `edit_other` (text), `edit_first` and `edit_second` (words),
`edit_basis`. A callback may set them before the panel is made; for a click on an edge, `from_click` does. The panel is
a fragment: to be redrawn by a click in another one, it is called inside that one. Another input sets the edit anew, to
what is suggested there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import streamlit as st

from workbench import figures, interventions
from workbench.app.fields import address, widgets
from workbench.app.fields.heads import Head, chosen_head
from workbench.app.fields.widgets import OF_AN_EDIT, choose, first_drawn, put, start_anew
from workbench.app.panels.panel import code, panel
from workbench.app.state import Look, plain
from workbench.figures.token_page import WIDEST
from workbench.instruments.residual import projection
from workbench.interventions import CutEdge, Edit, Edited, Exchange, Patch, RemoveHead, RemoveWrite
from workbench.interventions.ablation import INSTEAD
from workbench.mechanisms import suggestions

KINDS: dict[str, tuple[str, type[Any]]] = {
    "cut": ("cut an edge", CutEdge),
    "head": ("remove a head", RemoveHead),
    "write": ("remove a write", RemoveWrite),
    "patch": ("patch from another input", Patch),
    "exchange": ("exchange two tokens", Exchange),
}
EVERY = "every"
SAYS = (
    "The model runs once more with the edit inside it, and computes on from there. Framed: answers that changed; below "
    "them how much more or less likely the right one became. It shows that the edited thing can matter to this input's "
    "answers, given the true tokens before them; not what it holds, nor how often it matters: for that see the causal "
    "tests. What is cut or removed is an input the model never met, which alone may cost it the answer."
)


@address.fragment
def try_an_edit(look: Look) -> None:
    """Fields for an edit, one-click edits, and this input's answers before and after."""
    with panel("Try an edit", "edit") as p:
        start_anew(OF_AN_EDIT, (str(look.opened.run.path), look.key[-1]), "edit_input")
        kind = widgets.segments("Edit", list(KINDS), "edit_kind", "cut", format_func=_label)
        start_anew([key for key in OF_AN_EDIT if key not in ("edit_layer", "edit_head")], kind, "edit_kind")
        edit, head = _fields(look, kind)
        _presets(look, head)
        try:
            tried = _tried(look, edit)
        except ValueError as error:
            st.error(plain(str(error)))
            return
        start = _start(look, tried)
        p.show(
            figures.edited(tried, start=start),
            {"answers": tried.answers},
            code(
                look,
                f"tried = interventions.try_edit(run.hooked({look.opened.at}), seen, interventions.{edit!r})",
                f"figure = figures.edited(tried, start={start})",
                imports=("from workbench import figures, interventions",),
            ),
            SAYS,
            token=lambda position: _move(look, edit, position),
        )


def _start(look: Look, tried: Edited) -> int:
    """The first position drawn; of long inputs, by default so that the answer that the edit does most to is seen."""
    standing = max(0, (tried.most or 0) - WIDEST // 2)
    n_pos = len(projection.sequence(look.seen, 0))
    start_anew(["edit_start"], repr(tried.edit), "edit_start")
    return first_drawn(n_pos, "edit_start", standing)


def from_click(layer: int | None, head: int | None, query: int, key: int) -> None:
    """For a click on an edge of attention: the edit is to cut it. None is every layer, or every head."""
    _set("cut", layer=layer, head=head, query=query, key=key)


def fill(look: Look, edit: Edit) -> None:
    """Set the panel's fields to an edit."""
    kind = next(name for name, (_, made) in KINDS.items() if isinstance(edit, made))
    given = {field.name: getattr(edit, field.name) for field in fields(edit)}  # type: ignore[arg-type]
    for name in ("first", "second"):
        if name in given:
            given[name] = look.opened.subject.task.vocabulary.words[given[name]]
    if isinstance(edit, Patch) and edit == _standing(look, kind):
        given["other"] = ""  # it stands in the empty field, and need not be in the URL
    _set(kind, **given)


def _set(kind: str, **given: Any) -> None:
    put("edit_kind", kind)
    st.session_state["edit_kind_before"] = kind  # its fields are set here
    for name, value in given.items():
        every = EVERY if name in ("layer", "head", "query", "key", "position") else None
        put(f"edit_{name}", every if value is None else value)


def _move(look: Look, edit: Edit, position: int | None) -> None:
    """For a click on a token: the edit is made there; of a cut, to the edge that the token reads most."""
    if position is None:
        return
    if not isinstance(edit, CutEdge):
        put("edit_position", position)
        return
    layer, head = (edit.layer or 0), (edit.head or 0)
    edge = suggestions.strongest_edge(look.seen, layer, head, position)
    for name, at in zip(("query", "key"), edge or (position, position), strict=True):
        put(f"edit_{name}", at)


def _label(kind: str) -> str:
    return KINDS[kind][0]


def _tried(look: Look, edit: Edit) -> Edited:
    return _run((*look.key, repr(edit)), look, edit)


# A resource, not data: it refers to the model's facts, which are shared and never copied.
@st.cache_resource(show_spinner="Running the edited model …", max_entries=64)
def _run(key: tuple[object, ...], _look: Look, _edit: Edit) -> Edited:
    seen = _look.seen  # before the lock, which capturing takes too
    with _look.opened.lock:
        return interventions.try_edit(_look.opened.hooked, seen, _edit)


def _suggested(look: Look, head: Head) -> dict[str, Edit]:
    """One-click edits, for a head."""
    return _suggestions((*look.key, head), look, head)


@st.cache_data(show_spinner=False, max_entries=200)
def _suggestions(key: tuple[object, ...], _look: Look, _head: Head) -> dict[str, Edit]:
    return suggestions.suggestions(_look.seen, *_head)


def _presets(look: Look, head: Head) -> None:
    row = st.container(horizontal=True, gap="small")
    for words, edit in _suggested(look, head).items():
        row.button(words[:1].upper() + words[1:], key=f"edit-{words}", on_click=fill, args=(look, edit))


def _standing(look: Look, kind: str, head: Head | None = None) -> Edit:
    """Where the fields of a kind of edit start: at what is suggested of that kind, or else at the answers.

    Args:
        look: the run and the input.
        kind: a key of `KINDS`.
        head: that the edit is of, or the page's: nothing that is not on the page decides what is.
    """
    head = head or chosen_head(look)
    suggested = next((edit for edit in _suggested(look, head).values() if isinstance(edit, KINDS[kind][1])), None)
    if suggested is not None:
        return suggested
    subject, scored = look.opened.subject, look.batch.loss_mask[0].nonzero()[:, 0].tolist()
    at = scored[0] if scored else 0
    if kind == "cut":
        return CutEdge(at, None, *head)
    point = "blocks.0.hook_resid_mid"
    if kind == "patch":
        return Patch(point, _other(look.key, look), at)
    own = int(look.batch.tokens[0, at])
    return Exchange(point, own, (own + 1) % len(subject.encoder), at)


@st.cache_data(show_spinner=False, max_entries=200)
def _other(key: tuple[object, ...], _look: Look) -> str:
    return suggestions.another(_look.seen)


def _fields(look: Look, kind: str) -> tuple[Edit, Head]:
    """The fields of one kind of edit: the edit, and the head that it is of or else the page's."""
    if kind in ("cut", "head"):
        places = st.columns(4, width=760)
        every = kind == "cut"
        layer, head = _layer(look, every, places[0]), _head(look, every, places[1])
        own = chosen_head(look) if layer is None or head is None else (layer, head)
        standing: Any = _standing(look, kind, own)
        if kind == "cut":
            return _cut(look, layer, head, standing, places), own
        return _removed_head(look, own, standing, places), own
    made: dict[str, Callable[[Look, Any], Edit]] = {"write": _removed_write, "patch": _patch, "exchange": _exchange}
    return made[kind](look, _standing(look, kind)), chosen_head(look)


def _cut(look: Look, layer: int | None, head: int | None, standing: CutEdge, places: Sequence[Any]) -> Edit:
    there = range(len(projection.sequence(look.seen, 0)))
    query = _number("Query: what reads", there, "edit_query", standing.query, True, places[2])
    key = _number("Key: what is read", there, "edit_key", standing.key, True, places[3])
    return CutEdge(query, key, layer, head)


def _removed_head(look: Look, head: Head, standing: RemoveHead, places: Sequence[Any]) -> Edit:
    by = choose("What it writes instead", list(INSTEAD), "edit_by", standing.by, INSTEAD.__getitem__, places[2])
    return RemoveHead(*head, by, _position(look, standing.position, places[3]))  # type: ignore[arg-type]


def _removed_write(look: Look, standing: RemoveWrite) -> Edit:
    left, right = st.columns(2, width=560)
    point = _point(interventions.writes(look.opened.subject), standing.point, left)
    return RemoveWrite(point, _position(look, standing.position, right))


def _patch(look: Look, standing: Patch) -> Edit:
    places = st.columns([2.2, 1.3, 1.6, 4])
    point = _point(interventions.points(look.opened.subject), standing.point, places[0])
    position = _position(look, standing.position, places[1])
    source = widgets.number("… from position", 0, None, "edit_other_position", None, places[2], placeholder="same")
    text = widgets.text("Of this input", "edit_other", standing.other[:200], 20_000, places[3])
    return Patch(point, text or standing.other, position, source)


def _exchange(look: Look, standing: Exchange) -> Edit:
    words = look.opened.subject.task.vocabulary.words
    places = st.columns([1.2, 1.2, 2.2, 1.6, 1.6])
    first = _token(look, "Token", "edit_first", words[standing.first], places[0])
    second = _token(look, "and token", "edit_second", words[standing.second], places[1])
    point = _point(interventions.points(look.opened.subject), standing.point, places[2])
    position = _position(look, standing.position, places[3])
    basis = choose("Basis", list(projection.BASES), "edit_basis", standing.basis, str, places[4])
    return Exchange(point, first, second, position, basis)


def _token(look: Look, label: str, key: str, standing: str, place: Any) -> int:
    """A field for a word of the vocabulary; of a wrong one says so under the field, and goes on with the standing."""
    vocabulary = look.opened.subject.task.vocabulary
    text = widgets.text(label, key, standing, 200, place)
    try:
        return vocabulary.id(text or standing)
    except ValueError as error:
        place.error(plain(str(error)))
        return vocabulary.id(standing)


def _layer(look: Look, every: bool, place: Any) -> int | None:
    return _number("Layer", range(look.opened.subject.n_layers), "edit_layer", chosen_head(look)[0], every, place)


def _head(look: Look, every: bool, place: Any) -> int | None:
    heads = range(look.opened.run.config.model.n_heads)
    return _number("Head", heads, "edit_head", chosen_head(look)[1], every, place)


def _number(label: str, there: range, key: str, default: int | None, every: bool, place: Any) -> int | None:
    """A field for a number or, where that makes sense, every one (a select box: an emptied field is not in the URL)."""
    options: list[Any] = [*([EVERY] if every else []), *there]
    chosen = choose(label, options, key, EVERY if default is None else default, str, place)
    return None if chosen == EVERY else int(chosen)


def _point(there: list[str], default: str, place: Any) -> str:
    return choose("Layer and point", there, "edit_point", default, interventions.point_in_words, place)


def _position(look: Look, default: int | None, place: Any) -> int | None:
    n_pos = len(projection.sequence(look.seen, 0))
    return _number("Position", range(n_pos), "edit_position", default, True, place)
