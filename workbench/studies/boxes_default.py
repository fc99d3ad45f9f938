"""Boxes whose operations name every object: standard attention by depth, and ChaCAL (ChaCAL, Table 2, default)."""

from __future__ import annotations

from workbench.studies.boxes_depth import ACCURACY, CHACAL, ON_A_GPU, SHORTER, standard, sweep
from workbench.studies.contrasts import Higher
from workbench.studies.figures import by_group
from workbench.studies.measures import Logged, OverTraining, Parameters, Together
from workbench.studies.study import GPU, PAPER, SMALL, Figure, Groups, Published, Source, Study

# Of four boxes and up to six operations, models of this size learn next to nothing in minutes.
FEWER = {"style": "default", "n_boxes": 3, "n_objects": 6, "min_operations": 1, "max_operations": 4}

PUBLISHED = (
    Published(standard(2), ACCURACY, 0.451),
    Published(standard(3), ACCURACY, 0.653),
    Published(standard(4), ACCURACY, 0.837),
    Published(standard(5), ACCURACY, 0.846),
    Published(CHACAL, ACCURACY, 0.706),
)


def draw(groups: Groups) -> Figure:
    """Exact match of every group."""
    return by_group(groups, ACCURACY, "Boxes, default: whole answers right", published=PUBLISHED)


STUDY = Study(
    question="On boxes whose operations name every object, does a ChaCAL layer after a standard one beat two of those?",
    source=Source("ChaCAL", "Table 2, default"),
    runs={
        SMALL: sweep("boxes-standard", "boxes-chacal", 3, {**SHORTER, "task": FEWER}),
        GPU: sweep("paper/boxes-default", "paper/boxes-default-chacal", 2, {**ON_A_GPU, "steps": 5000, "warmup": 400}),
        PAPER: sweep("paper/boxes-default", "paper/boxes-default-chacal", 5, {}),
    },
    measure=Together((Logged((ACCURACY, "test_loss")), OverTraining(ACCURACY), Parameters())),
    contrasts=(Higher(ACCURACY, CHACAL, standard(2)),),
    published=PUBLISHED,
    draw=draw,
    timed=standard(2),
    tune={"learning_rate": [1e-3]},
    seeds={SMALL: 3, GPU: 3, PAPER: 3},
)
