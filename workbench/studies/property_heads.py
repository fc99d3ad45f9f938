"""Properties that evolve together, against heads (the later work of ChaCAL's authors, arXiv 2605.22476)."""

from __future__ import annotations

from workbench.studies.contrasts import Higher
from workbench.studies.figures import by_setting
from workbench.studies.measures import Logged
from workbench.studies.study import SMALL, Figure, Groups, Source, Study

ACCURACY, PRESET = "accuracy", "properties-chacal"
PROPERTIES, HEADS = (1, 2, 3), (1, 2, 4)


def group(properties: int, heads: int) -> str:
    """The name of a group."""
    return f"{PRESET}, properties {properties}, n_heads {heads}"


def draw(groups: Groups) -> Figure:
    """Accuracy by the number of heads, a line for each number of properties."""
    lines = {
        f"{properties} propert{'y' if properties == 1 else 'ies'}": {
            float(heads): groups[group(properties, heads)][ACCURACY] for heads in HEADS
        }
        for properties in PROPERTIES
    }
    return by_setting(lines, "One ChaCAL layer: values right, by number of heads", "heads", "values right")


STUDY = Study(
    question="Does one ChaCAL layer with fewer heads than there are properties lose track of them?",
    source=Source("Structured-sparse attention for entity tracking", "abstract"),
    runs={
        SMALL: {
            "preset": PRESET,
            "grid": {
                "task.properties": list(PROPERTIES),
                "model.n_heads": list(HEADS),
            },
        }
    },
    measure=Logged((ACCURACY,)),
    contrasts=(
        Higher(ACCURACY, group(2, 2), group(2, 1)),
        Higher(ACCURACY, group(3, 4), group(3, 1)),
        Higher(ACCURACY, group(3, 4), group(3, 2)),
    ),
    note="The abstract gives no numbers and its task "
    "is not public; this one was made to ask the same: a model is as large with one head as with four.",
    draw=draw,
    seeds={SMALL: 4},
    tune={"learning_rate": [3e-3]},
)
