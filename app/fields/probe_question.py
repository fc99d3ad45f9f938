"""The question of the page of probes: which labels, at which positions, by which probe, on how many sequences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import streamlit as st

from workbench.app.fields import widgets as fields
from workbench.app.fields.values import belongs_to_run
from workbench.app.fields.widgets import choose, position_in
from workbench.app.state import Opened
from workbench.figures.probes import positions_in_words
from workbench.instruments.residual.projection import from_embedding
from workbench.probes import KINDS, PRESETS, applicable, label_names, labels, rules_for
from workbench.util.seeds import generator

COUNTS = (64, 128, 256, 512, 1024, 2048)
OWN, AT = "a question of your own", "at one position"
QUICK = 5e9  # vectors times their width, classes, points and fits: what takes longer is fitted on request
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

    def settings(self, opened: Opened) -> dict[str, Any]:
        """Arguments of `probe` and `description_length`."""
        return {"positions": self.positions, "kind": self.kind, "n": self.n, "step": opened.step}


def choose_question(opened: Opened) -> Question:
    """Fields for a preset's question, or a question of one's own."""
    task = opened.subject.task
    first, second, third = st.columns([5, 3, 2], vertical_alignment="bottom")
    presets = [*applicable(task), OWN]
    name = choose("Question", presets, "probe_preset", presets[0], question_in_words, first)
    if name == OWN:
        known = list(label_names(task))
        label = choose("Label of the task's truth", known, "probe_label", known[0], in_words, second)
        positions, kind = _own_question(opened)
        together: tuple[str, ...] = (label,)
        default_n = 512
    else:
        preset = PRESETS[name]
        known = preset.names(task)
        label = choose("Label of the task's truth", known, "probe_label", known[0], in_words, second)
        rule = preset.rule(label)
        assert isinstance(rule, str)
        positions, kind, default_n = rule, preset.kind, preset.n
        together = tuple(other for other in known if preset.rule(other) == rule)
    n = choose("Sequences", COUNTS, "probe_n", default_n, str, third, help=HELD_OUT)
    return Question(together, label, positions, kind, n)


def _own_question(opened: Opened) -> tuple[str | int, str]:
    first, second, third = st.columns([3, 3, 4], vertical_alignment="bottom")
    task = opened.subject.task
    rules = [*rules_for(task), AT]
    rule = choose("Where", rules, "probe_where", rules[0], positions_in_words, first)
    kind = choose("Probe", KINDS, "probe_kind", KINDS[0], in_words, second)
    if rule != AT:
        return rule, kind
    position = position_in("Position", task.n_ctx, "probe_position", 0, third)
    return position or 0, kind


def in_words(name: str) -> str:
    return name.replace("_", " ")


def question_in_words(name: str) -> str:
    return PRESETS[name].question if name in PRESETS else name


def fit_now(opened: Opened, question: Question) -> bool:
    """Whether to fit now: at once if that is quick, else once a switch asks for it."""
    task = opened.subject.task
    known = labels(task, task.sample(4, generator(0, "how much there is to decode")).tokens)
    vectors, classes = 0, 0
    for name in question.together:
        values = known[name] if known[name].ndim == 2 else known[name].amax(-1)
        vectors = max(vectors, round(question.n * float((values >= 0).sum()) / len(values)))
        classes += max(2, int(values.max()) + 1) if known[name].ndim == 2 else 2 * known[name].shape[-1]
    pooled = question.positions in ("labelled", "scored", "outputs", "each")
    vectors = vectors if pooled else question.n
    points = len(from_embedding(opened.subject))
    if 4.0 * vectors * classes * points * opened.subject.encoder.shape[1] <= QUICK:
        return True
    st.info(
        f"Probes would be fitted on about {vectors:,} vectors of {classes} classes at {points} points, which can take "
        "minutes."
    )
    return fields.toggle("Fit anyway", "probe_anyway")
