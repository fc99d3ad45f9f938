"""Entropy of each layer with and without Seq-VCR (Seq-VCR, Figures 2 and 4)."""

from __future__ import annotations

import plotly.graph_objects as go

from workbench.studies import multiplication_methods
from workbench.studies.contrasts import Higher
from workbench.studies.figures import by_dim
from workbench.studies.measures import Inspect
from workbench.studies.multiplication_methods import SEQ_VCR, VANILLA
from workbench.studies.study import Groups, Source, Study

ENTROPY = "entropy"
LAST = {"layer": "blocks.1.hook_resid_post"}  # of the small scale's two layers


def draw(groups: Groups) -> go.Figure:
    """Matrix entropy by layer."""
    return by_dim(groups, ENTROPY, "Multiplication: matrix entropy by layer", "nats")


STUDY = Study(
    question="Does Seq-VCR keep the entropy of deep layers above that of a plain model?",
    source=Source("Seq-VCR", "Figures 2 and 4"),
    runs=multiplication_methods.STUDY.runs,
    runs_of="multiplication-methods",
    measure=Inspect((ENTROPY,), n=256),
    contrasts=(Higher(ENTROPY, SEQ_VCR, VANILLA, at=LAST),),
    draw=draw,
    seeds=multiplication_methods.STUDY.seeds,
    because=multiplication_methods.STUDY.because,
)
