"""A circuit's drawing shows the edges and scores that were measured, and its curve what circuits of each size keep."""

from __future__ import annotations

import re

import numpy as np
import plotly.graph_objects as go
import pytest

from workbench import figures
from workbench.circuits import Circuit, Graph, greedy_edges
from workbench.figures import Drawing
from workbench.measurement import Measurement
from workbench.measurement.numbers import with_interval

LARGE = Graph(4, 8)


def scores(graph: Graph, model: str = "model") -> Measurement:
    values = np.random.default_rng(0).standard_normal((graph.n_edges, 9)) + np.arange(graph.n_edges)[:, None] % 7 - 3
    coords = {"edge": list(graph.names), "example": range(9)}
    about = {"model": model, "metric": "logit difference"}
    return Measurement("Scores", values, ("edge", "example"), coords, "logits", about)


def edges(drawing: Drawing, *, inside: bool) -> dict[str, tuple[str, float]]:
    """What hovering over each edge says, with its width."""
    found = re.findall(r'<path d="[^"]*" class="edge" data-tip="([^"]*)"[^>]*stroke-width="([\d.]+)"', drawing.body)
    kept = [(tip, float(width)) for tip, width in found if ("outside the circuit" in tip) != inside]
    return {tip.split(":")[0]: (tip, width) for tip, width in kept}


def in_words(name: str) -> str:
    writer, reader = name.split("->")
    part = {"q": ", as its query", "k": ", as its key", "v": ", as its value"}
    node, _, rest = reader.partition("<")
    return f"{writer} → {node}{part.get(rest[:1], '')}"


@pytest.mark.parametrize("graph", [Graph(1, 1), Graph(2, 4), LARGE])
def test_every_edge_of_the_circuit_is_drawn_with_its_score_as_thick_as_that(graph: Graph) -> None:
    measured = scores(graph)
    mean = measured.mean()
    circuit = greedy_edges(measured, graph, min(40, graph.n_edges)).pruned()
    drawn = edges(figures.circuit(circuit, measured), inside=True)
    assert set(drawn) == {in_words(name) for name in circuit.names} and len(drawn) == len(circuit)
    size = {}
    for name in circuit.names:
        one = mean.select(edge=name)
        assert one.low is not None and one.high is not None
        tip, size[abs(float(one.values))] = drawn[in_words(name)]
        said = with_interval(float(one.values), *one.ends, "logits")
        assert said in tip.replace("&gt;", ">")
    widths = [size[score] for score in sorted(size)]
    assert (widths == sorted(widths) and widths[-1] > widths[0]) or len(widths) == 1


def test_colour_and_dashes_say_the_sign_and_the_mean_draws_the_same() -> None:
    graph = Graph(2, 2)
    measured = scores(graph)
    whole = Circuit.of(graph, graph.names)
    drawing = figures.circuit(whole, measured)
    against = int((measured.mean().values < 0).sum())
    paths = re.findall(r"<path[^>]*>", drawing.body)
    assert sum("stroke-dasharray" in path for path in paths) == against and 0 < against < graph.n_edges
    assert drawing.svg() == figures.circuit(whole, measured.mean()).svg()


@pytest.mark.parametrize("graph", [Graph(1, 1), Graph(1, 8), Graph(3, 2), Graph(3, 4, 2, has_mlps=False), LARGE])
def test_nothing_is_outside_the_picture(graph: Graph) -> None:
    drawing = figures.circuit(greedy_edges(scores(graph), graph, 30 if graph.n_edges > 30 else 3), scores(graph))
    for path in re.findall(r'<path d="([^"]*)"', drawing.body):
        numbers = [float(number) for number in re.findall(r"-?[\d.]+", path)]
        assert all(0 <= x <= drawing.width for x in numbers[::2]), path
        assert all(0 <= y <= drawing.height for y in numbers[1::2]), path
    for x, y, width, height in boxes(drawing):
        assert x >= 0 and y >= 0 and x + width <= drawing.width and y + height <= drawing.height


def boxes(drawing: Drawing) -> list[tuple[float, float, float, float]]:
    found = []
    for tag in re.findall(r"<rect[^>]*>", drawing.body):
        at = {key: float(value) for key, value in re.findall(r' (x|y|width|height)="([\d.-]+)"', tag)}
        found.append((at["x"], at["y"], at["width"], at["height"]))
    assert found
    return found


def test_an_edge_to_a_group_leads_to_each_of_its_heads() -> None:
    graph = Graph(1, 4, 2, has_mlps=False)
    drawing = figures.circuit(Circuit.of(graph, ["input->a0.g1<k>", "a0.h0->logits"]), scores(graph))
    ends = re.findall(r'data-tip="input → a0.g1, as its key: [^"]*"[^>]* data-ends="([^"]*)"', drawing.body)
    assert ends == ["input a0.h2", "input a0.h3"] and "m0" not in drawing.body


def test_boxes_do_not_overlap_and_every_node_has_one() -> None:
    drawing = figures.circuit(greedy_edges(scores(LARGE), LARGE, 30), scores(LARGE))
    every = sorted(set(boxes(drawing)))
    assert len(every) == len(LARGE.writers) + 1
    for i, (x, y, width, height) in enumerate(every):
        for left, top, wide, high in every[i + 1 :]:
            assert x + width <= left or left + wide <= x or y + height <= top or top + high <= y


def test_edges_outside_are_faint_and_those_left_out_are_counted() -> None:
    drawing = figures.circuit(greedy_edges(scores(LARGE), LARGE, 30), scores(LARGE))
    outside = edges(drawing, inside=False)
    assert len(outside) == 160 and f"{LARGE.n_edges - 30 - 160} weaker edges" in drawing.subtitle
    assert max(width for _, width in outside.values()) < 2


def test_names_are_escaped() -> None:
    graph = Graph(1, 1)
    page = figures.circuit(greedy_edges(scores(graph, "<script>"), graph, 3), scores(graph, "<script>")).page()
    assert "<script>" not in page and "&lt;script&gt;" in page and "input -&gt;" not in page


def test_a_drawing_needs_the_scores_of_its_edges() -> None:
    graph, few = Graph(2, 2), scores(Graph(1, 1))
    with pytest.raises(ValueError, match="have no score, among them"):
        figures.circuit(Circuit.of(graph, graph.names), few)
    with pytest.raises(ValueError, match="scores of edges, not with a measure by share"):
        figures.circuit(Circuit.of(graph, graph.names), curve())


def curve() -> Measurement:
    values = np.random.default_rng(1).random((3, 9))
    coords = {"share": [0.05, 0.5, 1.0], "example": range(9)}
    about = {"model": "model", "metric": "logit difference", "edges": [2, 9, 20]}
    return Measurement("Faithfulness by size", values, ("share", "example"), coords, "share of the metric", about)


def lines(figure: go.Figure) -> dict[str, np.ndarray]:
    return {line.name: np.array(line.y, dtype=float) for line in figure.data if line.name}


def test_the_curve_has_the_numbers_measured_and_marks_the_size_chosen() -> None:
    kept, without = curve(), curve().mean()
    figure = figures.faithfulness(kept, without, 0.5)
    drawn = lines(figure)
    assert np.allclose(drawn["the circuit alone"], kept.mean().values)
    assert np.allclose(drawn["all other edges alone"], without.values)
    assert np.allclose(drawn["the circuit drawn"], kept.mean().values[1:2])
    assert figure.data[-1].x == (0.5,) and list(figure.data[1].customdata) == [2, 9, 20]
    band = kept.mean()
    assert band.low is not None and band.high is not None
    assert np.allclose(np.array(figure.data[0].y), [*band.high, *band.low[::-1]])


def test_a_curve_alone_has_neither_complement_nor_mark() -> None:
    assert set(lines(figures.faithfulness(curve()))) == {"the circuit alone"}


def test_the_curve_refuses_what_was_not_measured() -> None:
    with pytest.raises(ValueError, match=r"no circuit of 30\.0% of the edges was measured"):
        figures.faithfulness(curve(), share=0.3)
    with pytest.raises(ValueError, match="by share of edges, not by edge"):
        figures.faithfulness(scores(Graph(1, 1)))
