"""Entropy of each layer, and over training, where a plain model learns too (Seq-VCR, Figures 2 and 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.measurement.places import point_name
from workbench.studies import multiplication_methods
from workbench.studies.contrasts import Higher
from workbench.studies.figures import by_dim, over_training
from workbench.studies.measures import AtCheckpoints, Inspect, Together
from workbench.studies.multiplication_methods import BOTH, SEQ_VCR, VANILLA
from workbench.studies.study import PAPER, SMALL, Draw, Figure, Groups, Scale, Source, Study

ENTROPY = "entropy"
TRAINING = f"{ENTROPY} over training"
MEASURE = Together((Inspect((ENTROPY,), n=256), AtCheckpoints(Inspect((ENTROPY,), n=64))))


def after(block: int) -> dict[str, Any]:
    """The residual stream after a block."""
    return {"layer": f"blocks.{block}.hook_resid_post"}


LAST = {SMALL: after(1), PAPER: after(11)}
ON_THE_WAY = {"step": 291, **LAST[SMALL]}  # the small scale's last checkpoint before the end


def higher(quantity: str, at: dict[str, Any]) -> tuple[Higher, ...]:
    """Seq-VCR, without pauses and with, above a plain model."""
    return tuple(Higher(quantity, name, VANILLA, at=at) for name in (SEQ_VCR, BOTH))


def drawn(what: str, places: Mapping[Scale, dict[str, Any]]) -> tuple[Draw, ...]:
    """The figures of matrix entropy by layer, and at every checkpoint after the block that a scale is asked about."""

    def by_layer(groups: Groups) -> Figure:
        """Matrix entropy by layer."""
        return by_dim(groups, ENTROPY, f"{what}: matrix entropy by layer", "nats")

    def at_checkpoints(groups: Groups) -> Figure:
        """Matrix entropy after one block, at every checkpoint."""
        layers = next(own[TRAINING] for own in groups.values() if TRAINING in own).coords["layer"]
        at = next(places[scale] for scale in (PAPER, SMALL) if places[scale]["layer"] in layers)
        title = f"{what}: matrix entropy {point_name(at['layer'])}, over training"
        return over_training(groups, TRAINING, title, at=at)

    return by_layer, at_checkpoints


STUDY = Study(
    question="Does Seq-VCR keep the last layer's entropy above that of a plain model which learns too, on the way and "
    "at the end?",
    source=Source("Seq-VCR", "Figures 2 and 4"),
    runs=multiplication_methods.STUDY.runs,
    runs_of="multiplication-methods",
    measure=MEASURE,
    contrasts=(*higher(TRAINING, ON_THE_WAY), *higher(ENTROPY, LAST[SMALL])),
    contrasts_at={PAPER: higher(ENTROPY, LAST[PAPER])},
    note="At this size the plain model learns too, and then no longer collapses; the paper's is of a size that it "
    "never learns, for which see multiplication-collapse-larger. The contrasts of the end were asked first; those on "
    "the way were added when the figure over training had been seen.",
    draw=drawn("Multiplication", LAST),
    seeds=multiplication_methods.STUDY.seeds,
    because=multiplication_methods.STUDY.because,
    tune={"learning_rate": [1e-3]},
)
