"""The sidebar: which run, as of which checkpoint, and the input that every page is about. All of it is in the URL."""

from __future__ import annotations

from typing import Any

import streamlit as st

from app import basket, state
from app.fields import forget_other_run
from app.state import Look, Opened, plain
from app.words import attention
from workbench import timeline
from workbench.examples import WHICH, example
from workbench.runs import Run
from workbench.seeds import generator
from workbench.tasks import Batch, Task

SAMPLE_HELP = "The same number gives the same input. The model never trained on it."
END = "the end"


def show(found: dict[str, Run]) -> None:
    """Fill the sidebar; what was chosen is `state.current()`, or nothing where it cannot be."""
    st.session_state["look"] = None
    name = st.selectbox("Run", list(found), key="run", bind="query-params")
    run = found[name]
    forget_other_run(str(run.path))
    try:
        opened = state.opened(run, checkpoint(run))
        facts(opened)
    except (ValueError, OSError) as error:
        st.error(plain(str(error)))
        return
    st.session_state["look"] = entry(opened)
    basket.show()


def checkpoint(run: Run, key: str = "step") -> int | None:
    """A field for the run's checkpoint; None for the end, and where there are none."""
    kept = timeline.checkpoints(run)
    if not kept:
        return None
    labels = [*map(str, kept), END]
    if st.session_state.get(key) not in (None, *labels):
        st.session_state[key] = END  # of another run
    chosen = st.select_slider("Checkpoint (step)", labels, value=END, key=key, bind="query-params")
    return None if chosen == END else int(chosen)


def facts(opened: Opened) -> None:
    """What was trained, on what, and how well it does."""
    config, metrics = opened.run.config, opened.run.metrics()
    accuracy = metrics["accuracy"].dropna() if "accuracy" in metrics else metrics.index[:0]
    right = f"{accuracy.iloc[-1]:.1%} right at the end" if len(accuracy) else "accuracy not measured"
    st.caption(
        f"{plain(opened.subject.task.summary[:1].upper() + opened.subject.task.summary[1:])}.  \n"
        f"{plain(attention(config))}; width {config.model.d_model}, {config.model.n_heads} heads; "
        f"{opened.run.step():,} steps, seed {config.seed}; **{right}**"
    )


def entry(opened: Opened) -> Look | None:
    """A sampled or a typed input; None where what was typed is not one, which is said under its field."""
    task = opened.subject.task
    how = st.segmented_control(
        "Input", ["Sample", "Type"], default="Sample", key="how", required=True, bind="query-params"
    )
    try:
        found = typed(task, "In the task's own words", "input") if how == "Type" else _sampled(opened)
    except ValueError as error:
        st.error(plain(str(error)))
        return None
    batch, line = found
    return Look(opened, batch, (line,))


def typed(task: Task, label: str, key: str, suffix: str = "") -> tuple[Batch, str]:
    """A field for an input in the task's own words, and the line that makes it; where it is empty, of a standing one.

    Args:
        task: whose input.
        label, key: of the field.
        suffix: what the names of the line end with.

    Raises:
        ValueError: if what was typed is no input of the task.
    """
    standing = task.question(task.sample(1, generator(0, "example")).tokens[0])
    text = st.text_input(label, key=key, placeholder=standing[:200], bind="query-params", max_chars=20_000)
    words = (text or "").strip() or standing
    return task.parse(words), f"batch{suffix} = task{suffix}.parse({words!r})"


def _sampled(opened: Opened) -> tuple[Batch, str]:
    task = opened.subject.task
    left, right = st.columns([2, 3])
    number = left.number_input("Number", 0, 10**6, key="sample", help=SAMPLE_HELP, bind="query-params")
    which = right.selectbox("Of", list(WHICH), key="which", format_func=WHICH.__getitem__, bind="query-params")
    condition = _condition(task)
    batch = example(opened.model, task, number, which=which, **condition)
    chosen = [f"run.model({opened.at})", "task", str(number)] + ([f"which={which!r}"] if which != "any" else [])
    chosen += [f"{name}={value}" for name, value in condition.items()]
    return batch, f"batch = workbench.example({', '.join(chosen)})"


def _condition(task: Task) -> dict[str, Any]:
    """What the task's test sets are told apart by (a length, a number of operations), if it is asked for."""
    found: dict[str, list[int]] = {}
    for condition in task.conditions:
        for name, value in condition.items():
            found.setdefault(name, []).append(value)
    for name, values in found.items():
        kept = st.session_state.get(name)  # of another run, where other values may be possible
        if kept is not None and not min(values) <= kept <= max(values):
            st.session_state[name] = None
    chosen = {
        name: st.number_input(
            name.capitalize(), min(values), max(values), value=None, key=name, placeholder="any", bind="query-params"
        )
        for name, values in found.items()
    }
    return {name: value for name, value in chosen.items() if value is not None}
