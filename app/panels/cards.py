"""Runs as cards: what each was trained on, what one of its heads reads, and what is known of it so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import streamlit as st

from workbench import figures
from workbench.app import config_in_words as words
from workbench.app import state
from workbench.app.config_in_words import plain
from workbench.app.evidence.stills import as_image
from workbench.app.panels import how_it_works
from workbench.inspection.examples import example
from workbench.instruments.attention import attention_graph
from workbench.judgement.words.figures import right
from workbench.judgement.words.findings import at_a_glance
from workbench.runs import Run
from workbench.util.words import capitalised

MOST, IN_A_ROW = 6, 3


Measured = tuple[Run, float | None]
"""A run and its last accuracy; None for one that was not trained here, or was not evaluated yet."""


def show(runs: Sequence[Measured]) -> None:
    """Cards of at most `MOST` runs.

    The first one, which is the one in the sidebar, then of every task the most accurate, then the others by accuracy.
    """
    there = [one for one in runs if one[0].version]
    ordered = [*there[:1], *sorted(there[1:], key=lambda one: -(one[1] or 0.0))]
    earlier = Counter[str]()  # of each task, those before
    again = []
    for run, _ in ordered:
        task = str(run.config.task["name"])
        again.append(earlier[task])
        earlier[task] += 1
    by_turn = sorted(zip(again, ordered, strict=True), key=lambda pair: pair[0])
    chosen = [one for _, one in by_turn][:MOST]
    for start in range(0, len(chosen), IN_A_ROW):
        for one, column in zip(chosen[start : start + IN_A_ROW], st.columns(IN_A_ROW), strict=False):
            with column, st.container(border=True, key=f"card-{one[0].name}", height="stretch"):
                _card(*one)


def _card(run: Run, accuracy: float | None) -> None:
    st.page_link(
        "views/story.py", label=f"**{plain(run.name)}**", icon=":material/visibility:", query_params={"run": run.name}
    )
    try:
        picture = _picture(str(run.path), run.version, run)
    except (ValueError, OSError) as error:
        st.caption(plain(str(error)))
        return
    if picture:
        st.html(as_image(picture, f"Attention of {run.name}, a picture", 'class="thumbnail"'))
    task = run.task()
    unknown = "not evaluated yet" if run.config.steps else "not trained here"
    asks, attention = capitalised(task.summary), capitalised(words.attention(run.config))
    st.caption(f"{plain(asks)}.  \n{plain(attention)}; {right(accuracy, task) if accuracy is not None else unknown}")
    if (found := how_it_works.findings(run)) is not None:
        name, numbers = at_a_glance(found)
        st.markdown(f"**{plain(name)}**: {plain(numbers)}" if name else plain(numbers))


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
