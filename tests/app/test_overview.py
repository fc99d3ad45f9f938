"""The Overview page: every run in the table, those chosen in the URL, and a demo run from its form to its end."""

from __future__ import annotations

import ast
import shutil
import sys
import time
from collections.abc import Iterator
from html import escape
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from streamlit.testing.v1 import AppTest

from tests.app.conftest import APP
from tests.app.support import charts, check_code, drawings, page, panels, titles
from workbench.app import state, views
from workbench.app.panels import demo_form
from workbench.app.panels.questions import NUMBERS, QUESTIONS
from workbench.app.server import demo, serve
from workbench.inspection.learning_curves import learning_curves
from workbench.runs import load_run
from workbench.training import PRESETS, SECONDS


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AppTest]:
    """The explorer over a folder without runs; what it trains ends with the test."""
    monkeypatch.setattr(sys, "argv", ["main.py", "--root", str(tmp_path)])
    monkeypatch.setattr(state, "ZOO", tmp_path / "no zoo")
    monkeypatch.setattr(demo_form, "may_write", lambda: True)  # as a browser that has the token; see test_guard
    demo.slot().demo = None
    yield AppTest.from_file(str(APP), default_timeout=60)
    demo.slot().end()
    if (last := demo.slot().demo) is not None:
        last.process.wait(30)
    demo.slot().demo = None


def test_an_empty_folder_shows_the_zoo_and_opens_its_first_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["main.py", "--root", str(tmp_path)])
    explorer = AppTest.from_file(str(APP), default_timeout=60).run()
    assert not explorer.exception and explorer.selectbox(key="run").value == state.FIRST
    assert set(names(explorer)) == {path.name for path in state.ZOO.iterdir()}


def every_link(explorer: AppTest) -> dict[str, dict[str, list[str]]]:
    """The page's links: what they say -> the parameters they go with."""
    return {link.proto.label: parse_qs(link.proto.query_string) for link in explorer.get("page_link")}


def links(explorer: AppTest) -> dict[str, dict[str, list[str]]]:
    """Those below the table, without cards and questions."""
    asked = {question.asks for question in QUESTIONS.values()}
    return {
        label: query
        for label, query in every_link(explorer).items()
        if not label.startswith("**") and label not in asked
    }


def test_the_first_page_has_a_card_for_every_task_and_questions_to_begin_with(explorer: AppTest) -> None:
    page(explorer, "")
    cards = {query["run"][0] for label, query in every_link(explorer).items() if label.startswith("**")}
    tasks = {explorer.dataframe[0].value.set_index("name").loc[name, "task"] for name in cards}
    pictures = [html for html in explorer.get("html") if 'class="thumbnail"' in str(html.proto.body)]
    assert tasks == set(explorer.dataframe[0].value["task"]) and len(pictures) == len(cards)
    said = " ".join(caption.value for caption in explorer.caption)
    assert "of answer tokens right" in said and "not trained here" in said


def test_a_question_opens_a_run_that_answers_it_and_numbers_what_to_look_at(explorer: AppTest) -> None:
    page(explorer, "")
    query = {name: values[0] for name, values in every_link(explorer)[QUESTIONS["pointers"].asks].items()}
    assert query["run"] == "chain-chacal" and query["question"] == "pointers"
    page(explorer, "canvas", **query)
    assert explorer.subheader[0].value == QUESTIONS["pointers"].asks
    assert "⑤ How it works" in [one.value for one in explorer.subheader]
    (canvas, *_) = drawings(explorer)
    for number, at in zip("①②③④", QUESTIONS["pointers"].notes, strict=False):
        assert f"{number} {escape(at)}" in canvas
    assert check_code(explorer) == 3
    explorer.button(key="question-close").click().run()
    assert "question" not in explorer.query_params and "①" not in drawings(explorer)[0]


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_note_is_about_something_on_its_page(explorer: AppTest, run_root: Path, name: str) -> None:
    question = QUESTIONS[name]
    run = question.run_of([load_run(path) for path in sorted(run_root.iterdir())])
    assert run is not None
    page(explorer, question.page, run=run.name, question=name, **question.fields)
    there = " ".join([*drawings(explorer), *panels(explorer)])
    for number, at in zip(NUMBERS, question.notes, strict=False):
        assert f"{number} {escape(at)}" in there or f"{number} {at}" in there


def test_in_the_zoo_each_question_finds_the_run_that_it_is_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["main.py", "--root", str(tmp_path)])
    explorer = page(AppTest.from_file(str(APP), default_timeout=60), "")
    found = {name: every_link(explorer)[question.asks] for name, question in QUESTIONS.items()}
    assert {name: query["run"] for name, query in found.items()} == {
        "pointers": ["chain-chacal"],
        "delimiter": ["sort-plain"],
        "collapse": ["multiply-vanilla"],
    }
    assert found["collapse"]["overlay"] == ["multiply-seqvcr"]


def test_a_question_that_no_run_can_answer_says_so(run_root: Path) -> None:
    sorter = load_run(run_root / "sort-tempered")
    assert QUESTIONS["pointers"].run_of([sorter]) is None and QUESTIONS["delimiter"].run_of([sorter]) is sorter
    assert QUESTIONS["pointers"].run_of([]) is None


def names(explorer: AppTest) -> list[str]:
    return explorer.dataframe[0].value["name"].tolist()


def test_every_run_is_in_the_table_with_what_it_is_and_what_came_of_it(explorer: AppTest, run_root: Path) -> None:
    page(explorer, "")
    assert not explorer.error and not explorer.warning
    table = explorer.dataframe[0].value.set_index("name")
    assert sorted(table.index) == sorted(path.name for path in run_root.iterdir())
    row, curve = table.loc["chain-chacal"], learning_curves(load_run(run_root / "chain-chacal"))["accuracy"].values
    assert (row["task"], row["attention"], row["objective"]) == ("pointer chain", "1 × chacal (γ = 0.9)", "next token")
    assert (row["shape"], row["steps"], row["status"], row["seed"]) == ("1 × 64", 300, "finished", 0)
    assert row["accuracy"] == pytest.approx(curve[-1], abs=1e-3) and list(row["history"]) == curve.tolist()
    assert table.loc["multiply-seqvcr", "objective"] == "next token + seq vcr"
    assert table.loc["sorter", "status"] == "not trained"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("tempered", {"sort-tempered", "sorter", "turned"}),
        ("CHACAL boxes", {"items-in-boxes"}),
        ("vcr", {"multiply-seqvcr"}),
        ("larger than life", set()),
    ],
)
def test_runs_are_filtered_by_words(explorer: AppTest, words: str, found: set[str]) -> None:
    page(explorer, "", filter=words)
    assert (set(names(explorer)) if found else set()) == found
    assert ("No run has all of these words" in " ".join(c.value for c in explorer.caption)) == (not found)


def test_one_run_two_and_several_can_be_gone_on_with(explorer: AppTest) -> None:
    page(explorer, "", runs="chain-chacal")
    assert {label: query["run"] for label, query in links(explorer).items()} == {
        "Look at it": ["chain-chacal"],
        "See it learn": ["chain-chacal"],
    }
    page(explorer, "", runs=["chain-chacal", "sort-tempered"])  # type: ignore[arg-type]
    (query,) = links(explorer).values()
    assert query == {"run": ["chain-chacal"], "run2": ["sort-tempered"]}
    page(explorer, "", runs=["chain-chacal", "sort-tempered", "sorter"])  # type: ignore[arg-type]
    assert not links(explorer)
    assert titles(explorer) == ["Learning curves"] and check_code(explorer) == 1
    assert {trace["name"] for trace in charts(explorer)[0]["data"]} == {"chain-chacal", "sort-tempered"}
    assert any("Nothing was logged of sorter" in caption.value for caption in explorer.caption)
    explorer.toggle(key="curves_log").set_value(True).run()
    assert charts(explorer)[0]["layout"]["xaxis"]["type"] == "log" and check_code(explorer) == 1


def test_runs_that_the_filter_hides_stay_selected(explorer: AppTest) -> None:
    page(explorer, "", runs="chain-chacal", filter="tempered")
    assert "chain-chacal" not in names(explorer) and explorer.query_params["runs"] == "chain-chacal"
    assert "hidden by the filter: chain-chacal" in " ".join(caption.value for caption in explorer.caption)
    assert links(explorer)["Look at it"] == {"run": ["chain-chacal"]}


def test_runs_that_are_not_there_cannot_be_chosen_by_the_url(explorer: AppTest) -> None:
    page(explorer, "", runs=["../../etc", "none", "<b>"])  # type: ignore[arg-type]
    assert not charts(explorer) and not links(explorer) and "runs" not in explorer.query_params


def test_a_number_without_end_in_a_link_is_let_go_and_a_typed_text_is_kept(explorer: AppTest) -> None:
    page(explorer, "canvas", run="sort-tempered", sample="1e400", position="-inf")
    assert not explorer.error and explorer.number_input(key="sample").value == 0
    assert explorer.subheader[0].value == "Canvas"
    explorer.switch_page("views/overview.py").run()
    explorer.text_input(key="filter").set_value("inf").run()
    explorer.run()
    assert not explorer.exception and explorer.text_input(key="filter").value == "inf"


def test_damaged_folders_are_named_in_a_line_each(
    run_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("good", "no_log", "no_config"):
        shutil.copytree(run_root / "sort-tempered", tmp_path / name)
    (tmp_path / "no_config" / "config.json").write_text("{", encoding="utf-8")
    (tmp_path / "no_log" / "metrics.jsonl").write_text("{}\n" * 3, encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["main.py", "--root", str(tmp_path)])
    explorer = page(AppTest.from_file(str(APP), default_timeout=60), "")
    assert names(explorer) == ["good"]
    _, *said = explorer.warning[0].value.split("  \n")
    assert len(said) == 2 and "is not JSON" in said[0] and "not a row of figures" in said[1]


def test_a_changed_log_changes_the_table(run_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(run_root / "sort-tempered", tmp_path / "one")
    monkeypatch.setattr(sys, "argv", ["main.py", "--root", str(tmp_path)])
    explorer = page(AppTest.from_file(str(APP), default_timeout=60), "")
    log = tmp_path / "one" / "metrics.jsonl"
    log.write_text(log.read_text(encoding="utf-8") + '{"step": 31, "accuracy": 0.125}\n', encoding="utf-8")
    explorer.run()
    assert explorer.dataframe[0].value.loc[0, "accuracy"] == 0.125


def test_an_empty_root_says_what_this_is_and_how_to_make_a_run(empty: AppTest, tmp_path: Path) -> None:
    page(empty, "")
    assert any("There is no run in this folder yet" in text.value for text in empty.markdown)
    assert empty.code[0].value.startswith(f"workbench train chain-chacal --out {tmp_path}/chain-chacal --steps 500")
    assert not empty.dataframe and not empty.button(key="demo_start").disabled


def test_a_folder_without_runs_shows_those_that_came_along(
    empty: AppTest, run_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "ZOO", run_root)
    page(empty, "")
    assert sorted(names(empty)) == sorted(path.name for path in run_root.iterdir())
    assert any("came with the workbench" in one.value for one in empty.caption)
    page(empty, "canvas", run="chain-chacal")
    assert not empty.exception and not empty.error
    shutil.copytree(run_root / "sorter", tmp_path / "mine")
    page(empty, "")
    assert names(empty) == ["mine"] and not empty.info


def test_what_is_no_exception_is_an_error_of_the_page(empty: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tokenizer's panic, or a plugin's `sys.exit`, ended the page's thread, and the page waited for ever."""
    for error in (SystemExit(0), type("PanicException", (BaseException,), {})("index out of bounds")):

        def fails(error: BaseException = error) -> None:
            raise error

        monkeypatch.setattr(state, "scan", fails)
        empty.run()
        (shown,) = empty.exception
        assert shown.value == f"{type(error).__name__}: {error}"
    monkeypatch.undo()

    def part_of_a_page() -> None:
        import sys

        from workbench.app.fields import url

        url.fragment(sys.exit)()

    (shown,) = AppTest.from_function(part_of_a_page).run().exception
    assert shown.value.startswith("SystemExit")


def test_no_page_has_a_bare_string_in_its_code() -> None:
    """Streamlit writes one on the page, unless that is switched off, as where the explorer is served."""
    pages = sorted(Path(views.__file__).parent.glob("*.py"))
    assert len(pages) > 10 and serve.SETTINGS["runner.magicEnabled"] is False
    for path in pages:
        bare = [
            one.lineno
            for one in ast.parse(path.read_text(encoding="utf-8")).body[1:]
            if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)
        ]
        assert not bare or path.name == "__init__.py", f"{path.name}, lines {bare}"


def test_the_form_offers_quick_presets_with_what_they_take(empty: AppTest) -> None:
    page(empty, "")
    shown = empty.selectbox(key="demo_preset").options
    assert len(shown) == len([name for name in PRESETS if SECONDS[name] <= demo.QUICK]) > 3
    assert shown[0] == "chain-chacal: pointer chain, 1 × chacal (γ = 0.9), next token; 16 s"
    empty.selectbox(key="demo_preset").set_value("sort-tempered").run()
    assert empty.number_input(key="demo_steps_sort-tempered").value == PRESETS["sort-tempered"]["steps"]
    empty.number_input(key="demo_seed").set_value(3).run()
    assert "sort-tempered-seed-3 --steps 3000 --seed 3" in empty.code[0].value


@pytest.mark.parametrize("name", ["..", ".hidden", "a/b", "/etc/x", "-x", "a b", "ä", "$(id)", "a\n"])
def test_a_name_that_is_none_is_refused_under_its_field(empty: AppTest, tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="letters, digits"):
        demo.place(tmp_path, name)
    page(empty, "")
    empty.text_input(key="demo_name").set_value(name).run()
    assert not empty.exception
    assert "letters, digits" in empty.error[0].value and empty.button(key="demo_start").disabled


def test_a_name_that_is_taken_is_refused_even_if_it_is_a_link(empty: AppTest, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "dangling").symlink_to("/nowhere")
    with pytest.raises(ValueError, match="at most 64 long"):
        demo.place(tmp_path, "x" * 65)
    page(empty, "")
    for name in ("taken", "dangling"):
        empty.text_input(key="demo_name").set_value(name).run()
        assert "already" in empty.error[0].value
        with pytest.raises(ValueError, match="already"):
            demo.slot().start(tmp_path, name, "chain-chacal", 5, 0)
    assert demo.free_name(tmp_path, "taken") == "taken-2" and demo.slot().demo is None


def until(wanted: object, seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not wanted():  # type: ignore[operator]
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.2)


def test_a_demo_run_is_trained_beside_the_page_and_then_offered(empty: AppTest, tmp_path: Path) -> None:
    page(empty, "")
    empty.number_input(key="demo_steps_chain-chacal").set_value(40).run()
    empty.text_input(key="demo_name").set_value("mine").run()
    empty.button(key="demo_start").click().run()
    assert not empty.exception and not empty.error
    started = demo.slot().demo
    assert started is not None and started.path == tmp_path / "mine"
    if started.running:
        assert not [button for button in empty.button if button.key == "demo_start"]
        with pytest.raises(ValueError, match="one at a time"):
            demo.slot().start(tmp_path, "other", "chain-chacal", 5, 0)
    until(lambda: not started.running)
    assert started.failure is None
    run = load_run(tmp_path / "mine")
    assert run.finished and run.config.steps == 40 and len(run.checkpoints()) > 5
    assert len(learning_curves(run)["accuracy"].values) == demo.EVALUATIONS
    empty.run()
    assert not empty.exception and not empty.error
    assert "mine is trained" in empty.success[0].value
    assert links(empty)["Look at it"] == {"run": ["mine"]}
    assert names(empty) == ["mine"] and empty.selectbox(key="run").value == "mine"


def test_a_demo_run_can_be_stopped_and_what_was_trained_is_kept(empty: AppTest, tmp_path: Path) -> None:
    page(empty, "")
    demo.slot().start(tmp_path, "long", "chain-chacal", demo.MOST_STEPS, 0)
    started = demo.slot().demo
    assert started is not None
    until(lambda: started.progress().step > 0)
    empty.run()
    assert not empty.exception and {metric.label for metric in empty.metric} >= {"Loss"}
    assert empty.dataframe[0].value["status"].tolist() == ["training"]
    empty.button(key="demo_stop").click().run()
    until(lambda: not started.running)
    empty.run()
    assert not empty.exception and "was stopped at step" in empty.info[-1].value
    assert load_run(tmp_path / "long").version and empty.code[0].value == f"workbench resume {tmp_path}/long"


def test_a_demo_run_that_fails_says_why_in_one_line(
    empty: AppTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "arguments", lambda *_: ["train", "no-such-preset", "--out", str(tmp_path / "x")])
    demo.slot().start(tmp_path, "x", "chain-chacal", 5, 0)
    started = demo.slot().demo
    assert started is not None
    until(lambda: not started.running)
    page(empty, "")
    assert len(empty.error) == 1 and "unknown preset" in empty.error[0].value and "\n" not in empty.error[0].value
