"""The page of a canvas while it grows downwards: the truth's edges, those of attention by kind, and the residual."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from workbench.figures.drawing import element, shortened, text
from workbench.figures.style import BLUE, CHANGED, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION
from workbench.figures.token_page import GUTTER, LINE, Row, TokenPage
from workbench.instruments.attention import attention_graph
from workbench.measurement import Measurement
from workbench.measurement.places import point_name

CELL = 24  # height of a row of the residual, in pixels
STRONGEST = 160  # arcs drawn at most, of each kind
MOST_TRUTH = 800  # gold edges that a page can hold back until their query is hovered

Kind = Literal["right", "shortcut", "wrong", "idle", "missing"]


class EdgeStyle(NamedTuple):
    """How one kind of edge is drawn; kinds differ in their dashes too, for readers who see no colours.

    Attributes:
        name: what hovering over an edge calls it.
        label: the legend's words.
        colour: of the line.
        dash: of the line, as SVG's `stroke-dasharray`; None for a solid one.
    """

    name: str
    label: str
    colour: str
    dash: str | None = None


KINDS: dict[Kind, EdgeStyle] = {
    "right": EdgeStyle("correct", "correct: the edge the task needs here", GREEN),
    "shortcut": EdgeStyle("shortcut", "shortcut: an ancestor at another hop", SKY, "7 3"),
    "wrong": EdgeStyle("wrong", "wrong: not an edge of the task", VERMILLION, "3 2"),
    "idle": EdgeStyle("other", "other: the task needs no edge of its query", GREY),
    "missing": EdgeStyle("missing", "missing: an edge the task needs, too weak to be drawn", PURPLE, "1 4"),
}
"""Kind of edge -> how it is drawn."""


def kinds_of_edges(
    weight: np.ndarray, gold: Sequence[attention_graph.Edge], hop: int | None, threshold: float
) -> dict[Kind, list[tuple[int, int]]]:
    """Attention's edges (query, key) sorted by what they are, strongest first.

    Args:
        weight: `[query, key]`.
        gold: (hop, query, key) of the truth.
        hop: the edges that are due are those of this hop; None for those of every hop.
        threshold: the smallest share of a row that counts as an edge. A position's own is left out.
    """
    due = {(query, key) for at, query, key in gold if hop in (None, at) and query != key}
    ancestors = {(query, key) for _, query, key in gold}
    asked = {query for query, _ in due}
    places = np.argwhere(weight >= threshold)
    edges = [(int(q), int(k)) for q, k in places[np.argsort(-weight[tuple(places.T)], kind="stable")] if q != k]
    by_kind: dict[Kind, list[tuple[int, int]]] = {kind: [] for kind in KINDS}
    for edge in edges:
        kind: Kind = "right" if edge in due else "shortcut" if edge in ancestors else "wrong"
        by_kind["idle" if edge[0] not in asked and kind == "wrong" else kind].append(edge)
    by_kind["missing"] = sorted(due - set(edges))
    return by_kind


class CanvasPage(TokenPage):
    """The canvas while it grows downwards; `query` is the position in focus, `cell` what is marked of the residual."""

    def __init__(
        self, words: Sequence[str], window: range, query: int | None = None, cell: tuple[str, int] | None = None
    ) -> None:
        super().__init__(words, window, () if query is None else (query,))
        self.query, self.cell = query, cell
        self.idle_in_focus_alone = False
        self.truth_legend: list[tuple[str, str, str | None]] = []
        self.cut: set[tuple[int, int]] = set()

    def states(self, rows: Mapping[str, Sequence[tuple[int, int, str]]]) -> None:
        """The task's states, a row each: a box with words for every stretch of the sequence; a dash where empty."""
        for name, stretches in rows.items():
            y = self.height + LINE / 2
            self.name(name, y)
            for first, last, words in stretches:
                begin, end = max(first, self.window.start), min(last, self.window.stop - 1)
                if begin > end:
                    continue
                x, width = self.x(begin) - self.column / 2 + 1, (end - begin + 1) * self.column - 2
                tip = f"{name}, positions {first} to {last}: {words or 'empty'}"
                box: dict[str, Any] = {"x": x, "y": self.height + 1, "width": width, "height": LINE - 2, "rx": 3}
                fill: dict[str, Any] = {"fill": ORANGE if words else GREY, "fill_opacity": 0.22 if words else 0.07}
                self.parts.append(element("rect", **box, **fill, data_tip=tip))
                style = {"text_anchor": "start", "pointer_events": "none", "class_": None if words else "quiet"}
                self.parts.append(text(shortened(words, int(width / 6)) or "–", x + 4, y, 10.5, **style))
            self.height += LINE
        self.height += 4 if rows else 0

    def truth(self, gold: Sequence[attention_graph.Edge]) -> None:
        """Draw the gold edges as arcs above the tokens; those of several hops show only if their query is in focus."""
        inside = [(h, q, k) for h, q, k in gold if self.holds(q, k) and q != k]
        if not inside:
            return
        if len(inside) > MOST_TRUTH:  # then further hops are drawn in focus alone
            inside = [(h, q, k) for h, q, k in inside if h == 1 or q == self.query]
        base = self.height + self.high(inside) + 6
        self.name("task's truth", base - 14, "the edges that the task itself defines; the model never sees them")
        further = any(h > 1 and q == self.query for h, q, _ in inside)
        self.truth_legend = [("task's truth, 1 hop", ORANGE, None)]
        self.truth_legend += [("task's truth, further hops", PURPLE, None)] if further else []
        for hop, q, k in inside:
            tip = f"truth: {self.at(q)} rests on {self.at(k)}, {hop} hop{'s' if hop > 1 else ''} away"
            style: dict[str, Any] = {"stroke": ORANGE if hop == 1 else PURPLE, "stroke_width": 1.4, "data_tip": tip}
            near = hop == 1 or q == self.query
            self.arc(q, k, base, -1, class_="edge truth" if near else "edge truth far", **style)
        self.height = base + 4

    def attention(self, weight: np.ndarray, edges: Mapping[Kind, Sequence[tuple[int, int]]]) -> int:
        """The edges of attention as arcs that hang under the tokens; returns how many are not drawn."""
        base, largest, left_out = self.height, float(weight.max()) or 1.0, 0
        every = [(1, q, k) for members in edges.values() for q, k in members if self.holds(q, k)]
        self.name("attention", base + 14, "from the key that is read to the query that reads it")
        self.idle_in_focus_alone = self.query is None and any(edges[kind] for kind in KINDS if kind != "idle")
        kinds: tuple[Kind, ...] = ("idle", "missing", "wrong", "shortcut", "right")
        for kind in kinds:
            style = KINDS[kind]
            far = " far" if kind == "idle" and self.idle_in_focus_alone else ""
            focus = [(q, k) for q, k in edges[kind] if self.query in (None, q) and self.holds(q, k)]
            drawn = focus[:STRONGEST]
            left_out += sum(self.query in (None, q) for q, _ in edges[kind]) - len(drawn)
            for q, k in reversed(drawn):
                share = float(weight[q, k])
                self.arc(
                    q,
                    k,
                    base,
                    1,
                    class_=f"edge attention{far}",
                    stroke=CHANGED if (q, k) in self.cut else style.colour,
                    stroke_width=1.2 if kind == "missing" else 0.7 + 3.3 * share / largest,
                    stroke_dasharray="2 4" if (q, k) in self.cut else style.dash,
                    opacity=None if far else 0.45 if kind == "idle" else 0.85,
                    data_edge=f"{q},{k}",
                    data_tip=f"{self.at(q)} reads {self.at(k)}: {share:.3f} — {style.name}",
                )
        self.height = base + max(24, self.high(every)) + 10
        return left_out

    def residual(self, table: Measurement, right: Row | None, before: Measurement | None = None) -> None:
        """A cell for every point of the residual and position: its top token, the shade its value.

        Framed where it is another than `before` an edit.
        """
        assert table.labels is not None
        was = table.labels if before is None else before.labels
        assert was is not None
        largest = float(np.abs(table.values).max()) or 1.0
        for row, point in enumerate(table.coords["point"]):
            y = self.height + CELL / 2
            self.name(point_name(point), y)
            for i in self.window:
                word, value = str(table.labels[row, i]), float(table.values[row, i])
                cell: dict[str, Any] = {
                    "x": self.x(i) - self.column / 2 + 0.5,
                    "y": self.height + 0.5,
                    "width": self.column - 1,
                    "height": CELL - 1,
                    "fill": BLUE,
                    "fill_opacity": 0.05 + 0.5 * max(0.0, value) / largest,
                    "data_cell": f"{row},{i}",
                    "data_point": point,
                    "data_tip": f"{point_name(point)} at {self.at(i)}: {word} ({value:.3g} {table.units})",
                    "class_": "cell chosen" if self.cell == (point, i) else "cell",
                }
                if was[row, i] != word:
                    tip = f"{cell['data_tip']}; before the edit: {was[row, i]}"
                    cell |= {"stroke": CHANGED, "stroke_width": 2, "data_tip": tip}
                if self.cell == (point, i):
                    cell |= {"stroke_width": 2.5}
                self.parts.append(element("rect", **cell) + self.word(word, i, y, size=11.5))
                if right is not None and right.words[i] == word:
                    line: dict[str, Any] = {"stroke": GREEN, "stroke_width": 2.5, "pointer_events": "none"}
                    line |= dict.fromkeys(("y1", "y2"), self.height + CELL - 2.5)
                    ends: dict[str, Any] = {"x1": self.x(i) - self.column / 3, "x2": self.x(i) + self.column / 3}
                    self.parts.append(element("line", **ends, **line))
            self.height += CELL
        self.height += 6

    def legend(self, edges: Mapping[Kind, Sequence[tuple[int, int]]]) -> None:
        """The kinds of edges that there are, and of each how many are drawn, in as many lines as it takes."""
        x, y = GUTTER, self.height + 12
        entries = [*self.truth_legend]
        for kind, members in edges.items():
            style, n = KINDS[kind], f"{len(members)}"
            label = style.label if self.truth_legend or kind != "idle" else "attention"
            if self.query is not None:
                n = f"{sum(query == self.query for query, _ in members)} of {n} shown"
            elif kind == "idle" and self.idle_in_focus_alone:
                n += ", shown for a token in focus"
            entries += [(f"{label} ({n})", style.colour, style.dash)] if members else []
        for words, colour, dash in entries:
            if x + 34 + 6.2 * len(words) > max(self.width, 860) and x > GUTTER:
                x, y = GUTTER, y + 18
            line: dict[str, Any] = {"x1": x, "x2": x + 24, "y1": y, "y2": y, "stroke": colour}
            self.parts.append(element("line", **line, stroke_dasharray=dash, stroke_width=3))
            self.parts.append(text(words, x + 30, y, 11, text_anchor="start"))
            x += 46 + round(6.2 * len(words))
            self.width = max(self.width, x)
        self.height = y + 14
