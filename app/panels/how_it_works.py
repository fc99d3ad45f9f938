"""The panel "How it works": what was found of a run in a few sentences, measured beside the page, with links behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import streamlit as st

from workbench.app.config_in_words import plain
from workbench.app.panels import background
from workbench.app.panels.held_out import SEED, n_each
from workbench.app.panels.questions import numbered
from workbench.app.state import Look, Opened
from workbench.inspection import inspect_run
from workbench.mechanisms import MECHANISMS
from workbench.report.findings import how_sure
from workbench.report.how_it_works import Chip, Statement, how_it_works
from workbench.report.seed_groups import seed_groups

EVERY = 1.0  # seconds between two looks at what is being measured
NUMBERS = ("overall", "accuracy", "gold_mass")  # measured beside the claims


class Behind(NamedTuple):
    """Where a chip leads.

    Attributes:
        page: the script with the panels behind a statement.
        icon: of the chip.
        help: what the chip says of the statement.
        query: fields of that page.
    """

    page: str
    icon: str
    help: str
    query: dict[str, str]


BEHIND: dict[Chip, Behind] = {
    "answers": Behind("training", "check", "How often the answers are right, and when that was learnt", {}),
    "reads": Behind("mechanisms", "visibility", "What attention reads, more often than under any control", {}),
    "holds": Behind("mechanisms", "inbox", "What the residual holds, more often than under any control", {}),
    "needed": Behind("mechanisms", "bolt", "Edited inside the model, the answers change", {"causal": "true"}),
    "tells nothing": Behind("mechanisms", "balance", "A model that knows nothing does so too", {}),
    "collapse": Behind("entropy", "compress", "How many directions the representations use", {}),
}


def show(look: Look) -> None:
    """The statements; until they are measured, that they are being measured."""
    opened = look.opened
    with st.container(border=True, key="panel-how"):
        st.subheader(numbered("How it works"), anchor=False)
        job = background.job(opened.key)
        if job is None or not job.future.done():
            _measuring(opened)
        elif error := job.future.exception():
            st.error(plain(f"This cannot be measured: {error}"))
        else:
            statements, sure = job.future.result()
            _say(opened, statements, sure)


def _measuring(opened: Opened) -> None:
    """Ask for the measurement once the page stands, and look every second whether it is there."""
    began = False

    def look() -> None:
        nonlocal began
        if not began:  # this is the page being made: the browser asks again when it shows it
            began = True
            st.caption(":material/hourglass: To be measured on held-out sequences …")
            return
        job = background.ask(opened.key, lambda: measure(opened))
        if job.future.done():
            st.rerun()
        st.caption(f":material/hourglass: Measuring on held-out sequences, {job.seconds:.0f} s so far …")

    st.fragment(look, run_every=EVERY)()


def measure(opened: Opened) -> tuple[list[Statement], str]:
    """What can be said of a run, and how sure it is."""
    n, only = n_each(opened.subject.task), [*NUMBERS, *MECHANISMS]
    groups = seed_groups([inspect_run(opened.run, n=n, seed=SEED, step=opened.step, only=only)])
    return list(how_it_works(groups[0])), how_sure(groups)


def _say(opened: Opened, statements: Sequence[Statement], sure: str) -> None:
    for number, statement in enumerate(statements):
        with st.container(key=f"how-{number}"):
            chips, text = st.columns([1, 6.6], gap="small")
            for chip in statement.chips:
                behind = BEHIND[chip]
                query = behind.query | ({"claim": statement.claim} if statement.claim else {})
                page, icon = f"views/{behind.page}.py", f":material/{behind.icon}:"
                chips.page_link(page, label=chip, icon=icon, help=behind.help, query_params=query)
            name, _, rest = statement.text.partition(": ")
            text.markdown(f"**{plain(name)}**: {plain(rest)}" if statement.claim else plain(statement.text))
    if not any(statement.claim or "tells nothing" in statement.chips for statement in statements):
        st.markdown(
            "How it finds its answers is not known: no claim here is about this task. Its probes say what can "
            "be decoded from it."
        )
    st.caption(
        f"{plain(sure)} A claim that holds shows how an answer could be made; *needed*, that the model makes it so."
    )
