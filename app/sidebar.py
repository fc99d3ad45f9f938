"""The sidebar: which run, as of which checkpoint, and the input that every page is about. All of it is in the URL."""

from __future__ import annotations

from typing import Any

import streamlit as st

from workbench.app import state
from workbench.app.fields import widgets as fields
from workbench.app.fields.widgets import choose, choose_there, forget_other_run
from workbench.app.state import Look, Opened, plain
from workbench.app.words import attention
from workbench.inspection import over_training
from workbench.inspection.examples import WHICH, example
from workbench.runs import Run
from workbench.tasks import Batch, Task
from workbench.util.seeds import generator

SAMPLE_HELP = "The same number gives the same input. The model never trained on it."
END = "the end"


def show(found: dict[str, Run]) -> None:
    """Fill the sidebar; what was chosen is `state.current()`, or nothing where it cannot be."""
    st.session_state["look"] = None
    name = choose_there("Run", list(found), "run", next(iter(found)))
    if name is None:
        return
    run = found[name]
    forget_other_run(str(run.path))
    try:
        opened = state.opened(run, checkpoint(run))
        facts(opened)
    except (ValueError, OSError) as error:
        st.error(plain(str(error)))
        return
    st.session_state["look"] = entry(opened)


def checkpoint(run: Run, key: str = "step") -> int | None:
    """A field for the run's checkpoint; None for the end, or the latest weights, and where there are none."""
    kept = over_training.checkpoints(run)
    if not kept:
        return None
    chosen = fields.along(
        "Checkpoint (step)", [*map(str, kept), END], key, END, lambda label: last(run) if label == END else label
    )
    return None if chosen == END else int(chosen)


def last(run: Run) -> str:
    """What the run's latest weights are called: those of a run that is not at its end are not the end."""
    return END if run.finished else "latest"


def last_step(run: Run) -> str:
    """`the end, step 500`; of a run that is not there yet, `latest, step 200 of 500`."""
    return f"{last(run)}, step {run.step():,}" + ("" if run.finished else f" of {run.config.steps:,}")


def facts(opened: Opened) -> None:
    """What was trained, on what, and how well it does."""
    run, config = opened.run, opened.run.config
    steps = f"{run.step():,} steps" if run.finished else f"{run.step():,} of {config.steps:,} steps"
    st.caption(
        f"{plain(opened.subject.task.summary[:1].upper() + opened.subject.task.summary[1:])}.  \n"
        f"{plain(attention(config))}; width {config.model.d_model}, {config.model.n_heads} heads; "
        f"{steps}, seed {config.seed}; {right(run, opened.step)}"
    )


def right(run: Run, step: int | None) -> str:
    """How much was right on held-out sequences, and at which step: of a checkpoint its own where it was measured."""
    metrics = run.metrics()
    if "accuracy" not in metrics or metrics["accuracy"].dropna().empty:
        return "**accuracy not measured**"
    accuracy = metrics.dropna(subset="accuracy").set_index("step")["accuracy"]
    if step in accuracy.index:
        return f"**{accuracy[step]:.1%} right at step {step:,}**"
    measured = int(accuracy.index[-1])
    when = "the end" if run.finished and measured == run.step() else f"step {measured:,}, the last measured"
    at_last = f"{accuracy.iloc[-1]:.1%} right at {when}"
    return f"**{at_last}**" if step is None else f"**accuracy not measured at step {step:,}** ({at_last})"


def entry(opened: Opened) -> Look | None:
    """A sampled or a typed input; None where what was typed is not one, which is said under its field."""
    task = opened.subject.task
    how = fields.segments("Input", ["Sample", "Type"], "how", "Sample")
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
    words = fields.text(label, key, standing[:200], 20_000) or standing
    return task.parse(words), f"batch{suffix} = task{suffix}.parse({words!r})"


def _sampled(opened: Opened) -> tuple[Batch, str]:
    task = opened.subject.task
    left, right = st.columns([2, 3])
    number = fields.number("Number", 0, 10**6, "sample", 0, left, help=SAMPLE_HELP)
    which = choose("Of", list(WHICH), "which", "any", WHICH.__getitem__, right)
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
    chosen = {
        name: fields.number(name.capitalize(), min(values), max(values), name, None, placeholder="any")
        for name, values in found.items()
    }
    return {name: value for name, value in chosen.items() if value is not None}
