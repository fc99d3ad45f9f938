"""A run's story: what was found of it, a sentence and its picture at a time."""

from __future__ import annotations

import streamlit as st

from workbench import figures
from workbench.app.config_in_words import plain
from workbench.app.fields import url
from workbench.app.fields import widgets as fields
from workbench.app.fields.heads import needed_head
from workbench.app.fields.values import belongs_to_run
from workbench.app.panels import code, how_it_works
from workbench.app.panels.code import Symbol, value_of
from workbench.app.panels.panel import panel
from workbench.app.state import Look, current
from workbench.capture import Capture
from workbench.inspection import Inspected, inspect_run
from workbench.inspection.found import Kept, kept
from workbench.judgement.words.findings import Statement, statements
from workbench.report.run_page import run_page
from workbench.report.story import (
    LEARNT,
    LIMITS,
    SURE,
    TITLES,
    Chapter,
    of_many_inputs,
    story,
    title_of,
    with_input,
)
from workbench.runs import ModelRun, Run
from workbench.util.words import capitalised

belongs_to_run("chapter")


def show(look: Look) -> None:
    """The chapters, once the run is measured; until then what it is asked, which needs no measurement."""
    found = how_it_works.measured(look.opened)
    if found is not None:
        chapters(look, found)
    elif look.opened.subject.no_pattern is None:
        layer, head = needed_head(look)
        with panel(TITLES["asked"], "story") as p:
            p.show(code.call(figures.canvas, code.seen(look), layer=layer, head=head), {}, LIMITS["asked"])
    run = look.opened.run
    if look.opened.step is None and not isinstance(run, ModelRun):
        st.download_button(
            "This run as one page",
            lambda: run_page(run),
            f"{run.name}.html",
            "text/html",
            icon=":material/download:",
            help="One HTML file that opens from a disk, with no server. What is not kept of the run is measured first.",
            on_click="ignore",
            key="run-page",
        )


@url.fragment
def chapters(look: Look, found: how_it_works.Found) -> None:
    """What was found in sentences, and the pictures of the one that is chosen."""
    measured = code.assign(
        "measured",
        inspect_run,
        code.run(look.opened),
        **found.settings,
        computed_by=lambda run, **how: found.inspected,
    )
    key, known = (*look.opened.key, found.to_come), None
    if found.to_come and look.opened.step is None:
        known = kept(look.opened.run)

    def tell(inspected: Inspected, seen: Capture) -> list[Chapter]:
        return with_input(_of_many_inputs(key, inspected), inspected, seen, known)

    told = code.assign("told", story, measured, code.seen(look), computed_by=tell)
    there = [chapter.title for chapter in value_of(told)]
    sentences = {chapter.title: _short(chapter.title, chapter.statement) for chapter in value_of(told)}
    if known is not None:
        sentences = _as_known(sentences, known)
    with st.container(horizontal=True, key="story"):
        with st.container(key="story-list"):
            said = [plain(one) for one in sentences.values()]
            chosen = fields.listed("Chapter", list(sentences), "chapter", next(iter(sentences)), said)
        with st.container(key="story-chapter"):
            if chosen in there:
                chapter(told, there.index(chosen), look.opened.run)
            else:
                st.info("The pictures behind this sentence are still being measured.")


def _as_known(sentences: dict[str, str], known: Kept) -> dict[str, str]:
    """Title -> sentence of the whole story as it is kept, so that none changes while its pictures are measured."""
    about_many = {title_of(one): _short(title_of(one), one) for one in statements(known.findings)}
    asked, learnt, sure = (
        {title: sentences[title] for title in sentences if title == which} for which in (TITLES["asked"], LEARNT, SURE)
    )
    whole = dict(asked)
    for title, said in about_many.items():
        whole |= {title: said} | (learnt if title == TITLES["answers"] else {})
    return whole | sure


# A resource, not data: figures are never changed, and other chapters and inputs are shown without drawing them again.
@st.cache_resource(show_spinner="Drawing what was found …", max_entries=24)
def _of_many_inputs(key: tuple[object, ...], _inspected: Inspected) -> list[Chapter]:
    return of_many_inputs(_inspected)


def _short(title: str, told: Statement) -> str:
    """A chapter's sentence, without the title that it may begin with."""
    return capitalised(told.rest) if told.name == title else told.text


def chapter(told: Symbol, number: int, run: Run) -> None:
    """One finding with its pictures and what they do not show."""
    one: Chapter = value_of(told)[number]
    with panel(one.title, "story") as p:
        if one.statement.chips:
            with st.container(horizontal=True, key="how-story"):
                how_it_works.chips(one.statement, st, run)
        for i in range(len(one.pictures)):
            part = p if i == 0 else p.part(f"Picture {i + 1}", str(i + 1))
            part.show(
                told[number].pictures[i], {} if i else one.numbers, one.limits if i == len(one.pictures) - 1 else ""
            )
        if one.table is not None:
            st.table(one.table.map(plain).set_index("claim"))
        if not one.pictures:
            st.caption(one.limits)


show(current())
