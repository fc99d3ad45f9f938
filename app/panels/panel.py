"""One panel: a title, fields, a figure, its caption, and a menu with the code and the numbers behind the figure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from html import escape
from typing import Any, Concatenate, ParamSpec, TypeAlias

import plotly.graph_objects as go
import streamlit as st

from workbench.app import evidence
from workbench.app.config_in_words import plain
from workbench.app.fields.url import memory
from workbench.app.fields.widgets import fold, settings
from workbench.app.panels import code
from workbench.app.panels.clicks import clickable, film
from workbench.app.panels.code import Symbol
from workbench.app.panels.questions import numbered, numbers
from workbench.figures import Drawing
from workbench.figures.style import in_one_line
from workbench.measurement import Measurement

Figure: TypeAlias = go.Figure | Drawing


@dataclass
class Panel:
    """A panel under its title, while it is filled.

    Attributes:
        title: of the panel.
        key: names the files that are downloaded from it.
        menu: where code, numbers and files go.
        beside: the place beside the title, before the menu.
        open: False of a folded panel, of which nothing is made until it is opened.
    """

    title: str
    key: str
    menu: Any
    beside: Any = None
    open: bool = True

    def settings(self) -> Any:
        """A place for the fields that few change, behind a button beside the title."""
        return settings(self.beside)

    def show(
        self,
        figure: Symbol,
        numbers: Mapping[str, Any],
        says: str,
        *,
        verdict: str | None = None,
        widest: bool = True,
        place: Any = st,
        under: Any = None,
        **clicks: Any,
    ) -> None:
        """Draw a figure with its caption, and fill the menu.

        Args:
            figure: what to draw, with the code that makes it.
            numbers: file name -> the measurements that the figure was drawn from, or symbols of them.
            says: the caption: what the figure shows, and what it does not show.
            verdict: what the figure shows of this run, in a sentence made from its numbers, above it.
            widest: stretch the figure to the page.
            place: where the figure goes; by default below what is there.
            under: where the caption goes; by default below the figure.
            clicks: of a drawing: the callbacks for its cells, tokens and edges (see `panels.clicks`); of one through
                training: the frame that is shown first (see `panels.clicks.film`).
        """
        drawn: Figure = code.value_of(figure)
        first = f"**{plain(verdict)}**" if verdict else ""
        self._draw(drawn, first, widest, place, clicks)
        (place if under is None else under).caption(says)
        with self.menu:
            self._take_away(drawn, code.value_of(dict(numbers)), code.lines(figure), says)

    def _draw(self, drawn: Figure, first: str, widest: bool, place: Any, clicks: dict[str, Any]) -> None:
        if isinstance(drawn, Drawing):
            with place.container():
                self._words(st, first, drawn.title, drawn.subtitle)
                show = film if "frames" in drawn.data else clickable
                show(drawn, f"{self.key}-drawing", **clicks)
            return
        bare, title, subtitle = _without_title(drawn)
        self._words(place, first, title, subtitle)
        place.plotly_chart(
            bare,
            key=f"{self.key}-figure",
            width="stretch" if widest else "content",
            config={"displaylogo": False, "toImageButtonOptions": {"format": "svg", "filename": self.key}},
        )

    def _words(self, place: Any, first: str, title: str, subtitle: str) -> None:
        """What a figure shows and what it is, above it, where words find room on any screen; the panel's title once."""
        parts = [f"**{plain(title)}**"] if title and title != self.title else []
        parts += [f":gray[:small[{plain(subtitle)}]]"] if subtitle else []
        if words := "  \n".join(filter(None, [first, "&ensp; ".join(parts)])):
            place.markdown(words)

    def part(self, name: str, key: str) -> Panel:
        """Another figure of this panel: its lines and its numbers have a heading of their own in the menu."""
        self.menu.markdown(f"**{name}**")
        return replace(self, title=f"{self.title}: {name}", key=f"{self.key}-{key}")

    def _take_away(self, figure: Figure, numbers: dict[str, Measurement], lines: str, says: str) -> None:
        stem = self.key

        def table() -> str:
            return "\n".join(f"# {name}\n{m.frame().to_csv(index=False)}" for name, m in numbers.items())

        def everything() -> str:
            rows = {name: m.to_dict() for name, m in numbers.items()}
            return json.dumps(rows, indent=1, default=str, ensure_ascii=False)

        st.code(lines, language="python", height=220)
        row = st.container(horizontal=True)
        ignored: dict[str, Any] = {"on_click": "ignore"}
        if isinstance(figure, Drawing):
            row.download_button("SVG", figure.svg, f"{stem}.svg", "image/svg+xml", key=f"{stem}-svg", **ignored)
        row.download_button("HTML", lambda: _page(figure), f"{stem}.html", "text/html", key=f"{stem}-html", **ignored)
        if numbers:
            row.download_button("CSV", table, f"{stem}.csv", "text/csv", key=f"{stem}-csv", **ignored)
            row.download_button("JSON", everything, f"{stem}.json", "application/json", key=f"{stem}-json", **ignored)
        if row.button("Pin as evidence", icon=":material/push_pin:", key=f"{stem}-pin"):
            try:
                trouble = evidence.pin(self.title, says, figure, lines, numbers)
            except ValueError as error:
                st.toast(plain(str(error)), icon=":material/error:")
                return
            if trouble is not None:
                st.toast(plain(trouble), icon=":material/error:")
            st.rerun()  # the sidebar shows it


def _without_title(figure: go.Figure) -> tuple[go.Figure, str, str]:
    """A figure without title and subtitle, which a narrow page would cut off; and both."""
    title = figure.layout.title
    if not title.text:
        return figure, "", ""
    bare = go.Figure(figure)
    less = bare.layout.margin.t - ABOVE
    words = in_one_line(title.text)
    bare.update_layout(title=None, height=bare.layout.height - less, margin_t=ABOVE, meta={"title": words})
    return bare, words, in_one_line(title.subtitle.text or "")


ABOVE = 22  # pixels above a plot without a title, where a line of the plot may be named
UNFOLD = "unfold"  # the field that opens every panel


P = ParamSpec("P")


def folded(title: str, key: str) -> Callable[[Callable[Concatenate[Panel, P], None]], Callable[P, None]]:
    """A folded panel that the decorated function fills: it is called, with the panel first, only while that is open."""

    def decorate(fill: Callable[Concatenate[Panel, P], None]) -> Callable[P, None]:
        @wraps(fill)
        def inside(*args: P.args, **kwargs: P.kwargs) -> None:
            with panel(title, key, folded=True) as p:
                if p.open:
                    fill(p, *args, **kwargs)

        return inside

    return decorate


@contextmanager
def panel(title: str, key: str, *, folded: bool = False) -> Iterator[Panel]:
    """A bordered place for one figure.

    Args:
        title: of the panel.
        key: names the files that are downloaded from it.
        folded: the panel is a line until it is opened, unless a note of the page is about it; whoever fills it returns
            at once while it is not `open`.
    """
    if folded:
        opened = bool(numbers().get(title)) or bool(memory().held.get(UNFOLD, False))
        with st.container(key=f"panel-{key}"), fold(f"**{plain(numbered(title))}**", f"show-{key}", opened) as box:
            if not box.open:
                yield Panel(title, key, None, open=False)
                return
            with st.container(horizontal=True, horizontal_alignment="right"):
                beside, menu = st.container(width="content"), _menu()
            yield Panel(title, key, menu, beside)
        return
    with st.container(border=True, key=f"panel-{key}"):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.subheader(numbered(title), anchor=False)
            beside, menu = st.container(width="content"), _menu()
        yield Panel(title, key, menu, beside)


def _menu() -> Any:
    return st.popover("Code", icon=":material/code:", help="Code, numbers and files; pin as evidence")


def _page(figure: Figure) -> str:
    if isinstance(figure, Drawing):
        return f'<!doctype html><meta charset="utf-8"><title>{escape(figure.title)}</title>{figure.page()}'
    return go.Figure(figure).update_layout(template="plotly_white").to_html(config={"displaylogo": False})
