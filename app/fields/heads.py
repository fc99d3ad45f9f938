"""The head in focus and which of its matrices, which several pages share: they are in the URL."""

from __future__ import annotations

import streamlit as st

from workbench.app.fields.url import memory
from workbench.app.fields.values import belongs_to_run
from workbench.app.fields.widgets import choose
from workbench.app.state import Look
from workbench.inspection import MOST_HOPS
from workbench.instruments.attention import attention_graph
from workbench.interventions import Head

belongs_to_run("head", "matrix")


def choose_head(look: Look, label: str = "Head", key: str = "head") -> Head:
    """A field for the layer and head, which starts at the head with the most mass on this input's gold paths."""
    heads = heads_by_name(look)
    best = best_head(look)
    return heads[choose(label, list(heads), key, name_of(best), lambda name: "layer {}, head {}".format(*heads[name]))]


def best_head(look: Look) -> Head:
    """The head with the most mass on this input's gold paths; the first head if the input has no gold paths."""
    return _best_head(look.key, look)


def chosen_head(look: Look) -> Head:
    """The head that the page's field holds, if the page has this field; else `best_head`."""
    session = memory()
    name = session.held.get("head", "") if "head" in session.shown else ""
    return heads_by_name(look).get(name) or best_head(look)


@st.cache_data(show_spinner=False, max_entries=200)
def _best_head(key: tuple[object, ...], _look: Look) -> Head:
    if not len(_look.seen.truth.edges):
        return 0, 0
    return attention_graph.best_head(attention_graph.measure(_look.seen))


def heads_by_name(look: Look) -> dict[str, Head]:
    """Every head under its name in the URL: `1.0` is layer 1, head 0."""
    n_layers, n_heads = look.opened.subject.n_layers, look.opened.run.config.model.n_heads
    return {name_of((layer, head)): (layer, head) for layer in range(n_layers) for head in range(n_heads)}


def name_of(head: Head) -> str:
    return f"{head[0]}.{head[1]}"


def n_hops(look: Look) -> int:
    return max(1, min(look.seen.truth.n_hops, MOST_HOPS))


def choose_matrix(*looks: Look) -> str:
    """A field for the matrix of a head that is drawn: powers up to as many hops as all of these inputs have."""
    hops = min(map(n_hops, looks))
    names = ["pattern", *map(attention_graph.power_name, range(2, hops + 1)), "resolvent"]
    return choose("Matrix", names, "matrix", "pattern", attention_graph.matrix_in_words)
