"""The fields of an edit, which are in the URL: each kind of edit has its own, and all start at what is suggested.

Their keys are the names of the edit's own fields (`workbench.interventions`) behind `edit_`: `edit_kind` (a key of
`KINDS`), `edit_layer` and `edit_head` (a number or `every`), `edit_query`, `edit_key` and `edit_position` (a position
or `every`), `edit_to` (a position), `edit_other_position` (a position, or None for the same), `edit_point` (a hook
name), `edit_by`, `edit_other` (text), `edit_first` and `edit_second` (words), `edit_basis`. A callback may set them
before the panel is made: `fill` for a suggested edit, and for an edge of attention that is clicked or dragged to
another key. Another input starts them anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import streamlit as st

from workbench import interventions
from workbench.app.config_in_words import plain
from workbench.app.fields import widgets
from workbench.app.fields.heads import chosen_head
from workbench.app.fields.values import belongs_to_run, put, start_anew
from workbench.app.fields.widgets import choose
from workbench.app.state import Look
from workbench.instruments.residual import projection
from workbench.interventions import CutEdge, Edit, Exchange, Head, MoveEdge, Patch, RemoveHead, RemoveWrite
from workbench.interventions.edits import INSTEAD
from workbench.mechanisms import suggestions
from workbench.models.facts import why_watched

EVERY = "every"
OF_AN_EDIT = belongs_to_run(
    *("edit_layer", "edit_head", "edit_by", "edit_query", "edit_key", "edit_to", "edit_point", "edit_position"),
    *("edit_other", "edit_other_position", "edit_first", "edit_second", "edit_basis", "edit_start"),
)
belongs_to_run("edit_kind")


def choose_edit(look: Look) -> tuple[Edit, Head]:
    """Fields for an edit: the edit, and the head that it is made in, or else the page's head."""
    start_anew(OF_AN_EDIT, (str(look.opened.run.path), look.key[-1]), "edit_input")
    reasons = {kind: refused(look, one.made) for kind, one in KINDS.items()}
    kinds = [kind for kind, reason in reasons.items() if reason is None]
    for reason in dict.fromkeys(filter(None, reasons.values())):
        st.caption(plain(f"Not every edit is offered: {reason}."))
    kind = choose("Edit", kinds, "edit_kind", kinds[0], lambda kind: KINDS[kind].words, by="row")
    start_anew([key for key in OF_AN_EDIT if key not in ("edit_layer", "edit_head")], kind, "edit_kind")
    return KINDS[kind].choose(look)


def refused(look: Look, made: type[Any]) -> str | None:
    """Why no edit of this class reaches the output of the model; None where it does."""
    points = next(one.points for one in KINDS.values() if one.made is made)
    watched = [name for name in look.opened.subject.watched_only if name.endswith(points)]
    return why_watched(watched[0]) if watched else None


def fill(look: Look, edit: Edit) -> None:
    """Set the fields to an edit."""
    kind = next(name for name, one in KINDS.items() if isinstance(edit, one.made))
    values = {field.name: getattr(edit, field.name) for field in fields(edit)}  # type: ignore[arg-type]
    for name in ("first", "second"):
        if name in values:
            values[name] = look.opened.subject.task.vocabulary.words[values[name]]
    if isinstance(edit, Patch) and edit == _default(look, Patch):
        values["other"] = ""  # the empty field stands for it, and so the URL need not have it
    put("edit_kind", kind)
    st.session_state["edit_kind_before"] = kind  # so that the new kind does not start its fields anew
    for name, value in values.items():
        every = EVERY if name in ("layer", "head", "query", "key", "position") else None
        put(f"edit_{name}", every if value is None else value)


def move(look: Look, edit: Edit, position: int | None) -> None:
    """For a click on a token: make the edit there; a cut goes to the edge that the token reads most, a move to it."""
    if position is None:
        return
    if isinstance(edit, MoveEdge):
        put("edit_to", min(position, edit.query))
        return
    if not isinstance(edit, CutEdge):
        put("edit_position", position)
        return
    edge = suggestions.strongest_edge(look.seen, edit.layer or 0, edit.head or 0, position)
    for name, at in zip(("query", "key"), edge or (position, position), strict=True):
        put(f"edit_{name}", at)


def suggested(look: Look, head: Head) -> dict[str, Edit]:
    """One-click edits, for a head: in words -> the edit."""
    every = _suggestions((*look.key, head), look, head)
    return {words: edit for words, edit in every.items() if refused(look, type(edit)) is None}


@st.cache_data(show_spinner=False, max_entries=200)
def _suggestions(key: tuple[object, ...], _look: Look, _head: Head) -> dict[str, Edit]:
    return suggestions.suggestions(_look.seen, *_head)


def _default(look: Look, made: type[Any], head: Head | None = None) -> Any:
    """The edit that the fields of a kind start at: one that is suggested, or else one at the first answer.

    Args:
        look: the run and the input.
        made: the class of the edit.
        head: the head that the edit is made in; by default the page's.
    """
    head = head or chosen_head(look)
    first = next((edit for edit in suggested(look, head).values() if isinstance(edit, made)), None)
    if first is not None:
        return first
    scored = look.batch.loss_mask[0].nonzero()[:, 0].tolist()
    at = scored[0] if scored else 0
    if made is CutEdge:
        return CutEdge(at, None, *head)
    point = "blocks.0.hook_resid_mid"
    if made is Patch:
        return Patch(point, _another_input(look.key, look), at)
    token = int(look.batch.tokens[0, at])
    return Exchange(point, token, (token + 1) % len(look.opened.subject.encoder), at)


@st.cache_data(show_spinner=False, max_entries=200)
def _another_input(key: tuple[object, ...], _look: Look) -> str:
    return suggestions.another(_look.seen)


def _cut_edge(look: Look) -> tuple[Edit, Head]:
    places = st.columns(4, width=760)
    layer, head, chosen = _layer_and_head(look, True, places)
    default = _default(look, CutEdge, chosen)
    positions = range(len(projection.sequence(look.seen, 0)))
    query = _number("Query: what reads", positions, "edit_query", default.query, True, places[2])
    key = _number("Key: what is read", positions, "edit_key", default.key, True, places[3])
    return CutEdge(query, key, layer, head), chosen


def _move_edge(look: Look) -> tuple[Edit, Head]:
    places = st.columns(5, width=860)
    layer, head, chosen = _layer_and_head(look, True, places)
    cut = _default(look, CutEdge, chosen)
    positions = range(len(projection.sequence(look.seen, 0)))
    query = _number("Query: what reads", positions, "edit_query", cut.query or 0, False, places[2])
    assert query is not None
    keys = range(query + 1)
    key = _number("Not this key", keys, "edit_key", min(query, cut.key or 0), False, places[3])
    assert key is not None
    other = 0 if key else min(1, query)
    to = _number("but this one", keys, "edit_to", other, False, places[4])
    assert to is not None
    return MoveEdge(query, key, to, layer, head), chosen


def _remove_head(look: Look) -> tuple[Edit, Head]:
    places = st.columns(4, width=760)
    chosen = _layer_and_head(look, False, places)[2]
    default = _default(look, RemoveHead, chosen)
    by = choose("What it writes instead", list(INSTEAD), "edit_by", default.by, INSTEAD.__getitem__, places[2])
    return RemoveHead(*chosen, by, _position(look, default.position, places[3])), chosen  # type: ignore[arg-type]


def _remove_write(look: Look) -> tuple[Edit, Head]:
    left, right = st.columns(2, width=560)
    default = _default(look, RemoveWrite)
    point = _point(interventions.writes(look.opened.subject), default.point, left)
    return RemoveWrite(point, _position(look, default.position, right)), chosen_head(look)


def _patch(look: Look) -> tuple[Edit, Head]:
    places = st.columns([2.2, 1.3, 1.6, 4])
    default = _default(look, Patch)
    point = _point(interventions.points(look.opened.subject), default.point, places[0])
    position = _position(look, default.position, places[1])
    source = widgets.number("… from position", 0, None, "edit_other_position", None, places[2], placeholder="same")
    text = widgets.text("Of this input", "edit_other", default.other[:200], 20_000, places[3])
    return Patch(point, text or default.other, position, source), chosen_head(look)


def _exchange(look: Look) -> tuple[Edit, Head]:
    words = look.opened.subject.task.vocabulary.words
    places = st.columns([1.2, 1.2, 2.2, 1.6, 1.6])
    default = _default(look, Exchange)
    first = _token(look, "Token", "edit_first", words[default.first], places[0])
    second = _token(look, "and token", "edit_second", words[default.second], places[1])
    point = _point(interventions.points(look.opened.subject), default.point, places[2])
    position = _position(look, default.position, places[3])
    basis = choose("Basis", list(projection.BASES), "edit_basis", default.basis, str, places[4])
    return Exchange(point, first, second, position, basis), chosen_head(look)


@dataclass(frozen=True)
class Kind:
    """A kind of edit.

    Attributes:
        words: its name in the menu.
        made: the class of the edit.
        points: how the names of the hook points end at which it is made.
        choose: shows its fields, and returns the chosen edit and head.
    """

    words: str
    made: type[Any]
    points: tuple[str, ...]
    choose: Callable[[Look], tuple[Edit, Head]]


WRITES, RESIDUALS = ("hook_attn_out", "hook_mlp_out"), ("hook_resid_pre", "hook_resid_mid", "hook_resid_post")
KINDS: dict[str, Kind] = {
    "cut": Kind("cut an edge", CutEdge, ("hook_pattern",), _cut_edge),
    "move": Kind("move an edge", MoveEdge, ("hook_pattern",), _move_edge),
    "head": Kind("remove a head", RemoveHead, ("hook_z",), _remove_head),
    "write": Kind("remove an attention or MLP output", RemoveWrite, WRITES, _remove_write),
    "patch": Kind("patch from another input", Patch, RESIDUALS, _patch),
    "exchange": Kind("swap two tokens in the residual", Exchange, RESIDUALS, _exchange),
}


def _layer_and_head(look: Look, every: bool, places: Sequence[Any]) -> tuple[int | None, int | None, Head]:
    """Fields for a layer and a head, None for every one; and that head, or the page's where there is no single one."""
    layers, heads = range(look.opened.subject.n_layers), range(look.opened.run.config.model.n_heads)
    default = chosen_head(look)
    layer = _number("Layer", layers, "edit_layer", default[0], every, places[0])
    head = _number("Head", heads, "edit_head", default[1], every, places[1])
    return layer, head, default if layer is None or head is None else (layer, head)


def _token(look: Look, label: str, key: str, default: str, place: Any) -> int:
    """A field for a word of the vocabulary; an unknown word gives a message under the field and the default."""
    vocabulary = look.opened.subject.task.vocabulary
    text = widgets.text(label, key, default, 200, place)
    try:
        return vocabulary.id(text or default)
    except ValueError as error:
        place.error(plain(str(error)))
        return vocabulary.id(default)


def _number(label: str, options: range, key: str, default: int | None, every: bool, place: Any) -> int | None:
    """A field for a number or, if `every`, for all of them (a select box: an emptied field is not in the URL)."""
    words: list[Any] = [*([EVERY] if every else []), *options]
    chosen = choose(label, words, key, EVERY if default is None else default, str, place)
    return None if chosen == EVERY else int(chosen)


def _point(points: list[str], default: str, place: Any) -> str:
    return choose("Layer and point", points, "edit_point", default, interventions.point_in_words, place)


def _position(look: Look, default: int | None, place: Any) -> int | None:
    n_pos = len(projection.sequence(look.seen, 0))
    return _number("Position", range(n_pos), "edit_position", default, True, place)
