"""The panel "How it works": what was found of a run in a few sentences, measured beside the page, with links behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import streamlit as st

from workbench.app import state
from workbench.app.config_in_words import plain
from workbench.app.panels import background
from workbench.app.panels.measuring import in_parts
from workbench.app.panels.questions import numbered
from workbench.app.state import Look, Opened
from workbench.app.views import PAGES
from workbench.inspection.found import FIRST, Found, Kept, find, has_place, keep, kept
from workbench.judgement.findings import Findings
from workbench.judgement.words.findings import Chip, Statement, focus, how_sure, no_claim, statements
from workbench.runs import ModelRun, Run

MOST = 3  # statements above the canvas; the story has all of them


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
    "absent": Behind("mechanisms", "search_off", "Looked for, and not found where it would be", {}),
    "tells nothing": Behind("mechanisms", "balance", "Not clearly more than under a control, or too few to tell", {}),
    "spread": Behind("entropy", "open_in_full", "How many directions the representations use", {}),
    "collapse": Behind(
        "entropy", "compress", "Entropy below re-initialised models: how many directions the representations use", {}
    ),
}


def show(look: Look) -> None:
    """The statements; until all are measured, those that are, and that the others are being measured."""
    with st.container(border=True, key="panel-how"):
        st.subheader(numbered("How it works"), anchor=False)
        if (known := already(look.opened)) is not None:
            _say(known, look.opened)
        elif (found := measured(look.opened, lambda so_far: _say(so_far, look.opened))) is not None:
            _say(found, look.opened)


def already(opened: Opened) -> Kept | None:
    """What was found of a run before, and is kept beside its weights; None while it is measured in this session."""
    return None if background.job(opened.key) is not None else opened.kept


def findings(run: Run, step: int | None = None) -> Findings | None:
    """What is known of a run without measuring anything: what is kept of it, or was measured in this session."""
    job = background.job((str(run.path), run.version_at(step), step))
    if job is not None and job.future.done() and job.future.exception() is None:
        found: Found = job.future.result()
        return found.findings
    known = state.kept(run) if step is None else None
    return None if known is None else known.findings


def measured(opened: Opened, meanwhile: Callable[[Found], None] | None = None) -> Found | None:
    """What was found of a run; until then None, and the page says that it is being measured, or why it cannot be.

    Args:
        opened: the run.
        meanwhile: draws what is found before all is; by default that is returned, and the page made anew when there is
            more.
    """

    def to_come(found: Found | None) -> str:
        return FIRST if found is None else found.to_come

    job = in_parts(opened.key, lambda job: measure(opened, job.tell), to_come, meanwhile)
    if job is None:
        return None
    if not job.future.done():
        return job.so_far  # type: ignore[no-any-return]
    if error := job.future.exception():
        st.error(plain(f"This cannot be measured: {error}"))
        return None
    found: Found = job.future.result()
    return found


def measure(opened: Opened, tell: Callable[[float], None] | None = None) -> Iterator[Found]:
    """What is found of a run, part by part; all of it is kept beside the weights where nothing is, and if that can be.

    Args:
        opened: the run.
        tell: is told how much is done of the part that is being measured.
    """
    for part in find(opened.run, opened.step, tell):
        if not part.to_come and opened.step is None and has_place(opened.run) and kept(opened.run) is None:
            with suppress(OSError):  # another's folder, or a full disk: it is measured again next time
                keep(part)
        yield part


def chips(statement: Statement, place: Any, run: Run) -> None:
    """Links to the panels behind a statement; the words alone where the menu has no such page for the run."""
    for chip in statement.chips:
        behind = BEHIND[chip]
        query = behind.query | ({"claim": statement.claims[0]} if len(statement.claims) == 1 else {})
        if isinstance(run, ModelRun) and not PAGES[behind.page].of_models:
            place.markdown(f":material/{behind.icon}: {chip}")
            continue
        page, icon = f"views/{behind.page}.py", f":material/{behind.icon}:"
        place.page_link(page, label=chip, icon=icon, help=behind.help, query_params=query)


def in_words(statement: Statement) -> str:
    """A statement as Markdown, the claim's name in bold, without what its story says more."""
    return f"**{plain(statement.name)}**: {plain(statement.shorter)}" if statement.name else plain(statement.text)


def _say(found: Found | Kept, opened: Opened) -> None:
    said, head = statements(found.findings), focus(found.findings.focus)
    for number, statement in enumerate(said[:MOST]):
        with st.container(key=f"how-{number}"):
            left, right = st.columns([1, 6.6], gap="small")
            chips(statement, left, opened.run)
            right.markdown(in_words(statement))
    if head:
        with st.container(key="how-head"):
            st.markdown(plain(head))
    if isinstance(found, Found) and found.to_come:
        return
    more = len(said) - MOST
    label = (
        f"Its story in pictures{f', and {more} more findings' if more > 1 else ', and one more' if more == 1 else ''}"
    )
    row = st.container(horizontal=True)
    row.page_link("views/story.py", label=label, icon=":material/auto_stories:")
    if opened.subject.task.pair_kinds:
        row.page_link("views/circuit.py", label="Its circuit: which edges carry the answer", icon=":material/schema:")
    if not any(statement.claims for statement in said):
        with st.container(key="how-unknown"):
            st.markdown(f"{no_claim(found.findings)} Its probes say what can be decoded from it.")
    when = f" Found on {found.made:%d %B %Y}." if isinstance(found, Kept) else ""
    more_than = "" if isinstance(opened.run, ModelRun) else " *Needed* says more than *holds*: see Mechanisms."
    st.caption(f"{plain(how_sure([found.findings]))}{when}{more_than}")
