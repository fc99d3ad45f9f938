"""The run's facts, and the input that every panel is about."""

from __future__ import annotations

from typing import Any

import streamlit as st

from app.state import Opened, plain
from workbench.seeds import generator
from workbench.tasks import Batch, Task

SAMPLE_HELP = "The same number gives the same sample. The model never trained on it."


def facts(opened: Opened) -> None:
    """What was trained, on what, and how well it does."""
    config, metrics = opened.run.config, opened.run.metrics()
    layers = [f"layer {i}: **{layer['variant']}**{_gamma(layer)}" for i, layer in enumerate(config.model.attention)]
    accuracy = metrics["accuracy"].dropna() if "accuracy" in metrics else metrics.index[:0]
    right = f"{accuracy.iloc[-1]:.1%}" if len(accuracy) else "not measured"
    st.markdown(
        f"{opened.subject.task.summary[:1].upper()}{opened.subject.task.summary[1:]}.\n\n"
        f"{'; '.join(layers)}\n\n"
        f"width {config.model.d_model}, {config.model.n_heads} heads, {opened.run.step()} steps, seed {config.seed}\n\n"
        f"accuracy **{right}** on held-out sequences"
    )


def _gamma(layer: dict[str, object]) -> str:
    return f" (γ = {layer['gamma']})" if "gamma" in layer else ""


def entry(task: Task) -> Batch | None:
    """A sampled or a typed input; None where what was typed is not one, which is said under its field."""
    how = st.segmented_control(
        "Input", ["Sample", "Type"], default="Sample", key="how", required=True, bind="query-params"
    )
    if how == "Type":
        example = task.question(task.sample(1, generator(0, "example")).tokens[0])
        text = st.text_input("In the task's own words", key="input", placeholder=example, bind="query-params")
        try:
            return task.parse(text or example)
        except ValueError as error:
            st.error(plain(str(error)))
            return None
    number = st.number_input("Sample number", 0, 10**6, key="sample", help=SAMPLE_HELP, bind="query-params")
    condition = _condition(task)
    try:
        return task.sample(1, generator(number, "explorer sample"), split="test", **condition)
    except ValueError as error:
        st.error(plain(str(error)))
        return None


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
