"""The head in focus and which of its matrices, which several pages share: they are in the URL."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import streamlit as st

from workbench.app.fields.url import memory
from workbench.app.fields.values import belongs_to_run
from workbench.app.fields.widgets import choose
from workbench.app.state import Look, Opened
from workbench.capture import capture
from workbench.inspection import MOST_HOPS
from workbench.inspection.one_run import data_to_choose_heads_on
from workbench.instruments.attention import attention_graph
from workbench.interventions import Head
from workbench.measurement import Measurement

belongs_to_run("head", "matrix")


SEED = 0  # of the sequences that heads are chosen on: those of a report
NUMBERS = 2**24  # in one layer's patterns of them, at most


def choose_head(look: Look, label: str = "Head", key: str = "head") -> Head:
    """A field for the layer and head, which starts at the best one."""
    heads = heads_by_name(look)
    best = best_head(look)
    return heads[choose(label, list(heads), key, name_of(best), lambda name: "layer {}, head {}".format(*heads[name]))]


def best_head(look: Look) -> Head:
    """The head with the most mass on gold paths, on other sequences than any page shows; else the first one."""
    elsewhere = _elsewhere(look.opened.key, look.opened)
    return (0, 0) if elsewhere is None else elsewhere[1]


def head_scores(look: Look) -> Measurement | None:
    """The share of each head's mass on gold paths, over many sequences: dims `layer`, `head`; None without a graph."""
    elsewhere = _elsewhere(look.opened.key, look.opened)
    return None if elsewhere is None else elsewhere[0]


def chosen_head(look: Look) -> Head:
    """The head that the page's field holds, if the page has this field; else `best_head`."""
    session = memory()
    name = session.held.get("head", "") if "head" in session.shown else ""
    return heads_by_name(look).get(name) or best_head(look)


@st.cache_data(show_spinner="Looking for the head that the task's edges are read by …", max_entries=64)
def _elsewhere(key: tuple[object, ...], _opened: Opened) -> tuple[Measurement, Head] | None:
    """Every head's score on the sequences that heads are chosen on, and the head chosen; None without a graph."""
    subject = _opened.subject
    names = attention_graph.needs(subject)
    data = data_to_choose_heads_on(subject, names, SEED)
    if data is None:
        return None
    n_heads = _opened.run.config.model.n_heads
    data = data[: max(4, NUMBERS // (n_heads * data.tokens.shape[1] ** 2))]
    with _opened.lock:
        masses = attention_graph.measure(capture(_opened.hooked, subject, data, names))
    scores = masses.select(matrix="resolvent").mean("example")
    best = (0, 0) if np.isnan(scores.values).all() else attention_graph.best_head(masses)
    return replace(scores, name="on the task's edges", units="share of the mass"), best


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
