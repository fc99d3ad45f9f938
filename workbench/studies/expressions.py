"""Five methods by a task's difficulty and a model's depth: what Figures 7 to 9 of the Seq-VCR paper share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from workbench.studies.contrasts import Higher
from workbench.studies.figures import by_setting
from workbench.studies.measures import Logged
from workbench.studies.multiplication_methods import BOTH, METHODS, SEQ_VCR, THOUGHT, VANILLA
from workbench.studies.study import PAPER, SMALL, Draw, Groups, Source, Study

WHOLE = "whole_answer"


def methods_study(
    task: str,
    setting: str,
    small: tuple[Sequence[int], Sequence[int], dict[str, Any]],
    papers: tuple[Sequence[int], Sequence[int]],
    question: str,
) -> Study:
    """Five methods, each with every difficulty and depth.

    Args:
        task: prefix of the presets, and the task's name in words.
        setting: the task's setting that makes it harder.
        small: its values, the numbers of layers, and further settings, of the small scale.
        papers: its values and the numbers of layers in the paper.
        question: of the study.
    """
    values, layers, settings = small

    def group(method: str, value: int, n_layers: int) -> str:
        return f"{method}, {setting} {value}, n_layers {n_layers}"

    def sweep(prefix: str, values: Sequence[int], layers: Sequence[int], settings: dict[str, Any]) -> dict[str, Any]:
        grid = {f"task.{setting}": list(values), "model.n_layers": list(layers)}
        variants = [{"name": name, "preset": f"{prefix}-{name}"} for name in METHODS]
        return {"settings": settings, "grid": grid, "variants": variants}

    all_values, all_layers = sorted({*values, *papers[0]}), sorted({*layers, *papers[1]})

    def lines(groups: Groups, title: str, x_title: str, keys: Mapping[float, tuple[int, int]]) -> go.Figure:
        """A line for each method, through the groups of these keys that there are."""
        found = {
            method: {x: groups[group(method, *key)][WHOLE] for x, key in keys.items() if group(method, *key) in groups}
            for method in METHODS
        }
        return by_setting(found, title, x_title, WHOLE)

    def by_difficulty(groups: Groups) -> go.Figure:
        """Answers right by difficulty, with the most layers (Figure 7)."""
        most = max(n for n in all_layers if any(group(VANILLA, value, n) in groups for value in all_values))
        keys = {float(value): (value, most) for value in all_values}
        return lines(groups, f"{task}, {most} layers: answers right, by {setting}", setting, keys)

    def by_depth(groups: Groups) -> go.Figure:
        """Answers right by number of layers, at the greatest difficulty (Figures 8 and 9)."""
        hardest = max(value for value in all_values if any(group(VANILLA, value, n) in groups for n in all_layers))
        keys = {float(n): (hardest, n) for n in all_layers}
        return lines(groups, f"{task}, {setting} {hardest}: answers right, by layers", "layers", keys)

    deepest = (values[-1], layers[-1])
    draws: tuple[Draw, ...] = (by_difficulty, by_depth)
    return Study(
        question=question,
        source=Source("Seq-VCR", "Table 1's configurations, Figures 7, 8 and 9"),
        runs={
            SMALL: sweep(task, values, layers, settings),
            PAPER: sweep(f"paper/{task}-{papers[0][0]}", *papers, {}),
        },
        measure=Logged((WHOLE,)),
        contrasts=(
            Higher(WHOLE, group(BOTH, *deepest), group(VANILLA, *deepest)),
            Higher(WHOLE, group(SEQ_VCR, *deepest), group(VANILLA, *deepest)),
            Higher(WHOLE, group(THOUGHT, *deepest), group(VANILLA, *deepest)),
            *(
                Higher(WHOLE, group(m, values[-1], layers[-1]), group(m, values[-1], layers[0]))
                for m in (VANILLA, BOTH)
            ),
        ),
        draw=draws,
        seeds={SMALL: 3, PAPER: 3},
    )
