"""The explorer's router: pick a run and an input, then one panel per view."""

from __future__ import annotations

import pandas as pd
import streamlit as st
import torch

from app import state
from app.views import attention, entropy, mechanisms, residual
from workbench.seeds import generator
from workbench.tasks import Batch, Task, correct


def main() -> None:
    st.set_page_config("workbench explorer", layout="wide")
    found = {run.name: run for run in state.runs()}
    if not found:
        st.title("workbench explorer")
        st.info(f"There is no run under {state.root()} yet. Make one with:")
        st.code(f"workbench train chain-chacal --out {state.root()}/chain-chacal", language="bash")
        return
    with st.sidebar:
        st.title("workbench")
        name = st.selectbox("Run", list(found), key="run")
        opened = state.opened(found[name])
        _facts(opened)
        batch = _input(opened.subject.task)
    if batch is None:
        return
    seen = opened.see(batch)
    _tokens(opened, seen.logits, batch)
    attention.show(seen)
    residual.show(seen)
    entropy.show(seen)
    mechanisms.show(opened, st.session_state["head"])


def _facts(opened: state.Opened) -> None:
    config = opened.run.config
    accuracy = opened.run.metrics()["accuracy"].dropna()
    variants = " then ".join(dict.fromkeys(layer["variant"] for layer in config.model.attention))
    st.markdown(
        f"{opened.subject.task.summary}\n\n{config.model.n_layers} × **{variants}**, width {config.model.d_model}, "
        f"{config.model.n_heads} heads; {opened.run.step()} steps, seed {config.seed}; "
        f"accuracy **{accuracy.iloc[-1]:.1%}**"
    )


def _input(task: Task) -> Batch | None:
    """The input that every panel is about: sampled by number, or typed. Errors stand under the field."""
    how = st.segmented_control("Input", ["Sample", "Type"], default="Sample", key="how")
    if how == "Type":
        text = st.text_input("In the task's own words", key="text", placeholder=_example(task))
        try:
            return task.parse(text or _example(task))
        except ValueError as error:
            st.error(str(error))
            return None
    number = st.number_input("Sample number", 0, 10**6, key="sample", help="the same number gives the same sample")
    return task.sample(1, generator(int(number), "explorer sample"))


def _example(task: Task) -> str:
    tokens = task.sample(1, generator(0, "example")).tokens[0]
    words = task.words(tokens)
    if "⊥" in words:
        words = words[: words.index("⊥")]
    if "*" in words:
        at = words.index("*")
        return "".join(reversed(words[:at])) + " * " + "".join(reversed(words[at + 1 : 2 * at + 1]))
    return " ".join(words)


def _tokens(opened: state.Opened, logits: torch.Tensor, batch: Batch) -> None:
    """The sequence with the model's answers beside the right ones."""
    task, scored = opened.subject.task, batch.loss_mask[0]
    words = task.words(batch.tokens[0])
    right = correct(logits, batch)[0]
    st.subheader("Input and answers")
    answers = task.words(logits[0].argmax(-1))
    rows = {"token": words}
    if batch.targets.ndim == 2:
        wanted = task.words(batch.targets[0])
        rows["the model's answer"] = [answers[i] if scored[i] else "" for i in range(len(words))]
        rows["the right answer"] = [wanted[i] if scored[i] else "" for i in range(len(words))]
    rows["right"] = [f"{right[i]:.0%}" if scored[i] else "" for i in range(len(words))]
    st.dataframe(pd.DataFrame(rows, index=[str(i) for i in range(len(words))]).T)
    st.caption(f"{int((right[scored] == 1).sum())} of {int(scored.sum())} answers are right; columns are positions.")


main()
