"""The explorer's router: the sidebar picks a run and an input, the page at the top what to see of them."""

from __future__ import annotations

import shlex
from pathlib import Path
from time import perf_counter

import streamlit as st

from workbench.app import sidebar, state, watch
from workbench.app.fields import address
from workbench.app.panels import basket

PAGES = ("overview", "canvas", "residual", "entropy", "hops", "mechanisms", "training", "probes", "compare")
STYLE, ICON = (Path(__file__).with_name(name) for name in ("style.css", "icon.svg"))


def main() -> None:
    st.set_page_config("workbench", page_icon=str(ICON), layout="wide")
    pages = [
        st.Page(f"views/{name}.py", title=name.capitalize(), url_path=name, default=name == "overview")
        for name in PAGES
    ]
    st.html(STYLE)
    page = st.navigation(pages, position="top")
    began = perf_counter()
    with address.of_page(page.title):
        found = {run.name: run for run in state.runs()}
        state.on_page().clear()
        if not found and page.title != "Overview":
            st.info("There is no run in this folder yet. Make one, then reload the page:")
            out = shlex.quote(str(state.root() / "chain-chacal"))
            st.code(f"workbench train chain-chacal --out {out}", language="bash")
            return
        if found:
            with st.sidebar:
                sidebar.show(found)
                basket.show()
        page.run()
        on_page = found if page.title == "Overview" else state.on_page()
        watch.training(on_page.values(), perf_counter() - began)


main()
