"""Figures of attention as a graph: every run with its controls, and the numbers as measured."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import plotly.graph_objects as go
import pytest
import torch

from workbench import figures
from workbench.instruments import Measurement
from workbench.instruments.graph_measures import MEASURES
from workbench.instruments.head_roles import ROLES
from workbench.instruments.path_mass import hop_labels
from workbench.instruments.strongest_paths import Path, across_layers, within_layer

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
    return table(values, settings=dict(settings), layer=[0], head=heads, hop=list(hop_labels(n_hops)))


def roles() -> Measurement:
    return table(RNG.random((len(ROLES), 1, 2, 9)), role=list(ROLES), layer=[0], head=[0, 1])


def measures() -> Measurement:
    told = {"threshold": 0.1, "units": MEASURES}
    return table(RNG.random((4, 1, 2, 9)), "see measure", told, measure=list(MEASURES), layer=[0], head=[0, 1])


def knocked() -> Measurement:
    values = np.repeat(np.array([[1.0, 0.5], [0.0, 0.0]])[..., None], 9, axis=-1)
    return table(values, answers=["need the edge", "do not"], hop=[1, 2])


def causal() -> Measurement:
    coords = {"edit": ["claimed", "elsewhere"], "outcome": ["as claimed", "changed"], "hop": [1, 2]}
    return table(RNG.random((2, 2, 2, 9)), **coords)


def pattern(n_heads: int) -> torch.Tensor:
    return torch.tensor(RNG.random((n_heads, 6, 6))).tril()


def matrix() -> Measurement:
    coords = {"query": NAMES, "key": NAMES}
    return Measurement("Head", pattern(1)[0].numpy(), ("query", "key"), coords, "share", {"model": "m"})


def every_figure() -> Iterator[go.Figure]:
    yield from figures.hop_ladder({"a": ladder(0.9)}, {"a, mismatched": ladder(0.2)})
    yield from figures.head_roles({"a": roles(), "b": roles()}, {"a, random_graph": roles()})
    yield from figures.graph_measures({"a": measures()}, {"a, untrained": measures()})
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
    runs, controls = {"a": ladder(0.4, 0.9)}, {"a, mismatched": ladder(0.8, 0.2), "b, mismatched": ladder(0.5, 0.5)}
    (figure,) = figures.hop_ladder(runs, controls)
    first, *_, chain, words = figure.data
    assert first.name == "hop 1" and first.x == chain.x == pytest.approx((0.9, 0.2))
    assert ["head 1" in label for label in first.y] == [True, False] and "other examples" in first.y[1]
    assert words.text[0].startswith("90.0% (")


def test_a_ladder_of_one_head_or_of_rollout_needs_no_choice() -> None:
    selected = ladder(0.4, 0.9).select(layer=0, head=0)
    (figure,) = figures.hop_ladder({"a": selected, "longer": ladder(0.7, n_hops=5).select(layer=0, head=0)}, {})
    bars = {trace.name: trace.x for trace in figure.data if trace.type == "bar"}
    assert bars["hop 1"] == pytest.approx((0.4, 0.7)) and "own position" not in bars and bars["hop 5"] == (0, 0)


def test_roles_stand_over_chance() -> None:
    run, chance = roles(), roles()
    (figure,) = figures.head_roles({"a": run}, {"a, random_graph": chance})
    (cells,) = figure.data
    assert np.array_equal(cells.z, run.values[:, 0].T)
    assert cells.text[1][0] == f"{run.values[0, 0, 1]:.0%}<br>({chance.values[0, 0, 1]:.0%})"


def test_measures_have_their_own_axes_and_units() -> None:
    (figure,) = figures.graph_measures({"a": measures()}, {"a, untrained": measures()})
    assert [figure.layout[f"xaxis{i}"].title.text for i in ("", 2, 3, 4)] == list(MEASURES.values())
    assert len(figure.data) == 8 and {trace.name for trace in figure.data} == {"a", "untrained model"}


def test_knockouts_draw_what_is_lost_and_what_is_not_with_intervals() -> None:
    (figure,) = figures.knockout({"a": knocked()}, {})
    need, other = figure.data
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
