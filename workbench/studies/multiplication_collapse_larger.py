"""Entropy of each layer, and over training, where a plain model learns nothing (Seq-VCR, Figures 2 and 4)."""

from __future__ import annotations

from workbench.studies import multiplication_larger
from workbench.studies.multiplication_collapse import ENTROPY, MEASURE, after, drawn, higher
from workbench.studies.multiplication_larger import LAYERS, LAYERS_ON_A_GPU
from workbench.studies.study import GPU, PAPER, SMALL, Source, Study

# Of so many layers, and of twelve.
MIDDLE = {SMALL: after(LAYERS // 2 - 1), GPU: after(LAYERS_ON_A_GPU // 2 - 1), PAPER: after(5)}


STUDY = Study(
    question="Where a plain model is never right, does Seq-VCR keep the middle layer's entropy above it?",
    source=Source("Seq-VCR", "Figures 2 and 4"),
    runs=multiplication_larger.STUDY.runs,
    runs_of="multiplication-larger",
    measure=MEASURE,
    contrasts=higher(ENTROPY, MIDDLE[SMALL]),
    contrasts_at={scale: higher(ENTROPY, MIDDLE[scale]) for scale in (GPU, PAPER)},
    note="Entropy that is kept does not make an answer right: how often these models multiply is in "
    "multiplication-larger.",
    draw=drawn("Multiplication, larger", MIDDLE),
    seeds=multiplication_larger.STUDY.seeds,
    because=multiplication_larger.STUDY.because,
    tune={"learning_rate": [1e-3]},
)
