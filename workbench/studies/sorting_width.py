"""Sorting beyond the training lengths, by width and by the initial size of the embedding: our own question.

The paper's sorter is 1,024 wide, in Flax, whose embeddings begin at a standard deviation of about 1 (T5's start);
here models are narrow and begin at GPT-2's 0.02. Which of the two moves length generalisation has to be known before
any word on hints or tempering.
"""

from __future__ import annotations

from workbench.studies.contrasts import Higher
from workbench.studies.figures import by_dim
from workbench.studies.measures import Inspect, Logged, Together
from workbench.studies.sorting_lengths import ACCURACY
from workbench.studies.study import DAY, Figure, Groups, Study

WIDTHS, SIZES = (64, 128, 256), (0.02, 0.3, 1.0)
MECHANISMS = ("minimum", "successor", "identity_removed")
FAR = {"length": 22}  # trained up to 10


def group(width: int, size: float) -> str:
    """The name of the group with a width and an initial size of the embedding."""
    return f"plain, d_model {width}, embedding {size}"


def draw(groups: Groups) -> Figure:
    """Whole sequences right, by length."""
    return by_dim(groups, ACCURACY, "Sorting by width and initial size of the embedding", "share of sequences right")


STUDY = Study(
    question="Do wider sorters, and those whose embedding begins larger, sort sequences longer than those trained on?",
    runs={
        DAY: {
            "settings": {
                "task": {"max_length": 10, "test_max_length": 30},
                "model": {"n_heads": 4, "unembed_bias": True, "initial_std": {"unembedding": "fan_in"}},
                "steps": 6000,
                "learning_rate": 1e-3,
                "checkpoint_count": 12,
            },
            "variants": [
                {
                    "name": "plain",
                    "preset": "sort-standard",
                    "grid": {"model.d_model": list(WIDTHS), "model.initial_std.embedding": list(SIZES)},
                }
            ],
        }
    },
    measure=Together((Inspect((ACCURACY, *MECHANISMS), n=256), Logged(("loss",)))),
    contrasts=(
        *(Higher(ACCURACY, group(128, size), group(64, size), at=FAR) for size in SIZES),
        *(Higher(ACCURACY, group(256, size), group(128, size), at=FAR) for size in SIZES),
        *(Higher(ACCURACY, group(width, 1.0), group(width, 0.02), at=FAR) for width in WIDTHS),
    ),
    draw=draw,
    seeds={DAY: 3},
    note="Every model has an unembedding with bias that begins at 1/√width; the rest begins at 0.02.",
)
