"""The explorer: the menu of pages at the top, and the sidebar that chooses a run and an input."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from time import perf_counter
from typing import Literal

import streamlit as st

from workbench.app import refresh, sidebar, state
from workbench.app.fields import url
from workbench.app.panels import questions
from workbench.app.views import PAGES, Page
from workbench.runs import ModelRun, Run

STYLE, ICON = (Path(__file__).with_name(name) for name in ("style.css", "icon.svg"))


def main() -> None:
    st.set_page_config("workbench", page_icon=str(ICON), layout="wide")
    first = next(iter(PAGES))
    with url.errors_alone():
        state.scan()
        runs = {run.name: run for run in state.runs()}
    shown = {name: _shown(page, runs) for name, page in PAGES.items()}
    menu = [
        st.Page(page.path, title=page.title, url_path=name, default=name == first, visibility=shown[name])
        for name, page in PAGES.items()
    ]
    st.html(STYLE)
    script = st.navigation(menu, position="top")
    name = script.url_path or first  # the default page's path is empty
    page = PAGES[name]
    groups = _groups([name for name in PAGES if shown[name] == "visible"])
    st.html(f'<style>{groups}</style><h1 class="heard">workbench</h1>')  # the first is for who hears the page
    st.html(f'<h2 class="page">{page.title} <span>{page.says}</span></h2>')
    st.set_page_config(f"{page.title} · workbench")
    began = perf_counter()
    with url.of_page(name):
        state.on_page().clear()
        if not runs and PAGES[name].needs_run:
            st.info("There is no run in this folder yet. Train one with this command, then reload the page:")
            out = shlex.quote(str(state.as_seen(state.root() / "chain-chacal")))
            st.code(f"workbench train chain-chacal --out {out}", language="bash")
            return
        if runs:
            with st.sidebar:
                sidebar.show(runs)
        questions.show(name)
        try:
            script.run()
        except Exception as error:
            state.tell_if_gone(error)
        on_page = state.on_page() if PAGES[name].needs_run else runs
        refresh.when_training(on_page.values(), perf_counter() - began)


def _shown(page: Page, runs: Mapping[str, Run]) -> Literal["visible", "hidden"]:
    """Whether the menu has a page: not one that says nothing of the sidebar's run; by its address that opens too."""
    if not runs:
        return "visible"
    named = st.query_params.get("run", url.memory().held.get("run"))
    run = runs.get(str(named)) or runs[state.first(list(runs.values()))]
    if not isinstance(run, ModelRun) or (not page.needs_run and len(runs) > 1):  # the overview is of all runs
        return "visible"
    standard = all(layer["variant"] == "standard" for layer in run.config.model.attention)
    return "hidden" if not page.of_models or (page.of_variants and standard) else "visible"


def _groups(names: Iterable[str]) -> str:
    """The style that writes the name of each group of pages above the first of them in the menu."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(PAGES[name].group, []).append("" if name == next(iter(PAGES)) else name)
    rule = '[data-testid="stTopNavLinkContainer"]:has(> a[href$="/{}"])::before {{ content: "{}"; {}}}'
    room = "position: static; display: block; margin: -.9rem .35rem 0; "  # where no page beside it lends its own
    return "\n".join(rule.format(pages[0], group, room if len(pages) == 1 else "") for group, pages in groups.items())


main()
