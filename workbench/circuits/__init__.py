"""Circuits: which parts of a model carry the answer, on pairs of questions whose difference is known.

    pairs = run.task().pairs(64, workbench.generator(0), kind="pointer")
    comparison = Comparison(run.hooked(), pairs)
    activation_patching(comparison, "head").mean()        # exact: layer × head, with intervals over pairs
    scores = eap_ig(comparison)                           # estimated: every edge, from a few passes

What an attribution shows of pairs that change nothing relevant (`task.pairs(…, relevant=False)`) is its control.
"""

from __future__ import annotations

from workbench.circuits.comparison import Comparison, Direction, baselines
from workbench.circuits.direct import direct_logit_attribution
from workbench.circuits.edges import METHODS, eap, eap_ig, path_patching, score_edges
from workbench.circuits.graph import Graph
from workbench.circuits.metrics import METRICS, Metric
from workbench.circuits.nodes import SITES, Site, activation_patching, attribution_patching

__all__ = [
    "METHODS",
    "METRICS",
    "SITES",
    "Comparison",
    "Direction",
    "Graph",
    "Metric",
    "Site",
    "activation_patching",
    "attribution_patching",
    "baselines",
    "direct_logit_attribution",
    "eap",
    "eap_ig",
    "path_patching",
    "score_edges",
]
