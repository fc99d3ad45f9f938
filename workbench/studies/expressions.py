"""Five methods by a task's difficulty and a model's depth: what Figures 7 to 9 of the Seq-VCR paper share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from workbench.studies.contrasts import Contrast, Higher
from workbench.studies.figures import by_setting
from workbench.studies.measures import Logged
from workbench.studies.multiplication_methods import BOTH, METHODS, SEQ_VCR, THOUGHT, VANILLA
from workbench.studies.study import GPU, PAPER, SMALL, Draw, Figure, Groups, Source, Study

WHOLE = "whole_answer"
BETTER = (BOTH, SEQ_VCR, THOUGHT)  # than the plain model, as the paper has it


@dataclass(frozen=True)
class Grid:
    """Five methods, each with every difficulty and depth.

    Attributes:
        task: prefix of the presets, and the task's name in words.
        setting: the task's setting that makes it harder.
        values, layers: of that setting, and numbers of layers, from the least to the most.
    """

    task: str
    setting: str
    values: Sequence[int]
    layers: Sequence[int]

    def group(self, method: str, value: int, n_layers: int) -> str:
        """The name of a group of runs."""
        return f"{method}, {self.setting} {value}, n_layers {n_layers}"

    def sweep(self, prefix: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The runs: presets PREFIX-METHOD with further settings."""
        grid = {f"task.{self.setting}": list(self.values), "model.n_layers": list(self.layers)}
        variants = [{"name": name, "preset": f"{prefix}-{name}"} for name in METHODS]
        return {"settings": settings, "grid": grid, "variants": variants}

    def contrasts(self) -> tuple[Contrast, ...]:
        """At the greatest difficulty: the methods with the most layers, and, of several depths, whether more help."""
        value, fewest, most = self.values[-1], self.layers[0], self.layers[-1]
        methods = [(self.group(method, value, most), self.group(VANILLA, value, most)) for method in BETTER]
        depths = [(self.group(method, value, most), self.group(method, value, fewest)) for method in (VANILLA, BOTH)]
        return tuple(Higher(WHOLE, high, low) for high, low in (*methods, *(depths if most > fewest else ())))

    def draws(self) -> tuple[Draw, ...]:
        """Answers right by difficulty, with the most layers (Figure 7); and by layers, where it is greatest (8, 9)."""
        return self._by_difficulty, self._by_depth

    def _by_difficulty(self, groups: Groups) -> Figure:
        most = max(n for n in self.layers if any(self.group(VANILLA, value, n) in groups for value in self.values))
        keys = {float(value): (value, most) for value in self.values}
        return self._lines(groups, f"{self.task}, {most} layers: answers right, by {self.setting}", self.setting, keys)

    def _by_depth(self, groups: Groups) -> Figure:
        hardest = max(
            value for value in self.values if any(self.group(VANILLA, value, n) in groups for n in self.layers)
        )
        keys = {float(n): (hardest, n) for n in self.layers}
        title = f"{self.task}, {self.setting} {hardest}: answers right, by layers"
        return self._lines(groups, title, "layers", keys)

    def _lines(self, groups: Groups, title: str, x_title: str, keys: Mapping[float, tuple[int, int]]) -> Figure:
        """A line for each method, through the groups of these keys that there are."""
        names = {method: {x: self.group(method, *key) for x, key in keys.items()} for method in METHODS}
        lines = {
            method: {x: groups[name][WHOLE] for x, name in own.items() if name in groups}
            for method, own in names.items()
        }
        return by_setting(lines, title, x_title, WHOLE)


def methods_study(
    small: Grid,
    gpu: Grid,
    papers: Grid,
    settings: Mapping[str, Any],
    on_a_gpu: Mapping[str, Any],
    question: str,
    note: str = "",
) -> Study:
    """The study of a grid.

    Args:
        small, gpu, papers: its scales.
        settings, on_a_gpu: further settings of the first two.
        question, note: of the study.
    """
    values, layers = sorted({*small.values, *papers.values}), sorted({*small.layers, *papers.layers})
    return Study(
        question=question,
        source=Source("Seq-VCR", "Table 1's configurations, Figures 7, 8 and 9"),
        runs={
            SMALL: small.sweep(small.task, settings),
            GPU: gpu.sweep(f"paper/{papers.task}-{papers.values[0]}", on_a_gpu),
            PAPER: papers.sweep(f"paper/{papers.task}-{papers.values[0]}", {}),
        },
        measure=Logged((WHOLE,)),
        contrasts=small.contrasts(),
        contrasts_at={GPU: gpu.contrasts(), PAPER: papers.contrasts()},
        note=note,
        draw=replace(small, values=values, layers=layers).draws(),
        seeds={SMALL: 3, GPU: 3, PAPER: 3},
        tune={"learning_rate": [3e-4]},
    )
