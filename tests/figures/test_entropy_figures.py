"""Figures of the residual's spectra: every number that was given is drawn, where and as what the axes say."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import plotly.graph_objects as go
import pytest

from workbench import figures
from workbench.measurement import Measurement, by_group

POINTS = ["blocks.0.hook_resid_pre", "blocks.0.hook_resid_mid", "blocks.0.hook_resid_post"]
NAMES = ("embedding", "after attention 0", "after MLP 0")
LINEAR = {"alpha": 1.0, "centre": False, "unit_rows": False, "kernel": "linear", "bandwidth": None, "positions": "all"}


def per_example(shift: float = 0.0, **settings: object) -> Measurement:
    values = np.random.default_rng(0).random((3, 12)) + np.arange(3)[:, None] + shift
    coords = {"layer": POINTS, "example": range(12)}
    return Measurement(
        "Matrix entropy", values, ("layer", "example"), coords, "nats", {"model": "m", **LINEAR, **settings}
    )


def ranks(*shares: float) -> Measurement:
    values = np.broadcast_to(np.array(shares)[None, :, None], (3, len(shares), 4)).copy()
    coords = {"layer": POINTS, "rank": range(1, len(shares) + 1), "example": range(4)}
    settings = {name: LINEAR[name] for name in ("centre", "unit_rows", "kernel", "bandwidth", "positions")}
    return Measurement("Spectrum", values, ("layer", "rank", "example"), coords, "share of the trace", settings).mean()


def over_steps(steps: list[int]) -> Measurement:
    return Measurement.stack([per_example(step / 100).mean() for step in steps], "step", steps)


def by_length(shift: float = 0.0) -> Measurement:
    return by_group(per_example(shift), [2, 4, 8] * 4, "length")


def every_figure() -> Iterator[go.Figure]:
    runs, controls = {"a": per_example(), "b": per_example(1)}, {"a": {"untrained": per_example(2)}}
    mean = {name: m.mean() for name, m in runs.items()}, {"a": {"untrained": controls["a"]["untrained"].mean()}}
    yield from figures.by_layer(*mean)
    yield from figures.distributions_by_layer(runs, controls)
    yield from figures.spectrum({"a": ranks(0.9, 0.1)}, {"a": {"untrained": ranks(0.5, 0.5)}})
    yield from figures.by_layer_and_group({"a": by_length(), "b": by_length(1)}, {"a": {"untrained": by_length(2)}})
    yield from figures.by_layer_over_training(
        {"a": over_steps([0, 10, 100])}, {"a": {"untrained": over_steps([0, 10, 100])}}
    )


def test_every_figure_is_titled_labelled_transparent_states_its_conventions_and_exports() -> None:
    for figure in every_figure():
        assert figure.layout.title.text and figure.layout.xaxis.title.text and figure.layout.yaxis.title.text
        said = figure.layout.title.subtitle.text
        assert "not centred, rows not normalised, linear kernel, all tokens, before the final norm" in said
        assert "sequences" in said
        assert figure.layout.paper_bgcolor == figure.layout.plot_bgcolor == "rgba(0,0,0,0)"
        json.loads(figure.to_json())


def test_controls_are_dotted_in_the_colour_of_their_run() -> None:
    runs = {"a": per_example().mean(), "b, two": per_example(1).mean()}
    (figure,) = figures.by_layer(runs, {"b, two": {"untrained": per_example(2).mean()}})
    one, two, control = figure.data
    assert one.line.color != two.line.color == control.line.color
    assert (one.line.dash, two.line.dash, control.line.dash) == (None, None, "dot")
    assert control.y == pytest.approx(per_example(2).mean().values)


def test_two_controls_of_one_run_are_told_apart() -> None:
    controls = {"a": {"untrained": per_example(2).mean(), "shuffled answers": per_example(3).mean()}}
    _, first, second = figures.by_layer({"a": per_example().mean()}, controls)[0].data
    assert first.line.color == second.line.color
    assert first.line.dash != second.line.dash and first.marker.symbol != second.marker.symbol


def test_distributions_hold_every_example_at_its_layer() -> None:
    own, control = per_example(), per_example(2)
    own.values[1, 3] = np.nan
    (figure,) = figures.distributions_by_layer({"a": own}, {"a": {"untrained": control}})
    assert figure.layout.yaxis.categoryarray == NAMES
    drawn = {(trace.name, trace.y[0]): list(trace.x) for trace in figure.data}
    assert drawn["a", "after attention 0"] == [value for i, value in enumerate(own.values[1]) if i != 3]
    assert drawn["a, re-initialised models", "after MLP 0"] == list(control.values[2])
    assert [trace.name for trace in figure.data if trace.showlegend] == ["a", "a, re-initialised models"]


def test_a_mark_lies_at_its_own_value_of_every_layer() -> None:
    own = per_example()
    one = own.select(example=4)
    (figure,) = figures.distributions_by_layer({"a": own}, {}, {"this input": one})
    mark = figure.data[-1]
    assert mark.name == "this input" and mark.type == "scatter" and mark.y == NAMES
    assert list(mark.x) == list(own.values[:, 4])


def test_distributions_need_each_examples_value() -> None:
    with pytest.raises(AssertionError, match="each example's value"):
        figures.distributions_by_layer({"a": per_example().mean()}, {})


def test_spectra_share_one_logarithmic_scale_and_leave_out_what_is_rounding() -> None:
    flat, steep = figures.spectrum({"flat": ranks(0.5, 0.5), "steep": ranks(0.99, 0.01, 0.0, np.nan)}, {})
    assert flat.layout.yaxis.type == "log" and flat.layout.yaxis.range == steep.layout.yaxis.range
    assert 10 ** steep.layout.yaxis.range[0] < 0.01
    assert [trace.name for trace in steep.data] == list(NAMES)
    assert list(steep.data[0].x) == [1, 2] and list(steep.data[0].y) == pytest.approx([0.99, 0.01])
    assert "below 1e-12 are not drawn" in steep.layout.title.subtitle.text
    assert "not drawn" not in flat.layout.title.subtitle.text


def test_groups_lie_along_the_axis_with_one_line_a_layer() -> None:
    one, two = figures.by_layer_and_group({"a": by_length(), "b": by_length(1)}, {"a": {"untrained": by_length(2)}})
    assert [trace.name for trace in one.data] == [*NAMES, *(f"{name}, re-initialised models" for name in NAMES)]
    assert [trace.name for trace in two.data] == list(NAMES)
    assert list(one.data[1].x) == [2, 4, 8] and one.data[1].y == pytest.approx(by_length().values[:, 1])
    assert one.data[4].line.color == one.data[1].line.color and one.data[4].line.dash == "dot"
    assert one.layout.title.text == "Matrix entropy by length: a" and one.layout.yaxis.range == two.layout.yaxis.range


def test_training_is_drawn_over_steps_and_over_layers() -> None:
    steps = [0, 1, 2, 4, 8, 16, 32, 64, 128, 256]
    m = over_steps(steps)
    by_step, by_layer = figures.by_layer_over_training({"a": m}, {})
    lines = {trace.name: trace for trace in by_step.data if trace.name}
    assert set(lines) == set(NAMES) and lines["after MLP 0"].y == pytest.approx(m.values[:, 2])
    profiles = [trace.name for trace in by_layer.data]
    assert len(profiles) == 8 and (profiles[0], profiles[-1]) == ("step 0", "step 256")
    assert by_layer.data[-1].y == pytest.approx(m.values[-1]) and tuple(by_layer.data[0].x) == NAMES


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"alpha": np.inf, "centre": True, "unit_rows": True}, "α = ∞, centred, unit rows"),
        ({"kernel": "gaussian", "bandwidth": "median"}, "Gaussian kernel, σ = median distance"),
        ({"kernel": "laplacian_l1", "bandwidth": 2.5}, "Laplacian kernel of L1 distances, σ = 2.5, all"),
        ({"positions": "output"}, "output tokens"),
        ({"positions": (2, None)}, "tokens 2 to the end"),
        ({"of": "singular_values"}, "of singular values"),
    ],
)
def test_subtitles_say_how_it_was_measured(settings: dict[str, object], words: str) -> None:
    (figure,) = figures.by_layer({"a": per_example(**settings).mean()}, {})
    assert words in figure.layout.title.subtitle.text
