"""The explorer's router: the sidebar picks a run and an input, the page at the top what to see of them."""

from __future__ import annotations

import shlex
from pathlib import Path

import streamlit as st

from app import sidebar, state

PAGES = ("overview", "canvas", "residual", "entropy", "hops", "mechanisms", "training", "probes", "compare")
STYLE = Path(__file__).with_name("style.css")


def main() -> None:
    st.set_page_config("workbench", page_icon=":material/hub:", layout="wide")
    pages = [
        st.Page(f"views/{name}.py", title=name.capitalize(), url_path=name, default=name == "overview")
        for name in PAGES
    ]
    st.html(STYLE)
    page = st.navigation(pages, position="top")
    found = {run.name: run for run in state.runs()}
    if not found and page.title != "Overview":
        st.info("There is no run in this folder yet. Make one, then reload the page:")
        out = shlex.quote(str(state.root() / "chain-chacal"))
        st.code(f"workbench train chain-chacal --out {out}", language="bash")
        return
    if found:
        with st.sidebar:
            sidebar.show(found)
    page.run()


main()
