"""Boxes: a standard layer followed by a ChaCAL layer, against standard attention of 2 layers and more (Table 2)."""

from __future__ import annotations

from typing import Any

from workbench.studies.contrasts import Higher
from workbench.studies.figures import by_group
from workbench.studies.measures import Logged, OverTraining, Parameters, Together
from workbench.studies.study import GPU, PAPER, SMALL, Figure, Groups, Published, Source, Study

ACCURACY = "accuracy"
CHACAL = "standard-then-chacal"

# Three items, in three of six boxes: which is where cannot be guessed, nor found by leaving out the one that is known,
# as it can with two; and up to six moves make chains that few layers do not follow.
SHORTER: dict[str, Any] = {
    "task": {"n_boxes": 6, "capacity": 1, "max_operations": 6},
    "model": {"d_mlp": 128, "positions": "rotary"},
    "steps": 1600,
    "batch_size": 64,
    "learning_rate": 2e-3,
    "checkpoint_count": 6,
}


# Drawing a sequence takes a core a millisecond, and a batch of the paper's longer than learning from it.
ON_A_GPU: dict[str, Any] = {
    "batch_size": 64,
    "train_size": None,
    "precision": "bfloat16",
    "bucket_steps": 16,
    "workers": 2,
}


def standard(layers: int) -> str:
    """The name of the group with so many layers of standard attention."""
    return f"standard, n_layers {layers}"


def sweep(standard: str, chacal: str, most_layers: int, settings: dict[str, Any]) -> dict[str, Any]:
    """A standard layer followed by a ChaCAL layer, and standard attention in 2 to `most_layers`."""
    layers = {"model.n_layers": list(range(2, most_layers + 1))}
    return {
        "settings": settings,
        "variants": [{"name": CHACAL, "preset": chacal}, {"name": "standard", "preset": standard, "grid": layers}],
    }


PUBLISHED = (
    Published(standard(2), ACCURACY, 0.588),
    Published(standard(3), ACCURACY, 0.848),
    Published(standard(4), ACCURACY, 0.943),
    Published(standard(5), ACCURACY, 0.970),
    Published(CHACAL, ACCURACY, 0.991),
)


def draw(groups: Groups) -> Figure:
    """Exact match of every group."""
    return by_group(groups, ACCURACY, "Boxes, advanced: whole answers right", published=PUBLISHED)


STUDY = Study(
    question="On boxes, does a ChaCAL layer after a standard one beat two standard layers?",
    source=Source("ChaCAL", "Table 2, advanced, and Figure 4"),
    runs={
        SMALL: sweep("boxes-standard", "boxes-chacal", 3, SHORTER),
        GPU: sweep(
            "paper/boxes-advanced", "paper/boxes-advanced-chacal", 2, {**ON_A_GPU, "steps": 10_000, "warmup": 800}
        ),
        PAPER: sweep("paper/boxes-advanced", "paper/boxes-advanced-chacal", 5, {}),
    },
    measure=Together((Logged((ACCURACY, "test_loss")), OverTraining(ACCURACY), Parameters())),
    contrasts=(Higher(ACCURACY, CHACAL, standard(2)), Higher(ACCURACY, standard(3), standard(2))),
    contrasts_at={GPU: (Higher(ACCURACY, CHACAL, standard(2)),)},
    published=PUBLISHED,
    note="The second contrast checks whether depth is what limits these models at all. Where a third standard layer "
    "adds nothing to two, a layer that follows any number of hops has nothing to add either, and what is compared is "
    "how fast the two learn.",
    draw=draw,
    timed=standard(2),
    seeds={SMALL: 3, GPU: 3, PAPER: 3},
    tune={"learning_rate": [1e-3]},
)
