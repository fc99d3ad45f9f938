"""The head in focus and which of its matrices, which several pages share: they are in the URL."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import streamlit as st

from workbench.app.fields.url import memory
from workbench.app.fields.values import belongs_to_run
from workbench.app.fields.widgets import choose
from workbench.app.state import Look, Opened
from workbench.capture import capture
from workbench.inspection import MOST_HOPS
from workbench.inspection.baseline_models import data_to_choose_heads_on
from workbench.inspection.findings import share_of
from workbench.instruments.attention import attention_graph
from workbench.interventions import Head, can_remove_heads, costliest, fallen_without
from workbench.judgement.findings import Focus
from workbench.judgement.words.findings import another_needed, what_it_costs
from workbench.measurement import Measurement
from workbench.tasks import Batch

belongs_to_run("head", "matrix")


SEED = 0  # of the sequences that heads are chosen on: those of a report
NUMBERS = 2**24  # in one layer's patterns of them, at most
REMOVALS, SEARCHED, FEWEST = 2**17, 32, 8  # tokens that are run to remove heads, at most; sequences: most, fewest


def best_head(look: Look) -> Head:
    """The head with the most mass on gold paths, on other sequences than any page shows; else the first one."""
    reading = _reading(look.opened.key, look.opened)
    return (0, 0) if reading is None else reading[1]


def needed_head(look: Look) -> Head:
    """The head that clearly more right answers need than `best_head`, on those sequences; else that one.

    It is as it was found of the run where that is kept, so that all pages name the head that it names.
    """
    opened = look.opened
    focus = _focus(opened)
    if focus is not None and focus.needed is not None and _reading(opened.key, opened) is not None:
        return focus.needed
    without = _without(opened.key, opened)
    if without is None:
        return best_head(look)
    heads = list(heads_by_name(look).values())
    return heads[costliest(without, heads.index(best_head(look)))]


def _focus(opened: Opened) -> Focus | None:
    """What is kept of the run about the head in focus."""
    return None if opened.kept is None else opened.kept.findings.focus


def other_needed(look: Look) -> str:
    """Which head answers need more than the one with the most mass on gold paths; empty where that is the same."""
    if needed_head(look) == best_head(look):
        return ""
    return f" {another_needed(best_head(look), needed_head(look))}"


def head_scores(look: Look, *, fallen: bool) -> tuple[Measurement | None, Measurement | None]:
    """Of each head (dims `layer`, `head`), over many sequences: its share of mass on gold paths, and, if `fallen` is
    asked, the share of right answers that change without it; None where that was not measured.
    """
    reading = _reading(look.opened.key, look.opened)
    if reading is None:
        return None, None
    without, on_edges = _without(look.opened.key, look.opened) if fallen else None, reading[0]
    if without is None:
        return on_edges, None
    shape, known = on_edges.values.shape, _focus(look.opened)
    arrays: dict[str, Any] = {
        name: None if (values := getattr(without, name)) is None else values.reshape(shape).copy()
        for name in ("values", "low", "high", "n")
    }
    for head, share in known.removed if known else ():  # of more sequences, and so the same as on every other page
        for name, number in (("values", share.value), ("low", share.low), ("high", share.high), ("n", share.n)):
            if arrays[name] is not None:
                arrays[name][head] = number
    coords = {name: on_edges.coords[name] for name in ("layer", "head")}
    return on_edges, replace(without, dims=("layer", "head"), coords=coords, **arrays)


def cost_of(look: Look, head: Head) -> str | None:
    """What answers lose without a head, and how much of its attention lies on the task's edges, in a sentence."""
    on_edges, lost = head_scores(look, fallen=True)
    of_head = (None if m is None else m.select(layer=head[0], head=head[1]) for m in (on_edges, lost))
    both = [None if m is None or np.isnan(m.values) else share_of(m) for m in of_head]
    return what_it_costs(head, *both)


def chosen_head(look: Look) -> Head:
    """The head that the page's field holds, if the page has this field; else `best_head`."""
    session = memory()
    name = session.held.get("head", "") if "head" in session.shown else ""
    return heads_by_name(look).get(name) or best_head(look)


@st.cache_data(show_spinner="Looking for the head that the task's edges are read by …", max_entries=64)
def _reading(key: tuple[object, ...], _opened: Opened) -> tuple[Measurement, Head] | None:
    """The share of every head's mass on gold paths (dims `layer`, `head`), on the sequences that heads are chosen on,
    and the head with most of it; None without a graph.
    """
    data = _data(_opened)
    if data is None:
        return None
    with _opened.lock:
        seen = capture(_opened.hooked, _opened.subject, data, attention_graph.needs(_opened.subject))
        masses = attention_graph.measure(seen, ("resolvent",))
    scores = masses.select(matrix="resolvent").mean("example")
    best = (0, 0) if np.isnan(scores.values).all() else attention_graph.best_head(masses)
    return scores, best


@st.cache_data(show_spinner="Looking for the head that answers need …", max_entries=64)
def _without(key: tuple[object, ...], _opened: Opened) -> Measurement | None:
    """The share of right answers that change without each head, in order of layers; None where that would take long."""
    data, n_heads = _data(_opened), _opened.run.config.model.n_heads
    if data is None:
        return None
    heads = [(layer, head) for layer in range(_opened.subject.n_layers) for head in range(n_heads)]
    n = min(SEARCHED, REMOVALS // (len(heads) * data.tokens.shape[1]))
    if n < FEWEST or not can_remove_heads(_opened.hooked):
        return None
    with _opened.lock:
        return fallen_without(_opened.hooked, _opened.subject, data[:n], heads).mean("example")


def _data(opened: Opened) -> Batch | None:
    """The sequences that heads are chosen on; None without a graph."""
    data = data_to_choose_heads_on(opened.subject, attention_graph.needs(opened.subject), SEED)
    n_heads = opened.run.config.model.n_heads
    return None if data is None else data[: max(4, NUMBERS // (n_heads * data.tokens.shape[1] ** 2))]


def heads_by_name(look: Look) -> dict[str, Head]:
    """Every head under its name in the URL: `1.0` is layer 1, head 0."""
    n_layers, n_heads = look.opened.subject.n_layers, look.opened.run.config.model.n_heads
    return {f"{layer}.{head}": (layer, head) for layer in range(n_layers) for head in range(n_heads)}


def n_hops(look: Look) -> int:
    return max(1, min(look.seen.truth.n_hops, MOST_HOPS))


def choose_matrix(*looks: Look) -> str:
    """A field for the matrix of a head that is drawn: powers up to as many hops as all of these inputs have."""
    hops = min(map(n_hops, looks))
    names = ["pattern", *map(attention_graph.power_name, range(2, hops + 1)), "resolvent"]
    return choose("Matrix", names, "matrix", "pattern", attention_graph.matrix_in_words)
