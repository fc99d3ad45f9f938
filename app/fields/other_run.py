"""Another run of the same task beside the one in focus: a field for it, which is in the URL."""

from __future__ import annotations

from typing import Any

import streamlit as st

from workbench.app import state
from workbench.app.config_in_words import plain
from workbench.app.fields.url import memory
from workbench.app.fields.values import belongs_to_run
from workbench.app.fields.widgets import choose
from workbench.app.panels import code
from workbench.app.panels.code import Symbol
from workbench.app.state import Look, Opened
from workbench.inspection import see
from workbench.runs import Run

belongs_to_run("other_run")
NONE = (
    "This folder has no other run of this task with the same tokens to compare with. "
    "Train one with more layers (`--model.n_layers 3`, standard attention) and you can choose it here."
)


def choose_other(look: Look, place: Any = st) -> Opened | None:
    """A field for another run of this task that can read this input, with the same tokens; at first with most layers.

    Returns None, with a message on the page, if there is no such run, or the chosen one cannot be loaded.
    """
    task, n_pos = look.opened.subject.task, look.batch.tokens.shape[1]
    alike = [
        run
        for run in state.runs()
        if run.path != look.opened.run.path
        and run.config.task["name"] == task.name
        and run.config.model.n_ctx >= n_pos
        and getattr(run.config.model, "pattern", True)
        and run.task().vocabulary.words == task.vocabulary.words
    ]

    def order(run: Run) -> tuple[int, bool]:
        standard = all(layer["variant"] == "standard" for layer in run.config.model.attention)
        return -run.config.model.n_layers, not standard

    runs = {run.name: run for run in sorted(alike, key=order)}
    if not runs:
        st.info(NONE)
        return None
    wanted = memory().arrived.get("other_run", [])
    name = choose("Compare with the rollout of", list(runs), "other_run", next(iter(runs)), place=place)
    if gone := [one for one in wanted if one and one not in runs]:
        place.caption(f"*{plain(gone[-1])}* is not in this folder any more, or cannot read this input.")
    try:
        return state.opened(runs[name])
    except (ValueError, OSError) as error:
        st.warning(plain(str(error)))
        return None


def seen_by(other: Opened, look: Look) -> Symbol:
    """What is captured of the other run on this input, as `other`."""
    return code.assign(
        "other", see, code.loaded(other.run), look.input, computed_by=lambda run, batch: other.see(batch)
    )
