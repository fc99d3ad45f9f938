"""Accuracy, and the steps to reach it, against γ (ChaCAL, Figure 5)."""

from __future__ import annotations

from typing import Any

from workbench.studies.contrasts import Higher, Reaches
from workbench.studies.figures import by_setting
from workbench.studies.measures import Logged, StepsTo, Together
from workbench.studies.study import PAPER, SMALL, Figure, Groups, Source, Study

GAMMAS = (0.0, 0.3, 0.5, 0.7, 0.9, 0.98, 0.995)
ACCURACY, STEPS = "accuracy", "steps to 90 %"


def group(gamma: float) -> str:
    """The name of the group with this γ."""
    return f"chacal, gamma {gamma}"


def sweep(preset: str, settings: dict[str, Any]) -> dict[str, Any]:
    """One ChaCAL layer with every γ."""
    gammas = {"model.attention.gamma": list(GAMMAS)}
    return {"settings": settings, "grid": gammas, "variants": [{"name": "chacal", "preset": preset}]}


def draw(groups: Groups) -> Figure:
    """Accuracy against γ."""
    means = {gamma: groups[group(gamma)][ACCURACY] for gamma in GAMMAS if group(gamma) in groups}
    return by_setting({"chacal": means}, "Pointer chains: accuracy after training, by γ", "γ", ACCURACY)


def draw_steps(groups: Groups) -> Figure:
    """Steps until 90 % are right, against γ: all the steps where they never are."""
    means = {gamma: groups[group(gamma)][STEPS] for gamma in GAMMAS if group(gamma) in groups}
    title = "Pointer chains: training steps until 90 % are right (all of them where they never are), by γ"
    return by_setting({"chacal": means}, title, "γ", STEPS)


STUDY = Study(
    question="Does ChaCAL need a large γ, and learn more slowly at 0.995 than at 0.9?",
    source=Source("ChaCAL", "Figure 5"),
    runs={
        SMALL: sweep("chain-chacal", {"steps": 800, "eval_every": 20}),
        PAPER: sweep("paper/chain-chacal", {}),
    },
    measure=Together((Logged((ACCURACY,)), StepsTo(0.9))),
    contrasts=(
        Reaches(ACCURACY, group(0.9), 0.95),
        Higher(ACCURACY, group(0.9), group(0.0)),
        Higher(ACCURACY, group(0.9), group(0.5)),
        Higher(STEPS, group(0.995), group(0.9)),
    ),
    note="A seed of which 90 % are never right counts with all the steps of its training, 800 at scale small: where "
    "seeds do, the mean number of steps is a lower bound.",
    draw=(draw, draw_steps),
    seeds={SMALL: 8, PAPER: 4},
    tune={"learning_rate": [1e-3]},
    less_is_better=(STEPS,),
)
