"""The explorer without a browser: every view of every kind of run, typed input, wrong input."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

APP = Path(__file__).parents[2] / "app" / "main.py"


@pytest.fixture
def explorer(run_root: Path, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    monkeypatch.setattr(sys, "argv", ["main.py", "--root", str(run_root)])
    return AppTest.from_file(str(APP), default_timeout=60)


@pytest.mark.parametrize("run", ["chain-chacal", "sort-tempered", "multiply-seqvcr", "sorter", "turned", "chaser"])
def test_every_view_of_every_kind_of_run_shows_without_an_error(explorer: AppTest, run: str) -> None:
    explorer.run()
    explorer.selectbox(key="run").set_value(run).run()
    assert not explorer.exception and not explorer.error
    titles = [title.value for title in explorer.subheader]
    assert titles[:4] == [
        "Input and answers",
        "Attention against the task's graph",
        "Residual on both bases",
        "Entropy by layer",
    ]
    assert "Mechanisms" in titles


def test_a_typed_input_is_shown_and_a_wrong_one_is_explained_under_its_field(explorer: AppTest) -> None:
    explorer.run()
    explorer.selectbox(key="run").set_value("sort-tempered").run()
    explorer.segmented_control(key="how").set_value("Type").run()
    explorer.text_input(key="input").set_value("5 3 3 9").run()
    assert not explorer.exception and not explorer.error
    assert explorer.dataframe[0].value.loc["token"].tolist() == ["5", "3", "3", "9", "⊥", "3", "3", "5", "9"]
    explorer.text_input(key="input").set_value("5 three").run()
    assert [error.value for error in explorer.error] == ["'three' is not a number between 1 and 32"]
    assert not explorer.exception


def test_the_same_sample_number_gives_the_same_sample(explorer: AppTest) -> None:
    explorer.run()
    first = explorer.dataframe[0].value
    explorer.number_input(key="sample").set_value(3).run()
    other = explorer.dataframe[0].value
    explorer.number_input(key="sample").set_value(0).run()
    assert explorer.dataframe[0].value.equals(first) and not other.equals(first)


def test_an_empty_root_says_how_to_make_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["main.py", "--root", str(tmp_path)])
    explorer = AppTest.from_file(str(APP), default_timeout=60).run()
    assert not explorer.exception
    assert "workbench train" in explorer.code[0].value


def test_the_url_brings_back_the_run_and_the_typed_input(explorer: AppTest) -> None:
    explorer.query_params.update({"run": "sort-tempered", "how": "Type", "input": "7 2 7"})
    explorer.run()
    assert not explorer.exception and not explorer.error
    assert explorer.selectbox(key="run").value == "sort-tempered"
    assert explorer.dataframe[0].value.loc["token"].tolist() == ["7", "2", "7", "⊥", "2", "7", "7"]


def test_a_run_that_is_not_listed_cannot_be_named_by_the_url(explorer: AppTest) -> None:
    explorer.query_params["run"] = "../../etc"
    explorer.run()
    assert not explorer.exception
    assert explorer.selectbox(key="run").value == "chain-chacal"


def test_a_chosen_length_is_the_length_of_the_sample(explorer: AppTest) -> None:
    explorer.run()
    explorer.selectbox(key="run").set_value("sort-tempered").run()
    for length in (2, 9):
        explorer.number_input(key="length").set_value(length).run()
        assert not explorer.exception
        assert explorer.dataframe[0].value.loc["token"].tolist().index("⊥") == length


def test_the_head_and_matrix_chosen_for_one_run_do_not_break_the_next(explorer: AppTest) -> None:
    explorer.run()
    explorer.selectbox(key="head").set_value((0, 3)).run()
    explorer.selectbox(key="matrix").set_value("resolvent").run()
    assert not explorer.exception
    explorer.selectbox(key="run").set_value("sort-tempered").run()
    assert not explorer.exception
    assert explorer.selectbox(key="head").value in [(layer, head) for layer in (0, 1) for head in (0, 1)]


def test_sorting_shows_its_claims_on_this_input_and_by_length(explorer: AppTest) -> None:
    explorer.query_params.update({"run": "sort-tempered", "how": "Type", "input": "4"})
    explorer.run()
    assert not explorer.exception
    shown = {metric.label: metric.value for metric in explorer.metric}
    assert shown["Minimum at the delimiter, on this input"] in ("0%", "100%")
    assert shown["Identity + successor at the outputs, on this input"] == "nothing to score"
    titles = [json.loads(chart.proto.spec)["layout"]["title"]["text"] for chart in explorer.get("plotly_chart")]
    assert titles.count("Mechanisms by length") == 1


@pytest.mark.parametrize(("run", "text"), [("chain-chacal", "5 6 7 8"), ("multiply-seqvcr", "12 * 34")])
def test_the_shortest_inputs_show_without_an_error(explorer: AppTest, run: str, text: str) -> None:
    explorer.query_params.update({"run": run, "how": "Type", "input": text})
    explorer.run()
    assert not explorer.exception and not explorer.error


def test_a_run_whose_weights_do_not_fit_is_explained_in_one_line(
    run_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(run_root / "chain-chacal", tmp_path / "broken")
    shutil.copy(run_root / "sort-tempered" / "weights.safetensors", tmp_path / "broken")
    monkeypatch.setattr(sys, "argv", ["main.py", "--root", str(tmp_path)])
    explorer = AppTest.from_file(str(APP), default_timeout=60).run()
    assert not explorer.exception
    assert len(explorer.error) == 1 and "does not fit its config" in explorer.error[0].value


def test_boxes_are_sampled_by_operations_and_typed_as_text(explorer: AppTest) -> None:
    explorer.query_params.update({"run": "items-in-boxes", "operations": "3"})
    explorer.run()
    assert not explorer.exception and not explorer.error
    tokens = explorer.dataframe[0].value.loc["token"].tolist()
    assert sum(word in ("Put", "Remove", "Move") for word in tokens) == 3
    text = "The tea is in Box A, the cup is in Box B. Move the contents of Box A to Box C."
    explorer.segmented_control(key="how").set_value("Type").run()
    explorer.text_input(key="input").set_value(text).run()
    assert not explorer.exception and not explorer.error
    explorer.text_input(key="input").set_value("The tea is in Box Q.").run()
    assert not explorer.exception and "no Box Q" in explorer.error[0].value


def test_a_length_that_the_next_run_has_not_is_let_go(explorer: AppTest) -> None:
    explorer.run()
    explorer.selectbox(key="run").set_value("sort-tempered").run()
    explorer.number_input(key="length").set_value(20).run()
    explorer.selectbox(key="run").set_value("items-in-boxes").run()
    explorer.number_input(key="operations").set_value(5).run()
    explorer.selectbox(key="run").set_value("sort-tempered").run()
    assert not explorer.exception
