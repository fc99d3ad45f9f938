"""From a measurement to a Plotly figure: what the report, the notebooks and the explorer draw.

Backgrounds are transparent and the template is left to the caller (`figure.update_layout(template="plotly_dark")`).
"""

from __future__ import annotations

from workbench.figures.attention import attention_arcs, attention_matrix
from workbench.figures.curves import accuracy, entropy, gold_mass, hops, mechanisms
from workbench.figures.projection import projection_bars, projection_map
from workbench.figures.training import line_name, over_training

__all__ = [
    "accuracy",
    "attention_arcs",
    "attention_matrix",
    "entropy",
    "gold_mass",
    "hops",
    "line_name",
    "mechanisms",
    "over_training",
    "projection_bars",
    "projection_map",
]
