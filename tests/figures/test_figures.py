"""Figures show the numbers they were given, under titles and axes that say what they are."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest

from workbench import figures
from workbench.figures.runs_and_controls import controls_of, every_line
from workbench.figures.style import ordered_union
from workbench.measurement import Measurement
from workbench.measurement.compare_runs import over_seeds


def table(name: str, values: np.ndarray, coords: dict, units: str = "share", **settings: object) -> Measurement:
    return Measurement(name, values, tuple(coords), coords, units, {"model": "m", **settings})


def by_depth(values: list[float], depths: list[int]) -> Measurement:
    examples = np.repeat(np.array(values)[:, None], 20, axis=1)
    return table("Accuracy by depth", examples, {"depth": depths, "example": range(20)}, unit="position").mean()


def by_layer(n_layers: int, alpha: float = 1.0) -> Measurement:
    points = [f"blocks.{layer}.hook_resid_{p}" for layer in range(n_layers) for p in ("mid", "post")]
    points = ["blocks.0.hook_resid_pre", *points]
    values = np.linspace(1, 2, len(points))[:, None] + np.linspace(-0.1, 0.1, 5)
    settings = {"alpha": alpha, "centre": True, "unit_rows": False, "normalise": None}
    return table("Matrix entropy", values, {"layer": points, "example": range(5)}, "nats", **settings).mean()


def top_tokens() -> Measurement:
    coords = {
        "basis": ("encoder", "decoder"),
        "point": ["blocks.0.hook_resid_mid", "blocks.0.hook_resid_post"],
        "position": ["0:a", "1:b", "2:c"],
        "rank": [1, 2],
    }
    values = np.arange(24, 0, -1, dtype=float).reshape(2, 2, 3, 2)
    m = table("Residual on both bases", values, coords, "inner product", final_norm=False)
    return Measurement(**{**vars(m), "labels": np.array([f"t{v:.0f}" for v in values.flat]).reshape(values.shape)})


def head() -> Measurement:
    pattern = np.array([[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.1, 0.9, 0, 0], [0.3, 0, 0.695, 0.005]])
    names = ["0:a", "1:b", "2:c", "3:d"]
    coords = {"matrix": ["pattern", "resolvent"], "query": names, "key": names}
    return table("Attention of layer 0, head 1", np.stack([pattern, pattern]), coords)


def every_figure() -> Iterator[go.Figure]:
    score = table("Minimum", np.array([1.0, 1.0, 0.0]), {"example": range(3)}).mean()
    mass = table(
        "Gold",
        np.random.default_rng(0).random((2, 1, 2, 9)),
        {"matrix": ("pattern", "resolvent"), "layer": [0], "head": [0, 1], "example": range(9)},
    )
    yield figures.accuracy({"a": by_depth([1.0, 0.5], [1, 2])})
    yield figures.entropy({"a": by_layer(2)})
    yield figures.hops({"a": by_depth([1.0, 0.5], [1, 2])})
    yield figures.gold_mass(mass.mean())
    yield figures.mechanisms({"a": [(score, score)]})
    yield figures.projection_map(top_tokens())
    yield figures.attention_matrix(head(), "pattern", [(1, 2, 1), (2, 3, 1)])
    yield figures.attention_arcs(head(), "pattern", [(1, 2, 1)])


def test_every_figure_is_titled_labelled_transparent_and_exports() -> None:
    for figure in every_figure():
        title = figure.layout.title
        assert title.text and title.subtitle.text
        assert figure.layout.xaxis.title.text
        assert figure.layout.paper_bgcolor == figure.layout.plot_bgcolor == "rgba(0,0,0,0)"
        json.loads(figure.to_json())
        figure.update_layout(template="plotly_dark")


def test_accuracy_draws_every_run_with_its_interval() -> None:
    runs = {"one": by_depth([1.0, 0.25], [1, 2]), "two": by_depth([0.5, np.nan, 1.0], [1, 2, 3])}
    figure = figures.accuracy(runs)
    one, two = figure.data
    assert (one.name, two.name) == ("one", "two") and one.line.color != two.line.color
    assert list(one.y) == [1, 0.25] and list(two.x) == [1, 3]
    assert one.error_y.arrayminus[0] > 0.05  # Wilson's: 20 of 20 is not certainty
    assert figure.layout.yaxis.tickformat == ".0%" and list(figure.layout.xaxis.tickvals) == [1, 2, 3]


def test_entropy_orders_layers_and_states_its_settings() -> None:
    figure = figures.entropy({"shallow": by_layer(1, np.inf), "deep": by_layer(2, np.inf)})
    wanted = ("embedding", "after attention 0", "after MLP 0", "after attention 1", "after MLP 1")
    assert figure.layout.xaxis.categoryarray == wanted
    assert "α = ∞, centred, rows not normalised" in figure.layout.title.subtitle.text
    assert figure.layout.yaxis.title.text == "matrix entropy (nats)"


def test_gold_mass_leaves_out_a_resolvent_that_is_the_pattern() -> None:
    values = np.random.default_rng(0).random((1, 1, 2, 9))
    coords = {"matrix": ("pattern", "resolvent"), "layer": [0], "head": [0, 1], "example": range(9)}
    same = table("Gold", np.concatenate([values, values]), coords).mean()
    other = table("Gold", np.concatenate([values, values / 2]), coords).mean()
    assert [bar.name for bar in figures.gold_mass(same).data] == ["pattern"]
    assert [bar.name for bar in figures.gold_mass(other).data] == ["pattern", "resolvent"]


def test_mechanisms_stand_beside_their_control() -> None:
    held = table("Minimum", np.array([1.0, 1.0, 0.0, 1.0]), {"example": range(4)}).mean()
    chance = table("Minimum", np.array([0.0, 1.0, 0.0, 0.0]), {"example": range(4)}).mean()
    score, control = figures.mechanisms({"run": [(held, chance)]}).data
    assert (score.name, control.name) == ("run", "run, control")
    assert score.x == (0.75,) and control.x == (0.25,) and score.y == control.y == ("Minimum",)


def test_projection_map_shows_top_tokens_and_marks_every_cell_for_clicks() -> None:
    cells, markers = figures.projection_map(top_tokens(), "decoder").data
    assert cells.text.tolist() == [["t12", "t10", "t8"], ["t6", "t4", "t2"]]
    assert list(markers.customdata[4]) == ["blocks.0.hook_resid_post", 1]
    assert (markers.x[4], markers.y[4]) == (1, 1)


def test_projection_bars_show_both_bases_of_one_cell() -> None:
    drawing = figures.projection_bars(top_tokens(), "blocks.0.hook_resid_post", 2)
    bars = [part.attrib for part in ET.fromstring(drawing.svg()).iter() if {"data-tip", "width"} <= set(part.attrib)]
    assert [bar["data-tip"].split(":")[0] for bar in bars] == ["t14", "t13", "t2", "t1"]
    widths = [float(bar["width"]) for bar in bars]
    assert widths[0] / widths[1] == pytest.approx(14 / 13, abs=0.01)
    assert widths[2] / widths[3] == pytest.approx(2, abs=0.01)
    assert drawing.title.startswith("Tokens at position") and drawing.title.endswith("after MLP 0")


def test_bars_of_negative_values_point_the_other_way() -> None:
    table = top_tokens()
    drawing = figures.projection_bars(replace(table, values=-table.values), "blocks.0.hook_resid_post", 2)
    root = ET.fromstring(drawing.svg())
    zeros = [float(part.attrib["x1"]) for part in root.iter() if "x1" in part.attrib]
    bars = [part for part in root.iter() if "data-tip" in part.attrib and "width" in part.attrib]
    ends = [float(bar.attrib["x"]) + float(bar.attrib["width"]) for bar in bars]
    assert ends == pytest.approx([zeros[0], zeros[0], zeros[1], zeros[1]], abs=0.02)
    with pytest.raises(ValueError, match="no position 9"):
        figures.projection_bars(table, "blocks.0.hook_resid_post", 9)


def test_attention_matrix_outlines_gold_edges_at_their_cells() -> None:
    heat, first, further = figures.attention_matrix(head(), "pattern", [(1, 2, 1), (2, 3, 1)]).data
    assert np.array_equal(heat.z, head().values[0])
    assert (first.x, first.y) == ((1,), (2,)) and (further.x, further.y) == ((1,), (3,))


def arc_counts(figure: go.Figure) -> dict[str, int]:
    named = {trace.name for trace in figure.data}
    return {name.rsplit(" (", 1)[0].split(":")[0]: int(name.rsplit("(", 1)[1][:-1]) for name in named}


def test_arcs_are_right_wrong_missing_or_not_due() -> None:
    figure = figures.attention_arcs(head(), "pattern", [(1, 2, 1), (1, 3, 1)])
    # 2→1 is found; 2→0, 3→0 and 3→2 are wrong; 3→1 is missing; nothing is due of 1→0.
    assert arc_counts(figure) == {"right": 1, "wrong": 3, "missing": 1, "query without a gold edge": 1}


def test_arcs_are_thinned_to_the_strongest_and_say_so() -> None:
    figure = figures.attention_arcs(head(), "pattern", strongest=2)
    assert arc_counts(figure) == {"attention": 2}
    assert "the 2 strongest of 5 arcs" in figure.layout.title.subtitle.text
    tops = [trace for trace in figure.data if trace.mode == "markers"]
    assert {text for trace in tops for text in trace.text} == {"2:c reads 1:b: 0.900", "3:d reads 2:c: 0.695"}


def test_a_row_edited_to_nothing_misses_its_gold_edges() -> None:
    edited = head()
    edited.values[:] = 0
    assert arc_counts(figures.attention_arcs(edited, "pattern", [(1, 2, 1)])) == {"missing": 1}


def test_unknown_matrix_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ValueError, match="no matrix 'A³'; there is: pattern, resolvent"):
        figures.attention_matrix(head(), "A³")


def test_labels_of_several_runs_are_merged_in_order() -> None:
    assert ordered_union([[4, 2], [1, 3]]) == [1, 2, 3, 4]
    assert ordered_union([["a", "b"], ["a", "b", "c"]]) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("dims", "kind"),
    [
        ((), "bar"),
        (("edit", "outcome"), "bar"),
        (("hop",), "scatter"),
        (("layer", "head", "hop"), "scatter"),
        (("role", "layer", "head", "hop"), "heatmap"),
    ],
)
def test_a_measurement_of_any_dims_is_drawn_with_its_controls(dims: tuple[str, ...], kind: str) -> None:
    sizes = {"edit": 2, "outcome": 2, "hop": 4, "layer": 2, "head": 3, "role": 5}
    coords = {
        dim: [f"{dim}{i}" if dim in ("edit", "outcome", "role") else i for i in range(sizes[dim])] for dim in dims
    }
    shape = [sizes[dim] for dim in dims]
    draws = np.random.default_rng(0)

    def made() -> Measurement:
        values = draws.random((*shape, 20))
        return Measurement("Thing", values, (*dims, "example"), {**coords, "example": range(20)}, "share").mean()

    runs = {"a": made(), "b": made()}
    drawn = figures.any_measure(runs, {"a": {"re-initialised models": made()}, "b": {"re-initialised models": made()}})
    assert {trace.type for figure in drawn for trace in figure.data} == {kind}
    shown = np.concatenate([np.ravel(np.asarray(t.z if kind == "heatmap" else t.y)) for f in drawn for t in f.data])
    for m in runs.values():
        assert np.isin(np.round(m.values.ravel(), 9), np.round(shown.astype(float), 9)).all()


def test_controls_belong_to_the_run_of_their_name_and_to_no_other() -> None:
    share = by_depth([0.5], [1])
    controls = {"sort": {"re-initialised models": share}, "sort, 3 seeds": {"re-initialised models": share}}
    own, of_group = (list(controls_of(name, controls)) for name in ("sort", "sort, 3 seeds"))
    assert own == of_group == ["re-initialised models"]
    runs = {"sort": share, "sort, 3 seeds": share}
    drawn = figures.accuracy(runs, controls)
    named = ["sort", "sort, re-initialised models", "sort, 3 seeds", "sort, 3 seeds, re-initialised models"]
    assert sorted(trace.name for trace in drawn.data) == sorted(named)
    assert [line.label for line in every_line(runs, controls) if line.control] == [named[1], named[3]]
    assert list(controls_of("sort", {"sort": {"untrained": share}})) == ["re-initialised models"]


@pytest.mark.parametrize(
    ("layers", "title"), [([0, 1], "layer"), (["blocks.0.hook_resid_mid", "x"], "point of the residual")]
)
def test_the_axis_of_any_measure_says_points_only_where_there_are_points(layers: list, title: str) -> None:
    m = table("Made", np.ones((2, 2, 3)), {"layer": layers, "head": range(2), "example": range(3)}).mean()
    (figure,) = figures.any_measure({"a": m}, {})
    assert figure.layout.xaxis.title.text == title


def test_bars_of_several_seeds_have_their_dots_on_them() -> None:
    def of(*shares: float) -> Measurement:
        runs = [table("Minimum", np.array([s, s]), {"example": range(2)}).mean() for s in shares]
        return over_seeds(runs, range(len(shares)))

    figure = figures.mechanisms({"a": [(of(0.9, 0.2, 1.0), of(0.1, 0.2, 0.1))], "b": [(of(0.5, 0.4), of(0.1, 0.2))]})
    bars = {bar.name: bar for bar in figure.data if bar.type == "bar"}
    dots = [trace for trace in figure.data if trace.type == "scatter"]
    assert [dot.offsetgroup for dot in dots] == ["a", "a, control", "b", "b, control"] == list(bars)
    assert list(dots[0].x) == [0.9, 0.2, 1.0] and set(dots[0].y) == set(bars["a"].y)
    assert figure.layout.scattermode == "group"
