"""Entropy of each layer, and over training, where a plain model learns too (Seq-VCR, Figures 2 and 4)."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

from workbench.studies import multiplication_methods
from workbench.studies.contrasts import Higher
from workbench.studies.figures import by_dim, over_training
from workbench.studies.measures import AtCheckpoints, Inspect, Together
from workbench.studies.multiplication_methods import BOTH, SEQ_VCR, VANILLA
from workbench.studies.study import Draw, Groups, Source, Study

ENTROPY = "entropy"
TRAINING = f"{ENTROPY} over training"
BLOCK = 1  # the last of the small scale's two
MEASURE = Together((Inspect((ENTROPY,), n=256), AtCheckpoints((ENTROPY,), n=64)))


def after(block: int) -> dict[str, Any]:
    """The residual stream after a block."""
    return {"layer": f"blocks.{block}.hook_resid_post"}


LAST = after(BLOCK)
ON_THE_WAY = {"step": 291, **LAST}  # the small scale's last checkpoint before the end


def drawn(what: str, block: int) -> tuple[Draw, ...]:
    """The figures of matrix entropy by layer, and after one block at every checkpoint."""

    def by_layer(groups: Groups) -> go.Figure:
        """Matrix entropy by layer."""
        return by_dim(groups, ENTROPY, f"{what}: matrix entropy by layer", "nats")

    def at_checkpoints(groups: Groups) -> go.Figure:
        """Matrix entropy after one block, at every checkpoint."""
        title = f"{what}: matrix entropy after MLP {block}, over training"
        return over_training(groups, TRAINING, title, at=after(block))

    return by_layer, at_checkpoints


STUDY = Study(
    question="Does Seq-VCR keep the last layer's entropy above that of a plain model which learns too, on the way and "
    "at the end?",
    source=Source("Seq-VCR", "Figures 2 and 4"),
    runs=multiplication_methods.STUDY.runs,
    runs_of="multiplication-methods",
    measure=MEASURE,
    contrasts=(
        Higher(TRAINING, SEQ_VCR, VANILLA, at=ON_THE_WAY),
        Higher(TRAINING, BOTH, VANILLA, at=ON_THE_WAY),
        Higher(ENTROPY, SEQ_VCR, VANILLA, at=LAST),
        Higher(ENTROPY, BOTH, VANILLA, at=LAST),
    ),
    note="At this size the plain model learns too, and then no longer collapses; the paper's is of a size that it "
    "never learns, for which see multiplication-collapse-larger. The contrasts of the end were asked first; those on "
    "the way were added when the figure over training had been seen.",
    draw=drawn("Multiplication", BLOCK),
    seeds=multiplication_methods.STUDY.seeds,
    because=multiplication_methods.STUDY.because,
    tune={"learning_rate": [1e-3]},
)
