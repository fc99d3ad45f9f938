"""A run's circuit: found beside the page on pairs of questions, with the code that finds it and a sentence on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import streamlit as st

import workbench
from workbench.app.panels import code
from workbench.app.panels.code import Symbol
from workbench.app.state import Opened
from workbench.circuits import Circuit, Comparison, answers_both, greedy_edges, overlap_of_halves
from workbench.circuits.summary import Summary, find_circuit, on_pairs, with_interval
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
    """A circuit with what speaks for it, its control, and whether the model has both answers of a pair right.

    Attributes:
        summary, both: the circuit, and the share of pairs with both answers right.
        control: the model on pairs that change nothing relevant; None for the reason `no_control`.
    """

    summary: Summary
    both: Measurement
    control: Comparison | None
    no_control: str


def measure(asked: Asked, say: Callable[[str], None] = lambda words: None) -> Found:
    """Find the circuit, with a copy of the model that no page sets hooks in; `say` is told how far it is, in words."""
    opened, draws = asked.opened, workbench.generator(SEED)
    given: dict[str, Any] = {"kind": asked.kind, "later": asked.later, "metric": asked.metric, "name": opened.name}
    say(f"{asked.n} pairs drawn")
    comparison, control, why = on_pairs(opened.run.hooked(opened.step), opened.subject.task, asked.n, draws, **given)
    found = find_circuit(comparison, control, draws, method=asked.method, shares=SHARES, progress=say)
    return Found(found, answers_both(found.comparison).mean(), control, why)


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
    control = None if found.control is None else _control_in_code(asked, found.control, task, draws, comparison)
    how: dict[str, Any] = {"method": asked.method, "shares": SHARES, "computed_by": lambda *_, **__: summary}
    return code.assign("found", find_circuit, comparison, control, draws, **how)


def _control_in_code(asked: Asked, control: Comparison, task: Symbol, draws: Symbol, comparison: Symbol) -> Symbol:
    which: dict[str, Any] = {"kind": asked.kind, "relevant": False, "computed_by": lambda *_, **__: control.pairs}
    pairs = code.assign("irrelevant", task.minimal_pairs, asked.n, draws, **which)
    return code.assign("control", comparison.of, pairs, computed_by=lambda *_: control)


def verdict(asked: Asked, found: Found, circuit: Circuit, size: int, share: float) -> str:
    """What was found at this size, in one sentence."""
    summary = found.summary
    kept, lost = (float(one.mean().select(share=share).values) for one in (summary.curve, summary.without))
    metric, n = summary.comparison.measure.name, circuit.graph.n_edges
    words = f"{len(circuit)} of {n} edges keep {_percent(kept)} of the {metric}; without them {_percent(lost)} is left"
    if circuit.names:
        largest = max(circuit.names, key=lambda name: abs(circuit.scores[name]))
        score = circuit.scores[largest]
        words += f"; largest: {largest.replace('->', ' → ')} ({score:.2g} {summary.scores.units})"
    halves = of_halves(asked, summary, size)
    words += (
        f"; circuits of two halves of the pairs share {float(halves.values):.0%} "
        f"(by chance {halves.settings['chance']:.0%})."
    )
    control = summary.largest_of_control()
    if control is not None:
        words = f"{words[:-1]}; where pairs change nothing relevant, the largest is {with_interval(control[1])}."
    both = float(found.both.values)
    return words if both > 0.5 else f"{words} Beware: the model has both answers of only {both:.0%} of the pairs right."


def nodes_verdict(found: Found) -> str:
    """Which head or MLP does most, where, and what it does on the control's pairs."""
    nodes, control = found.summary.nodes.mean(), found.summary.nodes_control
    at = np.unravel_index(int(abs(nodes.values).argmax()), nodes.values.shape)
    where = {dim: nodes.coords[dim][int(index)] for dim, index in zip(nodes.dims, at, strict=True)}
    words = f"{where['node']} does most, at position {where['position']}: {with_interval(nodes.select(**where))}"
    if control is None:
        return f"{words} {nodes.units}. No control: {found.no_control}"
    mean = control.mean()
    largest = float(abs(mean.values).max())
    place = where if where["position"] in mean.coords["position"] else None
    there = f" it does {with_interval(mean.select(**place))} there, and" if place else ""
    return f"{words} {nodes.units}; where pairs change nothing relevant{there} nothing does more than {largest:.2g}."


def _percent(share: float) -> str:
    """In whole per cent, never as -0."""
    return f"{round(100 * share)}%"


def of_halves(asked: Asked, summary: Summary, size: int) -> Measurement:
    """How far circuits of this size agree that are found on two halves of the pairs."""
    return summary.halves if size == summary.halves.settings["edges"] else _halves(asked.key, size, summary)


@st.cache_resource(show_spinner="Comparing circuits of halves of the pairs …", max_entries=200)
def _halves(key: tuple[Any, ...], size: int, _summary: Summary) -> Measurement:
    graph, draws = _summary.circuit.graph, workbench.generator(SEED)
    return overlap_of_halves(_summary.scores, graph, size, draws, splits=SPLITS, choose=greedy_edges)
