"""Every head as a small pattern, of which a click chooses the one in focus."""

from __future__ import annotations

import streamlit as st

from workbench import figures
from workbench.app.config_in_words import plain
from workbench.app.fields.heads import best_head, head_scores, heads_by_name, needed_head
from workbench.app.fields.values import put
from workbench.app.fields.widgets import clicked, fold
from workbench.app.panels.clicks import clickable
from workbench.app.state import Look
from workbench.interventions import Head, head_in_words

MANY = 64  # heads, more than which are folded away


def choose_head(look: Look, key: str = "head", *, needed: bool = False, first: Head | None = None) -> Head:
    """The layer and head in focus, and all heads to choose it from; nothing is shown of one alone, or without patterns.

    Args:
        look: the run and its input.
        key: of the field.
        needed: show how many right answers change without each head, and start at the one that answers need most.
        first: start at this one; by default at the one that reads most edges.
    """
    if first is None:
        first = needed_head(look) if needed else best_head(look)
    heads = heads_by_name(look)
    if len(heads) < 2 or look.opened.subject.no_pattern:
        return first
    layer, head = first
    chosen = heads[clicked(list(heads), key, f"{layer}.{head}", lambda name: head_in_words(*heads[name]))]
    if len(heads) > MANY:
        folded = fold(f"All {len(heads)} heads on this input", f"show-grid-{key}")
        if not folded.open:
            return chosen
    else:
        folded = st.container()
    scores, fallen = head_scores(look, fallen=needed)
    grid = figures.head_grid(look.seen, scores=scores, fallen=fallen, chosen=chosen)

    def choose(layer: str, head: int) -> None:
        if f"{layer}.{head}" in heads:
            put(key, f"{layer}.{head}")

    with folded:
        st.caption(f"Click a head, or ← →: {plain(grid.subtitle)}.")
        clickable(grid, f"grid-{key}", cell=choose)
    return chosen
