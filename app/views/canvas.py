"""The input with its truth above, one head's attention below it, and the residual at every layer."""

from __future__ import annotations

import streamlit as st

from workbench import figures
from workbench.app.fields import address
from workbench.app.fields import widgets as fields
from workbench.app.fields.heads import choose_head, choose_matrix
from workbench.app.fields.widgets import first_drawn, position_in
from workbench.app.panels import cell as cells
from workbench.app.panels.edit import from_click, try_an_edit
from workbench.app.panels.panel import code, panel
from workbench.app.state import Look, current
from workbench.instruments.attention import attention_graph
from workbench.instruments.residual import projection


@address.fragment
def canvas(look: Look) -> None:
    with panel("Canvas", "canvas") as p:
        seen = look.seen
        n_pos = len(projection.sequence(seen, 0))
        first, second, third, fourth, fifth = st.columns([3, 3.4, 3.2, 2.4, 3], vertical_alignment="bottom")
        with first:
            layer, head = choose_head(look)
        with second:
            which = choose_matrix(look)
        basis = fields.segments("Basis of the cells", projection.BASES, "basis", "decoder", third)
        threshold = fields.slide("Edges from", 0.01, 0.5, "threshold", 0.05, 0.01, fourth)
        with fifth:
            query = choose_focus(look)
        start = first_drawn(n_pos)
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
            "Hover a token to see what it reads and rests on; click a cell or a token, or move with the arrow keys; a "
            "click on an edge cuts it, in the panel below. A cell holds the token whose vector is largest in the "
            "residual there (decoder: after the final norm, as the model reads its last one), underlined in green "
            "where it is the right answer. Where a head looks does not show what it reads there, nor that it matters; "
            "a large token need not be used. Answers are given the true tokens before them.",
            place=picture,
            cell=cells.move,
            token=focus_on,
            edge=lambda query, key: from_click(layer, head, query, key),
        )
    cells.tokens(look, point, position)
    try_an_edit(look)


def choose_focus(look: Look) -> int | None:
    """A field for the token whose edges alone are drawn."""
    return position_in("Edges read by position", len(projection.sequence(look.seen, 0)), "focus", None)


def focus_on(position: int | None) -> None:
    """For a click on a token: its edges alone, and all of them on a second click."""
    fields.put("focus", None if st.session_state.get("focus") == position else position)


canvas(current())
