"""The panel "How it works": what was found of a run in a few sentences, measured beside the page, with links behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import streamlit as st

from workbench.app.config_in_words import plain
from workbench.app.panels.held_out import SEED, n_each
from workbench.app.panels.measuring import awaited
from workbench.app.panels.questions import numbered
from workbench.app.state import Look, Opened
from workbench.inspection import Inspected, inspect_run
from workbench.mechanisms import MECHANISMS
from workbench.report.findings import how_sure
from workbench.report.how_it_works import Chip, Statement, head_in_focus, how_it_works
from workbench.report.seed_groups import seed_groups

MOST = 3  # statements above the canvas; the story has all of them
NUMBERS = ("overall", "accuracy", "gold_mass", "entropy")  # measured beside the claims


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


@dataclass(frozen=True)
class Found:
    """What was measured of a run on held-out sequences, and what can be said of it."""

    inspected: Inspected
    statements: Sequence[Statement]
    sure: str


def show(look: Look) -> None:
    """The statements; until they are measured, that they are being measured."""
    with st.container(border=True, key="panel-how"):
        st.subheader(numbered("How it works"), anchor=False)
        if (found := measured(look.opened)) is not None:
            _say(found, bool(look.opened.subject.task.pair_kinds))


def measured(opened: Opened) -> Found | None:
    """What was found of a run; until then None, and the page says that it is being measured, or why it cannot be."""
    job = awaited(opened.key, lambda: measure(opened), "on held-out sequences")
    if job is None:
        return None
    if error := job.future.exception():
        st.error(plain(f"This cannot be measured: {error}"))
        return None
    found: Found = job.future.result()
    return found


def settings(opened: Opened) -> dict[str, Any]:
    """How a run is inspected: arguments of `inspect_run`."""
    only = [*NUMBERS, *MECHANISMS]
    return {"n": n_each(opened.subject.task), "seed": SEED, "step": opened.step, "only": only}


def measure(opened: Opened) -> Found:
    """Measure a run, and say what was found."""
    inspected = inspect_run(opened.run, **settings(opened))
    groups = seed_groups([inspected])
    return Found(inspected, list(how_it_works(groups[0])), how_sure(groups))


def chips(statement: Statement, place: Any) -> None:
    """Links to the panels behind a statement."""
    for chip in statement.chips:
        behind = BEHIND[chip]
        query = behind.query | ({"claim": statement.claims[0]} if len(statement.claims) == 1 else {})
        page, icon = f"views/{behind.page}.py", f":material/{behind.icon}:"
        place.page_link(page, label=chip, icon=icon, help=behind.help, query_params=query)


def in_words(statement: Statement) -> str:
    """A statement as Markdown, the claim's name in bold."""
    return f"**{plain(statement.name)}**: {plain(statement.rest)}" if statement.name else plain(statement.text)


def _say(found: Found, has_pairs: bool) -> None:
    for number, statement in enumerate(found.statements[:MOST]):
        with st.container(key=f"how-{number}"):
            left, right = st.columns([1, 6.6], gap="small")
            chips(statement, left)
            right.markdown(in_words(statement))
    if head := head_in_focus(found.inspected):
        st.markdown(plain(head))
    more = len(found.statements) - MOST
    label = (
        f"Its story in pictures{f', and {more} more findings' if more > 1 else ', and one more' if more == 1 else ''}"
    )
    row = st.container(horizontal=True)
    row.page_link("views/story.py", label=label, icon=":material/auto_stories:")
    if has_pairs:
        row.page_link("views/circuit.py", label="Its circuit: which edges carry the answer", icon=":material/schema:")
    if not any(statement.claims for statement in found.statements):
        st.markdown(
            "How it finds its answers is not known: no claim here is about this task. Its probes say what can "
            "be decoded from it."
        )
    st.caption(f"{plain(found.sure)} *Needed* says more than *holds*: see Mechanisms.")
