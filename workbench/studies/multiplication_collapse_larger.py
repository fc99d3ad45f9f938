"""Entropy of each layer, and over training, where a plain model learns nothing (Seq-VCR, Figures 2 and 4)."""

from __future__ import annotations

import plotly.graph_objects as go

from workbench.studies import multiplication_larger
from workbench.studies.contrasts import Higher
from workbench.studies.figures import by_dim, over_training
from workbench.studies.measures import AtCheckpoints, Inspect, Together
from workbench.studies.multiplication_larger import LAYERS
from workbench.studies.multiplication_methods import BOTH, SEQ_VCR, VANILLA
from workbench.studies.study import Groups, Source, Study

ENTROPY = "entropy"
BLOCK = LAYERS // 2 - 1
MIDDLE = {"layer": f"blocks.{BLOCK}.hook_resid_post"}  # of the small scale's layers


def draw(groups: Groups) -> go.Figure:
    """Matrix entropy by layer."""
    return by_dim(groups, ENTROPY, "Multiplication, larger: matrix entropy by layer", "nats")


def draw_training(groups: Groups) -> go.Figure:
    """Matrix entropy after the middle layer, at every checkpoint."""
    title = f"Multiplication, larger: matrix entropy after block {BLOCK}, over training"
    return over_training(groups, f"{ENTROPY} over training", title, at=MIDDLE)


STUDY = Study(
    question="Where a plain model is never right, does Seq-VCR keep the middle layer's entropy above it?",
    source=Source("Seq-VCR", "Figures 2 and 4"),
    runs=multiplication_larger.STUDY.runs,
    runs_of="multiplication-larger",
    measure=Together((Inspect((ENTROPY,), n=256), AtCheckpoints((ENTROPY,), n=64))),
    contrasts=(
        Higher(ENTROPY, SEQ_VCR, VANILLA, at=MIDDLE),
        Higher(ENTROPY, BOTH, VANILLA, at=MIDDLE),
    ),
    draw=(draw, draw_training),
    seeds=multiplication_larger.STUDY.seeds,
    because=multiplication_larger.STUDY.because,
    tune={"learning_rate": [1e-3]},
)
