"""The explorer's router: pick a run and an input, then one panel per view."""

from __future__ import annotations

import shlex

import streamlit as st

from app import state
from app.views import answers, attention, entropy, mechanisms, residual, sidebar


def main() -> None:
    st.set_page_config("workbench explorer", layout="wide")
    found = {run.name: run for run in state.runs()}
    if not found:
        st.title("workbench explorer")
        st.info("There is no run in this folder yet. Make one, then reload the page:")
        st.code(
            f"workbench train chain-chacal --out {shlex.quote(str(state.root() / 'chain-chacal'))}", language="bash"
        )
        return
    with st.sidebar:
        st.title("workbench")
        name = st.selectbox("Run", list(found), key="run", bind="query-params")
        try:
            opened = state.opened(found[name])
            sidebar.facts(opened)
        except (ValueError, OSError) as error:
            st.error(state.plain(str(error)))
            return
        batch = sidebar.entry(opened.subject.task)
    if batch is None:
        st.info("The field on the left says what it expects.")
        return
    seen = opened.see(batch)
    answers.show(seen)
    head = attention.show(seen)
    residual.show(seen)
    entropy.show(seen)
    mechanisms.show(opened, seen, head)


main()
