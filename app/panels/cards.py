"""Runs as cards: what each was trained on, what one of its heads reads, and what is known of it so far."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from workbench import figures
from workbench.app import config_in_words as words
from workbench.app import state
from workbench.app.config_in_words import plain
from workbench.app.panels import background
from workbench.inspection.examples import example
from workbench.inspection.learning_curves import learning_curves
from workbench.instruments.attention import attention_graph
from workbench.runs import Run

MOST, IN_A_ROW = 6, 3


def show(runs: Sequence[Run]) -> None:
    """Cards of some runs: the one that is opened first, then the most accurate of every task."""
    chosen = pick([run for run in runs if run.version])
    for start in range(0, len(chosen), IN_A_ROW):
        for run, column in zip(chosen[start : start + IN_A_ROW], st.columns(IN_A_ROW), strict=False):
            with column, st.container(border=True, key=f"card-{run.name}", height="stretch"):
                _card(run)


def pick(runs: Sequence[Run]) -> list[Run]:
    """At most `MOST` runs: the first one, then of every task the most accurate, and then the others by accuracy."""
    if not runs:
        return []
    ordered = [runs[0], *sorted(runs[1:], key=lambda run: -(accuracy(run) or 0.0))]
    tasks = [str(run.config.task["name"]) for run in ordered]
    again = [tasks[:i].count(task) for i, task in enumerate(tasks)]
    return [run for _, run in sorted(zip(again, ordered, strict=True), key=lambda pair: pair[0])][:MOST]


def accuracy(run: Run) -> float | None:
    """The last that was logged; None for a model that was not trained here, or was not evaluated yet."""
    curve = learning_curves(run).get("accuracy") if run.config.steps else None
    return None if curve is None or not curve.values.size else float(curve.values[-1])


def _card(run: Run) -> None:
    st.page_link(
        "views/canvas.py", label=f"**{plain(run.name)}**", icon=":material/visibility:", query_params={"run": run.name}
    )
    try:
        picture = _picture(str(run.path), run.version, run)
    except (ValueError, OSError) as error:
        st.caption(plain(str(error)))
        return
    if picture:
        st.image(picture, width="stretch")
    asks, attention = words.capitalised(run.task().summary), words.capitalised(words.attention(run.config))
    st.caption(f"{plain(asks)}.  \n{plain(attention)}; {_known(run)}")


def _known(run: Run) -> str:
    """How right it is, and the first thing that was found of it in this session, if it was looked at."""
    share = accuracy(run)
    right = "not trained here" if not run.config.steps else "not evaluated yet"
    right = right if share is None else f"accuracy {share:.1%}"
    job = background.job((str(run.path), run.version, None))
    if job is None or not job.future.done() or job.future.exception():
        return right
    told = [statement for statement in job.future.result()[0] if statement.claim]
    return f"{right}; {plain(told[0].text.split(':')[0].lower())}: {', '.join(told[0].chips)}" if told else right


@st.cache_data(show_spinner=False, max_entries=200)
def _picture(path: str, version: int, _run: Run) -> str | None:
    """The thumbnail of a run's first input and its head with the most mass on the task's edges; None if none is seen.

    Raises:
        ValueError: if the run cannot be opened.
    """
    opened = state.opened(_run)
    if opened.subject.no_pattern:
        return None
    seen = opened.see(example(opened.model, opened.subject.task, 0))
    layer, head = attention_graph.best_head(attention_graph.measure(seen)) if len(seen.truth.edges) else (0, 0)
    return figures.thumbnail(seen, layer=layer, head=head).svg()
