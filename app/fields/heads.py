"""The head in focus and which of its matrices, which several pages share: they are in the URL."""

from __future__ import annotations

import streamlit as st

from workbench.app.fields.address import memory
from workbench.app.fields.widgets import choose
from workbench.app.state import Look
from workbench.inspection import MOST_HOPS
from workbench.instruments.attention import attention_graph

Head = tuple[int, int]


def choose_head(look: Look, label: str = "Head", key: str = "head") -> Head:
    """A field for the layer and head, which starts at the head with the most mass on this input's gold paths."""
    heads = {f"{layer}.{head}": (layer, head) for layer, head in every_head(look)}
    best = best_head(look)
    return heads[choose(label, list(heads), key, f"{best[0]}.{best[1]}", head_in_words)]


def best_head(look: Look) -> Head:
    """The head with the most mass on this input's gold paths; the first where it has none."""
    return _best_head(look.key, look)


def chosen_head(look: Look) -> Head:
    """What that field holds where it is on the page, and so in the address; else `best_head`."""
    heads = {f"{layer}.{head}": (layer, head) for layer, head in every_head(look)}
    own = memory()
    return heads.get(own.held.get("head", "") if "head" in own.shown else "") or _best_head(look.key, look)


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


def choose_matrix(*looks: Look) -> str:
    """A field for which of a head's matrices is drawn: with as many hops as each of these inputs has."""
    hops = min(map(n_hops, looks))
    names = ["pattern", *map(attention_graph.power_name, range(2, hops + 1)), "resolvent"]
    return choose("Matrix", names, "matrix", "pattern", attention_graph.matrix_in_words)
