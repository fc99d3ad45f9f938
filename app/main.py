"""The explorer's router: the sidebar picks a run and an input, the page at the top what to see of them."""

from __future__ import annotations

import math
import shlex
from contextlib import suppress
from pathlib import Path

import streamlit as st
from streamlit.errors import StreamlitAPIException

from app import sidebar, state

PAGES = ("overview", "canvas", "residual", "entropy", "hops", "mechanisms", "training", "probes", "compare")
STYLE, ICON = (Path(__file__).with_name(name) for name in ("style.css", "icon.svg"))


def refuse_infinity() -> None:
    """Take numbers without end out of a link: a field of whole numbers fails on them before it can refuse them."""
    endless = [key for key in st.query_params if _infinite(st.query_params[key])]
    for key in endless:
        with suppress(StreamlitAPIException):  # a text that was typed, which is in the URL too
            del st.query_params[key]
    if any(key not in st.query_params for key in endless):
        st.rerun()


def _infinite(text: str) -> bool:
    try:
        return math.isinf(float(text))
    except ValueError:
        return False


def main() -> None:
    st.set_page_config("workbench", page_icon=str(ICON), layout="wide")
    pages = [
        st.Page(f"views/{name}.py", title=name.capitalize(), url_path=name, default=name == "overview")
        for name in PAGES
    ]
    st.html(STYLE)
    page = st.navigation(pages, position="top")
    refuse_infinity()
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
