"""A run's circuit: found beside the page on pairs of questions, with the code that finds it and what is said of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import streamlit as st

import workbench
from workbench.app.panels import code
from workbench.app.panels.code import Symbol
from workbench.app.state import Opened
from workbench.circuits import Comparison, greedy_edges, overlap_of_halves
from workbench.circuits.faithfulness import agreement
from workbench.circuits.summary import Summary, find_circuit, on_pairs
from workbench.judgement.words import circuits as words
from workbench.measurement import Measurement

PAIRS, SEED = (64, 128, 256, 512), 0
SHARES = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
SPLITS = 40  # halves of the pairs that circuits of another size are found on


@dataclass(frozen=True)
class Asked:
    """What a circuit is asked for.

    Attributes:
        opened: the run.
        kind, metric, method: what the pairs change, what answers are measured by, and how edges are scored.
        n: how many pairs.
        later: whether they ask for the answers behind the first that the change changes.
    """

    opened: Opened
    kind: str
    metric: str
    method: str
    n: int = PAIRS[0]
    later: bool = False

    @property
    def key(self) -> tuple[Any, ...]:
        return ("circuit", *self.opened.key, self.kind, self.metric, self.method, self.n, self.later)


@dataclass(frozen=True)
class Found:
    """A circuit with what speaks for it, and its control.

    Attributes:
        summary: the circuit.
        control: the model on pairs that change nothing relevant; None for the reason `no_control`.
    """

    summary: Summary
    control: Comparison | None
    no_control: str


def measure(asked: Asked, say: Callable[[str], None] = lambda words: None) -> Found:
    """Find the circuit, with a copy of the model that no page sets hooks in; `say` is told how far it is, in words."""
    opened, draws = asked.opened, workbench.generator(SEED)
    given: dict[str, Any] = {"kind": asked.kind, "later": asked.later, "metric": asked.metric, "name": opened.name}
    say(f"{asked.n} pairs drawn")
    comparison, control, why = on_pairs(opened.run.hooked(opened.step), opened.subject.task, asked.n, draws, **given)
    found = find_circuit(comparison, control, draws, method=asked.method, shares=SHARES, progress=say)
    return Found(found, control, why)


def in_code(asked: Asked, found: Found) -> Symbol:
    """The same with the code that finds it."""
    opened, summary = asked.opened, found.summary
    draws = code.assign("draws", workbench.generator, SEED)
    task = code.task(opened)
    which: dict[str, Any] = {"kind": asked.kind, "later": asked.later, "computed_by": lambda *_, **__: None}
    pairs = code.assign("pairs", task.minimal_pairs, asked.n, draws, **which)
    about = {"metric": asked.metric, "name": opened.name}
    made: dict[str, Any] = {"computed_by": lambda *_, **__: summary.comparison}
    comparison = code.assign("comparison", Comparison, code.hooked(opened), pairs, **about, **made)
    control = None
    if (other := found.control) is not None:
        which = {"kind": asked.kind, "relevant": False, "computed_by": lambda *_, **__: other.pairs}
        irrelevant = code.assign("irrelevant", task.minimal_pairs, asked.n, draws, **which)
        control = code.assign("control", comparison.of, irrelevant, computed_by=lambda *_: other)
    how: dict[str, Any] = {"method": asked.method, "shares": SHARES, "computed_by": lambda *_, **__: summary}
    return code.assign("found", find_circuit, comparison, control, draws, **how)


def in_words(asked: Asked, found: Found, size: int, share: float, answers: int) -> tuple[str, str]:
    """What is said of the circuit of this size, which gives so many of the whole model's answers.

    Returns whether it is faithful, in one sentence; and what is left without it, whether other pairs give the same, and
    the control.
    """
    summary, judged = found.summary, found.summary.judgement
    one = judged.sizes[judged.shares.index(share)].model_copy(update={"answers": answers})
    left = words.ends(summary.without.mean().select(share=share))
    taken = size == summary.halves.settings["edges"]
    halves = summary.halves if taken else _halves(asked.key, size, summary)  # how far circuits of two halves agree
    beside = words.of_rest(left, agreement(halves))
    if summary.control is not None:
        beside.append(words.of_largest(summary.scores.mean(), summary.control.mean()))
    return words.of_circuit(one, judged.metric, judged.n_edges), " ".join(beside)


def sizes(summary: Summary) -> dict[int, tuple[int, float]]:
    """Edges of the circuits that can be drawn -> the edges that each was grown to, and their share of all.

    A circuit has fewer edges than it was grown to, where some lie on no path. Of several with as many edges the
    smallest stands, or the one that the circuit was taken from.
    """
    n_edges, taken = summary.circuit.graph.n_edges, summary.halves.settings["edges"]
    found: dict[int, tuple[int, float]] = {}
    for share, edges in zip(SHARES, summary.curve.settings["edges"], strict=True):
        size = round(share * n_edges)
        if edges and (edges not in found or (size == taken != found[edges][0])):
            found[edges] = size, share
    return found


@st.cache_resource(show_spinner="Comparing circuits of halves of the pairs …", max_entries=200)
def _halves(key: tuple[Any, ...], size: int, _summary: Summary) -> Measurement:
    graph, draws = _summary.circuit.graph, workbench.generator(SEED)
    return overlap_of_halves(_summary.scores, graph, size, draws, splits=SPLITS, choose=greedy_edges)
