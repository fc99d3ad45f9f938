"""Test loss over training with and without Seq-VCR and pauses (Seq-VCR, Figure 5)."""

from __future__ import annotations

from workbench.studies import multiplication_methods
from workbench.studies.contrasts import Higher
from workbench.studies.figures import over_training
from workbench.studies.measures import Logged, OverTraining, Together
from workbench.studies.multiplication_methods import BOTH, LOSS, PAUSE, SEQ_VCR, VANILLA
from workbench.studies.study import Figure, Groups, Source, Study


def draw(groups: Groups) -> Figure:
    """Next-token loss on held-out data over training."""
    shown = (VANILLA, PAUSE, SEQ_VCR, BOTH)
    return over_training(groups, f"{LOSS} over training", "Multiplication: next-token test loss over training", shown)


STUDY = Study(
    question="Does the next-token loss fall lower with Seq-VCR, with pauses and without?",
    source=Source("Seq-VCR", "Figure 5"),
    runs=multiplication_methods.STUDY.runs,
    runs_of="multiplication-methods",
    measure=Together((Logged((LOSS,)), OverTraining(LOSS))),
    contrasts=(Higher(LOSS, VANILLA, SEQ_VCR), Higher(LOSS, VANILLA, BOTH)),
    draw=draw,
    seeds=multiplication_methods.STUDY.seeds,
    because=multiplication_methods.STUDY.because,
    tune={"learning_rate": [1e-3]},
    less_is_better=(LOSS,),
)
