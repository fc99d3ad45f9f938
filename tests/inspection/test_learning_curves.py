"""A run's own log: its curves, its events, where accuracy rose most; and how they are drawn."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest

import workbench
from workbench import figures
from workbench.inspection.learning_curves import events, learning_curves
from workbench.judgement.extremes import Rise, steepest_rise
from workbench.judgement.words.extremes import rise_in_words
from workbench.measurement import Measurement
from workbench.runs import METRICS, Run
from workbench.runs.compiled import compile_run

SHORT = {"eval_size": 16, "batch_size": 4, "model": {"d_model": 16, "n_heads": 2}}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("learning") / "run"
    return workbench.train(
        "chain-chacal", out=out, progress=False, steps=30, eval_every=10, log_every=5, checkpoint_at=[0.001], **SHORT
    )


def curve(values: dict[int, float], name: str = "Accuracy", units: str = "share") -> Measurement:
    return Measurement(name, np.array(list(values.values())), ("step",), {"step": list(values)}, units)


def test_curves_are_what_was_logged_each_at_its_own_steps(trained: Run) -> None:
    found, metrics = learning_curves(trained), trained.metrics()
    assert list(found) == ["accuracy", "whole_answer", "loss", "next_token", "test_loss"]
    assert found["accuracy"].coords["step"] == [10, 20, 30] and found["accuracy"].units == "share"
    assert found["loss"].coords["step"] == [1, 5, 10, 15, 20, 25, 30] and found["loss"].units == "nats"
    for name, one in found.items():
        assert one.values.tolist() == metrics[name].dropna().tolist()
    assert found["next_token"].values.tolist() == found["loss"].values.tolist()  # the only objective
    assert found["test_loss"].coords["step"] == [10, 20, 30] and found["test_loss"].units == "nats"


def test_runs_with_different_objectives_have_the_next_token_loss_in_common(trained: Run, tmp_path: Path) -> None:
    both = {"next_token": {}, "seq_vcr": {}}
    other = workbench.train(
        "chain-chacal",
        out=tmp_path / "run",
        progress=False,
        steps=10,
        eval_every=5,
        log_every=5,
        objectives=both,
        **SHORT,
    )
    found = learning_curves(other)
    assert (found["loss"].units, found["next_token"].units) == ("sum of objectives", "nats")
    assert (found["loss"].values > found["next_token"].values).all()
    figure = figures.learning_curves({"alone": learning_curves(trained), "both": found})
    rows = {figure.layout[trace.yaxis.replace("y", "yaxis")].title.text: [] for trace in figure.data}
    for trace in figure.data:
        rows[figure.layout[trace.yaxis.replace("y", "yaxis")].title.text].append((trace.name, list(trace.y)))
    assert list(rows) == ["right answers", "next-token loss", "loss, all objectives"]
    assert [name for name, _ in rows["next-token loss"]] == ["alone", "alone", "both", "both"]
    assert [name for name, _ in rows["loss, all objectives"]] == ["both"]
    assert rows["next-token loss"][2][1] == found["next_token"].values.tolist()


def test_a_log_of_before_has_the_next_token_loss_where_there_was_no_other(trained: Run, tmp_path: Path) -> None:
    rows = [row for row in trained.log() if "event" not in row]
    kept = [{name: row[name] for name in ("step", "loss", "accuracy") if name in row} for row in rows]
    (tmp_path / METRICS).write_text("\n".join(map(json.dumps, kept)), encoding="utf-8")
    old = learning_curves(Run(tmp_path, trained.config))
    assert list(old) == ["accuracy", "loss", "next_token"]
    assert old["next_token"].values.tolist() == learning_curves(trained)["next_token"].values.tolist()


def test_text_is_read_in_perplexity(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("to be or not to be, that is the question. " * 40, encoding="utf-8")
    task = {"name": "text", "path": str(tmp_path / "text.txt"), "block": 16}
    run = workbench.train(
        "chain-standard", out=tmp_path / "run", progress=False, steps=10, eval_every=5, task=task, **SHORT
    )
    found = learning_curves(run)
    assert found["perplexity"].values == pytest.approx(np.exp(found["test_loss"].values))
    assert (found["perplexity"].values > 1).all() and found["perplexity"].units == "perplexity"
    figure = figures.learning_curves({"text": found})
    titles = [figure.layout[axis].title.text for axis in ("yaxis", "yaxis2", "yaxis3")]
    assert titles == ["right answers", "next-token loss", "perplexity"] and figure.layout.yaxis3.type == "log"
    # Of a loss that anyone may have written the exponential is still a number.
    (tmp_path / "huge").mkdir()
    (tmp_path / "huge" / METRICS).write_text('{"step": 1, "test_loss": 1e300}', encoding="utf-8")
    assert np.isfinite(learning_curves(Run(tmp_path / "huge", run.config))["perplexity"].values).all()


def test_whole_answers_are_drawn_where_they_are_not_what_accuracy_counts() -> None:
    right, whole = curve({10: 0.5, 20: 0.9}), curve({10: 0.1, 20: 0.6}, "Whole answers right")
    figure = figures.learning_curves({"a": {"accuracy": right, "whole_answer": whole}})
    assert [list(trace.y) for trace in figure.data] == [[0.5, 0.9], [0.1, 0.6]]
    assert [trace.marker.symbol for trace in figure.data] == ["circle", "circle-open"]
    assert "open: whole answers" in figure.layout.title.subtitle.text
    same = figures.learning_curves({"a": {"accuracy": right, "whole_answer": right}})
    assert len(same.data) == 1 and "open" not in same.layout.title.subtitle.text


def test_a_model_that_was_not_trained_has_no_curves(tmp_path: Path) -> None:
    run = compile_run("chaser", tmp_path / "chaser")
    assert learning_curves(run) == {} and events(run) == []


def test_events_are_those_that_the_log_notes_once_each_whoever_wrote_it(trained: Run, tmp_path: Path) -> None:
    ((step, words),) = events(trained)
    assert step in (10, 20, 30) and words == "accuracy ≥ 0.1%"
    log = [
        {"event": "checkpoint", "step": 7, "passed": [0.5, 0.9]},
        {"event": "checkpoint", "step": 7, "passed": [0.5, 0.9]},
        {"event": "target", "step": 9},
        {"event": "checkpoint", "step": 7},
        {"event": "checkpoint", "step": "x", "passed": ["y"]},
        {"event": "target", "step": 10**30},
        {"event": "target"},
    ]
    (tmp_path / METRICS).write_text("\n".join(map(json.dumps, log)), encoding="utf-8")
    assert events(Run(tmp_path, trained.config)) == [(7, "accuracy ≥ 90%"), (9, "target reached")]


def test_the_steepest_rise_is_per_step_and_between_two_successive_evaluations() -> None:
    found = steepest_rise(curve({100: 0.1, 200: 0.2, 300: 0.6, 310: 0.7, 400: 0.7}))
    assert found == Rise(300, 310, 0.6, 0.7)  # a smaller rise than that before it, in a tenth of the steps
    assert found is not None and rise_in_words(found)[0] == "steepest rise: 60% to 70%"
    assert steepest_rise(curve({100: 0.1, 200: 0.2, 300: 0.6, 310: 0.7}), least=0.2) == Rise(200, 300, 0.2, 0.6)


@pytest.mark.parametrize(
    "values", [{}, {5: 0.3}, {5: 0.3, 10: 0.34}, {5: 0.9, 10: 0.1}, {5: 0.3, 10: 0.3}, {1: np.nan, 2: 0.5}]
)
def test_without_a_rise_none_is_found(values: dict[int, float]) -> None:
    assert steepest_rise(curve(values)) is None


def test_of_equal_rises_the_first_is_the_steepest() -> None:
    assert steepest_rise(curve({1: 0.0, 2: 0.5, 3: 1.0})) == Rise(1, 2, 0.0, 0.5)


TWO = {
    "a": {"accuracy": curve({10: 0.2, 100: 0.9}), "loss": curve({1: 3.0, 100: 0.5}, "Loss", "nats")},
    "b": {"accuracy": curve({10: 0.1, 100: 0.3})},
}


def places(figure: go.Figure) -> list[tuple[str, float, float]]:
    return [(shape.type, shape.x0, shape.x1) for shape in figure.layout.shapes]


@pytest.mark.parametrize("log", [False, True])
def test_learning_curves_draw_each_run_in_one_colour_above_and_below(log: bool) -> None:
    figure = figures.learning_curves(TWO, log=log, events=[(50, "target reached")], spans=[(10, 100, "here")])
    above, below, other = figure.data
    assert (above.name, below.name, other.name) == ("a", "a", "b")
    assert above.line.color == below.line.color != other.line.color
    assert (above.showlegend, below.showlegend, other.showlegend) == (True, False, True)
    assert list(above.x) == ([11, 101] if log else [10, 100]) and list(above.customdata) == [10, 100]
    assert places(figure) == [("rect", 10 + log, 100 + log), ("line", 50 + log, 50 + log)]
    assert {note.text for note in figure.layout.annotations} == {"target reached", "here"}
    assert figure.layout.xaxis2.title.text.startswith("training step") and figure.layout.xaxis.title.text == ""
    assert figure.layout.paper_bgcolor == "rgba(0,0,0,0)"
    json.loads(figure.to_json())


def test_learning_curves_of_nothing_say_so_and_of_one_kind_have_one_panel() -> None:
    assert figures.learning_curves({"a": {}}).layout.title.subtitle.text == "nothing was logged"
    figure = figures.learning_curves({"b": TWO["b"]})
    assert len(figure.data) == 1 and "yaxis2" not in figure.layout
    assert figure.layout.xaxis.title.text == "training step"


@pytest.mark.parametrize(("steps", "x"), [([0, 1, 100], 2), ([0, 1, 2], 1)])
def test_a_step_is_marked_where_it_is_drawn(steps: list[int], x: int) -> None:
    figure = figures.over_training({"a": curve(dict.fromkeys(steps, 0.5))}, "A")
    figures.shade_steps(figures.mark_step(figure, 1, "here"), 0, 1, "between")
    line, box = figure.layout.shapes
    assert list(figure.data[0].x)[1] == line.x0 == line.x1 == box.x1 == x
    assert [note.text for note in figure.layout.annotations] == ["here", "between"]
    at = figure.layout.annotations[0].x
    assert at == pytest.approx(np.log10(x) if x == 2 else x)


def test_a_step_is_marked_on_a_map_by_its_column() -> None:
    lines = {f"hop {i}": curve({0: 0.1, 1000: 0.5}) for i in range(20)}
    figure = figures.shade_steps(figures.mark_step(figures.map_over_training(lines, "A"), 1000, "here"), 0, 1000)
    (line,) = figure.layout.shapes
    assert line.x0 == "1,000" == figure.data[0].x[1]


def test_controls_of_many_lines_are_drawn_but_not_named() -> None:
    lines = {f"hop {i}": curve({0: 0.1, 5: 0.5}) for i in range(3)}
    figure = figures.over_training(lines, "A", controls=lines)
    assert [trace.showlegend for trace in figure.data if trace.name.endswith("control")] == [False] * 3
    few = dict(list(lines.items())[:2])
    figure = figures.over_training(few, "A", controls=few)
    assert [trace.showlegend for trace in figure.data if trace.name.endswith("control")] == [True] * 2
