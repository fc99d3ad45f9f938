"""From a measurement to a Plotly figure: what the report, the notebooks and the explorer draw.

Backgrounds are transparent and the template is left to the caller (`figure.update_layout(template="plotly_dark")`).
"""

from __future__ import annotations

from collections.abc import Callable

import plotly.graph_objects as go

from workbench.figures import layers
from workbench.figures.any_measure import any_measure
from workbench.figures.attention import attention_arcs, attention_matrix
from workbench.figures.attention_graph import graph_measures, head_roles, hop_ladder, knockout
from workbench.figures.canvas import canvas, residual_maps, thumbnail
from workbench.figures.circuit import circuit, faithfulness
from workbench.figures.curves import accuracy, gold_mass, hops
from workbench.figures.dispersion import dispersion
from workbench.figures.drawing import Drawing
from workbench.figures.edited import edited
from workbench.figures.entropy import (
    by_layer,
    by_layer_and_group,
    by_layer_over_training,
    distributions_by_layer,
    entropy,
    spectrum,
)
from workbench.figures.for_paper import for_paper
from workbench.figures.head_grid import head_grid
from workbench.figures.hop_by_hop import hop_by_hop
from workbench.figures.input_differences import attention_difference, residual_difference
from workbench.figures.judged_claim import judged_claim
from workbench.figures.layers import layer_similarity
from workbench.figures.learning_curves import learning_curves
from workbench.figures.mechanisms import causal, causal_tests, mechanism_rates, mechanisms
from workbench.figures.next_token import next_token
from workbench.figures.over_training import (
    map_over_training,
    mark_step,
    over_training,
    progress_measures,
    rank_over_training,
    shade_steps,
)
from workbench.figures.paper_projection import paper_projection
from workbench.figures.patch_grid import node_scores, patch_grid, swap
from workbench.figures.paths import hop_matrices, path_arcs, path_layers, side_by_side
from workbench.figures.probes import probe_by_layer, probe_card, probe_learning, probe_map, probe_runs, probe_use
from workbench.figures.projection import components, lens_map, projection_bars, projection_map, token_trajectory
from workbench.figures.runs_and_controls import Controls, Runs
from workbench.figures.timeline import timeline
from workbench.figures.token_circuit import token_circuit
from workbench.figures.training_film import training_film
from workbench.figures.two_runs import lens_difference_by_layer, with_difference
from workbench.figures.weights import basis_cosines, basis_overlap, circuit_entry, composition_scores, singular_vectors

Draw = Callable[[Runs, Controls], list[go.Figure]]
"""From the measurements of runs, averaged over examples, and those of their controls to figures."""

FIGURES: dict[str, Draw] = {
    "accuracy": lambda runs, controls: [accuracy(runs, controls)],
    "entropy": by_layer,
    "effective_rank": by_layer,
    "anisotropy": by_layer,
    "alpha_req": by_layer,
    "curvature": by_layer,
    "spectrum": spectrum,
    "projection": layers.projection,
    "unexplained": layers.unexplained,
    "logit_lens": layers.lenses,
    "tuned_lens": layers.lenses,
    "jacobian_lens": layers.lenses,
    "lens_agreement": layers.agreement,
    "attention_graph": lambda runs, controls: [gold_mass(m) for m in runs.values()],
    "gold_mass": lambda runs, controls: [],  # its bars are those of attention_graph
    "path_mass": hop_ladder,
    "rollout": hop_ladder,
    "graph_measures": graph_measures,
    "head_roles": head_roles,
    "dispersion": dispersion,
    "basis_overlap": lambda runs, controls: [basis_overlap(runs)],
}
"""Instruments with a drawing of their own; the others are drawn as `any_measure` does."""

EXAMPLES: dict[str, Callable[[Runs], list[go.Figure]]] = {
    "entropy": lambda examples: distributions_by_layer(examples, {}),
}
"""Instruments whose distribution over examples is worth seeing: drawn from measurements that have the dim `example`."""


def draw(name: str, runs: Runs, controls: Controls, examples: Runs) -> list[go.Figure]:
    """The figures of one instrument.

    Args:
        name: the instrument.
        runs: run -> its measurement, averaged over examples.
        controls: run -> control -> the same of that control.
        examples: run -> its measurement with the dim `example`.
    """
    return FIGURES.get(name, any_measure)(runs, controls) + (EXAMPLES[name](examples) if name in EXAMPLES else [])


__all__ = [
    "EXAMPLES",
    "FIGURES",
    "Drawing",
    "accuracy",
    "any_measure",
    "attention_arcs",
    "attention_difference",
    "attention_matrix",
    "basis_cosines",
    "basis_overlap",
    "by_layer",
    "by_layer_and_group",
    "by_layer_over_training",
    "canvas",
    "causal",
    "causal_tests",
    "circuit",
    "circuit_entry",
    "components",
    "composition_scores",
    "dispersion",
    "distributions_by_layer",
    "draw",
    "edited",
    "entropy",
    "faithfulness",
    "for_paper",
    "gold_mass",
    "graph_measures",
    "head_grid",
    "head_roles",
    "hop_by_hop",
    "hop_ladder",
    "hop_matrices",
    "hops",
    "judged_claim",
    "knockout",
    "layer_similarity",
    "learning_curves",
    "lens_difference_by_layer",
    "lens_map",
    "map_over_training",
    "mark_step",
    "mechanism_rates",
    "mechanisms",
    "next_token",
    "node_scores",
    "over_training",
    "paper_projection",
    "patch_grid",
    "path_arcs",
    "path_layers",
    "probe_by_layer",
    "probe_card",
    "probe_learning",
    "probe_map",
    "probe_runs",
    "probe_use",
    "progress_measures",
    "projection_bars",
    "projection_map",
    "rank_over_training",
    "residual_difference",
    "residual_maps",
    "shade_steps",
    "side_by_side",
    "singular_vectors",
    "spectrum",
    "swap",
    "thumbnail",
    "timeline",
    "token_circuit",
    "token_trajectory",
    "training_film",
    "with_difference",
]
