"""The head in focus and which of its matrices, which several pages share: they are in the URL."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import streamlit as st

from workbench.app.config_in_words import capitalised
from workbench.app.fields.url import memory
from workbench.app.fields.values import belongs_to_run
from workbench.app.fields.widgets import choose
from workbench.app.state import Look, Opened
from workbench.capture import capture
from workbench.inspection import MOST_HOPS
from workbench.inspection.one_run import data_to_choose_heads_on
from workbench.instruments.attention import attention_graph
from workbench.interventions import Head, can_remove_heads, costliest, fallen_without, head_in_words
from workbench.measurement import Measurement
from workbench.report.found import kept
from workbench.tasks import Batch

belongs_to_run("head", "matrix")


SEED = 0  # of the sequences that heads are chosen on: those of a report
NUMBERS = 2**24  # in one layer's patterns of them, at most
REMOVALS, SEARCHED, FEWEST = 2**17, 32, 8  # tokens that are run to remove heads, at most; sequences: most, fewest


def choose_head(look: Look, label: str = "Head", key: str = "head", *, needed: bool = False) -> Head:
    """A field for the layer and head.

    Args:
        look: the run.
        label, key: of the field.
        needed: start at the head that answers need most (`needed_head`), not at the one that reads most edges.
    """
    heads = heads_by_name(look)
    best = needed_head(look) if needed else best_head(look)
    return heads[choose(label, list(heads), key, name_of(best), lambda name: "layer {}, head {}".format(*heads[name]))]


def best_head(look: Look) -> Head:
    """The head with the most mass on gold paths, on other sequences than any page shows; else the first one."""
    elsewhere = _elsewhere(look.opened.key, look.opened)
    return (0, 0) if elsewhere is None else elsewhere.best


def needed_head(look: Look) -> Head:
    """The head that clearly more right answers need than `best_head`, on those sequences; else that one."""
    elsewhere = _elsewhere(look.opened.key, look.opened)
    return (0, 0) if elsewhere is None else elsewhere.needed


def other_needed(look: Look) -> str:
    """Which head answers need more than the one with the most mass on gold paths; empty where that is the same."""
    if needed_head(look) == best_head(look):
        return ""
    here, there = head_in_words(*best_head(look)), head_in_words(*needed_head(look))
    return f" {capitalised(here)} has the most mass on the task's edges; answers need {there} more."


def head_scores(look: Look) -> tuple[Measurement | None, Measurement | None]:
    """Of each head (dims `layer`, `head`), over many sequences: its share of mass on gold paths, and the share of right
    answers that fall without it; None where that was not measured.
    """
    elsewhere = _elsewhere(look.opened.key, look.opened)
    return (None, None) if elsewhere is None else (elsewhere.on_edges, elsewhere.fallen)


@dataclass(frozen=True)
class Elsewhere:
    """What is known of every head from the sequences that heads are chosen on.

    Attributes:
        on_edges: the share of its mass on gold paths: dims `layer`, `head`.
        best: the one with most of it.
        fallen: the share of right answers that fall without it, in the same dims; None where heads are too many.
        needed: the one that clearly more answers need than `best`, as it was found of the run where that is kept; else
            `best`.
    """

    on_edges: Measurement
    best: Head
    fallen: Measurement | None
    needed: Head


def chosen_head(look: Look) -> Head:
    """The head that the page's field holds, if the page has this field; else `best_head`."""
    session = memory()
    name = session.held.get("head", "") if "head" in session.shown else ""
    return heads_by_name(look).get(name) or best_head(look)


@st.cache_data(show_spinner="Looking for the head that the task's edges are read by …", max_entries=64)
def _elsewhere(key: tuple[object, ...], _opened: Opened) -> Elsewhere | None:
    """Every head on the sequences that heads are chosen on, and the heads chosen; None without a graph."""
    subject = _opened.subject
    names = attention_graph.needs(subject)
    data = data_to_choose_heads_on(subject, names, SEED)
    if data is None:
        return None
    n_heads = _opened.run.config.model.n_heads
    data = data[: max(4, NUMBERS // (n_heads * data.tokens.shape[1] ** 2))]
    with _opened.lock:
        masses = attention_graph.measure(capture(_opened.hooked, subject, data, names), ("resolvent",))
        removed = _removed(_opened, data)
    scores = masses.select(matrix="resolvent").mean("example")
    best = (0, 0) if np.isnan(scores.values).all() else attention_graph.best_head(masses)
    scores = replace(scores, name="on the task's edges", units="share of the mass")
    if removed is None:
        return Elsewhere(scores, best, None, best)
    every = [(layer, head) for layer in range(subject.n_layers) for head in range(n_heads)]
    needed = every[costliest(removed, every.index(best))]
    coords = {name: scores.coords[name] for name in ("layer", "head")}
    fallen = Measurement(
        removed.name, removed.values.reshape(-1, n_heads), ("layer", "head"), coords, removed.units, removed.settings
    )
    known = kept(_opened.run) if _opened.step is None else None  # so that all pages name the head that it names
    return Elsewhere(scores, best, fallen, needed if known is None or known.needed is None else known.needed)


def _removed(opened: Opened, data: Batch) -> Measurement | None:
    """The right answers that fall without each head, in order of layers; None where that would take long."""
    heads = [(layer, h) for layer in range(opened.subject.n_layers) for h in range(opened.run.config.model.n_heads)]
    n = min(SEARCHED, REMOVALS // (len(heads) * data.tokens.shape[1]))
    if n < FEWEST or not can_remove_heads(opened.hooked):
        return None
    return fallen_without(opened.hooked, opened.subject, data[:n], heads).mean("example")


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
