"""Questions to begin with: each opens a page with a run that answers it, and numbers what to look at there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import streamlit as st

from workbench.app.config_in_words import plain
from workbench.app.fields.values import keep, listed
from workbench.runs import Run

KEY = "question"  # in the URL
NUMBERS = "①②③④⑤"
NOTED = "notes_on_page"  # in the session


@dataclass(frozen=True)
class Question:
    """A question that a page answers.

    Attributes:
        asks: the question.
        page: the script of the page, without its ending.
        fits: how well a run can answer it; 0 if it cannot.
        fields: what the page's fields hold.
        notes: what to look at, in order: the row of the drawing, or the title of the panel, that has the note's number
            -> what to see there.
        beside: a field that takes the names of other runs, and which of them it is to have.
    """

    asks: str
    page: str
    fits: Callable[[Run], int]
    fields: dict[str, str]
    notes: dict[str, str]
    beside: tuple[str, Callable[[Run, Run], bool]] | None = None

    def run_of(self, runs: Sequence[Run]) -> Run | None:
        """The run that answers it best, the first of equals; None if none can."""
        best = max(runs, key=self.fits, default=None)
        return best if best is not None and self.fits(best) else None


def _follows_pointers(run: Run) -> int:
    layers = run.config.model.attention
    if _task(run) != "pointer_chain" or not any(layer["variant"].startswith("chacal") for layer in layers):
        return 0
    return 1 + 2 * (len(layers) == 1) + bool(run.config.steps)  # a trained one before one whose weights were written


def _sorts(run: Run) -> int:
    if _task(run) != "sorting" or run.config.model.n_layers < 2:
        return 0
    return 2 if run.config.steps else 1  # a trained one before one whose weights were written


def _is_deep(run: Run) -> int:
    if run.config.model.n_layers < 2 or not run.config.steps:
        return 0
    plain_multiplication = _task(run) == "multiplication" and run.config.task.get("mode") == "plain"
    return 1 + (not _keeps_variance(run)) + 2 * plain_multiplication + bool(run.checkpoints())


def _keeps_variance(run: Run) -> bool:
    return "seq_vcr" in run.config.objectives


def _task(run: Run) -> str:
    return str(run.config.task["name"])


QUESTIONS: dict[str, Question] = {
    "pointers": Question(
        "How does one layer follow seven pointers?",
        "canvas",
        _follows_pointers,
        {"sample": "0", "focus": "31"},
        {
            "task's truth": (
                "The chain that the last token is the end of: each token points at its parent, and "
                "the answer is the token at the root."
            ),
            "attention": "The same token reads its parent alone, one hop away. A click on the edge cuts it.",
            "after attention 0": (
                "Yet behind this one layer the root is already on top: ChaCAL sums the paths of "
                "every length, so the parent's parents arrive in the same step. The page Hops draws them."
            ),
            "model says": "The answer, green where it is right, and how likely the model finds the right one.",
            "How it works": "What was measured over many inputs, beside re-initialised models.",
        },
    ),
    "delimiter": Question(
        "What does the delimiter know?",
        "canvas",
        _sorts,
        {"sample": "0"},
        {
            "token": "The numbers to sort, then the delimiter ⊥, then the sorted numbers one by one.",
            "after attention 0": (
                "Look below the ⊥: the paper on task hinting finds the smallest number there "
                "after the first attention. Is it on top in this model, or does it come later?"
            ),
            "model says": "Below ⊥ stands the first answer, the smallest number.",
            "How it works": "How often the minimum is read at the delimiter, and whether the answers need it.",
        },
    ),
    "collapse": Question(
        "Why do deep layers collapse?",
        "entropy",
        _is_deep,
        {},
        {
            "This input beside the mean": (
                "Matrix entropy says over how many directions the tokens' representations spread. Where it falls from "
                "one layer to the next they become alike, and what was told apart before is so no more."
            ),
            "Several runs": (
                "Dotted: models of the same shape that learned nothing. What lies below them was learnt; the paper on "
                "Seq-VCR calls it collapse, and adds a loss that keeps the variance up. Where a run with that loss "
                "is here, it is drawn beside this one."
            ),
            "Over training": "When it came, where the run kept checkpoints.",
        },
        beside=("overlay", lambda run, other: other.config.task == run.config.task and _keeps_variance(other)),
    ),
}
"""Name in the URL -> the question."""


def links(runs: Sequence[Run]) -> None:
    """A link for each question that a run can answer, and what to train for the others."""
    for name, question in QUESTIONS.items():
        run = question.run_of(runs)
        if run is None:
            st.caption(f"{question.asks} No run here can answer it.")
            continue
        query = {"run": run.name, KEY: name, **question.fields}
        if question.beside:
            field, fits = question.beside
            other = next((other for other in runs if other.path != run.path and fits(run, other)), None)
            query |= {field: other.name} if other else {}
        st.page_link(f"views/{question.page}.py", label=question.asks, icon=":material/help:", query_params=query)


def show(page: str) -> None:
    """The notes of the question that brought us to this page, if one did; it stays in the URL until it is closed."""
    names = [name for name in listed(KEY)[0] if name in QUESTIONS and QUESTIONS[name].page == page]
    keep(KEY, names[:1])
    st.session_state[NOTED] = {}
    if not names:
        return
    question = QUESTIONS[names[0]]
    st.session_state[NOTED] = dict(zip(question.notes, NUMBERS, strict=False))
    with st.container(border=True, key="panel-question"):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.subheader(question.asks, anchor=False)
            st.button("Close", icon=":material/close:", key="question-close", on_click=_close)
        for number, (at, says) in zip(NUMBERS, question.notes.items(), strict=False):
            st.markdown(f"{number} **{plain(at)}**: {plain(says)}")


def _close() -> None:
    keep(KEY, [])


def numbers() -> dict[str, str]:
    """Row of a drawing, or title of a panel -> the number of the note about it, on this page."""
    noted: dict[str, str] = st.session_state.get(NOTED, {})
    return noted


def numbered(title: str) -> str:
    """The title of a panel, after the number of the note about it if there is one."""
    return " ".join(filter(None, (numbers().get(title), title)))
