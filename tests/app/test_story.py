"""The page Story: what was found of a run in sentences, and the picture behind the one that is chosen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event
from time import sleep

import pytest
from streamlit.testing.v1 import AppTest

from tests.app.support import ask, charts, check_code, drawing_titles, page, panels
from workbench.app import state
from workbench.app.panels import background, how_it_works
from workbench.report.story import story
from workbench.runs import load_run


def measured(root: Path, name: str) -> how_it_works.Found:
    """Have a run measured, as its page would ask."""
    opened = state.opened(load_run(root / name))
    *_, found = how_it_works.measure(opened)  # here, since what is measured beside a page gives way to everything
    ask(opened.key, lambda: found).future.result(60)
    return found


def first_finding(found: how_it_works.Found) -> str:
    """The chapter that the page begins with: of the claim that tells most."""
    return next(chapter.title for chapter in story(found.inspected) if chapter.statement.brief)


def test_every_chapter_is_told_and_its_picture_is_that_of_its_code(explorer: AppTest, run_root: Path) -> None:
    page(explorer, "story", run="chaser")
    assert any("To be measured on held-out sequences" in one.value for one in explorer.caption)
    assert panels(explorer) == ["What is it asked?"] and len(drawing_titles(explorer)) == 1, "until it is measured"
    found = measured(run_root, "chaser")
    page(explorer, "story", run="chaser")
    listed, told = explorer.radio(key="chapter"), story(found.inspected)
    assert listed.options == ["What is it asked?", *(chapter.title for chapter in told)]
    assert panels(explorer) == [first_finding(found)] and check_code(explorer) == 1, "a finding is what it begins with"
    listed.set_value("What is it asked?").run()
    assert drawing_titles(explorer) == ["Layer 0, head 0: attention pattern A"] and check_code(explorer) == 1
    for chapter in told:
        listed = explorer.radio(key="chapter")
        listed.set_value(chapter.title).run()
        assert not explorer.exception and panels(explorer) == [chapter.title]
        assert explorer.query_params["chapter"] in (chapter.title, [chapter.title])
        assert len(charts(explorer)) == len(chapter.pictures)
        assert any(one.value == chapter.limits for one in explorer.caption)


def test_what_is_known_is_told_before_everything_is(explorer: AppTest, run_root: Path) -> None:
    opened, goes = state.opened(load_run(run_root / "chaser")), Event()
    first = next(how_it_works.measure(opened))

    def parts(job: background.Job) -> Iterator[how_it_works.Found]:
        yield first
        assert goes.wait(60)
        yield first

    job = background.ask(opened.key, parts)
    try:
        while job.so_far is None:
            sleep(0.05)
        page(explorer, "story", run="chaser")
        assert explorer.radio(key="chapter").options[:2] == ["What is it asked?", "What does it get right?"]
        assert check_code(explorer) == 1
        assert any(f"Measuring {first.to_come}" in one.value for one in explorer.caption)
    finally:
        goes.set()
        job.future.result(60)


def test_a_link_opens_a_chapter_and_another_run_begins_with_its_first(explorer: AppTest, run_root: Path) -> None:
    _, sorter = (measured(run_root, name) for name in ("chaser", "sorter"))
    page(explorer, "story", run="chaser", chapter="How sure is this?")
    assert panels(explorer) == ["How sure is this?"]
    explorer.selectbox(key="run").set_value("sorter").run()
    assert panels(explorer) == [first_finding(sorter)]


def test_another_chapter_is_shown_without_telling_the_story_again(
    explorer: AppTest, run_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(run_root, "chaser")
    page(explorer, "story", run="chaser", sample="7")
    monkeypatch.delattr("workbench.report.story.statements")  # to tell it again would raise
    explorer.radio(key="chapter").set_value("How sure is this?").run()
    assert not explorer.exception and panels(explorer) == ["How sure is this?"]


def test_a_link_with_an_unknown_chapter_opens_the_first(explorer: AppTest, run_root: Path) -> None:
    found = measured(run_root, "chaser")
    page(explorer, "story", run="chaser", chapter="<script>")
    assert panels(explorer) == [first_finding(found)]


def test_a_run_leaves_as_one_page_and_a_checkpoint_does_not(explorer: AppTest, run_root: Path) -> None:
    def labels() -> list[str]:
        return [one.proto.label for one in explorer.get("download_button")]

    page(explorer, "story", run="sort-tempered")
    assert "This run as one page" in labels()
    page(explorer, "story", run="sort-tempered", step=str(load_run(run_root / "sort-tempered").checkpoints()[1]))
    assert "This run as one page" not in labels()
