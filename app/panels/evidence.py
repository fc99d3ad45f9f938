"""Evidence: figures pinned on any page, which can be downloaded as one HTML page or as a notebook."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, TypeAlias

import nbformat
import plotly.graph_objects as go
import streamlit as st

from workbench.figures import Drawing

Figure: TypeAlias = go.Figure | Drawing
MOST_BROWSERS = 50  # whose evidence the server keeps


@dataclass(frozen=True)
class Pinned:
    """One figure as it was when it was pinned.

    Attributes:
        title: of its panel.
        says: its caption: what it shows and what it does not show.
        figure: the figure.
        code: the lines of Python that make it.
    """

    title: str
    says: str
    figure: Figure
    code: str


@st.cache_resource(show_spinner=False)
def _kept_for_browsers() -> dict[str, list[Pinned]]:
    """Token of a browser's cookie -> its evidence; kept as long as the server runs."""
    return {}


def _cookie() -> str:
    """The cookie's name: browsers do not tell the servers of one machine apart by their ports."""
    return f"workbench-evidence-{st.get_option('server.port')}"


def pinned() -> list[Pinned]:
    """The evidence of this browser, in the order it was pinned. All its tabs share it, and it survives a reload."""
    if "evidence" not in st.session_state:
        token = st.context.cookies.get(_cookie(), "")
        known = _kept_for_browsers().get(token)
        st.session_state["evidence_token"] = token if known is not None else secrets.token_urlsafe()
        st.session_state["evidence"] = [] if known is None else known
    evidence: list[Pinned] = st.session_state["evidence"]
    return evidence


def pin(one: Pinned) -> None:
    """Add a figure to the evidence."""
    evidence = pinned()
    evidence.append(one)
    kept = _kept_for_browsers()
    kept[st.session_state["evidence_token"]] = evidence
    for token in list(kept)[:-MOST_BROWSERS]:
        kept.pop(token, None)


@st.cache_resource(show_spinner=False)
def _keeper() -> Any:
    script = Path(__file__).with_name("evidence.js").read_text(encoding="utf-8")
    return st.components.v2.component("workbench_evidence", js=script)


def as_html(figure: Figure) -> str:
    """A figure as part of a page that has plotly.js."""
    if isinstance(figure, Drawing):
        return figure.page()
    light = go.Figure(figure).update_layout(template="plotly_white")
    return light.to_html(full_html=False, include_plotlyjs=False, config={"displaylogo": False})


def page(evidence: list[Pinned]) -> str:
    """The evidence as one HTML page that needs no other file."""
    from plotly.offline import get_plotlyjs

    sections = "".join(
        f"<section><h2>{escape(one.title)}</h2>{as_html(one.figure)}<p>{escape(one.says)}</p>"
        f"<details><summary>The Python code that makes this figure</summary><pre>{escape(one.code)}</pre></details>"
        "</section>"
        for one in evidence
    )
    script = f"<script>{get_plotlyjs()}</script>" if any(isinstance(one.figure, go.Figure) for one in evidence) else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>workbench: evidence</title><style>'
        "body{font:16px/1.5 system-ui,sans-serif;max-width:1180px;margin:2rem auto;padding:0 1.5rem;color:#1b1b1b}"
        "h2{font-size:1.2rem;margin-top:2.5rem}p{color:#555;max-width:90ch}pre{background:#f5f5f5;padding:1rem;"
        f"overflow-x:auto}}</style>{script}</head><body><h1>Evidence</h1>{sections}</body></html>"
    )


def notebook(evidence: list[Pinned]) -> str:
    """A notebook: the code of each figure, with the figure as it was pinned as its output."""
    cells = []
    for one in evidence:
        cells.append(nbformat.v4.new_markdown_cell(f"## {one.title}\n\n{one.says}"))
        cell = nbformat.v4.new_code_cell(one.code)
        if isinstance(one.figure, Drawing):
            data = {"text/html": one.figure.page()}
        else:
            data = {"application/vnd.plotly.v1+json": json.loads(one.figure.to_json() or "{}")}
        cell.outputs = [nbformat.v4.new_output("display_data", data=data)]
        cells.append(cell)
    return nbformat.writes(nbformat.v4.new_notebook(cells=cells))


def show() -> None:
    """Fill the evidence's place in the sidebar."""
    evidence = pinned()
    if evidence:
        _keeper()(data={"name": _cookie(), "value": st.session_state["evidence_token"]}, key="evidence-cookie")
    if not evidence:
        st.caption("No figure pinned yet. A panel's *Code* menu pins its figure here.")
        return
    with st.popover(f"Evidence ({len(evidence)})", icon=":material/push_pin:", width="stretch"):
        for i, one in enumerate(evidence):
            left, right = st.columns([6, 1])
            left.write(one.title)
            if right.button("", icon=":material/delete:", key=f"unpin-{i}", help="Remove from the evidence"):
                del evidence[i]
                st.rerun()
        st.download_button(
            "One HTML page", lambda: page(evidence), "evidence.html", "text/html", on_click="ignore", width="stretch"
        )
        st.download_button(
            "A notebook", lambda: notebook(evidence), "evidence.ipynb", on_click="ignore", width="stretch"
        )
