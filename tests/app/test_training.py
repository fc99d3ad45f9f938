"""The Training page: one checkpoint drives every panel, and each panel's lines make its figure."""

from __future__ import annotations

import shutil
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.app.support import RUNS, ask, charts, check_code, drawings, page, says, titles
from workbench.app.config_in_words import plain
from workbench.app.panels import background
from workbench.app.sidebar import right
from workbench.inspection import over_training
from workbench.inspection.collapse_phases import rank_over_training
from workbench.inspection.progress_measures import progress_measures
from workbench.measurement.numbers import percent
from workbench.runs import load_run
from workbench.training import train

KEPT = ("chain-chacal", "sort-tempered")


def chart(explorer: AppTest, title: str) -> dict[str, Any]:
    return next(one for one in charts(explorer) if one["layout"]["title"]["text"].startswith(title))


def marked(figure: dict[str, Any]) -> float:
    """Where the line of the chosen checkpoint is, in steps."""
    (line,) = (shape for shape in figure["layout"]["shapes"] if shape["line"].get("color") == "#D55E00")
    return float(line["x0"]) - (figure["layout"]["xaxis"].get("type") == "log")


def values(trace: dict[str, Any]) -> list[float]:
    y = trace["y"]
    if isinstance(y, dict):
        import base64

        return np.frombuffer(base64.b64decode(y["bdata"]), dtype=y["dtype"]).tolist()
    return [float(value) for value in y]


@pytest.mark.parametrize("run", RUNS)
def test_every_run_shows_its_panels_or_says_why_not(explorer: AppTest, run: str) -> None:
    page(explorer, "training", run=run)
    assert not explorer.error
    trained, kept = run not in ("sorter", "turned", "chaser"), run in KEPT
    assert ("Learning curves" in titles(explorer)) == trained
    if kept:
        assert not explorer.info and len(drawings(explorer)) == 2  # the checkpoint chosen, and all of them
        assert {"Accuracy", "Mass on true edges", "Matrix entropy by layer"} <= set(titles(explorer))
    else:
        (info,) = explorer.info
        assert ("--checkpoint_count 20" in info.value) == trained
        assert ("not trained here" in info.value) == (not trained)


@pytest.mark.parametrize("run", KEPT)
def test_the_chosen_checkpoint_drives_every_panel(explorer: AppTest, run_root: Path, run: str) -> None:
    opened = load_run(run_root / run)
    step = over_training.checkpoints(opened)[1]
    page(explorer, "training", run=run)
    at_the_end = drawings(explorer)
    assert {marked(one) for one in charts(explorer) if one["layout"].get("shapes")} == {opened.step()}
    explorer.select_slider(key="step").set_value(str(step)).run()
    assert not explorer.exception
    assert {marked(one) for one in charts(explorer) if one["layout"].get("shapes")} == {step}
    assert drawings(explorer) != at_the_end
    if run == "chain-chacal":  # the lines of each panel measure anew: of sorting's many that takes long
        assert check_code(explorer) == len(charts(explorer)) + len(drawings(explorer))


def test_the_numbers_are_those_of_the_library(explorer: AppTest, run_root: Path) -> None:
    run = load_run(run_root / "chain-chacal")
    page(explorer, "training", run="chain-chacal", step="0")
    followed = over_training.measure(run, n=64, seed=0, only=["overall", "gold_mass"])
    line = next(trace for trace in chart(explorer, "Accuracy")["data"] if trace.get("name") == "per position")
    assert values(line) == followed.measured["overall"].select(unit="position").values.tolist()
    line = next(t for t in chart(explorer, "Mass on true edges")["data"] if t.get("name") == "Mass on true edges")
    assert (
        values(line)
        == followed.measured["gold_mass"].select(layer=followed.head[0], head=followed.head[1]).values.tolist()
    )
    here, end = (trace for trace in chart(explorer, "Matrix entropy by layer")["data"])
    assert here["name"] == "step 0" and end["name"] == "the end" and values(here) != values(end)


def test_the_head_best_at_the_end_is_followed_through_all_checkpoints(explorer: AppTest, run_root: Path) -> None:
    run = load_run(run_root / "chain-chacal")
    layer, head = over_training.moment(run, n=64, seed=0, only=["attention_graph"]).head
    for step in ("0", "the end"):
        page(explorer, "training", run="chain-chacal", step=step)
        assert any(rf"**Layer {layer}, head {head}\: " in text.value for text in explorer.markdown)


def test_another_head_is_followed_where_it_is_chosen(explorer: AppTest, run_root: Path) -> None:
    run = load_run(run_root / "chain-chacal")
    layer, best = over_training.moment(run, n=64, seed=0, only=["attention_graph"]).head
    other = (best + 1) % 4
    page(explorer, "training", run="chain-chacal", head=f"layer {layer}, head {other}")
    followed = over_training.measure(run, n=64, seed=0, only=["gold_mass"], head=(layer, other))
    line = next(t for t in chart(explorer, "Mass on true edges")["data"] if t.get("name") == "Mass on true edges")
    assert values(line) == followed.measured["gold_mass"].select(layer=layer, head=other).values.tolist()
    assert any(rf"**Layer {layer}, head {other}\: " in text.value for text in explorer.markdown)
    assert any("because it is chosen above" in text.value for text in explorer.caption)
    assert says(explorer, rf"Mass on true edges at layer {layer}, head {other}\: {percent(values(line)[0])} at step 0")


def test_buttons_walk_through_the_checkpoints_and_stop_at_both_ends(explorer: AppTest, run_root: Path) -> None:
    kept = over_training.checkpoints(load_run(run_root / "sort-tempered"))
    page(explorer, "training", run="sort-tempered")
    assert explorer.button(key="train_after").disabled
    seen = []
    for _ in kept:
        explorer.button(key="train_before").click().run()
        assert not explorer.exception
        seen.append(explorer.select_slider(key="step").value)
    assert seen == [str(step) for step in reversed(kept)]
    assert explorer.button(key="train_before").disabled
    explorer.button(key="train_after").click().run()
    assert explorer.select_slider(key="step").value == str(kept[1])


def test_the_accuracy_beside_a_checkpoint_is_its_own_or_says_whose_it_is(run_root: Path) -> None:
    run = load_run(run_root / "chain-chacal")
    logged = run.metrics().dropna(subset="accuracy").set_index("step")[["accuracy", "whole_answer"]]
    measured, end = int(logged.index[0]), run.step()
    assert measured < end == logged.index[-1]

    def at(step: int, where: str) -> str:
        tokens, whole = map(percent, logged.loc[step])
        of = f"(answer tokens, on 64 held-out sequences drawn as in training; whole answers {whole})"
        return f"accuracy {tokens} {where} {of}"

    def bold(said: str) -> str:
        number, rest = said.split(" (")
        return f"**{number}** ({rest}"

    assert right(run, measured) == bold(at(measured, f"at step {measured:,}"))
    assert right(run, None) == bold(at(end, "at the end"))
    assert right(run, 1) == f"**not measured at step 1** but {at(end, 'at the end')}"


def test_the_words_at_the_last_step_are_inside_the_figure(explorer: AppTest) -> None:
    page(explorer, "training", run="chain-chacal")
    (words,) = (
        note for note in chart(explorer, "Learning curves")["layout"]["annotations"] if "the end, step" in note["text"]
    )
    assert words["xanchor"] == "right"


def test_logged_transitions_are_marked_and_the_axis_can_be_logarithmic(explorer: AppTest) -> None:
    page(explorer, "training", run="chain-chacal", step="0")
    linear = chart(explorer, "Learning curves")
    spans = [shape for shape in linear["layout"]["shapes"] if shape["type"] == "rect"]
    assert [(span["x0"], span["x1"]) for span in spans] == [(200, 300)]
    assert any("steepest rise" in note["text"] for note in linear["layout"]["annotations"])
    explorer.toggle(key="train_log").set_value(True).run()
    assert chart(explorer, "Learning curves")["layout"]["xaxis"]["type"] == "log"


def test_a_long_measurement_waits_until_it_is_asked_for(explorer: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    import streamlit as st

    from workbench.inspection.over_training import moment

    @wraps(moment)  # whose name the panels' code has
    def slow(*given: Any, **how: Any) -> Any:
        clock[0] += 30
        return moment(*given, **how)

    clock = [0.0]
    st.cache_resource.clear()
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    monkeypatch.setattr("workbench.inspection.over_training.moment", slow)
    page(explorer, "training", run="sort-tempered")
    assert not {"Accuracy", "Minimum at the delimiter"} & set(titles(explorer))
    assert "Matrix entropy by layer" in titles(explorer)
    toggle = explorer.toggle(key="train_all_overall")
    assert "3 checkpoints (about 60 s, once)" in toggle.label
    toggle.set_value(True).run()
    assert not explorer.exception and "Accuracy" in titles(explorer)
    explorer.run()
    assert "Minimum at the delimiter" in titles(explorer), "what was measured for one panel is there for all"
    st.cache_resource.clear()


def test_progress_measures_are_of_modular_addition_with_their_control(explorer: AppTest, run_root: Path) -> None:
    """The panel of a run that has grokked, measured beside the page; of one that has not it says why there are none."""
    task, model = {"name": "modular_addition", "p": 11}, {"n_layers": 1, "d_model": 16, "n_heads": 2}
    config = {"task": task, "model": model, "objectives": {"next_token": {}}, "batch_size": 16, "eval_size": 16}
    path = run_root / "addition"
    run = train(config, out=path, progress=False, steps=4, checkpoint_every=2)
    try:
        key = ("progress measures", str(path), run.version)
        page(explorer, "training", run="addition")
        assert any("the losses of all questions" in caption.value for caption in explorer.caption)
        with pytest.raises(ValueError, match="names no key frequency") as error:
            progress_measures(run)
        job = ask(key, lambda: progress_measures(run))
        assert job.future.exception(60) is not None
        explorer.run()
        assert any(plain(str(error.value)) in info.value for info in explorer.info)

        own, control = (progress_measures(run, frequencies=frequencies) for frequencies in ([1, 3], [2, 5]))
        background._jobs.clear()
        ask(key, lambda: (own, control)).future.result(60)
        explorer.run()
        drawn = chart(explorer, "Progress measures")
        line = next(trace for trace in drawn["data"] if trace["name"].startswith("excluded:"))
        assert values(line) == pytest.approx(own.select(curve="excluded loss").values.tolist())
        assert any("never reaches 90%" in text.value and "by heart" in text.value for text in explorer.markdown)
    finally:
        shutil.rmtree(path)


def test_phases_of_collapse_are_found_or_not_with_the_rank_at_every_checkpoint(
    explorer: AppTest, run_root: Path
) -> None:
    run = load_run(run_root / "chain-chacal")
    key = ("rank over training", str(run.path), run.version)
    page(explorer, "training", run="chain-chacal")
    assert any("the rank at every checkpoint" in caption.value for caption in explorer.caption)
    ranks = rank_over_training(run, n=256, seed=0)
    background._jobs.clear()
    ask(key, lambda: ranks).future.result(60)
    explorer.run()
    assert not explorer.exception
    drawn = chart(explorer, "Rank over training")
    assert values(drawn["data"][0]) == pytest.approx(ranks.select(measure="RankMe", draw=0).values.tolist())
    said = [text.value for text in explorer.markdown if "phases" in text.value]
    assert any("hree phases" in text for text in said)
