"""The question of the page of probes: which labels, at which positions, by which probe, on how many sequences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import streamlit as st

from workbench.app.config_in_words import spaced
from workbench.app.fields.values import belongs_to_run
from workbench.app.fields.widgets import choose, position_in
from workbench.app.state import Opened
from workbench.figures.probes import positions_in_words
from workbench.instruments.residual.projection import from_embedding
from workbench.measurement import Measurement
from workbench.probes import KINDS, PRESETS, applicable, gain, label_names, rules_for
from workbench.probes.baselines_and_controls import rows_and_labels
from workbench.probes.presets import Preset
from workbench.util.seeds import generator

COUNTS = (64, 128, 256, 512, 1024, 2048)
OWN, AT = "a question of your own", "at one position"
SPEED = 5.5e4  # rows times classes times points that a core fits in a second, with every baseline and control
FEW = 16  # sequences from which the rows are counted
AT_ONCE, UNASKED = 3.0, 180.0  # seconds: what takes longer is fitted beside the page, and on request
HELD_OUT = "Held out from training; 3 in 10 of them test the probe"
belongs_to_run("probe_position")


@dataclass(frozen=True)
class Question:
    """What is probed: labels that are fitted together, and the one that is shown.

    Attributes:
        together: the labels.
        label: the one that is shown.
        positions: see `probes.positions`.
        kind: of probe.
        n: sequences.
    """

    together: tuple[str, ...]
    label: str
    positions: str | int
    kind: str
    n: int

    @property
    def without_label(self) -> Question:
        """The same, whichever label is shown: what is fitted."""
        return replace(self, label=self.together[0])

    def settings(self, opened: Opened) -> dict[str, Any]:
        """Arguments of `probe` and `description_length`."""
        return {"positions": self.positions, "kind": self.kind, "n": self.n, "step": opened.step}


def choose_question(opened: Opened, measured: Callable[[Question], Measurement | None]) -> Question:
    """Fields for a preset's question, or a question of one's own.

    Args:
        opened: the run.
        measured: the probes of a question's labels, where they are fitted: then the label that gains most over its
            baselines is the default.
    """
    task = opened.subject.task
    first, second, third = st.columns([5, 3, 2], vertical_alignment="bottom")
    presets = [*applicable(task), OWN]
    questions = {name: preset.question for name, preset in PRESETS.items()} | {OWN: OWN}
    name = choose("Question", presets, "probe_preset", presets[0], questions.__getitem__, first)
    n_at = st.container() if name == OWN else third
    if name == OWN:
        known = list(label_names(task))
        label = choose("Label of the task's truth", known, "probe_label", known[0], spaced, second)
        positions, kind = _own_question(opened)
        n = choose("Sequences", COUNTS, "probe_n", 512, str, n_at, help=HELD_OUT)
        return Question((label,), label, positions, kind, n)
    preset = PRESETS[name]
    known = preset.names(task)
    n = choose("Sequences", COUNTS, "probe_n", preset.n, str, n_at, help=HELD_OUT)
    found = measured(_of_preset(preset, known, known[0], n))
    best = known[0] if found is None else most_gained(found, "label")
    label = choose("Label of the task's truth", known, "probe_label", best, spaced, second)
    return _of_preset(preset, known, label, n)


def _of_preset(preset: Preset, known: list[str], label: str, n: int) -> Question:
    """A preset's question about one label, together with those that are read at the same positions."""
    rule = preset.rule(label)
    assert isinstance(rule, str)
    together = tuple(other for other in known if preset.rule(other) == rule)
    return Question(together, label, rule, preset.kind, n)


def most_gained(accuracy: Measurement, dim: str) -> str:
    """Where along a dim probes gain most over their baselines, the first of equals, also where none was measured."""
    gains = gain(accuracy)
    axis = gains.dims.index(dim)
    largest = np.nan_to_num(gains.values, nan=-np.inf).max(tuple(i for i in range(gains.values.ndim) if i != axis))
    return str(gains.coords[dim][int(largest.argmax())])


def _own_question(opened: Opened) -> tuple[str | int, str]:
    first, second, third = st.columns([3, 3, 4], vertical_alignment="bottom")
    task = opened.subject.task
    rules = [*rules_for(task), AT]
    rule = choose("Where", rules, "probe_where", rules[0], positions_in_words, first)
    kind = choose("Probe", KINDS, "probe_kind", KINDS[0], spaced, second)
    if rule != AT:
        return rule, kind
    position = position_in("Position", task.n_ctx, "probe_position", 0, third)
    return position or 0, kind


def seconds_to_fit(opened: Opened, question: Question) -> float:
    """At most about how long fitting takes on one core: probes that converge at once take a fifth of it.

    Raises:
        ValueError: if the labels mean nothing at these positions.
    """
    task = opened.subject.task
    few = task.sample(FEW, generator(0, "how much there is to decode"))
    _, values = rows_and_labels(task, few, question.together, question.positions)
    rows = values[0].shape[0] * values[0].shape[1] / FEW * question.n
    classes = sum(max(2, int(value.max()) + 1) if value.ndim == 2 else 2 * value.shape[-1] for value in values)
    return rows * classes * len(from_embedding(opened.subject)) / SPEED
