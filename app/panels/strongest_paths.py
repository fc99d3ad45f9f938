"""By which ways a query gets what it gets from a key: the panel of the strongest paths on the input in focus."""

from __future__ import annotations

from typing import Any

import streamlit as st

from workbench import figures
from workbench.app.fields import address
from workbench.app.fields import other_run as other
from workbench.app.fields import widgets as fields
from workbench.app.fields.heads import Head
from workbench.app.fields.widgets import position_in
from workbench.app.panels.cell import default_position
from workbench.app.panels.panel import code, panel
from workbench.app.state import Look, Opened, plain
from workbench.capture import Capture
from workbench.instruments.attention import attention_graph, rollout
from workbench.instruments.attention.strongest_paths import Path, across_layers, table, within_layer

MOST = 5
LAYER, LAYERS, OTHER = "this head alone", "all layers", "all layers of the other run"


@address.fragment
def show(look: Look, place: Head, beside: Opened | None) -> None:
    """The panel, with its own fields: from where, to where, through what, how many."""
    names = attention_graph.position_names(look.seen, 0)
    with panel("Strongest paths", "paths") as p:
        first, second, third, fourth = st.columns([2, 2.8, 5, 1.7], vertical_alignment="bottom")
        query = position_in("From position", len(names), "position", default_position(look, len(names)), first)
        to = position_in("To position", len(names), "hops_to", None, second, every="furthest ancestor")
        through = choose_through(beside, third)
        most = fields.number("Paths", 1, MOST, "hops_most", 3, fourth)
        assert query is not None
        key = furthest(look.seen, query, place) if to is None else to
        if key >= query:
            st.info(f"A path leads back to an earlier position: from {query} choose one before it.")
            return
        seen = beside.see(look.batch) if through == OTHER and beside is not None else look.seen
        found, lines, title, note = find(seen, place, query, key, most, within=through == LAYER)
        if not found:
            st.info(plain(f"No path of positive weight leads from {names[query]} back to {names[key]}."))
            return
        draw = figures.path_arcs if through == LAYER else figures.path_layers
        subtitle = f"from {names[query]} back to {names[key]}; {note}"
        p.show(
            draw(found, names, title, subtitle),
            {"paths": table(found, names, seen.subject.name)},
            code(
                look,
                *([other.line(beside), "seen = other"] if seen is not look.seen and beside is not None else []),
                "names = attention_graph.position_names(seen, 0)",
                *lines,
                f"figure = figures.{draw.__name__}(paths, names, {title!r}, {subtitle!r})",
                imports=(
                    FIGURES,
                    "from workbench.instruments import attention_graph",
                    "from workbench.instruments.attention.strongest_paths import across_layers, within_layer",
                ),
            ),
            "The ways with the largest product of attention, exactly; where attention is spread out the strongest may "
            "still be a small part of the whole, so read its weight. A strong path need not be one the model uses.",
        )


FIGURES = "from workbench import figures"


def choose_through(beside: Opened | None, place: Any) -> str:
    options = [LAYER, LAYERS] + ([] if beside is None else [OTHER])
    return fields.segments("Through", options, "hops_through", LAYER, place)


def furthest(seen: Capture, query: int, place: Head) -> int:
    """The query's gold ancestor the most hops up; without one, the earlier position that it reads most."""
    gold = [(hop, key) for hop, at, key in attention_graph.gold_edges(seen, 0) if at == query and key < query]
    if gold:
        return max(gold)[1]
    layer, head = place
    row = attention_graph.resolvent(seen, layer)[0, head, query, :query]
    return int(row.argmax()) if query else 0


def find(
    seen: Capture, place: Head, query: int, key: int, most: int, *, within: bool
) -> tuple[list[Path], list[str], str, str]:
    """The paths, the lines that find them, and a title and a note for their figure."""
    model = seen.subject.name
    if not within:
        n_layers = seen.subject.n_layers
        layers = [attention_graph.resolvent(seen, layer)[0] for layer in range(n_layers)]
        found = across_layers(layers, query, key, most=most)
        whole = float(rollout.rollout(seen)[0, query, key])
        share = f"; together {sum(path.weight for path in found) / whole:.0%} of all that comes from there"
        lines = [
            f"layers = [attention_graph.resolvent(seen, layer)[0] for layer in range({n_layers})]",
            f"paths = across_layers(layers, {query}, {key}, most={most})",
        ]
        note = "half of each layer from the residual, heads alike" + (share if found else "")
        return found, lines, f"Strongest paths through all layers: {model}", note
    layer, head = place
    attention = seen.subject.attention[layer]
    gamma = attention.gamma or 1.0
    found = within_layer(attention_graph.pattern(seen, layer)[0, head], query, key, most=most, gamma=gamma)
    lines = [
        f"A = attention_graph.pattern(seen, {layer})[0, {head}]",
        f"paths = within_layer(A, {query}, {key}, most={most}, gamma={gamma})",
    ]
    note = f"the layer {attention.how_it_reads}"
    if attention.gamma is None:
        note = f"every step weighs alike here; {note}"
    return found, lines, f"Strongest paths of layer {layer}, head {head}: {model}", note


__all__ = ["show"]
