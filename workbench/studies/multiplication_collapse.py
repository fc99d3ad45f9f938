"""Entropy of each layer, and over training, where a plain model learns too (Seq-VCR, Figures 2 and 4)."""

from __future__ import annotations

import plotly.graph_objects as go

from workbench.studies import multiplication_methods
from workbench.studies.contrasts import Higher
from workbench.studies.figures import by_dim, over_training
from workbench.studies.measures import AtCheckpoints, Inspect, Together
from workbench.studies.multiplication_methods import BOTH, SEQ_VCR, VANILLA
from workbench.studies.study import Groups, Source, Study

ENTROPY = "entropy"
LAST = {"layer": "blocks.1.hook_resid_post"}  # of the small scale's two layers
TRAINING = f"{ENTROPY} over training"
ON_THE_WAY = {"step": 291, **LAST}  # the small scale's last checkpoint before the end


def draw(groups: Groups) -> go.Figure:
    """Matrix entropy by layer."""
    return by_dim(groups, ENTROPY, "Multiplication: matrix entropy by layer", "nats")


def draw_training(groups: Groups) -> go.Figure:
    """Matrix entropy after the last layer, at every checkpoint."""
    title = "Multiplication: matrix entropy after block 1, over training"
    return over_training(groups, TRAINING, title, at=LAST)


STUDY = Study(
    question="Does Seq-VCR keep the last layer's entropy above that of a plain model which learns too, on the way and "
    "at the end?",
    source=Source("Seq-VCR", "Figures 2 and 4"),
    runs=multiplication_methods.STUDY.runs,
    runs_of="multiplication-methods",
    measure=Together((Inspect((ENTROPY,), n=256), AtCheckpoints((ENTROPY,), n=64))),
    contrasts=(
        Higher(TRAINING, SEQ_VCR, VANILLA, at=ON_THE_WAY),
        Higher(TRAINING, BOTH, VANILLA, at=ON_THE_WAY),
        Higher(ENTROPY, SEQ_VCR, VANILLA, at=LAST),
        Higher(ENTROPY, BOTH, VANILLA, at=LAST),
    ),
    note="At this size the plain model learns too, and then no longer collapses; the paper's is of a size that it "
    "never learns, for which see multiplication-collapse-larger. The contrasts of the end were asked first; those on "
    "the way were added when the figure over training had been seen.",
    draw=(draw, draw_training),
    seeds=multiplication_methods.STUDY.seeds,
    because=multiplication_methods.STUDY.because,
    tune={"learning_rate": [1e-3]},
)
