"""The two sides of a comparison: the sidebar's, and a second run, checkpoint and input from the top of the page."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from workbench.app import sidebar, state
from workbench.app.fields import widgets as fields
from workbench.app.fields.address import memory
from workbench.app.fields.widgets import choose, choose_there, start_anew
from workbench.app.state import Look, Opened, plain
from workbench.inspection.examples import example
from workbench.runs import Run
from workbench.tasks import Batch

INPUTS = ("Same input", "Sample", "Type")
COUNTS = (16, 32, 64, 128, 256)  # held-out sequences for each test condition
LONG = 256  # tokens: of longer contexts fewer sequences are measured, unless asked


@dataclass(frozen=True)
class Sides:
    """What is held against what.

    Attributes:
        first, second: the two sides; the names in the second one's lines end in `_b`.
        n: held-out sequences for each test condition that measures are taken over.
    """

    first: Look
    second: Look
    n: int

    @property
    def looks(self) -> tuple[Look, Look]:
        return self.first, self.second

    @property
    def names(self) -> tuple[str, str]:
        """What lines of the two are called in figures."""
        return f"A · {self.first.opened.name}", f"B · {self.second.opened.name}"

    @property
    def one_model(self) -> bool:
        """Whether both sides are the same weights, so that only their inputs can differ."""
        return self.first.opened.key == self.second.opened.key

    @property
    def one_input(self) -> bool:
        """Whether both models read the same tokens of one vocabulary."""
        first, second = (look.opened.subject.task.vocabulary for look in self.looks)
        return first == second and self.first.batch.tokens.tolist() == self.second.batch.tokens.tolist()


def choose_sides(first: Look) -> Sides | None:
    """What the sidebar chose, beside fields for the second side; None where that cannot be, which is said there."""
    with st.container(border=True, key="sides"):
        left, right = st.columns([1, 1.6], gap="large")
        with left:
            st.markdown(f"**A · {plain(first.opened.name)}**")
            sidebar.facts(first.opened)
            st.caption("The run, checkpoint and input of the sidebar.")
        with right:
            second = _second(first)
        if second is None:
            return None
        n_ctx = max(look.opened.subject.task.n_ctx for look in (first, second))
        n = choose(
            "Held-out sequences per condition",
            COUNTS,
            "compare_n",
            16 if n_ctx > LONG else 64,
            place=left,
            help="More sequences, narrower intervals, and longer to wait. Both sides are measured on the same ones "
            "where their tasks are the same.",
        )
    return Sides(first, second, n)


def _second(first: Look) -> Look | None:
    head = st.container()
    run_at, step_at = st.columns(2)
    found = _others_first(first.opened.run)
    own = memory()
    loose = own.held.get("run2") in (first.opened.run.name, own.defaults.get("run2"))  # A now, or not chosen by anyone
    start_anew(["run2"] if loose else [], str(first.opened.run.path), "run2")
    name = choose_there("Run B", list(found), "run2", next(iter(found)), run_at)
    if name is None:
        return None
    run = found[name]
    try:
        with step_at:
            opened = state.opened(run, sidebar.checkpoint(run, "step2"))
        head.markdown(f"**B · {plain(opened.name)}**")
        with head:
            sidebar.facts(opened)
    except (ValueError, OSError) as error:
        st.error(plain(str(error)))
        return None
    how = fields.segments("Input of B", INPUTS, "how2", INPUTS[0])
    try:
        batch, line = _input(first, opened, how)
    except ValueError as error:
        st.error(plain(str(error)))
        return None
    return Look(opened, batch, (line,), "_b")


def _others_first(run: Run) -> dict[str, Run]:
    """Every run by its name: others of the same task first, then this one, then the rest."""

    def place(other: Run) -> int:
        if other.path == run.path:
            return 1
        return 0 if other.config.task == run.config.task else 2 + (other.config.task["name"] != run.config.task["name"])

    return {other.name: other for other in sorted(state.runs(), key=place)}


def _input(first: Look, opened: Opened, how: str) -> tuple[Batch, str]:
    """The second side's input, and the line that makes it.

    Raises:
        ValueError: if what was typed is no input of its task.
    """
    if how == "Type":
        return sidebar.typed(opened.subject.task, "B's input, in its task's own words", "input2", "_b")
    if how == "Sample":
        return _sampled(opened)
    try:
        return _same(first, opened)
    except ValueError as error:
        st.info(
            f"{plain(opened.name)} cannot read A's input ({plain(str(error))}), so it has a sample of its own task."
        )
        return _sampled(opened)


def _same(first: Look, opened: Opened) -> tuple[Batch, str]:
    """The first side's input, in the words of the second one's task."""
    task, own = opened.subject.task, first.opened.subject.task
    if task == own:
        return first.batch, "batch_b = batch"
    words = own.question(first.batch.tokens[0])
    return task.parse(words), f"batch_b = task_b.parse({words!r})"


def _sampled(opened: Opened) -> tuple[Batch, str]:
    number = fields.number("Number of B's sample", 0, 10**6, "sample2", 0, help=sidebar.SAMPLE_HELP, width=220)
    batch = example(opened.model, opened.subject.task, number)
    return batch, f"batch_b = workbench.example(run_b.model({opened.at}), task_b, {number})"
