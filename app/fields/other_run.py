"""Another run of the same task beside the one in focus: a field for it, which is in the URL."""

from __future__ import annotations

from typing import Any

import streamlit as st

from workbench.app import state
from workbench.app.fields.address import memory
from workbench.app.fields.widgets import choose
from workbench.app.state import Look, Opened, plain
from workbench.runs import Run

NONE = (
    "There is no other run of this task with the same tokens in this folder to put beside this one; "
    "train one with more layers (`--model.n_layers 3`, standard attention) and it will be offered here."
)


def alike(look: Look) -> list[Run]:
    """The other runs that can read this input: of the same task, with the same tokens; the deepest first."""
    own, n_pos = look.opened, look.batch.tokens.shape[1]
    task = own.subject.task
    found = [
        run
        for run in state.runs()
        if run.path != own.run.path
        and run.config.task["name"] == task.name
        and run.config.model.n_ctx >= n_pos
        and run.task().vocabulary.words == task.vocabulary.words
    ]
    return sorted(found, key=lambda run: (-run.config.model.n_layers, not _standard(run)))


def choose_other(look: Look, place: Any = st) -> Opened | None:
    """A field for one of `alike`, the deepest by default; None where there is none, or its weights do not load."""
    runs = {run.name: run for run in alike(look)}
    if not runs:
        st.info(NONE)
        return None
    wanted = memory().arrived.get("other_run", [])
    name = choose("Beside it, the rollout of", list(runs), "other_run", next(iter(runs)), place=place)
    if gone := [one for one in wanted if one and one not in runs]:
        place.caption(f"*{plain(gone[-1])}* is not in this folder any more, or cannot read this input.")
    try:
        return state.opened(runs[name])
    except (ValueError, OSError) as error:
        st.warning(plain(str(error)))
        return None


def line(other: Opened) -> str:
    """The line of Python that runs the other model on this input, as `other`."""
    return f"other = workbench.see(workbench.load_run({str(other.run.path)!r}), batch)"


def _standard(run: Run) -> bool:
    return all(layer["variant"] == "standard" for layer in run.config.model.attention)
