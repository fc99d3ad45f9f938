"""Gold mass: the share of a head's mixing matrix (applied to its values) that lies on the task's gold paths.

Shows: one number for each head; an inspection reads it at the head in focus (the head with the most gold mass on other
data). Does not show: what is read there, paths across layers, or that the model needs the head (see `attention_graph`,
which has the pattern's mass beside it). Control: the same score against the gold edges of other examples
(`mismatched`), and re-initialised models, each at its own best head (`untrained`).
"""

from __future__ import annotations

from dataclasses import replace

from workbench.capture import Capture
from workbench.instruments.attention import attention_graph
from workbench.instruments.attention.attention_graph import needs, why_not
from workbench.measurement import Measurement

__all__ = ["CONTROLS", "READ_AT_HEAD", "measure", "needs", "why_not"]

CONTROLS = ("mismatched", "untrained")
READ_AT_HEAD = True  # of another model its own best head counts


def measure(capture: Capture) -> Measurement:
    """Share of each query's mass on its true ancestors at any hop: dims `layer`, `head`, `example`.

    Rows of the matrix that the layer applies (for ChaCAL the resolvent) are scaled to sum to 1; averaged over query
    positions of depth 1 or more, those with a gold edge.
    """
    measured = attention_graph.measure(capture, ("resolvent",)).select(matrix="resolvent")
    return replace(measured, name="Mass on true edges")
