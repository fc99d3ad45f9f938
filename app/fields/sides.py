"""The two sides of a comparison: the sidebar's, and a second run, checkpoint and input from the top of the page."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from workbench.app import sidebar, state
from workbench.app.config_in_words import plain
from workbench.app.fields import widgets as fields
from workbench.app.fields.prompts import prompt
from workbench.app.fields.url import memory
from workbench.app.fields.values import start_anew
from workbench.app.fields.widgets import choose, choose_there
from workbench.app.panels import code
from workbench.app.panels.code import Symbol
from workbench.app.state import Look, Opened
from workbench.inspection import over_training
from workbench.inspection.examples import example
from workbench.runs import Run

SAME = "Same input"
COUNTS = (16, 32, 64, 128, 256)  # held-out sequences for each test condition
LONG = 256  # tokens: of longer contexts fewer sequences are measured, unless asked


@dataclass(frozen=True)
class Sides:
    """The two sides that the page compares.

    Attributes:
        first, second: a run and an input each; in code the second one's names end in `_b`.
        n: held-out sequences for each test condition, on which both are measured.
    """

    first: Look
    second: Look
    n: int

    @property
    def looks(self) -> tuple[Look, Look]:
        return self.first, self.second

    @property
    def names(self) -> tuple[str, str]:
        """Their names in the legends of figures."""
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
    """The sidebar's run and input beside fields for the second side; None, with a message, if that cannot be opened."""
    with st.container(border=True, key="sides"):
        left, right, settings = st.columns([1, 5.4, 1.2], vertical_alignment="center")
        left.markdown(f"**A · {plain(first.opened.name)}**  \n:gray[:small[from the sidebar]]")
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
            place=fields.settings(settings),
            help="With more sequences the intervals are narrower and the wait is longer. If both sides have the same "
            "task, they are measured on the same sequences.",
        )
    return Sides(first, second, n)


def _second(first: Look) -> Look | None:
    run_at, step_at, input_at = st.columns([1, 0.6, 2.1])
    runs = others_first(first.opened.run)
    session = memory()
    # Where A is changed: B keeps its run, unless that is A now, or nobody chose it.
    replaceable = session.held.get("run2") in (first.opened.run.name, session.defaults.get("run2"))
    start_anew(["run2"] if replaceable else [], str(first.opened.run.path), "run2")
    name = choose_there("Run B", list(runs), "run2", next(iter(runs)), run_at)
    if name is None:
        return None
    run = runs[name]
    of_a = run.path == first.opened.run.path
    try:
        kept = over_training.checkpoints(run)
        # A's own run is compared with itself halfway through training; of another run it is the end.
        halfway = kept[(len(kept) - 1) // 2] if of_a and first.opened.step is None and kept else None
        with step_at:
            opened = state.opened(run, sidebar.checkpoint(run, "step2", halfway))
    except (ValueError, OSError) as error:
        st.error(plain(str(error)))
        return None
    # One and the same model is compared on another input; anything else on the same one.
    default = sidebar.SAMPLED if of_a and not kept else SAME
    inputs = {SAME: SAME, **sidebar.inputs(opened)}
    how = choose("Input of B", list(inputs), "how2", default, inputs.__getitem__, input_at, by="row")
    try:
        batch = _input(first, opened, how)
    except ValueError as error:
        st.error(plain(str(error)))
        return None
    return Look(opened, code.named("batch_b", batch), "_b")


def others_first(run: Run) -> dict[str, Run]:
    """Every run by its name: others of the same task first, the most alike foremost, then this one, then the rest."""

    def place(other: Run) -> tuple[int, int]:
        own, task = run.config.task, other.config.task
        if other.path == run.path:
            return 1, 0
        if task["name"] != own["name"]:
            return 2, 0
        return 0, sum(own.get(key) != task.get(key) for key in own | task)

    return {other.name: other for other in sorted(state.runs(), key=place)}


def _input(first: Look, opened: Opened, how: str) -> Symbol:
    """The second side's input; "the same" is the first side's, written as the second side's task writes it.

    Raises:
        ValueError: if what was typed is no input of its task.
    """
    if how == sidebar.TYPED:
        return sidebar.typed(opened, "Input of B, as its task writes it", "input2", "_b")
    if how == sidebar.PROMPT:
        return prompt(opened, "2")
    task = first.opened.subject.task
    if how == SAME and opened.subject.task == task:
        return first.input
    if how == SAME:
        try:
            return code.task(opened, "_b").parse(task.question(first.batch.tokens[0]))
        except ValueError as error:
            why = plain(str(error))
            st.info(f"{plain(opened.name)} cannot read A's input ({why}), so B reads a sample of its own task.")
    number = fields.number(
        "Input number of B", 0, sidebar.LAST_INPUT, "sample2", 1, help=sidebar.SAMPLE_HELP, width=220
    )
    return code.call(example, code.model(opened, "_b"), code.task(opened, "_b"), number)
