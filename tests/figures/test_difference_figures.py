"""Two sides and their difference: what is drawn is what was measured, and what cannot be subtracted is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import workbench
from workbench import figures
from workbench.capture import Capture
from workbench.figures.input_differences import BETWEEN
from workbench.instruments.attention import attention_graph
from workbench.instruments.residual import projection
from workbench.measurement import Measurement
from workbench.measurement.compare_runs import difference
from workbench.runs.compiled import compile_run

POINTS = ["blocks.0.hook_resid_pre", "blocks.0.hook_resid_mid", "blocks.0.hook_resid_post", "blocks.1.hook_resid_mid"]


def by_layer(means: list[float], n: int = 20, units: str = "nats") -> Measurement:
    values = np.array(means)[:, None] + np.random.default_rng(0).normal(0, 0.01, (len(means), n))
    coords = {"layer": POINTS[: len(means)], "example": range(n)}
    return Measurement("Matrix entropy", values, ("layer", "example"), coords, units, {"model": "m"})


def test_both_sides_are_drawn_over_their_difference() -> None:
    first, second = by_layer([1.0, 2.0, 3.0, 4.0]), by_layer([1.0, 2.5])
    apart = difference(first, second, same_examples=False)
    figure = figures.with_difference({"A": first.mean(), "B": second.mean()}, apart)
    one, other, below = figure.data
    assert list(one.x) == ["embedding", "after attention 0", "after MLP 0", "after attention 1"] and list(other.x) == [
        "embedding",
        "after attention 0",
    ]
    assert one.y == pytest.approx(first.mean().values) and below.y == pytest.approx(apart.values)
    assert list(below.x) == ["embedding", "after attention 0"] and below.xaxis == "x2"
    assert list(below.marker.symbol) == ["diamond-open", "diamond"]  # the second alone is surely not 0
    assert figure.layout.shapes[0].y0 == 0 and figure.layout.shapes[0].yref == "y2"
    assert "B minus A, not paired" in figure.layout.title.subtitle.text
    paired = difference(first, by_layer([0.9, 2.0, 3.0, 4.0]), same_examples=True)
    again = figures.with_difference({"A": first.mean(), "B": first.mean()}, paired)
    assert "in pairs, over the same sequences" in again.layout.title.subtitle.text


def test_single_inputs_have_no_interval_and_no_sure_difference() -> None:
    first, second = by_layer([1.0, 2.0], 1, "share"), by_layer([0.0, 1.0], 1, "share")
    runs = {"A": first.mean(), "B": second.mean()}
    figure = figures.with_difference(runs, difference(first, second, same_examples=False))
    assert all(trace.error_y.array is None for trace in figure.data)
    assert list(figure.data[2].marker.symbol) == ["diamond-open"] * 2
    assert "no interval" in figure.layout.title.subtitle.text


def test_rounding_is_no_difference() -> None:
    first = by_layer([1.0, 2.0])
    second = replace(first, values=first.values + 1e-13)
    for same in (True, False):
        apart = difference(first, second, same_examples=same)
        figure = figures.with_difference({"A": first.mean(), "B": second.mean()}, apart)
        assert list(figure.data[2].marker.symbol) == ["diamond-open"] * 2


def test_what_has_no_order_is_drawn_as_bars_and_a_single_number_under_its_name() -> None:
    coords = {"unit": ("position", "sequence"), "example": range(9)}
    m = Measurement("Accuracy", np.random.default_rng(0).random((2, 9)), ("unit", "example"), coords, "share")
    figure = figures.with_difference({"A": m.mean(), "B": m.mean()}, difference(m, m, same_examples=True))
    assert [trace.type for trace in figure.data] == ["bar", "bar", "scatter"]
    assert list(figure.data[0].x) == ["position", "sequence"] == list(figure.data[2].x)
    one = m.select(unit="position")
    figure = figures.with_difference({"A": one.mean(), "B": one.mean()}, difference(one, one, same_examples=True))
    assert list(figure.data[0].x) == ["Accuracy"] == list(figure.data[2].x)


def test_a_lens_between_two_is_drawn_by_point_with_its_interval() -> None:
    coords = {"point": POINTS, "example": range(6)}
    values = np.random.default_rng(0).random((4, 6))
    settings = {"model": "a and b", "how": "kl"}
    m = Measurement("Lens", values, ("point", "example"), coords, "nats", settings).mean()
    figure = figures.lens_difference_by_layer(m)
    assert list(figure.data[0].x) == ["embedding", "after attention 0", "after MLP 0", "after attention 1"]
    assert figure.data[0].y == pytest.approx(m.values) and "a and b" in figure.layout.title.subtitle.text


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Capture, Capture]:
    """The compiled sorter; and the same with the word 7 written largest into its last residual at position 2."""
    run = compile_run("sorter", tmp_path_factory.mktemp("two") / "sorter", {"q": 9})
    first = workbench.see(run, run.task().parse("5 3 3 9"))
    last = first["blocks.1.hook_resid_post"].clone()
    last[0, 2] += 100 * first.subject.decoder[first.subject.task.vocabulary.id("7")]
    return first, replace(first, activations={**first.activations, "blocks.1.hook_resid_post": last})


def test_the_cells_whose_token_differs_are_halved_and_no_others(two: tuple[Capture, Capture]) -> None:
    drawing = figures.residual_difference(*two)
    was = projection.top_tokens(two[0], points=["blocks.1.hook_resid_post"]).select(basis="decoder", rank=1).labels
    assert was is not None and was[0, 2] != "7"
    assert drawing.body.count(f"after MLP 1 at 2:3: {was[0, 2]} in A, 7 in B") == 2  # two halves
    assert drawing.body.count(" in both") == 5 * 9 - 1 and "1 of 45 cells differ" in drawing.subtitle
    assert "A: model says" in drawing.body and "right answer" in drawing.body
    nothing = figures.residual_difference(two[0], two[0], names=("one", "other"))
    assert "0 of 45 cells differ" in nothing.subtitle and "in one" not in nothing.body
    with pytest.raises(ValueError, match="no position 9"):
        figures.residual_difference(*two, start=9)


def test_inputs_that_differ_are_not_subtracted(two: tuple[Capture, Capture]) -> None:
    batch = two[0].batch
    tokens = batch.tokens.clone()
    tokens[0, 0] += 1
    other = replace(two[0], batch=replace(batch, tokens=tokens))
    with pytest.raises(ValueError, match="same tokens"):
        figures.residual_difference(two[0], other)
    matrices = [attention_graph.matrices(seen, 0, 0, 0) for seen in (two[0], other)]
    with pytest.raises(ValueError, match="same tokens"):
        figures.attention_difference(*matrices)


def test_attention_is_subtracted_on_a_scale_that_runs_as_far_to_either_side(two: tuple[Capture, Capture]) -> None:
    first, second = (attention_graph.matrices(two[0], 0, layer, 0) for layer in (0, 1))
    figure = figures.attention_difference(first, second, "A²")
    (drawn,) = figure.data
    expected = second.select(matrix="A²").values - first.select(matrix="A²").values
    assert np.asarray(drawn.z) == pytest.approx(expected)
    assert drawn.zmax == -drawn.zmin == pytest.approx(np.abs(expected).max())
    whose = "blue: more in A (sorter, layer 0, head 0); orange: more in B (sorter, layer 1, head 0)"
    assert whose in figure.layout.title.subtitle.text
    with pytest.raises(ValueError, match="no position 40"):
        figures.attention_difference(first, second, start=40)
    middle = [colour for at, colour in BETWEEN if at == 0.5]
    assert all(colour.endswith(", 0.0)") for colour in middle)  # zero is nothing at all


def test_long_inputs_are_drawn_in_part_and_say_so(tmp_path: Path) -> None:
    run = compile_run("chaser", tmp_path / "long", {"n": 160, "k": 4})
    seen = workbench.see(run, workbench.example(run.model(), run.task(), 0))
    matrices = attention_graph.matrices(seen, 0, 0, 0)
    figure = figures.attention_difference(matrices, matrices, start=10)
    assert np.asarray(figure.data[0].z).shape == (128, 128) and figure.layout.title.subtitle.text.endswith(
        "10 to 137 of 160"
    )
    assert figure.data[0].zmax == 1  # of two that are alike
    assert "positions 30 to 157 of 160" in figures.residual_difference(seen, seen, start=30).subtitle
