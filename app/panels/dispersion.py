"""Dispersion of attention over lengths, of this run and of others beside it, where sequences differ in length."""

from __future__ import annotations

import streamlit as st

from workbench import figures
from workbench.app import state
from workbench.app.config_in_words import plain
from workbench.app.fields import url
from workbench.app.fields import widgets as fields
from workbench.app.panels import code
from workbench.app.panels.code import Symbol
from workbench.app.panels.held_out import held_out
from workbench.app.panels.panel import panel
from workbench.app.state import Opened
from workbench.instruments.attention import dispersion as instrument
from workbench.measurement.controls import UNTRAINED
from workbench.report.verdicts import dispersed
from workbench.tasks.lengths import TaskWithLengths

NAME = "dispersion"
MOST_RUNS = 4
SAYS = (
    "Dotted: re-initialised models of the same shape, and attention that is even over all keys. Softmax of bounded "
    "scores comes nearer to even as keys grow in number (arXiv 2410.01104); whether tempered or scalable softmax stays "
    "sharper is what this compares. Rows of many keys come from long sequences alone."
)


@url.fragment
def dispersion(opened: Opened) -> None:
    """How attention spreads with length; nothing where the task's lengths do not vary or there is no pattern."""
    subject = opened.subject
    if not isinstance(subject.task, TaskWithLengths) or instrument.why_not(subject) is not None:
        return
    with panel("Dispersion of attention over lengths", "claims-dispersion", folded=True) as p:
        if not p.open:
            return
        others = {run.name: run for run in state.runs() if run.path != opened.run.path}
        beside = fields.several("Compare with", list(others), "dispersion_beside", MOST_RUNS - 1, "other runs")
        runs: dict[str, Symbol] = {}
        controls: dict[str, dict[str, Symbol]] = {}
        for number, name in enumerate([opened.name, *beside], 1):
            run, step = (others[name], None) if number > 1 else (opened.run, opened.step)
            try:
                held = code.named(f"held_{number}", held_out(code.loaded(run), [NAME], step=step))
            except (ValueError, OSError) as error:
                st.warning(f"{plain(name)} is left out: {plain(str(error))}")
                continue
            runs[name] = held[NAME].mean
            if UNTRAINED in code.value_of(held)[NAME].controls:
                controls[name] = {UNTRAINED: held[NAME].controls[UNTRAINED].mean}
        if not runs:
            return
        first = code.value_of(next(iter(runs.values())))
        p.show(
            code.call(figures.dispersion, runs, controls)[0],
            runs | {f"{name}, {control}": m for name, own in controls.items() for control, m in own.items()},
            f"{first.caption} {SAYS}",
            verdict=dispersed(code.value_of(runs), code.value_of(controls)),
        )
