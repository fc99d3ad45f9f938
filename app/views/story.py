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
from workbench.judgement.words.findings import Statement
from workbench.report.run_page import run_page
from workbench.report.story import LIMITS, TITLES, Chapter, of_findings, story
from workbench.runs import ModelRun
from workbench.util.words import capitalised

belongs_to_run("chapter")


@url.fragment
def kept_chapters(look: Look, known: Kept) -> None:
    """The chapters of what is kept; one whose picture takes a measurement is measured when it is chosen."""
    findings = code.call(kept, code.run(look.opened), computed_by=lambda run: known).findings
    told = code.assign("told", of_findings, findings, code.run(look.opened), code.seen(look))
    chapters(look, told, list(value_of(told)))


@url.fragment
def measured_chapters(look: Look, found: how_it_works.Found) -> None:
    """The chapters of a run that is measured in this session, as far as it is."""
    measured = code.assign(
        "measured",
        inspect_run,
        code.run(look.opened),
        **found.settings,
        computed_by=lambda run, **how: found.inspected,
    )
    key = (*look.opened.key, found.to_come)

    def tell(inspected: Inspected, seen: Capture) -> list[Chapter]:
        return story(inspected, seen, _without_input(key, inspected))

    told = code.assign("told", story, measured, code.seen(look), computed_by=tell)
    known = look.opened.kept if found.to_come else None
    # The sentences stay those of what is kept, so that none changes while its pictures are measured.
    listed = value_of(told) if known is None else of_findings(known.findings, look.opened.run, look.seen)
    chapters(look, told, list(listed))


def chapters(look: Look, told: Symbol, listed: list[Chapter]) -> None:
    """A list of what was found, and the sentence and the pictures of the one that is chosen: at first a finding's.

    Args:
        look: the run and the input.
        told: the chapters that there are so far, with the code that makes them.
        listed: all of them, by their titles.
    """
    there = [chapter.title for chapter in value_of(told)]
    titles = {chapter.title: chapter.statement for chapter in listed}
    first = next((title for title, statement in titles.items() if statement.brief), next(iter(titles)))
    with st.container(horizontal=True, key="story"):
        with st.container(key="story-list"):
            brief = [
                one.brief or (_short(title, one) if "absent" in one.chips else "") for title, one in titles.items()
            ]
            chosen = fields.choose(
                "Chapter", list(titles), "chapter", first, by="list", captions=list(map(plain, brief))
            )
        with st.container(key="story-chapter"):
            if chosen in there:
                chapter(told, there.index(chosen), look)
            else:
                st.markdown(f"**{plain(_short(chosen, titles[chosen]))}**")
                st.info("The picture behind this sentence is still being measured.")


# A resource, not data: figures are never changed, and other chapters and inputs are shown without drawing them again.
@st.cache_resource(show_spinner="Drawing what was found …", max_entries=24)
def _without_input(key: tuple[object, ...], _inspected: Inspected) -> list[Chapter]:
    return story(_inspected)


def _short(title: str, told: Statement) -> str:
    """A chapter's sentence, without the title that it may begin with."""
    return capitalised(told.rest) if told.name == title else told.text


def chapter(told: Symbol, number: int, look: Look) -> None:
    """One finding in a sentence, with its pictures and what they do not show."""
    one: Chapter = value_of(told)[number]
    with panel(one.title, "story") as p:
        if one.statement.parts:
            claim, *found = map(plain, one.statement.parts)
            st.markdown(f"**{plain(capitalised(one.statement.brief))}.**  \n{capitalised(claim)}")
            with st.expander("In full, with its controls and edits"):
                st.markdown("\n".join(f"- {part}" for part in found))
        else:
            st.markdown(plain(_short(one.title, one.statement)))
        if one.statement.chips:
            with st.container(horizontal=True, key="how-story"):
                how_it_works.chips(one.statement, st, look.opened.run)
        for i in range(len(one.pictures)):
            part = p if i == 0 else p.part(f"Picture {i + 1}", str(i + 1))
            part.show(
                told[number].pictures[i], {} if i else one.numbers, one.limits if i == len(one.pictures) - 1 else ""
            )
        if one.table is not None:
            st.table(one.table.map(plain).set_index("claim"))
        if not one.pictures:
            st.caption(one.limits)
            if one.table is None and how_it_works.already(look.opened) is not None:
                how_it_works.measured(look.opened)  # what its picture is drawn from is not kept


look = current()
known = how_it_works.already(look.opened)
if known is not None:
    kept_chapters(look, known)
elif (found := how_it_works.measured(look.opened)) is not None:
    measured_chapters(look, found)
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
