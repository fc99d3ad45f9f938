"""One ChaCAL layer against layers of standard attention on state tracking: parity, and the word problem of S5."""

from __future__ import annotations

from typing import Any

from workbench.studies.contrasts import Higher
from workbench.studies.figures import over_training
from workbench.studies.measures import Logged, OverTraining, Together
from workbench.studies.study import SMALL, Figure, Groups, Source, Study

ACCURACY = "accuracy"
LAYERS = (1, 2)


def chacal(task: str) -> str:
    """The name of the group with one ChaCAL layer."""
    return f"{task}-chacal"


def standard(task: str, layers: int) -> str:
    """The name of the group with so many layers of standard attention."""
    return f"{task}-standard, n_layers {layers}"


def variants(task: str) -> list[dict[str, Any]]:
    """One ChaCAL layer, and one and two standard layers, from the presets of a task."""
    return [
        {"name": chacal(task), "preset": f"{task}-chacal"},
        {"name": f"{task}-standard", "preset": f"{task}-standard", "grid": {"model.n_layers": list(LAYERS)}},
    ]


def draw(groups: Groups) -> Figure:
    """Accuracy over training, from the least to the most seed."""
    return over_training(groups, f"{ACCURACY} over training", "State tracking: accuracy over training")


STUDY = Study(
    question="Does one ChaCAL layer track the states of S5 and parity where one and two standard layers do worse?",
    source=Source("(How) Do Language Models Track State?", "the tasks, S5 and parity; the comparison is our own"),
    runs={SMALL: {"variants": [*variants("parity"), *variants("s5")]}},
    measure=Together((Logged((ACCURACY, "test_loss")), OverTraining(ACCURACY))),
    contrasts=tuple(
        Higher(ACCURACY, chacal(task), standard(task, layers)) for task in ("parity", "s5") for layers in LAYERS
    ),
    draw=draw,
    seeds={SMALL: 3},
    tune={"learning_rate": [1e-3]},
    note="Standard attention and ChaCAL differ in nothing but the layer; neither was tuned for these tasks.",
)
