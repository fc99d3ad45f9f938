"""The input with its truth above, one head's attention below it, and the residual at every layer."""

from __future__ import annotations

import streamlit as st

from app import cells
from app.fields import choose, position_in
from app.panel import code, panel
from app.state import Look, current
from workbench import figures
from workbench.figures.canvas import WIDEST
from workbench.inspection import MOST_HOPS
from workbench.instruments import attention_graph, projection

Head = tuple[int, int]


@st.fragment
def canvas(look: Look) -> None:
    with panel("Canvas", "canvas") as p:
        seen = look.seen
        n_pos = len(projection.sequence(seen, 0))
        first, second, third, fourth, fifth = st.columns([3, 3.4, 3.2, 2.4, 3], vertical_alignment="bottom")
        with first:
            layer, head = choose_head(look)
        with second:
            which = choose_matrix(look)
        basis = third.segmented_control(
            "Basis of the cells",
            projection.BASES,
            default="decoder",
            key="basis",
            required=True,
            bind="query-params",
        )
        threshold = fourth.slider("Edges from", 0.01, 0.5, 0.05, 0.01, key="threshold", bind="query-params")
        with fifth:
            query = choose_focus(look)
        start = 0
        if n_pos > WIDEST:
            last = n_pos - WIDEST
            start = st.slider(
                f"First position drawn: {WIDEST} of {n_pos} fit", 0, last, last, key="start", bind="query-params"
            )
        picture = st.container()
        point, position = cells.chosen(look)
        how = f"layer={layer}, head={head}, which={which!r}, basis={basis!r}, threshold={threshold}"
        how += f", start={start}, query={query}, cell=({point!r}, {position})"
        drawing = figures.canvas(
            seen,
            layer=layer,
            head=head,
            which=which,
            basis=basis,
            threshold=threshold,
            start=start,
            query=query,
            cell=(point, position),
        )
        hops = attention_graph.hop_of(which) or 1
        matrices = attention_graph.matrices(seen, 0, layer, head, n_hops=hops)
        table = projection.top_tokens(seen, top=1, points=projection.from_embedding(seen.subject))
        p.show(
            drawing,
            {"attention": matrices, "residual": table},
            code(look, f"figure = figures.canvas(seen, {how})", imports=("from workbench import figures",)),
            "Hover a token to see what it reads and rests on; click a cell, a token or an edge, or move with the arrow "
            "keys. A cell holds the token whose vector is largest in the residual there, underlined in green where it "
            "is the right answer. Where a head looks does not show what it reads there, nor that it matters; a large "
            "token need not be used. Answers are given the true tokens before them.",
            place=picture,
            cell=cells.move,
            token=focus_on,
            edge=lambda q, k: st.session_state.update(edge=(q, k)),
        )
    cells.tokens(look, point, position)


def choose_head(look: Look) -> Head:
    """A field for the layer and head, which starts at the head with the most mass on this input's gold paths."""
    heads = {f"{layer}.{head}": (layer, head) for layer, head in every_head(look)}
    best = _best_head(look.key, look)
    return heads[choose("Head", list(heads), "head", f"{best[0]}.{best[1]}", head_in_words)]


@st.cache_data(show_spinner=False, max_entries=200)
def _best_head(key: tuple[object, ...], _look: Look) -> Head:
    if not len(_look.seen.truth.edges):
        return 0, 0
    return attention_graph.best_head(attention_graph.measure(_look.seen))


def every_head(look: Look) -> list[Head]:
    n_heads = look.opened.run.config.model.n_heads
    return [(layer, head) for layer in range(look.opened.subject.n_layers) for head in range(n_heads)]


def head_in_words(name: str) -> str:
    layer, head = name.split(".")
    return f"layer {layer}, head {head}"


def n_hops(look: Look) -> int:
    return max(1, min(look.seen.truth.n_hops, MOST_HOPS))


def choose_matrix(look: Look) -> str:
    """A field for which of a head's matrices is drawn."""
    names = ["pattern", *map(attention_graph.power_name, range(2, n_hops(look) + 1)), "resolvent"]
    return choose("Matrix", names, "matrix", "pattern", attention_graph.matrix_in_words)


def choose_focus(look: Look) -> int | None:
    """A field for the token whose edges alone are drawn."""
    return position_in("Edges read by position", len(projection.sequence(look.seen, 0)), "focus", None)


def focus_on(position: int | None) -> None:
    """For a click on a token: its edges alone, and all of them on a second click."""
    again = st.session_state.get("focus") == position
    st.session_state["focus"] = None if again else position


canvas(current())
