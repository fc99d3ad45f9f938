"""One ChaCAL layer against several layers of standard attention, on pointer chains (ChaCAL, Table 1, Figure 3)."""

from __future__ import annotations

from typing import Any

from workbench.studies.contrasts import Higher, Reaches, StaysBelow
from workbench.studies.figures import over_training
from workbench.studies.measures import Logged, OverTraining, Parameters, Together
from workbench.studies.study import GPU, PAPER, SMALL, Figure, Groups, Published, Source, Study

ACCURACY = "accuracy"
CHACAL = "chacal"
STEPS_ON_A_GPU = {"steps": 3000, "warmup": 1000, "precision": "bfloat16", "eval_every": 200, "save_every": 2000}


def standard(layers: int) -> str:
    """The name of the group with so many layers of standard attention."""
    return f"standard, n_layers {layers}"


def sweep(prefix: str, settings: dict[str, Any], most_layers: int) -> dict[str, Any]:
    """ChaCAL in one layer, and standard attention in 1 to `most_layers`, from the presets with this prefix."""
    layers = list(range(1, most_layers + 1))
    return {
        "settings": settings,
        "variants": [
            {"name": CHACAL, "preset": f"{prefix}chain-chacal"},
            {"name": "standard", "preset": f"{prefix}chain-standard", "grid": {"model.n_layers": layers}},
        ],
    }


def draw(groups: Groups) -> Figure:
    """Accuracy over training, from the lowest to the highest seed (Figure 3)."""
    return over_training(groups, f"{ACCURACY} over training", "Pointer chains: accuracy over training")


STUDY = Study(
    question="Does one ChaCAL layer follow chains on which standard attention of fewer layers than Theorem 1's fails?",
    source=Source("ChaCAL", "Table 1 and Figure 3"),
    runs={
        # Chains of 7 hops: by Theorem 1 standard attention needs 3 layers.
        SMALL: sweep("", {"steps": 600, "eval_every": 20, "checkpoint_count": 6}, most_layers=3),
        GPU: sweep("paper/", STEPS_ON_A_GPU, most_layers=5),
        PAPER: sweep("paper/", {}, most_layers=5),
    },
    measure=Together((Logged((ACCURACY, "test_loss")), OverTraining(ACCURACY), Parameters())),
    contrasts=(
        Reaches(ACCURACY, CHACAL, 0.99),
        StaysBelow(ACCURACY, standard(1), 0.99),
        StaysBelow(ACCURACY, standard(2), 0.99),
        Higher(ACCURACY, CHACAL, standard(1)),
        Higher(ACCURACY, CHACAL, standard(2)),
    ),
    published=(
        Published(standard(1), ACCURACY, 0.499),
        Published(standard(2), ACCURACY, 0.776),
        Published(standard(3), ACCURACY, 0.909),
        Published(standard(4), ACCURACY, 0.985),
        Published(standard(5), ACCURACY, 1.0),
        Published(CHACAL, ACCURACY, 1.0),
    ),
    note="Chains have 7 hops, and 15 at the other scales, for which Theorem 1 asks for 3 and 4 layers of standard "
    "attention. Where models with as many layers fail too, this study does not show that it is for want of depth: "
    "chain-hops asks that, with shorter chains and more steps.",
    draw=draw,
    seeds={SMALL: 5, GPU: 3, PAPER: 4},
    tune={"learning_rate": [1e-3]},
    timed=standard(1),
)
