"""The canvas: one input with its truth drawn above it, one head's attention below, and the residual at every layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from workbench.capture import Capture
from workbench.figures.attention import threshold_in_words
from workbench.figures.drawing import Drawing, element, text
from workbench.figures.hop_by_hop import steps_data
from workbench.figures.projection import normed
from workbench.figures.style import BLUE, CHANGED, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION
from workbench.figures.token_page import (
    GUTTER,
    LINE,
    Row,
    TokenPage,
    answer_rows,
    confidence_row,
    label_rows,
    part_drawn,
    window,
)
from workbench.instruments.attention import attention_graph
from workbench.instruments.residual import projection
from workbench.interventions import CutEdge, Edit, Edited, MoveEdge
from workbench.measurement import Measurement
from workbench.measurement.places import point_name

CELL = 24  # height of a row of the residual, in pixels
STRONGEST = 160  # arcs drawn at most, of each kind
MOST_TRUTH = 800  # gold edges that a page can hold back until their query is hovered
MOST_LABELS = 6
MOST_HOPS = 8  # that a page follows

Kind = Literal["right", "shortcut", "wrong", "idle", "missing"]


@dataclass(frozen=True)
class EdgeStyle:
    """How one kind of edge is drawn; kinds differ in their dashes too, for readers who see no colours.

    Attributes:
        name: what hovering over an edge calls it.
        meaning: what the legend adds to the name.
        colour: of the line.
        dash: of the line, as SVG's `stroke-dasharray`; None for a solid one.
    """

    name: str
    meaning: str
    colour: str
    dash: str | None = None

    @property
    def label(self) -> str:
        """The legend's words."""
        return f"{self.name}: {self.meaning}" if self.meaning else self.name


KINDS: dict[Kind, EdgeStyle] = {
    "right": EdgeStyle("correct", "the edge the task needs here", GREEN),
    "shortcut": EdgeStyle("shortcut", "an ancestor at another hop", SKY, "7 3"),
    "wrong": EdgeStyle("wrong", "not an edge of the task", VERMILLION, "3 2"),
    "idle": EdgeStyle("other", "the task needs no edge of its query", GREY),
    "missing": EdgeStyle("missing", "an edge the task needs, too weak to be drawn", PURPLE, "1 4"),
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


def canvas(
    seen: Capture,
    *,
    layer: int,
    head: int,
    example: int = 0,
    which: str = "pattern",
    basis: str = "decoder",
    threshold: float = 0.05,
    start: int = 0,
    query: int | None = None,
    cell: tuple[str, int] | None = None,
    points: Sequence[str] | None = None,
    edited: Edited | None = None,
    notes: Mapping[str, str] | None = None,
) -> Drawing:
    """One input, its truth, one head's attention and the residual's top tokens, in one picture.

    From top to bottom: the truth's edges (of the query in focus all hops), the tokens, the truth's labels, attention's
    edges by kind (`KINDS`; in focus alone those of queries of which the task needs no edge), the residual's top token
    at every layer (underlined where it is right), the model's answers, p(right), and the right answers.

    Args:
        seen: with the patterns, the residual and the logits (`workbench.see`).
        layer, head, example: whose attention is drawn, and on which sequence of the capture.
        which, threshold: `pattern`, a power of it such as `A²`, or `resolvent`; the smallest share of a row drawn.
        basis, start: `encoder` or `decoder`, of the residual's top tokens; the first of at most `WIDEST` positions.
        query, cell: the position in focus, whose edges alone are drawn; the (hook name, position) that is marked.
        points: hook names of the residuals that are drawn; by default all, of a deep model some of its layers
            (`projection.some_points`).
        edited: what `try_edit` made of this input: the residual and the answers are those behind the edit, what it
            changed is framed, and edges that it cut or moved are dashed.
        notes: name of a row -> what stands before it, such as the number of a note.

    Raises:
        ValueError: if there is no such example, layer, head, matrix, basis or position.
    """
    weight, gold, edges = _attention(seen, example, (layer, head), which, threshold)
    page = _Page(projection.sequence(seen, example), window(len(weight), start), query, cell)
    _draw_input(page, seen, example, gold, notes or {})
    data = _hops(seen, page, (layer, head, example))
    page.cut = set() if edited is None else _edges_of(edited.edit, len(weight), (layer, head))
    says = f"{seen.subject.name}; {_edges_drawn(page, weight, threshold, page.attention(weight, edges))}"
    if edited is not None:
        says += f"; behind the edit: {edited.in_words()}"
    _draw_residual(page, seen, example, basis, points, edited)
    page.legend(edges)
    title = f"Layer {layer}, head {head}: {attention_graph.matrix_in_words(which)}"
    return Drawing(title, says, page.body(), page.width, page.height, data)


def _hops(seen: Capture, page: _Page, place: tuple[int, int, int]) -> dict[str, Any]:
    """What a page needs to follow a token's paths; nothing where the task has none of several hops."""
    hops = min(seen.truth.n_hops, MOST_HOPS)
    return steps_data(seen, page, place, base=page.height, query=page.query, n_hops=hops) if hops > 1 else {}


def _edges_drawn(page: _Page, weight: np.ndarray, threshold: float, left_out: int) -> str:
    """Which edges are drawn, of which part, and how many are not."""
    text = f"edges of at least {threshold_in_words(weight, threshold)}{part_drawn(page.window, len(weight))}"
    return f"{text}; {left_out} weaker or leaving edges are not drawn" if left_out else text


def _attention(
    seen: Capture, example: int, head: tuple[int, int], which: str, threshold: float
) -> tuple[np.ndarray, list[attention_graph.Edge], dict[Kind, list[tuple[int, int]]]]:
    """A head's matrix `[query, key]` on one example, the gold edges, and the matrix's edges by kind."""
    hop = attention_graph.hop_of(which)
    matrices = attention_graph.matrices(seen, example, *head, n_hops=hop or 1)
    weight, gold = matrices.select(matrix=which).values, attention_graph.gold_edges(seen, example)
    return weight, gold, kinds_of_edges(weight, gold, hop, threshold)


def _draw_input(
    page: _Page, seen: Capture, example: int, gold: Sequence[attention_graph.Edge], notes: Mapping[str, str]
) -> None:
    """The input and what is known of it: the task's states, the truth's edges, the tokens, the truth's labels."""
    page.notes = notes
    task, tokens = seen.subject.task, seen.batch.tokens[example]
    page.focus = next((i for i, right in enumerate(answer_rows(seen, example)[0].right) if right is False), None)
    page.states(task.states(tokens))
    page.truth(gold)
    page.tokens()
    page.rows(label_rows(seen, example)[:MOST_LABELS], quiet=True)


def _edges_of(edit: Edit, n_pos: int, head: tuple[int, int]) -> set[tuple[int, int]]:
    """The edges (query, key) of this head that an edit cuts or moves away."""
    if (
        not isinstance(edit, CutEdge | MoveEdge)
        or edit.layer not in (None, head[0])
        or edit.head not in (None, head[1])
    ):
        return set()
    return set(edit.edges(n_pos)) if isinstance(edit, CutEdge) else {(edit.query, edit.key)}


def _draw_residual(
    page: _Page, seen: Capture, example: int, basis: str, points: Sequence[str] | None, edited: Edited | None
) -> None:
    """The residual's top tokens from the embedding to the last layer, then the model's answers and the right ones."""
    points = projection.some_points(seen.subject) if points is None else points
    runs = [seen] if edited is None else [seen, edited.after]
    tables = [
        projection.top_tokens(run, example=example, top=1, points=points, bases=(basis,)).select(basis=basis, rank=1)
        for run in runs
    ]
    answers = [answer_rows(run, example) for run in runs]
    page.residual(tables[-1], answers[0][-1] if len(answers[0]) == 2 else None, tables[0])
    page.rows([answers[0][0]])
    if edited is not None:
        changed = set(np.flatnonzero(edited.changed).tolist())
        page.rows([replace(answers[1][0], name=f"{answers[1][0].name}, edited", framed=changed)])
    page.rows([confidence_row(runs[-1], example), *answers[0][1:]])


class _Page(TokenPage):
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
                room = int(width / 6)
                shown = (words if len(words) <= room else words[: max(0, room - 1)] + "…") or "–"
                style = {"text_anchor": "start", "pointer_events": "none", "class_": None if words else "quiet"}
                self.parts.append(text(shown, x + 4, y, 10.5, **style))
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
        for kind in ("idle", "missing", "wrong", "shortcut", "right"):
            style = KINDS[kind]  # type: ignore[index]
            far = " far" if kind == "idle" and self.idle_in_focus_alone else ""
            focus = [(q, k) for q, k in edges[kind] if self.query in (None, q) and self.holds(q, k)]  # type: ignore[index]
            drawn = focus[:STRONGEST]
            left_out += sum(self.query in (None, q) for q, _ in edges[kind]) - len(drawn)  # type: ignore[index]
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
                    cell |= {
                        "stroke": CHANGED,
                        "stroke_width": 2,
                        "data_tip": f"{cell['data_tip']}; before the edit: {was[row, i]}",
                    }
                if self.cell == (point, i):
                    cell |= {"stroke_width": 2.5}
                self.parts.append(element("rect", **cell) + self.word(word, i, y, size=11.5))
                if right is not None and right.words[i] == word:
                    line: dict[str, Any] = {
                        "y1": self.height + CELL - 2.5,
                        "y2": self.height + CELL - 2.5,
                        "stroke": GREEN,
                    }
                    ends: dict[str, Any] = {"x1": self.x(i) - self.column / 3, "x2": self.x(i) + self.column / 3}
                    self.parts.append(element("line", **ends, **line, stroke_width=2.5, pointer_events="none"))
            self.height += CELL
        self.height += 6

    def _in_legend(self, kind: Kind, members: Sequence[tuple[int, int]]) -> tuple[str, str, str | None]:
        """A kind of edges with their number, of those how many are drawn, and how; no words where there are none."""
        style, n = KINDS[kind], f"{len(members)}"
        label = style.label if self.truth_legend or kind != "idle" else "attention"
        if self.query is not None:
            n = f"{sum(query == self.query for query, _ in members)} of {n} shown"
        elif kind == "idle" and self.idle_in_focus_alone:
            n += ", shown for a token in focus"
        return (f"{label} ({n})" if members else ""), style.colour, style.dash

    def legend(self, edges: Mapping[Kind, Sequence[tuple[int, int]]]) -> None:
        """The kinds of edges that there are, with their numbers, in as many lines as it takes."""
        x, y = GUTTER, self.height + 12
        for words, colour, dash in [*self.truth_legend, *map(self._in_legend, edges, edges.values())]:
            if not words:
                continue
            if x + 34 + 6.2 * len(words) > max(self.width, 860) and x > GUTTER:
                x, y = GUTTER, y + 18
            line: dict[str, Any] = {"x1": x, "x2": x + 24, "y1": y, "y2": y, "stroke": colour}
            self.parts.append(element("line", **line, stroke_dasharray=dash, stroke_width=3))
            self.parts.append(text(words, x + 30, y, 11, text_anchor="start"))
            x += 46 + round(6.2 * len(words))
            self.width = max(self.width, x)
        self.height = y + 14


def residual_maps(
    seen: Capture, table: Measurement, *, example: int = 0, start: int = 0, cell: tuple[str, int] | None = None
) -> Drawing:
    """The residual's top token at every point and position, the encoder basis above the decoder basis.

    Args:
        seen: what the table was measured on, for the tokens and the answers.
        table: `projection.top_tokens(...)`.
        example: which sequence of the capture.
        start: the first position drawn; at most `WIDEST` are.
        cell: (hook name, position) that is marked.

    Raises:
        ValueError: if there is no such example or position.
    """
    words = projection.sequence(seen, example)
    drawn = window(len(words), start)
    page = _Page(words, drawn, cell=cell)
    page.tokens()
    answers = answer_rows(seen, example)
    right = answers[-1] if len(answers) == 2 else None
    for basis in projection.BASES:
        page.heading(f"{basis} basis")
        page.residual(table.select(basis=basis, rank=1), right)
    page.rows(answers)
    notes = f"{seen.subject.name}; the largest {table.units}{normed(table)}{part_drawn(drawn, len(words))}"
    return Drawing("Top token of the residual, by layer and position", notes, page.body(), page.width, page.height + 6)
