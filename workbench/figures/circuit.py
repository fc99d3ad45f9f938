"""A circuit as a layered graph, what was written first at the bottom; and how much of the metric circuits keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from workbench.circuits import Circuit, Graph
from workbench.circuits.graph import INPUT, LOGITS, QKV
from workbench.figures.drawing import Drawing, element, text
from workbench.figures.style import BLUE, GREY, ORANGE, SOFT, VERMILLION, faint, framed
from workbench.measurement import Measurement
from workbench.measurement.numbers import with_interval

GUTTER, NODE, TALL, MARGIN = 64, 58, 30, 8  # pixels: names of layers, a node
GAPS = (26, 62)  # between two columns: at least, and where there are few
WIDE, LEAST = 800, 600
BAR, LEGEND = 26, 30
MLP_ABOVE = 58  # an MLP stands above the heads of its layer, which it reads
BETWEEN = (84, 54)  # above a layer: of models with few layers, and of others
FEW = 2
OUTSIDE = 160  # edges outside the circuit that are drawn, at most
THIN, THICK = 1.2, 6.0
CUT = "2 4"  # dots
REACH = 10  # pixels around a line that answer to a click on it
PARTS = {"q": "as its query", "k": "as its key", "v": "as its value"}


Score = tuple[float, float, float]
"""An edge's mean score with its interval, which is NaN where there is none."""


def circuit(of: Circuit, scores: Measurement, changed: Sequence[str] = ()) -> Drawing:
    """A circuit as a layered graph: the embedding below, each layer's heads and MLP above it, the logits on top.

    Lines lead from who writes to who reads, a head as query, key or value (q, k, v). They are the thicker the larger
    the score; blue speaks for the right answer, red and dashed against it. Edges outside the circuit are faint; those
    that were cut by hand are dotted.

    Args:
        of: the circuit, with what was changed by hand.
        scores: of every edge (`circuits.score_edges`), of each pair or their mean.
        changed: the edges that were cut or taken in by hand (`Circuit.changed`).

    Raises:
        ValueError: if an edge of the circuit has no score, or one changed by hand.
    """
    by_name = _scores(scores)
    missing = [name for name in (*of.names, *changed) if name not in by_name]
    if missing:
        raise ValueError(f"{len(missing)} edges of the circuit have no score, among them {missing[0]}")
    place, units = _Places(of.graph), scores.units
    sizes = {name: abs(value) for name, (value, *_) in by_name.items()}
    order = sorted(sizes, key=lambda name: sizes[name])
    rank = {name: at for at, name in enumerate(reversed(order))}
    largest = max(sizes.values(), default=0.0) or 1.0
    own, by_hand = set(of.names), set(changed)
    inside = [name for name in order if name in own]
    cut = [name for name in order if name in by_hand - own]
    outside = [name for name in order if name not in own | by_hand][-OUTSIDE:]
    edges = [_Edge(name, by_name[name], rank[name], name in own, name in by_hand) for name in [*outside, *cut, *inside]]
    lines = [edge.reach(place) for edge in edges] + [edge.line(place, largest, units) for edge in edges]
    parts = [*place.rows(), *lines, *_nodes(place, of), *_legend(place, bool(cut))]
    left_out = of.graph.n_edges - len(edges)
    says = f"{scores.settings.get('model', 'model')}; {scores.name}"
    says += f"; {left_out} weaker edge{'s' if left_out > 1 else ''} outside it not drawn" if left_out else ""
    title = f"A circuit of {len(of)} of {of.graph.n_edges} edges"
    return Drawing(title, says, "".join(parts), place.width, place.height)


def _scores(scores: Measurement) -> dict[str, Score]:
    """Edge -> its mean score."""
    mean = scores.mean() if "example" in scores.dims else scores
    if mean.dims != ("edge",):
        raise ValueError(f"a circuit is drawn with scores of edges, not with a measure by {', '.join(mean.dims)}")
    unknown = np.full(mean.values.shape, np.nan)
    low, high = (unknown if side is None else side for side in (mean.low, mean.high))
    rows = zip(mean.coords["edge"], mean.values, low, high, strict=True)
    return {str(name): (float(value), float(below), float(above)) for name, value, below, above in rows}


class _Places:
    """Where everything is: a column for each head and one for the MLPs, layers from the bottom up."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.columns = graph.n_heads + graph.has_mlps
        room = (WIDE - GUTTER - MARGIN - self.columns * NODE) // (self.columns + 1)
        self.gap = min(max(room, GAPS[0]), GAPS[1])
        self.width = max(GUTTER + self.columns * (NODE + self.gap) + self.gap + MARGIN, LEAST)
        self.between = BETWEEN[graph.n_layers > FEW]
        self.pitch = MLP_ABOVE * graph.has_mlps + TALL + self.between
        self.bottom = MARGIN + BAR + graph.n_layers * self.pitch + self.between
        self.height = self.bottom + BAR + LEGEND

    def row(self, node: str) -> float:
        """The middle of a node, from the top."""
        if node in (INPUT, LOGITS):
            return (self.bottom if node == INPUT else MARGIN) + BAR / 2
        layer, is_mlp = int(node[1:].split(".")[0]), node.startswith("m")
        return self.bottom - self.between - TALL / 2 - layer * self.pitch - MLP_ABOVE * is_mlp

    def column(self, node: str) -> float:
        """The middle of a head or an MLP, from the left."""
        at = self.graph.n_heads if node.startswith("m") else int(node.split(".h")[1])
        return GUTTER + self.gap + at * (NODE + self.gap) + NODE / 2

    def path(self, writer: str, node: str, part: str) -> str:
        """The line of an edge: straight up to the next layer, else beside the column that it passes."""
        lane, x1, x2 = self._lane(writer, node), 0.0, 0.0
        y1, y2 = float(self.bottom), float(MARGIN + BAR)
        if writer != INPUT:
            x1, y1 = self.column(writer), self.row(writer) - TALL / 2
        if node != LOGITS:
            aside = (QKV.index(part) - 1) * NODE / 3 if part else 0.0
            x2, y2 = self.column(node) + aside, self.row(node) + TALL / 2
        if writer == INPUT:  # the input and the logits are as wide as the drawing
            x1 = x2 if lane is None else lane
        if node == LOGITS:
            x2 = x1 if lane is None else lane
        if lane is None:
            half = (y1 + y2) / 2
            return f"M{x1:.1f} {y1:.1f}C{x1:.1f} {half:.1f} {x2:.1f} {half:.1f} {x2:.1f} {y2:.1f}"
        bend, third = 0.42 * self.between, 0.14 * self.between
        below, above = y1 - bend, y2 + bend
        up = f"C{x1:.1f} {below + third:.1f} {lane:.1f} {y1 - third:.1f} {lane:.1f} {below:.1f}L{lane:.1f} {above:.1f}"
        return f"M{x1:.1f} {y1:.1f}{up}C{lane:.1f} {y2 + third:.1f} {x2:.1f} {above - third:.1f} {x2:.1f} {y2:.1f}"

    def _lane(self, writer: str, node: str) -> float | None:
        """Beside which column an edge goes up; None where nothing is between its ends."""
        if writer == INPUT and node == LOGITS:
            return GUTTER + self.gap / 4
        column = self.column(writer if node == LOGITS else node)
        first = -1 if writer == INPUT else int(writer[1:].split(".")[0])
        last = self.graph.n_layers if node == LOGITS else int(node[1:].split(".")[0])
        passes_heads = node.startswith("m") and ".h" in writer
        if last - first <= (0 if passes_heads else 1):
            return None
        spread = (self.graph.writers.index(writer) * 7 % 5 - 2) * GAPS[0] / 7
        left = writer != INPUT and node != LOGITS and self.column(writer) < column
        return column + (-1 if left else 1) * (NODE + self.gap) / 2 + spread

    def rows(self) -> list[str]:
        """The names of the layers."""
        style: dict[str, Any] = {"text_anchor": "start", "class_": "quiet"}
        return [text(f"layer {i}", MARGIN, self.row(f"a{i}.h0"), 11, **style) for i in range(self.graph.n_layers)]


@dataclass(frozen=True)
class _Edge:
    """An edge to draw: a line to each node that its reader belongs to, one or all heads that share keys and values.

    Attributes:
        name, score: of the edge.
        rank: by the size of its score, 0 the largest of all edges; the arrow keys walk along it.
        inside: whether it is in the circuit.
        by_hand: whether it was cut or taken in by hand.
    """

    name: str
    score: Score
    rank: int
    inside: bool
    by_hand: bool

    def reach(self, place: _Places) -> str:
        """The wider line, not to be seen, that a click need only come near to."""
        style: dict[str, Any] = {"fill": "none", "stroke": "transparent", "stroke_width": REACH}
        return self._paths(place, class_="reach", pointer_events="stroke", data_name=self.name, **style)

    def line(self, place: _Places, largest: float, units: str) -> str:
        """The line, as thick as its score is large."""
        writer, reader = self.name.split("->")
        end, _, part = reader.rstrip(">").partition("<")
        words = f"{writer} → {end}{f', {PARTS[part]}' if part else ''}: {with_interval(*self.score, units)}"
        words += "" if self.inside else "; outside the circuit"
        words += f"; {'taken in' if self.inside else 'cut'} by hand" if self.by_hand else ""
        value, *_ = self.score
        width, against = THIN + (THICK - THIN) * abs(value) / largest, value < 0
        style: dict[str, Any] = {"stroke": GREY, "stroke_width": min(width, 1.5 * THIN), "opacity": 0.16}
        if self.inside:
            colour, dash = (VERMILLION, "7 3") if against else (BLUE, None)
            style = {"stroke": colour, "stroke_width": width, "opacity": 0.8, "stroke_dasharray": dash}
        elif self.by_hand:
            style = {"stroke": ORANGE, "stroke_width": max(2.0, width), "opacity": 0.9, "stroke_dasharray": CUT}
        about: dict[str, Any] = {"class_": "edge", "data_tip": words, "data_name": self.name, "data_rank": self.rank}
        return self._paths(place, **about, ends=True, **style)

    def _paths(self, place: _Places, *, ends: bool = False, **about: Any) -> str:
        writer, reader = self.name.split("->")
        part = reader.rstrip(">").partition("<")[2]
        return "".join(
            element("path", d=place.path(writer, node, part), **about, data_ends=f"{writer} {node}" if ends else None)
            for node in place.graph.nodes_of(reader)
        )


def _nodes(place: _Places, of: Circuit) -> list[str]:
    """A box for each writer and the logits; those of the circuit stand out."""
    parts = []
    readers = {name.split("->")[1] for name in of.names}
    read_as = {(node, reader[-2]) for reader in readers for node in of.graph.nodes_of(reader)}
    for node in (*of.graph.writers, LOGITS):
        bar = node in (INPUT, LOGITS)
        box: dict[str, Any] = {"x": GUTTER, "width": place.width - GUTTER - MARGIN, "height": BAR, "rx": 5}
        box["y"] = place.row(node) - BAR / 2
        if not bar:
            box = {"x": place.column(node) - NODE / 2, "y": place.row(node) - TALL / 2, "width": NODE, "height": TALL}
            box["rx"] = 5
        inside = node in of.nodes
        shade: dict[str, Any] = {"fill": BLUE if inside else GREY, "fill_opacity": 0.2 if inside else 0.07}
        shade |= {"stroke": BLUE if inside else GREY, "stroke_opacity": 0.9 if inside else 0.3}
        paper = element("rect", **box, style="fill: var(--paper, #fff)")
        parts += [paper, element("rect", **box, **shade, data_tip=_node_tip(node, of), data_node=node)]
        middle = GUTTER + (place.width - GUTTER - MARGIN) / 2 if bar else place.column(node)
        style: dict[str, Any] = {
            "pointer_events": "none",
            "class_": None if inside else "quiet",
            "font_weight": 600 if inside else None,
        }
        head = ".h" in node
        words = {INPUT: "input (embedding)", LOGITS: "logits"}.get(node, node)
        parts.append(text(words, middle, place.row(node) - 4 * head, 12, **style))
        for i, part in enumerate(QKV if head else ()):
            read = (node, part) in read_as
            port: dict[str, Any] = {"pointer_events": "none", "class_": None if read else "quiet"}
            port |= {"font_weight": 700 if read else None, "opacity": None if read else 0.55}
            parts.append(text(part, middle + (i - 1) * NODE / 3, place.row(node) + 9, 9, **port))
    return parts


def _node_tip(node: str, of: Circuit) -> str:
    """What a node is, and how many edges of the circuit begin and end there."""
    kind = "embedding with its position" if node == INPUT else node
    if ".h" in node:
        layer, head = node[1:].split(".h")
        kind = f"head {head} of layer {layer}"
    elif node.startswith("m"):
        kind = f"MLP of layer {node[1:]}"
    ends = [name.split("->") for name in of.names]
    written, read = sum(w == node for w, _ in ends), sum(node in of.graph.nodes_of(r) for _, r in ends)
    if not written and not read:
        return f"{kind}: not in the circuit"
    return f"{kind}: in the circuit it is read by {written} and reads {read}"


def _legend(place: _Places, any_cut: bool) -> list[str]:
    """What lines mean."""
    parts, x, y = [], GUTTER, place.height - LEGEND / 2 + 4
    kinds: list[tuple[str, str, str | None]] = [
        ("for the right answer", BLUE, None),
        ("against it", VERMILLION, "7 3"),
        ("outside the circuit", GREY, None),
    ]
    kinds += [("cut by hand", ORANGE, CUT)] * any_cut
    for words, colour, dash in kinds:
        line: dict[str, Any] = {"x1": x, "x2": x + 24, "y1": y, "y2": y, "stroke": colour, "stroke_dasharray": dash}
        parts.append(element("line", **line, stroke_width=1.2 if colour == GREY else 3.5))
        parts.append(text(words, x + 30, y, 11, text_anchor="start"))
        x += 42 + round(6.2 * len(words))
    return parts


def faithfulness(kept: Measurement, without: Measurement | None = None, share: float | None = None) -> go.Figure:
    """How much of the metric circuits keep, by their size, with 95 % intervals; and what is left without them.

    Args:
        kept: `circuits.faithfulness_curve`, of each pair or their mean.
        without: the same of the complements.
        share: of all edges, the size that is marked.

    Raises:
        ValueError: if a measure is not by share of edges, or no circuit of that share was measured.
    """
    figure = go.Figure()
    shown = [("the circuit alone", kept, BLUE, "solid"), ("all other edges alone", without, VERMILLION, "dash")]
    for name, measured, colour, dash in shown:
        if measured is not None:
            _add_curve(figure, measured, name, colour, dash)
    about = kept.settings
    subtitle = (
        f"{about.get('model', 'model')}: {about.get('metric', 'metric')},{SOFT}of the whole model 1, of no edge 0"
    )
    framed(figure, "What circuits keep, by size", subtitle, height=330)
    sizes = [float(size) for size in kept.coords["share"]]
    ticks = [tick for tick in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if tick >= min(sizes) * 0.99]
    axis = {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:.0%}" for tick in ticks]}
    figure.update_xaxes(title="share of all edges", **axis)
    figure.update_yaxes(title=f"share of the {about.get('metric', 'metric')}", tickformat=".0%")
    for level in (0.0, 1.0):
        figure.add_hline(level, line={"color": GREY, "width": 1, "dash": "dot"})
    if share is not None:  # a ring around the circuit of this size
        mean = kept.mean() if "example" in kept.dims else kept
        if share not in mean.coords["share"]:
            raise ValueError(f"no circuit of {share:.1%} of the edges was measured")
        marker = {"size": 15, "color": "rgba(0,0,0,0)", "line": {"color": BLUE, "width": 3}}
        ring: dict[str, Any] = {"mode": "markers", "marker": marker, "name": "the circuit drawn", "hoverinfo": "skip"}
        figure.add_scatter(x=[share], y=[float(mean.select(share=share).values)], **ring)
    return figure


def _add_curve(figure: go.Figure, measured: Measurement, name: str, colour: str, dash: str) -> None:
    mean = measured.mean() if "example" in measured.dims else measured
    if mean.dims != ("share",):
        raise ValueError(f"faithfulness is drawn by share of edges, not by {', '.join(mean.dims)}")
    x, edges = [float(one) for one in mean.coords["share"]], mean.settings.get("edges", [])
    if mean.low is not None and mean.high is not None:
        high, low = (np.where(np.isnan(side), mean.values, side) for side in (mean.high, mean.low))  # all pairs alike
        band = np.concatenate([high, low[::-1]])
        area = {"fill": "toself", "fillcolor": faint(colour), "line": {"width": 0}, "hoverinfo": "skip"}
        figure.add_scatter(x=[*x, *x[::-1]], y=band, **area, showlegend=False)
    hover = f"{name}: %{{y:.1%}}<br>%{{x:.1%}} of the edges" + (", %{customdata} left of them" if edges else "")
    line = {"color": colour, "dash": dash}
    style = {"mode": "lines+markers", "line": line, "hovertemplate": f"{hover}<extra></extra>"}
    figure.add_scatter(x=x, y=mean.values, name=name, customdata=edges or None, **style)


__all__ = ["circuit", "faithfulness"]
