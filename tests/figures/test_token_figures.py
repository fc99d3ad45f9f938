"""Figures of projections, bases and lenses show the numbers they were given."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import plotly.graph_objects as go
import pytest

from workbench import figures
from workbench.capture import Capture, Subject, capture
from workbench.figures import layers
from workbench.figures.paper_projection import peaks
from workbench.instruments.lens import lens_agreement, logit_lens
from workbench.instruments.lens.tuned_lens import TunedLens, train_lens
from workbench.instruments.lens.tuned_lens import measure as tuned
from workbench.instruments.residual import projection, unexplained
from workbench.instruments.residual.trajectory import ranks, trajectory
from workbench.instruments.weights import basis_overlap
from workbench.measurement import Measurement
from workbench.models.compiled import sorter
from workbench.tasks import make
from workbench.util.seeds import generator

TASK = make("sorting", q=9, max_length=4)
MODEL = sorter(9, 1, TASK.n_ctx, pad=True)
SUBJECT = Subject.of(MODEL, TASK, "sorter")


@pytest.fixture(scope="module")
def seen() -> Capture:
    return capture(MODEL, SUBJECT, TASK.sample(8, generator(0)), logit_lens.needs(SUBJECT))


@pytest.fixture(scope="module")
def one() -> Capture:
    return capture(MODEL, SUBJECT, TASK.parse("5 3 8"), logit_lens.needs(SUBJECT))


@pytest.fixture(scope="module")
def lens() -> TunedLens:
    return train_lens(MODEL, TASK, most_steps=1)


def both(m: Measurement) -> tuple[dict[str, Measurement], dict[str, Measurement]]:
    return {"a": m.mean(), "b": m.mean()}, {"a": {"untrained": m.mean()}}


def every_figure(seen: Capture, one: Capture, lens: TunedLens) -> Iterator[go.Figure]:
    yield figures.paper_projection(trajectory(one, 0, 4, tokens=range(11)))
    yield figures.token_trajectory(trajectory(one, 0, 4))
    yield figures.token_trajectory(ranks(one, 0, 4))
    yield figures.basis_cosines(basis_overlap.basis_cosines(SUBJECT))
    yield figures.basis_overlap({"a": basis_overlap.measure(SUBJECT)})
    yield figures.lens_map(logit_lens.lens_tokens(one, 0))
    yield from layers.projection(*both(projection.measure(seen)))
    yield from layers.unexplained(*both(unexplained.measure(seen)))
    yield from layers.agreement(*both(lens_agreement.measure(seen)))
    yield from layers.lenses(*both(logit_lens.measure(seen)))
    yield from layers.lenses(*both(tuned(seen, lens=lens)))


def test_every_figure_is_titled_labelled_transparent_and_exports(seen: Capture, one: Capture, lens: TunedLens) -> None:
    drawn = list(every_figure(seen, one, lens))
    assert len(drawn) == 12
    for figure in drawn:
        assert figure.layout.title.text and figure.layout.title.subtitle.text
        assert any(axis.title.text for axis in figure.select_xaxes())
        assert figure.layout.paper_bgcolor == figure.layout.plot_bgcolor == "rgba(0,0,0,0)"
        json.loads(figure.to_json())


def test_the_paper_s_columns_are_encoder_then_decoder_before_then_after_the_mlp(one: Capture) -> None:
    every = trajectory(one, 0, 3, tokens=range(11))
    figure = figures.paper_projection(every)
    bars = [trace for trace in figure.data if trace.type == "bar"]
    assert len(bars) == 8
    for trace, (layer, basis, point) in zip(
        bars, [(i, b, p) for i in (0, 1) for b in ("encoder", "decoder") for p in ("mid", "post")], strict=True
    ):
        expected = every.select(basis=basis, point=f"blocks.{layer}.hook_resid_{point}").values
        assert np.array_equal(trace.y, expected)


def test_the_paper_s_peaks_are_named_and_coloured_by_what_they_are(one: Capture) -> None:
    """Output 3 of 3 5 8: after attention 1 the decoder basis peaks at the token itself and at its successor."""
    figure = figures.paper_projection(trajectory(one, 0, 4, tokens=range(11)))
    panel = figure.get_subplot(2, 3)
    named = [t for t in figure.data if t.type == "scatter" and t.xaxis == panel.xaxis.plotly_name.replace("axis", "")]
    assert {trace.customdata[0]: trace.name for trace in named} == {
        "3": "own token",
        "5": "target, or named by the truth",
    }


def test_of_a_long_input_the_part_around_the_position_is_shown() -> None:
    long = make("sorting", q=9, max_length=16)
    model = sorter(9, None, long.n_ctx, pad=True)
    subject = Subject.of(model, long, "sorter")
    seen = capture(model, subject, long.parse("5 3 8 1 " * 4), logit_lens.needs(subject))
    title = figures.paper_projection(trajectory(seen, 0, 30, tokens=range(11))).layout.title
    assert "input … " in title.subtitle.text and title.subtitle.text.endswith("8 <b>8</b> 8 8")


def test_peaks_are_positive_and_at_least_two_fifths_of_the_largest() -> None:
    assert peaks(np.array([1.0, 5.0, 1.9, 2.5])) == [1, 3]
    assert peaks(np.array([4.0, 5.0, 6.0, 7.0])) == [3, 2, 1]
    assert peaks(np.array([-1.0, 0.0])) == []


def test_trajectories_are_named_by_their_role_and_ranks_have_one_on_top(one: Capture) -> None:
    figure = figures.token_trajectory(ranks(one, 0, 4))
    assert [trace.name for trace in figure.data][:2] == ["3 (own, identity)", "5 (target, successor)"]
    assert figure.layout.yaxis.autorange == "reversed" and figure.layout.yaxis.type == "log"


def test_controls_are_drawn_in_the_colour_of_their_run(seen: Capture) -> None:
    (figure,) = layers.unexplained(*both(unexplained.measure(seen)))
    shown = {trace.name: trace for trace in figure.data if trace.showlegend}
    assert list(shown) == ["a", "b", "a, re-initialised models"]
    assert shown["a"].line.color == shown["a, re-initialised models"].line.color != shown["b"].line.color
    assert shown["a, re-initialised models"].line.dash != shown["a"].line.dash


def test_tuned_and_logit_lens_stand_in_one_figure(seen: Capture, lens: TunedLens) -> None:
    measured = tuned(seen, lens=lens).mean()
    (figure,) = layers.lenses({"a": measured}, {})
    assert {trace.name for trace in figure.data} == {"a: tuned lens", "a: logit lens"}
    line = next(trace for trace in figure.data if trace.name == "a: logit lens")
    assert list(line.y) == measured.select(lens="logit").values.tolist()
