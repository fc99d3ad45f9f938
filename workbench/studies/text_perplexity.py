"""A language model with ChaCAL in every layer beside the same with standard attention (ChaCAL, §5.3 and Table 3)."""

from __future__ import annotations

from typing import Any

from workbench.studies.contrasts import Higher
from workbench.studies.figures import over_training
from workbench.studies.measures import Logged, OverTraining, Perplexity, Together
from workbench.studies.study import PAPER, SMALL, Figure, Groups, Published, Source, Study

LOSS, PERPLEXITY = "test_loss", "perplexity"
STANDARD, CHACAL = "standard", "chacal"


def sweep(settings: dict[str, Any]) -> dict[str, Any]:
    """Both kinds of attention, trained on the same text."""
    variants = [{"name": name, "preset": f"text-{name}"} for name in (STANDARD, CHACAL)]
    return {"settings": settings, "variants": variants}


def draw(groups: Groups) -> Figure:
    """Test loss over training."""
    return over_training(groups, f"{LOSS} over training", "Shakespeare, byte by byte: test loss over training")


STUDY = Study(
    question="Does a language model with ChaCAL in every layer come within 0.1 nats of one with standard attention?",
    source=Source("ChaCAL", "Table 3"),
    runs={
        SMALL: sweep({}),
        # The paper fine-tunes GPT-2, as `finetuned-perplexity` does: a larger model on the same text, from scratch.
        PAPER: sweep({"model": {"n_layers": 6, "d_model": 384, "n_heads": 6}, "task": {"block": 256}, "steps": 5000}),
    },
    measure=Together((Logged((LOSS,)), Perplexity(), OverTraining(LOSS))),
    contrasts=(Higher(LOSS, STANDARD, CHACAL, by=-0.1),),
    published=(Published(STANDARD, PERPLEXITY, 20.15), Published(CHACAL, PERPLEXITY, 21.46)),
    note="The published perplexities are of GPT-2, fine-tuned on OpenWebText, a word piece at a time; ours are of "
    "small models trained from scratch on Shakespeare, a byte at a time. Only the order of the two can be compared. "
    "The settings in the column “paper” are those of this study's larger scale, our own.",
    draw=draw,
    seeds={SMALL: 3, PAPER: 3},
    tune={"learning_rate": [3e-4, 3e-3]},
    less_is_better=(LOSS,),
    because={"task.block": "a shorter context", "model.n_layers": "a smaller model"},
)
