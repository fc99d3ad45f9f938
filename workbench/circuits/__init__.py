"""Circuits: which parts of a model carry the answer, on pairs of questions whose difference is known.

    pairs = run.task().minimal_pairs(64, workbench.generator(0), kind="pointer")
    comparison = Comparison(run.hooked(), pairs)
    activation_patching(comparison, "head").mean()        # exact: layer × head, with intervals over pairs
    scores = eap_ig(comparison)                           # estimated: every edge, from a few passes
    faithfulness_curve(comparison, scores).mean()         # what circuits of the best edges keep, by size

A variable of one's own causal model is put in from another input by `interchange_accuracy`; `alignment` looks for the
subspace that it lives in, and `beside_controls` does so beside models that should not have it.

What an attribution shows of pairs that change nothing relevant (`task.minimal_pairs(…, relevant=False)`) is its
control.
"""

from __future__ import annotations

from workbench.circuits.alignment import Search, beside_controls
from workbench.circuits.circuit import Circuit, greedy_edges, top_edges
from workbench.circuits.comparison import Comparison, baselines
from workbench.circuits.direct import direct_logit_attribution
from workbench.circuits.edges import METHODS, eap, eap_ig, gim, path_patching, score_edges
from workbench.circuits.faithfulness import (
    answers_both,
    areas,
    circuit_answers,
    faithfulness,
    faithfulness_curve,
    judge_circuit,
    judge_sizes,
    smallest_faithful,
)
from workbench.circuits.graph import Graph
from workbench.circuits.hypotheses import HYPOTHESES, interchange_accuracy
from workbench.circuits.metrics import METRICS
from workbench.circuits.nodes import activation_patching, attribution_patching, node_scores
from workbench.circuits.overlap import chance_overlap, overlap, overlap_of_halves, overlap_of_seeds
from workbench.circuits.rewired import Ablation

__all__ = [
    "HYPOTHESES",
    "METHODS",
    "METRICS",
    "Ablation",
    "Circuit",
    "Comparison",
    "Graph",
    "Search",
    "activation_patching",
    "answers_both",
    "areas",
    "attribution_patching",
    "baselines",
    "beside_controls",
    "chance_overlap",
    "circuit_answers",
    "direct_logit_attribution",
    "eap",
    "eap_ig",
    "faithfulness",
    "faithfulness_curve",
    "gim",
    "greedy_edges",
    "interchange_accuracy",
    "judge_circuit",
    "judge_sizes",
    "node_scores",
    "overlap",
    "overlap_of_halves",
    "overlap_of_seeds",
    "path_patching",
    "score_edges",
    "smallest_faithful",
    "top_edges",
]
