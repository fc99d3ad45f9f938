"""Circuits: which parts of a model carry the answer, on pairs of questions whose difference is known.

    pairs = run.task().pairs(64, workbench.generator(0), kind="pointer")
    comparison = Comparison(run.hooked(), pairs)
    activation_patching(comparison, "head").mean()        # exact: layer × head, with intervals over pairs
    scores = eap_ig(comparison)                           # estimated: every edge, from a few passes
    faithfulness_curve(comparison, scores).mean()         # what circuits of the best edges keep, by size

What an attribution shows of pairs that change nothing relevant (`task.pairs(…, relevant=False)`) is its control.
"""

from __future__ import annotations

from workbench.circuits.circuit import SELECTIONS, Circuit, edges_above, greedy_edges, top_edges
from workbench.circuits.comparison import Comparison, Direction, baselines
from workbench.circuits.direct import direct_logit_attribution
from workbench.circuits.edges import METHODS, eap, eap_ig, path_patching, score_edges
from workbench.circuits.faithfulness import (
    SHARES,
    Ablation,
    answers_both,
    cmd,
    cpr,
    faithfulness,
    faithfulness_curve,
    smallest_faithful,
)
from workbench.circuits.graph import Graph
from workbench.circuits.metrics import METRICS, Metric
from workbench.circuits.nodes import SITES, Site, activation_patching, attribution_patching
from workbench.circuits.overlap import chance_overlap, overlap, overlap_of_halves, overlap_of_seeds

__all__ = [
    "METHODS",
    "METRICS",
    "SELECTIONS",
    "SHARES",
    "SITES",
    "Ablation",
    "Circuit",
    "Comparison",
    "Direction",
    "Graph",
    "Metric",
    "Site",
    "activation_patching",
    "answers_both",
    "attribution_patching",
    "baselines",
    "chance_overlap",
    "cmd",
    "cpr",
    "direct_logit_attribution",
    "eap",
    "eap_ig",
    "edges_above",
    "faithfulness",
    "faithfulness_curve",
    "greedy_edges",
    "overlap",
    "overlap_of_halves",
    "overlap_of_seeds",
    "path_patching",
    "score_edges",
    "smallest_faithful",
    "top_edges",
]
