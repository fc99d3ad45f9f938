"""Which edges of the model carry the answer: a circuit as a graph, and how much circuits of each size keep."""

from __future__ import annotations

from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from workbench import figures
from workbench.app.config_in_words import plain
from workbench.app.fields import url
from workbench.app.fields import widgets as fields
from workbench.app.fields.heads import needed_head
from workbench.app.fields.values import belongs_to_run
from workbench.app.panels import circuit_by_hand as by_hand
from workbench.app.panels import code
from workbench.app.panels.circuit import PAIRS, Asked, Found, in_code, in_words, measure, sizes
from workbench.app.panels.code import Symbol, value_of
from workbench.app.panels.measuring import awaited
from workbench.app.panels.panel import panel
from workbench.app.state import Look, current
from workbench.circuits import METHODS, METRICS, Circuit, greedy_edges
from workbench.interventions import head_in_words
from workbench.judgement.words import circuits as words
from workbench.measurement import Measurement
from workbench.util.words import capitalised

METHOD_NAMES = {"eap_ig": "EAP-IG", "eap": "EAP", "gim": "GIM", "path_patching": "path patching (exact)"}

METHODS_MISS = (
    "Path patching edits one edge after the other: exact, slow in models of many edges, and it finds heads that do "
    "the same thing (backups). EAP and EAP-IG estimate every edge from gradients, and miss both backups where answers "
    "are so sure that their probability has no gradient; by the logit difference they find them. EAP alone also misses "
    "queries of saturated attention."
)

OUTSIDE = (
    ", without which most answers change, is outside: a circuit carries the difference between the two questions of a "
    "pair, and not what both have alike."
)
belongs_to_run("pairs", "metric", "method", "edges", "later")


def fields_of(look: Look) -> Asked:
    """The fields: what the pairs change, the metric, and the method."""
    kinds = look.opened.subject.task.pair_kinds
    said, row = st.columns([6, 1], vertical_alignment="center")
    row = fields.settings(row, "Which pairs, and how edges are scored")
    kind = fields.choose(
        "Pairs of questions differ in", list(kinds), "pairs", next(iter(kinds)), place=row.container(width=190)
    )
    metric = fields.choose(
        "Answers are measured by",
        list(METRICS),
        "metric",
        next(iter(METRICS)),
        lambda name: capitalised(METRICS[name].name),
        row.container(width=230),
    )
    n = fields.choose("Pairs", list(map(str, PAIRS)), "n_pairs", str(PAIRS[0]), place=row.container(width=90))
    assert set(METHOD_NAMES) == set(METHODS)
    method = fields.choose(
        "Edges are scored by",
        list(METHOD_NAMES),
        "method",
        "eap_ig",
        lambda name: capitalised(METHOD_NAMES[name]),
        row.container(width=160),
    )
    later = fields.toggle(
        "Later answers",
        "later",
        row.container(width=150),
        help="Ask for the answers behind the first that the change changes. The answers so far, which are input too, "
        "then differ as well, so that what reads them matters.",
    )
    later_too = "; the answers behind the first that it changes" if later else ""
    row.caption(METHODS_MISS)
    said.caption(
        f"{n} pairs of held-out questions: {plain(kinds[kind])}{later_too}. Edges are scored by {METHOD_NAMES[method]}."
    )
    return Asked(look.opened, kind, metric, method, int(n), later)


@url.fragment
def drawn(look: Look, asked: Asked, found: Found) -> None:
    """The circuit of the size that is chosen, with what is changed by hand; what circuits of all sizes keep; tables."""
    summary, known = found.summary, sizes(found.summary)
    default = next(edges for edges, (size, _) in known.items() if size == summary.halves.settings["edges"])
    label, options = "Edges in the circuit, best scores first", list(map(str, known))
    with panel("The circuit", "circuit") as p:
        said = st.empty()
        with st.container(width=620):
            edges = fields.choose(label, options, "edges", str(default), lambda n: f"{n} edges", by="slider")
        symbol, (size, share) = in_code(asked, found), known[int(edges)]
        scores = symbol.scores.mean()
        chosen = code.call(code.assign("chosen", greedy_edges, scores, symbol.circuit.graph, size).pruned)
        as_found: Circuit = value_of(chosen)
        same = by_hand.measured(asked, found, as_found, []).same
        judged, beside = in_words(asked, found, size, share, same)
        layer, head = needed_head(look)
        if not look.opened.subject.no_pattern and f"a{layer}.h{head}" not in as_found.nodes:
            outside = f"{capitalised(head_in_words(layer, head))}{OUTSIDE}"
            said.markdown(f"**{plain(judged)}**  \n{plain(outside)}")
        else:
            said.markdown(f"**{plain(judged)}**")
        with st.container(horizontal=True, key="columns"):
            left, right = st.container(key="columns-drawing"), st.container(key="columns-inspector")
        place, line, field, caption = (left.container() for _ in range(4))
        caption.markdown(plain(beside))
        changed = by_hand.choose(asked, as_found, size, field)
        given: dict[str, Any] = {"changed": changed} if changed else {}
        chosen = code.call(chosen.changed, changed) if changed else chosen
        figure = code.call(figures.circuit, chosen, scores, **given)
        p.show(
            figure, {"scores": scores}, GRAPH_SAYS, place=place, under=caption, name=partial(by_hand.toggle, as_found)
        )
        by_hand.show(asked, found, as_found, changed, line)
        curve = code.call(figures.faithfulness, symbol.curve, symbol.without, share)
        numbers = {"faithfulness": summary.curve.mean(), "without": summary.without.mean()}
        p.part("Faithfulness", "curve").show(curve, numbers, CURVE_SAYS, place=right)
    by_hand.table(asked, found, as_found, changed)
    table(value_of(scores), value_of(chosen), summary.control)
    by_position(found, symbol)


def by_position(found: Found, symbol: Symbol) -> None:
    """What every head and MLP does at every position, beside its control."""
    control = symbol.nodes_control.mean() if found.control is not None else None
    nodes = symbol.nodes.mean()
    numbers = {"nodes": nodes} | ({} if control is None else {"nodes_control": control})
    with panel("Heads and MLPs by position", "circuit-nodes", folded=True) as p:
        if not p.open:
            return
        drawn = code.call(figures.node_scores, nodes, control)
        said = words.of_nodes(value_of(nodes), value_of(control), found.no_control)
        p.show(drawn, numbers, NODES_SAY, verdict=said)


GRAPH_SAYS = (
    "Edges lead up from who writes to the residual to who reads it, a head as query, key or value; the score is how "
    "much the metric changes when an edge carries what the pair's other question wrote. Point at a node to see its "
    "edges alone. A click on an edge cuts it, or takes it in; by keyboard, the arrow keys walk from the largest score "
    "to smaller ones, and Enter is a click. A part that writes the "
    "same for both questions of a pair needs no edge, however much answers need it; a small circuit is no explanation "
    "by itself."
)
CURVE_SAYS = (
    "Edges are scored on half of the pairs and tested on the other half. All edges that are left out carry what the "
    "other question wrote; those that lie on no path from input to logits are left out too."
)

NODES_SAY = (
    "How much the metric changes when one head or MLP writes at one position what it wrote for the other question. "
    "EAP-IG and EAP go with attribution patching, an estimate from gradients; path patching with activation patching, "
    "which is exact. Parts that stand in for each other show little. Positions are counted from the start, so where "
    "questions differ in length one column holds different places of them."
)


def table(scores: Measurement, circuit: Circuit, control: Measurement | None) -> None:
    """Every edge with its score and what it scores in the control, the largest first."""
    box = fields.fold(f"Every edge and its score ({len(scores.values)})", "show-circuit-edges")
    if not box.open:
        return
    frame = scores.frame().drop(columns="n").rename(columns={"value": f"score, {scores.units}"})
    if control is not None:
        beside = control.mean().frame()
        for column, name in (("value", "control"), ("low", "low of control"), ("high", "high of control")):
            frame[name] = beside[column]
    frame.insert(1, "in the circuit", frame["edge"].isin(circuit.names))
    order = scores.frame()["value"].abs().sort_values(ascending=False).index
    with box:
        st.dataframe(pd.DataFrame(frame.loc[order]), hide_index=True, width="stretch", height=360)


look = current()
task = look.opened.subject.task
if task.pair_kinds:
    asked = fields_of(look)
    found: Found | None = awaited(
        asked.key, lambda job: measure(asked, job.say), "which edges carry the answer", "No circuit can be found here"
    )
    if found is not None:
        drawn(look, asked, found)
else:
    st.info(f"{plain(capitalised(task.name))} has no pairs of questions that differ in one thing: no circuit.")
