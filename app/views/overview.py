"""All runs under the root: choose one, compare two, see learning curves together, train one more."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from workbench import figures
from workbench.app import config_in_words as words
from workbench.app import state
from workbench.app.config_in_words import plain
from workbench.app.fields import url
from workbench.app.fields import widgets as fields
from workbench.app.fields.values import keep, listed
from workbench.app.panels import cards, code, demo_form, how_it_works, questions
from workbench.app.panels.panel import panel
from workbench.app.server.demo import slot
from workbench.inspection.learning_curves import learning_curves
from workbench.judgement.words.by_place import last_values
from workbench.judgement.words.findings import of_models
from workbench.runs import CONFIG, METRICS, Run
from workbench.runs.listing import status

ROW, MOST_ROWS = 35, 20  # pixels; rows shown before the table scrolls
MOST_POINTS = 60  # of a sparkline
MOST_CURVES = 12  # runs laid over each other
FILTERED = ("name", "task", "asks", "attention", "objective", "status")  # columns that the filter reads

Row = dict[str, Any]


WHAT_THIS_IS = (
    "Here you look into small transformers trained on tasks whose answers and algorithms are known: at their "
    "attention, at their residual stream, and at how both developed in training. "
)


def begin(runs: list[cards.Measured]) -> None:
    """What this is, questions to begin with, and the runs, each with its accuracy, as cards."""
    zoo = "These runs came with the workbench: train one below, or on the command line, and it is shown in their place."
    model = state.model_run()
    if model is not None:
        st.markdown(
            f"Here you look into **{plain(model.name)}**: at its attention and at its residual stream, on "
            f"{'sentences' if model.text is None else 'pieces of a text'}, or on what you type under *Own input*."
        )
    else:
        if known := [findings for run, _ in runs if (findings := how_it_works.findings(run)) is not None]:
            st.markdown(f"**{of_models(known)}**")
        st.caption(WHAT_THIS_IS + (zoo if state.shows_zoo() else "Begin with a question, or with a run."))
    if model is None or len(runs) > 1:
        with st.container(horizontal=True, key="questions"):
            questions.links([run for run, _ in runs])
    chosen = st.session_state.get("run")
    cards.show(sorted(runs, key=lambda one: one[0].name != chosen))


@url.fragment
def table(rows: list[Row], runs: dict[str, Run]) -> None:
    with st.container(border=True, key="panel-runs"):
        head, field = st.columns([3, 2], vertical_alignment="center")
        head.subheader(f"Runs ({len(rows)})", anchor=False)
        hint = "filter by name, task, attention or objective"
        wanted = fields.text("Filter", "filter", hint, 200, field, label_visibility="collapsed")
        words_of = {row["name"]: " ".join(str(row[name]) for name in FILTERED).casefold() for row in rows}
        shown = [row for row in rows if all(word in words_of[row["name"]] for word in wanted.casefold().split())]
        before, times = listed("runs")
        hidden = [name for name in before if name in runs and name not in {row["name"] for row in shown}]
        picked = select(shown, before, times) if shown else []
        if not shown:
            st.caption("No run has all of these words in its name, task, attention or objective.")
        if hidden:
            st.caption(f"Also selected, but hidden by the filter: {plain(', '.join(hidden))}.")
        if gone := [name for name in before if name not in runs]:
            st.caption(f"No longer in this folder: {plain(', '.join(gone))}.")
        chosen = [runs[name] for name in keep("runs", [*hidden, *picked])]
        links(chosen)
    if chosen:
        curves(chosen)


def select(rows: list[Row], wanted: list[str], times: int) -> list[str]:
    """Draw the table; returns the names of the selected rows.

    Args:
        rows: of the table.
        wanted: runs that are selected at first.
        times: how often a URL has given these.
    """
    names = [row["name"] for row in rows]
    # Rows are selected by their number, so other rows, or a selection from a new URL, need a new table.
    key = f"runs-{times}-" + hashlib.sha256("\0".join(names).encode()).hexdigest()[:12]
    event = st.dataframe(
        pd.DataFrame(rows)[list(_columns())],
        key=key,
        hide_index=True,
        height=ROW * (min(len(rows), MOST_ROWS) + 1) + 3,
        row_height=ROW,
        on_select="rerun",
        selection_mode="multi-row",
        selection_default={"selection": {"rows": [i for i, name in enumerate(names) if name in wanted]}},
        placeholder="–",
        column_config=_columns(),
    )
    return [names[i] for i in event["selection"]["rows"] if i < len(names)]


def _columns() -> dict[str, Any]:
    """The table's columns, in order."""
    column = st.column_config
    return {
        "name": column.TextColumn("Run", width=142, pinned=True),
        "task": column.TextColumn("Task", width=92),
        "attention": column.TextColumn("Attention", width=134, help="Of each layer, from the first to the last"),
        "shape": column.TextColumn("Size", width=62, help="Layers × width"),
        "accuracy": column.NumberColumn(
            "Accuracy",
            width=74,
            format="percent",
            help="Share right on held-out sequences drawn as in training, as last logged: of answer tokens or of "
            "whole answers, as the task counts them",
        ),
        "history": column.LineChartColumn(
            "Curve", width=58, y_min=0, y_max=1, help="Accuracy over training, 0 to 100 %"
        ),
        "status": column.TextColumn("State", width=80),
        "objective": column.TextColumn("Objective", width=128),
        "steps": column.NumberColumn("Steps", width=54, format="localized"),
        "seed": column.NumberColumn("Seed", width=46, format="plain"),
    }


def links(chosen: list[Run]) -> None:
    """Links to the pages of the selected runs."""
    names = [run.name for run in chosen]
    if not chosen:
        st.caption(
            "Tick one run to look at it, two to compare them, or any number to see their learning curves together."
        )
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        if len(names) == 1:
            query = {"run": names[0]}
            st.page_link("views/canvas.py", label="Look at it", icon=":material/visibility:", query_params=query)
            st.page_link("views/training.py", label="See it learn", icon=":material/timeline:", query_params=query)
            st.caption(plain(chosen[0].task().summary))
        elif len(names) == 2:
            both = {"run": names[0], "run2": names[1]}
            label = f"Compare {plain(names[0])} with {plain(names[1])}"
            st.page_link("views/compare.py", label=label, icon=":material/compare_arrows:", query_params=both)
        else:
            st.caption(f"{len(names)} runs are selected; two can be compared.")


def curves(chosen: list[Run]) -> None:
    with panel("Learning curves", "curves") as p:
        log = fields.toggle("Logarithmic steps", "curves_log")
        drawn = {run.name: code.call(learning_curves, code.loaded(run)) for run in chosen[:MOST_CURVES]}
        untrained = [name for name, curves in drawn.items() if not code.value_of(curves)]
        drawn = {name: curves for name, curves in drawn.items() if name not in untrained}
        if not drawn:
            st.info("There is no log to draw: these models were not trained here.")
            return
        says = (
            "Accuracy counts whole answers or single positions, depending on the task; tasks also differ in what "
            "guessing gives. Next-token losses compare where runs have one task, sums of different objectives do not. "
            "Single runs, no intervals."
        )
        if len(chosen) > MOST_CURVES:
            says += f" The first {MOST_CURVES} of {len(chosen)} are drawn."
        if untrained:
            says += f" Nothing was logged of {plain(', '.join(untrained))}."
        each = {f"{name} {what}": curve for name, own in code.value_of(drawn).items() for what, curve in own.items()}
        accuracy = {name: own["accuracy"] for name, own in code.value_of(drawn).items() if "accuracy" in own}
        p.show(code.call(figures.learning_curves, drawn, log=log), each, says, verdict=last_values(accuracy))


def _signature(run: Run) -> tuple[int, ...]:
    """A value that changes whenever a row of the table would."""
    files = [path.stat() for name in (CONFIG, METRICS) if (path := Path(run.path, name)).is_file()]
    return (run.version, *(part for file in files for part in (file.st_mtime_ns, file.st_size)))


@st.cache_data(show_spinner=False, max_entries=2000)
def _row(path: str, signature: tuple[int, ...], _run: Run) -> Row:
    """A run as a row of the table, without its state. Raises ValueError if its log is damaged."""
    config = _run.config
    accuracy = learning_curves(_run, ["accuracy"]).get("accuracy")
    history = [] if accuracy is None else accuracy.values.tolist()
    every = -(-len(history) // MOST_POINTS)
    return {
        "name": _run.name,
        "task": words.spaced(config.task["name"]),
        "asks": _run.task().summary,
        "attention": words.attention(config),
        "objective": " + ".join(map(words.spaced, config.objectives)),
        "shape": f"{config.model.n_layers} × {config.model.d_model}",  # layers and width
        "steps": _run.step(),
        "accuracy": round(history[-1], 3) if history else None,
        "history": history[::-1][::every][::-1] if history else None,
        "seed": config.seed,
    }


runs, problems = state.scanned()
own = slot().demo
trained_here = own.path if own is not None and own.running else None
rows, damaged = [], list(problems)
for run in runs:
    try:
        how_far = "not trained"
        if run.config.steps:
            how_far = "training" if run.path.resolve() == trained_here else status(run)
        rows.append({**_row(str(run.path), _signature(run), run), "status": how_far})
    except ValueError as error:
        damaged.append(str(error))
if not rows:
    st.markdown(
        f"{WHAT_THIS_IS}"
        "There is no run in this folder yet. Train one below (the form says about how long it takes), or on the "
        "command line."
    )
else:
    accuracies = {row["name"]: row["accuracy"] for row in rows}
    first = state.first(runs)
    runs.sort(key=lambda run: run.name != first)  # the one that the other pages begin with
    begin([(run, accuracies[run.name]) for run in runs if run.name in accuracies])
    table(rows, {run.name: run for run in runs})
if damaged:
    st.warning("  \n".join(["These cannot be read:", *map(plain, damaged)]), icon=":material/warning:")
demo_form.show(state.root())
