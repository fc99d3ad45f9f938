"""The page of entropy: what it draws is what the instruments measure, under every setting, run and checkpoint."""

from __future__ import annotations

import math
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

import workbench
from tests.app.conftest import APP
from tests.app.support import ask, charts, check_code, numbers, page, panels, titles
from workbench.app import state
from workbench.app.config_in_words import plain
from workbench.app.fields.spectra import MEASURES
from workbench.inspection import inspect_run
from workbench.inspection.geometry import geometry
from workbench.inspection.over_training import follow
from workbench.instruments.residual import entropy

FIRST, DISTRIBUTION, RUNS, CONDITIONS, TRAINING, MANY = (
    "This input beside the mean",
    "Distribution over held-out sequences",
    "Several runs",
    "By condition",
    "Over training",
    "Over many sequences",
)
PANELS = [FIRST, DISTRIBUTION, RUNS, CONDITIONS, TRAINING, MANY]


def line(chart: dict[str, Any], name: str) -> list[float]:
    """The values of one line of a figure."""
    return numbers(next(trace["y"] for trace in chart["data"] if trace.get("name") == name)).tolist()


def own_values(root: Path, run: str, **settings: Any) -> list[float]:
    """The entropy of the input that the page begins with, at each layer."""
    opened = workbench.load_run(root / run)
    seen = workbench.see(opened, workbench.example(opened.model(), opened.task()))
    return list(entropy.measure(seen, **settings).select(example=0).values)


@pytest.mark.parametrize(
    ("run", "drawn"),
    [
        ("chain-chacal", [FIRST, DISTRIBUTION, RUNS, TRAINING]),
        ("chain-standard", [FIRST, DISTRIBUTION, RUNS]),
        ("sort-tempered", PANELS[:-1]),
        ("multiply-seqvcr", [FIRST, DISTRIBUTION, RUNS]),
        ("items-in-boxes", [FIRST, DISTRIBUTION, RUNS, CONDITIONS]),
        ("sorter", [FIRST, DISTRIBUTION, RUNS, CONDITIONS]),
        ("turned", [FIRST, DISTRIBUTION, RUNS, CONDITIONS]),
        ("chaser", [FIRST, DISTRIBUTION, RUNS]),
    ],
)
def test_every_kind_of_run_has_what_applies_and_the_code_that_makes_it(
    explorer: AppTest, run: str, drawn: list[str]
) -> None:
    page(explorer, "entropy", run=run)
    assert not explorer.error and not explorer.warning
    assert panels(explorer) == PANELS
    assert len(charts(explorer)) == check_code(explorer) == len(drawn)
    assert len(explorer.info) == 5 - len(drawn)


def test_this_input_lies_beside_the_mean_of_held_out_sequences(explorer: AppTest, run_root: Path) -> None:
    page(explorer, "entropy", run="chain-chacal")
    chart = charts(explorer)[0]
    assert line(chart, "this input") == pytest.approx(own_values(run_root, "chain-chacal"))
    found = inspect_run(workbench.load_run(run_root / "chain-chacal"), n=128, seed=0, only=["entropy"], causal=False)
    expected, name = found["entropy"].mean, "mean of 128 held-out sequences"
    assert line(chart, name) == pytest.approx(list(expected.values))
    above = next(trace["error_y"]["array"] for trace in chart["data"] if trace["name"] == name)
    assert expected.high is not None and numbers(above) == pytest.approx(expected.high - expected.values)
    mark = charts(explorer)[1]["data"][-1]
    assert mark["name"] == "this input" and numbers(mark["x"]) == pytest.approx(own_values(run_root, "chain-chacal"))


def test_every_setting_moves_the_numbers_as_the_instrument_says(explorer: AppTest, run_root: Path) -> None:
    page(explorer, "entropy", run="sorter")
    settings: dict[str, Any] = {}

    def check(**more: Any) -> None:
        assert not explorer.exception and not explorer.warning
        settings.update(more)
        assert line(charts(explorer)[0], "this input") == pytest.approx(own_values(run_root, "sorter", **settings))

    explorer.selectbox(key="entropy_alpha").set_value(math.inf).run()
    check(alpha=math.inf)
    assert check_code(explorer) == 4
    explorer.toggle(key="entropy_centre").set_value(True).run()
    check(centre=True)
    explorer.toggle(key="entropy_unit").set_value(True).run()
    check(unit_rows=True)
    explorer.selectbox(key="entropy_normalise").set_value("log_d").run()
    check(normalise="log_d")
    explorer.selectbox(key="entropy_kernel").set_value("gaussian").run()
    check(kernel="gaussian", normalise=None)  # the width's logarithm bounds the linear kernel alone
    explorer.number_input(key="entropy_sigma").set_value(2.0).run()
    check(bandwidth=2.0)
    explorer.selectbox(key="entropy_tokens").set_value("output").run()
    check(positions="output")
    explorer.selectbox(key="entropy_tokens").set_value("range").run()
    explorer.number_input(key="entropy_to").set_value(3).run()
    check(positions=(None, 3))


@pytest.mark.parametrize("measure", ["effective_rank", "anisotropy", "alpha_req", "curvature", "spectrum"])
def test_the_other_measures_of_the_spectrum_are_drawn_as_they_can_be(explorer: AppTest, measure: str) -> None:
    page(explorer, "entropy", run="sorter", entropy_measure=MEASURES[measure][0])
    assert not explorer.error
    if measure == "spectrum":
        assert titles(explorer) == ["Spectrum by layer: mean of 117 held-out sequences"]
        assert any("Held-out sequences: 128 drawn, 117 distinct." in text.value for text in explorer.caption)
        assert "one number per layer" in explorer.info[0].value
    else:
        assert panels(explorer) == PANELS
    assert check_code(explorer) == len(charts(explorer))


def test_runs_of_other_tasks_are_laid_over_each_with_an_untrained_model(explorer: AppTest, run_root: Path) -> None:
    page(explorer, "entropy", run="chain-chacal", overlay="sorter")
    explorer.multiselect(key="overlay").set_value(["sorter", "items-in-boxes"]).run()
    assert not explorer.exception
    chart = charts(explorer)[2]
    names = ["chain-chacal", "sorter", "items-in-boxes"]
    assert [trace["name"] for trace in chart["data"]] == [*names, *(f"{name}, re-initialised models" for name in names)]
    found = inspect_run(workbench.load_run(run_root / "sorter"), n=16, seed=0, only=["entropy"], causal=False)
    assert line(chart, "sorter") == pytest.approx(list(found["entropy"].mean.values))
    assert line(chart, "sorter, re-initialised models") == pytest.approx(
        list(found["entropy"].controls["untrained"].mean.values)
    )
    assert check_code(explorer) == 4


def test_training_is_what_a_timeline_of_the_same_sequences_finds(explorer: AppTest, run_root: Path) -> None:
    page(explorer, "entropy", run="chain-chacal", entropy_alpha="2")
    run, how = workbench.load_run(run_root / "chain-chacal"), {"n": 128, "seed": 0, "only": ["entropy"]}
    how["settings"] = {"entropy": {"alpha": 2.0}}
    history = follow(inspect_run(run, causal=False, **how), **how).measured["entropy"]  # type: ignore[arg-type]
    after = history.select(layer="blocks.0.hook_resid_post").values
    assert line(charts(explorer)[-1], "after MLP 0") == pytest.approx(list(after))
    explorer.segmented_control(key="entropy_along").set_value("the layers").run()
    assert not explorer.exception and "Matrix entropy by layer over training: chain-chacal" in titles(explorer)


def test_a_checkpoint_is_measured_in_place_of_the_end(explorer: AppTest, run_root: Path) -> None:
    step = workbench.load_run(run_root / "chain-chacal").checkpoints()[0]
    page(explorer, "entropy", run="chain-chacal")
    at_the_end = line(charts(explorer)[0], "this input")
    explorer.select_slider(key="step").set_value(str(step)).run()
    assert not explorer.exception and line(charts(explorer)[0], "this input") != at_the_end
    assert check_code(explorer) == 4


@pytest.mark.parametrize(("run", "text"), [("sorter", "4"), ("multiply-seqvcr", "12 * 34")])
def test_short_inputs_and_empty_ranges_are_shown_or_explained(explorer: AppTest, run: str, text: str) -> None:
    page(explorer, "entropy", run=run, how="Type", input=text)
    assert not explorer.error and not explorer.warning
    explorer.selectbox(key="entropy_tokens").set_value("range").run()
    explorer.number_input(key="entropy_from").set_value(500).run()
    assert not explorer.exception and "measures nothing on these" in explorer.warning[0].value


def test_runs_that_do_not_load_are_left_out_in_one_line(
    run_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, weights in (("fine", "chain-standard"), ("[broken](x)", "sort-tempered")):
        shutil.copytree(run_root / "chain-standard", tmp_path / name)
        shutil.copy(run_root / weights / "weights.safetensors", tmp_path / name)
    monkeypatch.setattr(sys, "argv", ["main.py", "--root", str(tmp_path)])
    odd = AppTest.from_file(str(APP), default_timeout=60)
    page(odd, "entropy", run="fine", overlay="[broken](x)")
    (warning,) = odd.warning
    assert warning.value.startswith("\\[broken\\](x) is left out") and "does not fit its config" in warning.value
    assert [trace["name"] for trace in charts(odd)[2]["data"]] == ["fine", "fine, re-initialised models"]


def test_a_measure_of_many_sequences_is_drawn_beside_its_controls(explorer: AppTest, run_root: Path) -> None:
    """InfoNCE of 1,024 sequences: measured beside the page with progress, and equal to what `geometry` measures."""
    run, told = workbench.load_run(run_root / "chain-chacal"), []
    how: dict[str, Any] = {"n": 1024, "seed": 0, "only": ["infonce"]}
    found = geometry(run, **how, progress=told.append)
    assert told == sorted(told) and told[-1] == 1 and len(told) == 3 * 1024 // 64
    page(explorer, "entropy", run="chain-chacal", set_measure="InfoNCE", set_size="1,024")
    assert any("InfoNCE on 1,024 sequences" in caption.value for caption in explorer.caption)
    key = ("geometry", *state.opened(run).key, "infonce", "1024")
    ask(key, lambda: geometry(run, **how)).future.result(60)
    explorer.run()
    chart = charts(explorer)[-1]
    assert check_code(explorer) == len(charts(explorer)) == 5
    assert line(chart, "chain-chacal") == pytest.approx(list(found["infonce"].values))
    for control, words in {"untrained": "re-initialised models", "shuffled answers": "shuffled answers"}.items():
        name = next(trace["name"] for trace in chart["data"] if words in str(trace.get("name")))
        assert line(chart, name) == pytest.approx(list(found.controls["infonce"][control].values))


def test_a_measure_that_few_sequences_do_not_allow_is_refused_in_the_panel(explorer: AppTest, run_root: Path) -> None:
    run = workbench.load_run(run_root / "sorter")
    key = ("geometry", *state.opened(run).key, "dime", "256")
    found = ask(key, lambda: geometry(run, n=4, seed=0, only=["dime"])).future.result(60)
    page(explorer, "entropy", run="sorter", set_measure="DiME")
    assert any(plain(found.left_out["dime"]) in info.value for info in explorer.info)
