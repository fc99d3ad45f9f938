"""Figures of attention as a graph: every run with its controls, and the numbers as measured."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest
import torch

from workbench import figures
from workbench.instruments.attention.attention_graph import power_name
from workbench.instruments.attention.graph_measures import MEASURES
from workbench.instruments.attention.head_roles import ROLES
from workbench.instruments.attention.path_mass import REST
from workbench.instruments.attention.strongest_paths import Path, across_layers, within_layer
from workbench.measurement import Measurement
from workbench.measurement.numbers import percent

RNG = np.random.default_rng(0)
NAMES = [f"{i}:w{i}" for i in range(6)]


def table(values: np.ndarray, units: str = "share", settings: dict | None = None, **coords: list) -> Measurement:
    coords["example"] = list(range(values.shape[-1]))
    told = {"model": "m", "layer": "all", "head": "all", **(settings or {})}
    return Measurement("Measured", values, tuple(coords), coords, units, told).mean()


def ladder(*on_chain: float, n_hops: int = 2, **settings: object) -> Measurement:
    """One layer; of each head the mass on the chain, all of it at hop 1."""
    parts = [[*([mass] + [0.0] * (n_hops - 1)), 0.0, mass, 0.0, 1 - mass] for mass in on_chain]
    values = np.repeat(np.array(parts)[None, :, :, None], 9, axis=-1)
    heads = list(range(len(on_chain)))
    return table(values, settings=dict(settings), layer=[0], head=heads, hop=[*range(1, n_hops + 1), *REST])


def roles() -> Measurement:
    return table(RNG.random((len(ROLES), 1, 2, 9)), role=list(ROLES), layer=[0], head=[0, 1])


def measures() -> Measurement:
    told = {"threshold": 0.1, "units": MEASURES}
    return table(RNG.random((4, 1, 2, 9)), "see measure", told, measure=list(MEASURES), layer=[0], head=[0, 1])


def knocked() -> Measurement:
    changed = np.array([[1.0, 0.5], [0.0, 0.0]])[:, None]  # [edit, 1, hop]
    values = np.repeat(np.repeat(changed, 2, axis=1)[..., None], 9, axis=-1)
    return table(values, edit=["claimed", "elsewhere"], outcome=["as claimed", "changed"], hop=[1, 2])


def causal() -> Measurement:
    coords = {"edit": ["claimed", "elsewhere"], "outcome": ["as claimed", "changed"], "hop": [1, 2]}
    return table(RNG.random((2, 2, 2, 9)), **coords)


def pattern(n_heads: int) -> torch.Tensor:
    return torch.tensor(RNG.random((n_heads, 6, 6))).tril()


def matrix() -> Measurement:
    coords = {"query": NAMES, "key": NAMES}
    return Measurement("Head", pattern(1)[0].numpy(), ("query", "key"), coords, "share", {"model": "m"})


def every_figure() -> Iterator[go.Figure]:
    yield from figures.hop_ladder({"a": ladder(0.9)}, {"a": {"mismatched": ladder(0.2)}})
    yield from figures.head_roles({"a": roles(), "b": roles()}, {"a": {"random_graph": roles()}})
    yield from figures.graph_measures({"a": measures()}, {"a": {"untrained": measures()}})
    yield from figures.knockout({"a": knocked()}, {})
    yield from figures.knockout({"a": causal()}, {})
    yield figures.side_by_side({"one": matrix(), "two": matrix()}, [(1, 2, 1), (2, 3, 1)])
    yield figures.path_arcs(within_layer(pattern(1)[0], 5, 1), NAMES, "Paths", "from 5 to 1")
    yield figures.path_layers(across_layers([pattern(2)] * 2, 5, 1), NAMES, "Paths", "from 5 to 1")


def test_every_figure_is_titled_labelled_transparent_and_exports() -> None:
    for figure in every_figure():
        assert figure.layout.title.text and figure.layout.title.subtitle.text and figure.layout.xaxis.title.text
        assert figure.layout.paper_bgcolor == figure.layout.plot_bgcolor == "rgba(0,0,0,0)"
        json.loads(figure.to_json())
        figure.update_layout(template="plotly_dark")


def test_a_ladder_shows_each_runs_best_head_and_its_controls_at_the_same_head() -> None:
    runs, controls = (
        {"a": ladder(0.4, 0.9)},
        {"a": {"mismatched": ladder(0.8, 0.2)}, "b": {"mismatched": ladder(0.5, 0.5)}},
    )
    (figure,) = figures.hop_ladder(runs, controls)
    first, *_, chain, words = figure.data
    assert first.name == "hop 1" and first.x == chain.x == pytest.approx((0.9, 0.2))
    assert ["head 1" in label for label in first.y] == [True, False] and "shuffled truth" in first.y[1]
    assert words.text[0].startswith("90% [")


def test_a_ladder_of_one_head_or_of_rollout_needs_no_choice() -> None:
    selected = ladder(0.4, 0.9).select(layer=0, head=0)
    (figure,) = figures.hop_ladder({"a": selected, "longer": ladder(0.7, n_hops=5).select(layer=0, head=0)}, {})
    bars = {trace.name: trace.x for trace in figure.data if trace.type == "bar"}
    assert bars["hop 1"] == pytest.approx((0.4, 0.7)) and "own position" not in bars and bars["hop 5"] == (0, 0)


def test_a_ladder_says_of_which_runs_the_best_head_is_drawn() -> None:
    both, one = ladder(0.4, 0.9), ladder(0.4, 0.9).select(layer=0, head=0)
    said = [
        figures.hop_ladder(runs, {})[0].layout.title.subtitle.text
        for runs in ({"a": both, "b": both}, {"a": one, "b": both}, {"a": one, "b": one})
    ]
    assert "each run's head with the most" in said[0] and "of b the head with the most" in said[1]
    assert "the most such mass" not in said[2]


def test_a_ladder_of_a_single_example_claims_no_interval() -> None:
    one = ladder(0.9).select(layer=0, head=0)
    single = replace(one, low=None, high=None, n=None, settings={**one.settings, "layer": 0, "head": 3})
    (figure,) = figures.hop_ladder({"γ = 0.5": single, "γ = 0": single}, {})
    assert figure.data[-1].text == ("90%", "90%") and "interval" not in figure.layout.title.subtitle.text
    assert figure.data[0].y[0] == "<b>γ = 0.5</b>, layer 0 head 3 "


def test_the_gamma_of_a_ladder_is_named_only_where_its_runs_share_it() -> None:
    half, none = (ladder(0.9, gamma=gamma).select(layer=0, head=0) for gamma in (0.5, 0.0))
    said = [
        figures.hop_ladder(runs, {})[0].layout.title.subtitle.text for runs in ({"a": half}, {"a": half, "b": none})
    ]
    assert "γ = 0.5" in said[0] and "γ" not in said[1]


def test_roles_stand_over_chance() -> None:
    run, chance = roles(), roles()
    (figure,) = figures.head_roles({"a": run}, {"a": {"random_graph": chance}})
    (cells,) = figure.data
    assert np.array_equal(cells.z, run.values[:, 0].T)
    assert cells.text[1][0] == f"{percent(run.values[0, 0, 1])}<br>({percent(chance.values[0, 0, 1])})"


def test_of_many_heads_each_role_that_has_a_number_is_a_map_of_layers_and_heads() -> None:
    values = RNG.random((len(ROLES), 12, 6))
    values[0] = np.nan  # no query has such a key
    coords = {"role": ROLES, "layer": range(12), "head": range(6)}
    deep = Measurement("Head roles", values, ("role", "layer", "head"), coords, "share", {"model": "m"})
    chance = replace(deep, values=values / 2)
    (figure,) = figures.head_roles({"a": deep}, {"a": {"random_graph": chance}})
    assert [title.text for title in figure.layout.annotations] == list(ROLES[1:])
    assert len(figure.data) == len(ROLES) - 1 and figure.layout.height < 1000
    for role, shown in enumerate(figure.data, start=1):
        assert np.array_equal(shown.z, values[role])
        hovered = shown.customdata[7][5]
        assert "layer 7, head 5" in hovered and percent(values[role, 7, 5]) in hovered
        assert percent(values[role, 7, 5] / 2) in hovered


def test_measures_have_their_own_axes_and_units() -> None:
    (figure,) = figures.graph_measures({"a": measures()}, {"a": {"untrained": measures()}})
    assert [figure.layout[f"xaxis{i}"].title.text for i in ("", 2, 3, 4)] == list(MEASURES.values())
    assert len(figure.data) == 8 and {trace.name for trace in figure.data} == {"a", "re-initialised models"}


def test_knockouts_draw_what_is_lost_and_what_is_not_with_intervals() -> None:
    (figure,) = figures.knockout({"a": knocked()}, {})
    _, need, other = figure.data
    assert (need.name, list(need.y), list(other.y)) == ("a: answers that need the edge", [1, 0.5], [0, 0])
    assert need.error_y.arrayminus[0] > 0.1 and list(figure.layout.xaxis.tickvals) == [1, 2]
    assert len(figures.knockout({"a": causal(), "b": causal()}, {})[0].data) == 6


def test_paths_are_named_by_their_way_and_weight() -> None:
    one = Path((5, 3, 1), (0.5, 0.5), (0, 0), (None, None), 0.25)
    arcs = figures.path_arcs([one], NAMES, "Paths")
    assert arcs.data[0].name == "1: 5 → 3 → 1, weight 0.25" and list(arcs.data[1].x) == [4, 2]
    deep = Path((5, 5, 1), (0.5, 0.2), (1, 0), (None, 3), 0.1)
    layers = figures.path_layers([deep], NAMES, "Paths")
    assert layers.data[-1].name == "1: layer 0 head 3 5 → 1, weight 0.1" and list(layers.data[-1].y) == [2, 1, 0]
    for draw in (figures.path_arcs, figures.path_layers):
        with pytest.raises(ValueError, match="no path to draw"):
            draw([], NAMES, "Paths")


def test_matrices_side_by_side_share_their_marks() -> None:
    figure = figures.side_by_side({"one": matrix(), "two": matrix()}, [(1, 2, 1), (2, 3, 1)])
    marks = [trace for trace in figure.data if trace.type == "scatter"]
    assert len(marks) == 4 and [mark.showlegend for mark in marks] == [True, True, False, False]
    with pytest.raises(ValueError, match="no matrix to draw"):
        figures.side_by_side({})


def powers(n: int, n_hops: int = 3) -> Measurement:
    names, labels = [f"{i}:w" for i in range(n)], ["pattern", *map(power_name, range(2, n_hops + 1)), "resolvent"]
    values = np.tril(RNG.random((len(labels), n, n)))
    coords = {"matrix": labels, "query": names, "key": names}
    return Measurement("Attention of layer 0, head 0", values, tuple(coords), coords, "share", {"model": "m"})


def outlined(figure: go.Figure, column: str) -> set[tuple[str, str]]:
    """(query, key) of the marks in the panel with this x axis."""
    marks = [trace for trace in figure.data if trace.type == "scatter" and (trace.xaxis or "x") == column]
    return {edge for mark in marks for edge in zip(mark.y, mark.x, strict=True)}


def test_a_power_has_the_gold_edges_of_as_many_hops_outlined_and_the_rest_all_of_them() -> None:
    rollout = replace(powers(6).select(matrix="pattern"), settings={"model": "deep"})
    deep = Measurement.stack([rollout], "matrix", ["rollout"])
    gold = [(1, 3, 2), (2, 3, 1), (3, 3, 0)]
    figure = figures.hop_matrices(powers(6), deep, gold)
    assert [heat.z.shape for heat in figure.data if heat.type == "heatmap"] == [(6, 6)] * 5
    assert [note.text for note in figure.layout.annotations][2:] == [
        "A³: 3 steps",
        "resolvent: all hops at once",
        "rollout of deep",
    ]
    first, second, third = ("3:w", "2:w"), ("3:w", "1:w"), ("3:w", "0:w")
    assert [outlined(figure, axis) for axis in ("x", "x2", "x3")] == [{first}, {second}, {third}]
    assert outlined(figure, "x4") == outlined(figure, "x5") == {first, second, third}


def test_of_long_inputs_a_window_is_drawn_and_the_subtitle_says_which() -> None:
    m = powers(200, 1)
    figure = figures.hop_matrices(m, None, [(1, 10, 2), (1, 199, 150), (1, 199, 60)], start=72)
    heat = figure.data[0]
    assert np.array_equal(heat.z, m.values[0, 72:, 72:]) and heat.x[0] == "72:w" and heat.y[-1] == "199:w"
    assert outlined(figure, "x") == {("199:w", "150:w")}
    assert "positions 72 to 199 of 200" in figure.layout.title.subtitle.text
    with pytest.raises(ValueError, match="there is no position 200"):
        figures.hop_matrices(m, start=200)


def test_a_long_path_is_shortened_in_the_legend_only() -> None:
    way = tuple(range(40, 0, -1))
    one = Path(way, (0.5,) * 39, (0,) * 39, (None,) * 39, 0.5**39)
    figure = figures.path_arcs([one], [str(i) for i in range(41)], "Paths")
    assert "40 in all" in figure.data[0].name and len(figure.data[0].name) < 100 and len(figure.data[1].x) == 39
