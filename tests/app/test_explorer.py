"""The explorer without a browser: every view of every kind of run, typed input, wrong input."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

APP = Path(__file__).parents[2] / "app" / "main.py"


@pytest.fixture
def explorer(run_root: Path, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    monkeypatch.setattr(sys, "argv", ["main.py", "--root", str(run_root)])
    return AppTest.from_file(str(APP), default_timeout=60)


@pytest.mark.parametrize("run", ["chain-chacal", "sort-tempered", "multiply-seqvcr"])
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
    assert ("Mechanisms" in titles) == (run != "multiply-seqvcr")


def test_a_typed_input_is_shown_and_a_wrong_one_is_explained_under_its_field(explorer: AppTest) -> None:
    explorer.run()
    explorer.selectbox(key="run").set_value("sort-tempered").run()
    explorer.segmented_control(key="how").set_value("Type").run()
    explorer.text_input(key="text").set_value("5 3 3 9").run()
    assert not explorer.exception and not explorer.error
    assert explorer.dataframe[0].value.loc["token"].tolist() == ["5", "3", "3", "9", "⊥", "3", "3", "5", "9"]
    explorer.text_input(key="text").set_value("5 three").run()
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
