"""The explorer without a browser: what the sidebar chooses, the canvas and the residual, of every kind of run."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import workbench
from tests.app.conftest import APP
from tests.app.support import RUNS, check_code, drawing_titles, drawings, page, panels
from workbench import figures
from workbench.app.config_in_words import plain
from workbench.app.panels.edit import TITLE
from workbench.inspection import inspect_run
from workbench.inspection.examples import next_wrong


def words(explorer: AppTest) -> list[str]:
    """The input's words, as the canvas has them."""
    marks = [
        part.split('data-tip="position ')[1] for part in drawings(explorer)[0].split("<rect") if "data-token" in part
    ]
    return [mark.split('"')[0].split(": ", 1)[1] for mark in marks]


@pytest.mark.parametrize("run", RUNS)
def test_canvas_and_residual_of_every_kind_of_run_and_the_code_that_makes_them(explorer: AppTest, run: str) -> None:
    page(explorer, "canvas", run=run)
    assert not explorer.error
    assert panels(explorer) == ["Canvas", "Tokens behind the cell", "How it works", TITLE]
    assert check_code(explorer) == 3
    explorer.switch_page("views/residual.py").run()
    assert not explorer.exception and not explorer.error
    assert panels(explorer) == [
        "Residual on both bases",
        "Tokens behind the cell",
        "Over the layers at this position",
        "Through a lens",
        "This input's residual in another run",
        "What each basis leaves out",
        "Principal components by a truth label",
    ]
    assert check_code(explorer) == 6


def test_a_typed_input_is_shown_and_a_wrong_one_is_explained_under_its_field(explorer: AppTest) -> None:
    page(explorer, "canvas", run="sort-tempered")
    explorer.segmented_control(key="how").set_value("Type").run()
    explorer.text_input(key="input").set_value("5 3 3 9").run()
    assert not explorer.exception and not explorer.error
    assert words(explorer) == ["5", "3", "3", "9", "⊥", "3", "3", "5", "9"]
    explorer.text_input(key="input").set_value("5 three").run()
    (said,) = [error.value.replace("\\", "") for error in explorer.error]
    assert said.startswith("This input cannot be read: 'three' is not a number between 1 and 32. Example: ")
    assert not explorer.exception and words(explorer)[:4] == ["5", "3", "3", "9"], "a mistake wipes nothing"
    assert any("still shows the input before" in caption.value for caption in explorer.caption)
    explorer.text_input(key="input").set_value("7 " * 400).run()
    assert "type 1 to 20 numbers" in explorer.error[0].value.replace("\\", "") and len(explorer.error[0].value) < 300
    explorer.button(key="input-example").click().run()
    assert not explorer.error and " ".join(words(explorer)).startswith(said.split("Example: ")[1])


def test_the_same_number_gives_the_same_input(explorer: AppTest) -> None:
    page(explorer, "canvas", run="sort-tempered")
    first = words(explorer)
    explorer.number_input(key="sample").set_value(3).run()
    other = words(explorer)
    explorer.number_input(key="sample").set_value(0).run()
    assert words(explorer) == first != other


def test_failures_alone_can_be_looked_at_and_a_perfect_model_has_none(explorer: AppTest) -> None:
    page(explorer, "canvas", run="multiply-seqvcr", which="only with a wrong answer")
    assert not explorer.error and "wrong" in drawings(explorer)[0]
    assert "which='wrong'" in explorer.code[0].value
    explorer.selectbox(key="run").set_value("sorter").run()
    assert not explorer.exception
    assert "no failure to show" in explorer.error[0].value


def test_the_url_brings_back_run_input_head_and_cell(explorer: AppTest) -> None:
    page(
        explorer,
        "canvas",
        run="sort-tempered",
        how="Type",
        input="7 2 7",
        head="layer 1, head 0",
        point="layer 0, after attention",
        position="3",
        focus="4",
    )
    assert words(explorer) == ["7", "2", "7", "⊥", "2", "7", "7"]
    run = workbench.load_run(Path(sys.argv[2]) / "sort-tempered")
    seen = workbench.see(run, run.task().parse("7 2 7"))
    cell = ("blocks.0.hook_resid_mid", 3)
    assert figures.canvas(seen, layer=1, head=0, query=4, cell=cell).svg() in drawings(explorer)
    assert drawing_titles(explorer)[1] == "Tokens at position 3:⊥, after attention 0"


@pytest.mark.parametrize("name", ["../../etc", "/etc/passwd", "", "\x00", "sort-tempered/../chaser"])
def test_a_run_that_is_not_listed_cannot_be_named_by_the_url(explorer: AppTest, run_root: Path, name: str) -> None:
    page(explorer, "canvas", run=name)
    if not name:  # says nothing: the newest is opened
        newest = max(run_root.glob("*/weights.safetensors"), key=lambda path: path.stat().st_mtime_ns)
        assert explorer.selectbox(key="run").value == newest.parent.name
        return
    assert explorer.selectbox(key="run").value is None and not drawings(explorer)
    assert [error.value for error in explorer.error] == [
        f"*{plain(name)}* is not in this folder any more. Choose a run."
    ]


def test_a_chosen_length_is_the_length_of_the_sample(explorer: AppTest) -> None:
    page(explorer, "canvas", run="sort-tempered")
    for length in (2, 9):
        explorer.number_input(key="length").set_value(length).run()
        assert not explorer.exception
        assert words(explorer).index("⊥") == length


def test_what_was_chosen_of_one_run_is_let_go_in_the_next(explorer: AppTest) -> None:
    page(explorer, "canvas", run="chain-chacal", head="layer 0, head 3", position="31", focus="31")
    explorer.selectbox(key="matrix").set_value("resolvent").run()
    assert not explorer.exception
    explorer.selectbox(key="run").set_value("sort-tempered").run()
    assert not explorer.exception
    assert explorer.session_state["head"] in ("0.0", "0.1", "1.0", "1.1")
    assert explorer.selectbox(key="matrix").value == "pattern"
    assert explorer.number_input(key="focus").value is None
    explorer.number_input(key="length").set_value(20).run()
    explorer.number_input(key="position").set_value(39).run()
    explorer.number_input(key="length").set_value(2).run()
    assert not explorer.exception and explorer.number_input(key="position").value < 5
    explorer.selectbox(key="run").set_value("items-in-boxes").run()
    explorer.number_input(key="operations").set_value(5).run()
    explorer.selectbox(key="run").set_value("sort-tempered").run()
    assert not explorer.exception


def test_the_checkpoint_chosen_is_the_model_that_is_looked_at(explorer: AppTest) -> None:
    run = workbench.load_run(Path(sys.argv[2]) / "chain-chacal")
    step = run.checkpoints()[0]
    page(explorer, "canvas", run="chain-chacal", step=str(step))
    assert f"chain\\-chacal at step {step}" in " ".join(m.value for m in explorer.markdown).replace(
        "chain-", "chain\\-"
    )
    early = drawings(explorer)[0]
    assert f"step={step}" in explorer.code[0].value and check_code(explorer) == 3
    explorer.select_slider(key="step").set_value("the end").run()
    assert drawings(explorer)[0] != early
    explorer.selectbox(key="run").set_value("sorter").run()
    assert not explorer.exception


@pytest.mark.parametrize(
    ("run", "text"), [("chain-chacal", "5 6 7 8"), ("multiply-seqvcr", "12 * 34"), ("sorter", "4")]
)
@pytest.mark.parametrize("name", ["canvas", "residual"])
def test_the_shortest_inputs_show_without_an_error(explorer: AppTest, name: str, run: str, text: str) -> None:
    page(explorer, name, run=run, how="Type", input=text)
    assert not explorer.error and drawings(explorer)


def test_a_run_whose_weights_do_not_fit_is_explained_in_one_line(
    run_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(run_root / "chain-chacal", tmp_path / "broken")
    shutil.copy(run_root / "sort-tempered" / "weights.safetensors", tmp_path / "broken")
    monkeypatch.setattr(sys, "argv", ["main.py", "--root", str(tmp_path)])
    explorer = page(AppTest.from_file(str(APP), default_timeout=60), "canvas")
    assert len(explorer.error) == 1 and "does not fit its config" in explorer.error[0].value


def test_boxes_are_sampled_by_operations_and_typed_as_text(explorer: AppTest) -> None:
    page(explorer, "canvas", run="items-in-boxes", operations="3")
    assert not explorer.error
    assert sum(word in ("Put", "Remove", "Move") for word in words(explorer)) == 3
    assert "Box A, positions" in drawings(explorer)[0]
    text = "The tea is in Box A, the cup is in Box B. Move the contents of Box A to Box C."
    explorer.segmented_control(key="how").set_value("Type").run()
    explorer.text_input(key="input").set_value(text).run()
    assert not explorer.exception and not explorer.error
    explorer.text_input(key="input").set_value("The tea is in Box Q.").run()
    assert not explorer.exception and "no Box Q" in explorer.error[0].value


def test_the_stepper_goes_to_another_input_and_to_the_next_wrong_answer(explorer: AppTest, run_root: Path) -> None:
    page(explorer, "canvas", run="sort-tempered")
    first = words(explorer)
    assert explorer.button(key="step-previous").disabled
    explorer.button(key="step-next").click().run()
    assert explorer.number_input(key="sample").value == 1 and words(explorer) != first
    explorer.button(key="step-previous").click().run()
    assert explorer.number_input(key="sample").value == 0 and words(explorer) == first
    explorer.button(key="step-random").click().run()
    assert explorer.number_input(key="sample").value != 0 and explorer.query_params["sample"] != ["0"]
    explorer.number_input(key="sample").set_value(7).run()
    explorer.button(key="step-wrong").click().run()
    run = workbench.load_run(run_root / "sort-tempered")
    assert explorer.number_input(key="sample").value == next_wrong(run.model(), run.task(), 7)
    page(explorer, "canvas", run="sorter", sample="3")
    explorer.button(key="step-wrong").click().run()
    assert explorer.number_input(key="sample").value == 3 and "has a wrong answer" in explorer.toast[0].value
    explorer.selectbox(key="which").set_value("hardest").run()
    assert explorer.button(key="step-wrong").disabled and explorer.button(key="step-random").disabled


@pytest.mark.slow
@pytest.mark.parametrize("run", ["chain-chacal", "sort-tempered", "multiply-seqvcr"])
def test_the_head_at_first_is_that_of_a_report_whatever_the_input(explorer: AppTest, run_root: Path, run: str) -> None:
    opened = workbench.load_run(run_root / run)
    head = inspect_run(opened, n=4, seed=0, only=["gold_mass"], nulls=()).needed_head
    for number in ("0", "5"):
        page(explorer, "canvas", run=run, sample=number)
        assert explorer.session_state["head"] == "{}.{}".format(*head)
