"""The panel "Strongest paths": the routes through attention by which a query reads a key on the input in focus."""

from __future__ import annotations

import streamlit as st

from workbench import figures
from workbench.app.config_in_words import plain
from workbench.app.fields import other_run, url
from workbench.app.fields import widgets as fields
from workbench.app.fields.values import belongs_to_run
from workbench.app.fields.widgets import position_in
from workbench.app.panels import code
from workbench.app.panels.cell import default_position
from workbench.app.panels.code import Symbol, value_of
from workbench.app.panels.panel import panel
from workbench.app.state import Look, Opened
from workbench.capture import Capture
from workbench.instruments.attention import attention_graph, rollout
from workbench.instruments.attention.strongest_paths import Path, across_layers, table, within_layer
from workbench.instruments.residual import projection
from workbench.interventions import Head
from workbench.judgement.words.figures import strongest_path
from workbench.measurement.numbers import percent

MOST = 5
LAYER, LAYERS, OTHER = "this head alone", "all layers", "all layers of the other run"
SAYS = (
    "The paths with the largest product of attention weights, computed exactly. Where attention is spread out, even "
    "the strongest path may be a small part of the whole, so read its weight. A strong path need not be one the model "
    "uses."
)
belongs_to_run("hops_to")


@url.fragment
def show(look: Look, head: Head, beside: Opened | None) -> None:
    """The panel and its fields: from where, to where, through which layers, how many paths.

    Args:
        look: the run and the input.
        head: the layer and head in focus.
        beside: the other run, if there is one.
    """
    words = projection.position_names(look.seen, 0)
    with panel("Strongest paths", "paths", folded=True) as p:
        if not p.open:
            return
        first, second, third, fourth = st.columns([2, 2.8, 5, 1.7], vertical_alignment="bottom")
        query = position_in("From position", len(words), "position", default_position(look, len(words)), first)
        to = position_in("To position", len(words), "hops_to", None, second, every="furthest ancestor")
        options = [LAYER, LAYERS] + ([] if beside is None else [OTHER])
        through = fields.choose("Through", options, "hops_through", LAYER, place=third, by="row")
        most = fields.number("Paths", 1, MOST, "hops_most", 3, fourth)
        assert query is not None
        key = furthest(look.seen, query, head) if to is None else to
        if key >= query:
            st.info(f"A path leads back to an earlier position: choose one before position {query}.")
            return
        seen = other_run.seen_by(beside, look) if through == OTHER and beside is not None else code.seen(look)
        within = through == LAYER
        way = within_head(seen, head, query, key, most) if within else through_layers(seen, query, key, most)
        paths, title, note = way
        if not value_of(paths):
            st.info(plain(f"No path of positive weight leads from {words[query]} back to {words[key]}."))
            return
        names = code.assign("names", projection.position_names, seen, 0)
        draw = figures.path_arcs if within else figures.path_layers
        subtitle = f"from {words[query]} back to {words[key]}; {note}"
        rows = table(value_of(paths), words, value_of(seen).subject.name)
        verdict = strongest_path(value_of(paths)[0])
        p.show(code.call(draw, paths, names, title, subtitle), {"paths": rows}, SAYS, verdict=verdict)


def furthest(seen: Capture, query: int, head: Head) -> int:
    """The query's gold ancestor the most hops up; without one, the earlier position that the query reads most."""
    gold = [(hop, key) for hop, at, key in attention_graph.gold_edges(seen, 0) if at == query and key < query]
    if gold:
        return max(gold)[1]
    row = attention_graph.resolvent(seen, head[0])[0, head[1], query, :query]
    return int(row.argmax()) if query else 0


def through_layers(seen: Symbol, query: int, key: int, most: int) -> tuple[Symbol, str, str]:
    """Paths through every layer of a model, as attention rollout counts them.

    Returns the paths, the title of their figure, and how their weights are counted.
    """
    capture: Capture = value_of(seen)
    each = [code.call(attention_graph.resolvent, seen, layer)[0] for layer in range(capture.subject.n_layers)]
    paths = code.assign("paths", across_layers, each, query, key, most=most)
    found: list[Path] = value_of(paths)
    note = "half of each layer from the residual, heads alike"
    if found:
        whole = float(rollout.rollout(capture)[0, query, key])
        note += f"; together {percent(sum(path.weight for path in found) / whole)} of all that comes from there"
    return paths, f"Strongest paths through all layers: {capture.subject.name}", note


def within_head(seen: Symbol, place: Head, query: int, key: int, most: int) -> tuple[Symbol, str, str]:
    """The same of the paths of several steps within one head of one layer."""
    (layer, head), capture = place, value_of(seen)
    attention = capture.subject.attention[layer].of_head(head)
    pattern = code.named("A", code.call(attention_graph.pattern, seen, layer)[0, head])
    gamma = attention.gamma or 1.0
    paths = code.assign("paths", within_layer, pattern, query, key, most=most, gamma=gamma)
    if attention.gamma is not None:
        note = f"each further step weighs γ = {gamma:g}"
    elif attention.takes_one_step:
        note = "the layer itself takes one step only"
    else:
        note = "all steps weigh alike here; the layer's own attention variant weighs paths in its own way"
    return paths, f"Strongest paths of layer {layer}, head {head}: {capture.subject.name}", note
