"""One panel: a title, widgets, a figure, what it shows and does not, and a menu to take it away."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from workbench.app.panels.basket import Figure, Pinned, pin
from workbench.app.panels.clickable import clickable
from workbench.app.state import Look, plain
from workbench.figures import Drawing
from workbench.measurement import Measurement

Numbers = Mapping[str, Measurement]


@dataclass
class Panel:
    """A panel under its title, while it is filled."""

    title: str
    key: str
    menu: Any

    def show(
        self,
        figure: Figure,
        numbers: Numbers,
        code: str,
        says: str,
        *,
        widest: bool = True,
        place: Any = st,
        **clicks: Any,
    ) -> None:
        """The figure with its caption and its menu.

        Args:
            figure: what to draw.
            numbers: file name -> what the figure was drawn from.
            code: the lines of Python that make the figure and call it `figure`.
            says: what it shows, and what it does not.
            widest: stretch the figure to the page.
            place: where the figure goes, if not below what is there.
            clicks: of a drawing: what its cells, tokens and edges call (see `clickable`).
        """
        if isinstance(figure, Drawing):
            with place.container():
                st.markdown(f"**{plain(figure.title)}**  \n:gray[{plain(figure.subtitle)}]")
                clickable(figure, f"{self.key}-drawing", **clicks)
        else:
            place.plotly_chart(
                figure,
                key=f"{self.key}-figure",
                width="stretch" if widest else "content",
                config={"displaylogo": False, "toImageButtonOptions": {"format": "svg", "filename": self.key}},
            )
        place.caption(says)
        with self.menu:
            self._take_away(figure, numbers, code, says)

    def part(self, name: str, key: str) -> Panel:
        """Another figure of this panel: its lines and its numbers have a heading of their own in the menu."""
        self.menu.markdown(f"**{name}**")
        return replace(self, title=f"{self.title}: {name}", key=f"{self.key}-{key}")

    def _take_away(self, figure: Figure, numbers: Numbers, code: str, says: str) -> None:
        stem = self.key

        def table() -> str:
            return "\n".join(f"# {name}\n{m.frame().to_csv(index=False)}" for name, m in numbers.items())

        def everything() -> str:
            rows = {name: m.to_dict() for name, m in numbers.items()}
            return json.dumps(rows, indent=1, default=str, ensure_ascii=False)

        st.code(code, language="python", height=220)
        row = st.container(horizontal=True)
        how: dict[str, Any] = {"on_click": "ignore"}
        if isinstance(figure, Drawing):
            row.download_button("SVG", figure.svg, f"{stem}.svg", "image/svg+xml", key=f"{stem}-svg", **how)
        row.download_button("HTML", lambda: _page(figure), f"{stem}.html", "text/html", key=f"{stem}-html", **how)
        if numbers:
            row.download_button("CSV", table, f"{stem}.csv", "text/csv", key=f"{stem}-csv", **how)
            row.download_button("JSON", everything, f"{stem}.json", "application/json", key=f"{stem}-json", **how)
        if row.button("Pin as evidence", icon=":material/push_pin:", key=f"{stem}-pin"):
            pin(Pinned(self.title, says, figure, code))
            st.rerun()


@contextmanager
def panel(title: str, key: str) -> Iterator[Panel]:
    """A bordered place for one figure. Its `key` names the files that are downloaded from it."""
    with st.container(border=True, key=f"panel-{key}"):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.subheader(title, anchor=False)
            menu = st.popover("", icon=":material/more_vert:", help="the code, the numbers, the figure; pin it")
        yield Panel(title, key, menu)


def code(
    look: Look, *lines: str, imports: tuple[str, ...] = (), beside: Look | None = None, inputs: bool = True
) -> str:
    """The lines of Python behind a figure: what was looked at, then what was made of it.

    Args:
        look: the run and the input, which the lines call `run`, `task`, `batch` and `seen`.
        lines: the last of them assigns `figure`.
        imports: beside `workbench` itself.
        beside: the second of two that are compared, whose suffix ends its names: `run_b`, `seen_b`.
        inputs: whether the lines are about the inputs; else they have `run` alone.
    """
    sides = [look] if beside is None else [look, beside]
    made = [line for side in sides for line in ("", *_made(side, inputs))]
    return "\n".join(["import workbench", *imports, *made, "", *lines, "figure"])


def _made(look: Look, inputs: bool) -> list[str]:
    end, opened = look.suffix, look.opened
    run = f"run{end} = workbench.load_run({str(opened.run.path)!r})"
    if not inputs:
        return [run]
    return [
        run,
        f"task{end} = run{end}.task()",
        *look.lines,
        f"seen{end} = workbench.see(run{end}, batch{end}{opened.and_at})",
    ]


def _page(figure: Figure) -> str:
    if isinstance(figure, Drawing):
        return f'<!doctype html><meta charset="utf-8"><title>{escape(figure.title)}</title>{figure.page()}'
    return go.Figure(figure).update_layout(template="plotly_white").to_html(config={"displaylogo": False})
