"""The screen says what it shows, in a real browser: fields beside figures, the address beside the page."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
from playwright.sync_api import Page, expect

from tests.app.browsing import address_of, choose, fields, fill, headings, measured, open_page, settle
from workbench.app.views import PAGES
from workbench.runs import load_run

pytestmark = pytest.mark.browser

OF_NO_VIEW = ("demo_steps", "demo_seed", "demo_name")  # what is to be trained is no view


def all_fields(page: Page) -> dict[str, str]:
    """What the browser shows in every field of the page, and in those behind its buttons for settings."""
    found = fields(page)
    for button in page.get_by_test_id("stMain").get_by_role("button", name="Settings").all():
        behind = page.get_by_test_id("stPopoverBody")
        button.click()
        expect(behind).to_be_visible()
        expect(behind.get_by_test_id("stSkeleton")).to_have_count(0)  # a field that is still loading
        found |= fields(page)
        button.click()
        expect(behind).to_have_count(0)
    return found


def check(page: Page, after: str) -> dict[str, str]:
    """Every field shows what the address says, which is what was used; and where a figure says it, that."""
    for last in [*[False] * 20, True]:  # the address comes after the page, on a busy machine a second later
        shown = {key: text for key, text in all_fields(page).items() if not key.startswith(OF_NO_VIEW)}
        used = address_of(page)
        if last or shown == {key: _as_shown(used.get(key, ""), text) for key, text in shown.items()}:
            break
        page.wait_for_timeout(250)
    assert shown == {key: _as_shown(used.get(key, ""), text) for key, text in shown.items()}, after
    folds = {key for key in used if key.startswith("show-")}  # which panels are open
    assert set(used) - set(shown) - folds <= {"runs", "overlay"}, after  # nothing in the address is not on the page
    said = " | ".join(headings(page))
    where = page.url.split("?")[0].rsplit("/", 1)[1]
    if where == "canvas" and "head" in shown:
        head = shown["head"]
        assert head in said.lower(), (after, head, said)
        assert f"Tokens at position {shown['position']}:" in said, (after, said)
    if where == "hops":
        assert shown["head"] in said.lower(), (after, said)
    if shown.get("edit_kind") == "cut an edge" and "every" not in (shown["edit_query"], shown["edit_key"]):
        edited = page.locator('[class*="st-key-panel-edit"]').inner_text()
        cut = f"position {shown['edit_query']} cannot read position {shown['edit_key']}"
        assert cut in edited or "cannot read" in edited, (after, cut, edited)
    return shown


def _as_shown(used: str, shown: str) -> str:
    """What the address says, as the field writes it: a number with the digits of its field, a share in per cent."""
    with suppress(ValueError):
        same = float(shown[:-1]) / 100 if shown.endswith("%") else float(shown)
        return shown if float(used) == same else used
    return used


def again(browser: Any, page: Page, after: str) -> None:
    """A fresh browser at the page's address shows the same."""
    asked = page.url
    other = open_page(browser, asked)
    try:
        for one in (page, other) if "/circuit" in page.url else ():  # its fields are there once it is measured
            measured(one)
        assert all_fields(other) == all_fields(page), (after, asked, other.url)
        assert headings(other) == headings(page), after
        assert other.url == page.url, after
    finally:
        other.context.close()


@pytest.fixture
def opened(browser: Any, address: str) -> Iterator[Callable[[str], Page]]:
    """Pages of the explorer by what comes after its address; they are closed at the end."""
    pages: list[Page] = []

    def one(path: str) -> Page:
        pages.append(open_page(browser, f"{address}/{path}"))
        return pages[-1]

    yield one
    for page in pages:
        page.context.close()


def test_fields_of_the_canvas_show_what_is_drawn_after_each_change(opened: Callable[[str], Page], browser: Any) -> None:
    page = opened("canvas?run=sort-tempered&show-edit=true")
    seen = [check(page, "at first")]
    for number in ("6", "3", "11"):
        fill(page, "Input number", number)
        seen.append(check(page, f"number {number}"))
    assert len({one["head"] for one in seen}) == 1, "the head is chosen on other sequences, whatever the input"
    assert len({(one["edit_query"], one["edit_key"]) for one in seen}) > 1
    again(browser, page, "number 11")
    fill(page, "Length", "20")
    fill(page, "Position", "17")
    check(page, "position 17")
    fill(page, "Length", "2")
    assert int(check(page, "length 2")["position"]) < 5
    choose(page, "Run", "chain-chacal")
    check(page, "another run")
    again(browser, page, "another run")


def test_an_edit_is_set_anew_for_another_input_and_a_link_to_one_is_kept(opened: Callable[[str], Page]) -> None:
    page = opened("canvas?run=sort-tempered&show-edit=true&length=9&edit_query=15&edit_key=3")
    shown = check(page, "a link to an edit")
    assert (shown["edit_query"], shown["edit_key"]) == ("15", "3")
    choose(page, "Key: what is read", "1")
    assert check(page, "an edit of one's own")["edit_key"] == "1"
    fill(page, "Length", "2")
    check(page, "a shorter input")
    panel = page.locator('[class*="st-key-panel-edit"]')
    assert "which comes after it" not in panel.inner_text() and "not one of" not in panel.inner_text()
    assert "cannot read position" in panel.inner_text()


def tick(page: Page, run: str) -> None:
    """Tick a run in the table of the Overview page, which is one picture: the first row of those with its name."""
    page.get_by_placeholder("filter by name").fill(run)
    page.get_by_placeholder("filter by name").press("Enter")
    settle(page)
    page.locator('[data-testid="stDataFrameResizable"]').first.click(position={"x": 15, "y": 52})
    settle(page)


@pytest.mark.parametrize(("label", "comes"), [("Look at it", "canvas"), ("See it learn", "training")])
def test_the_page_behind_a_link_is_that_of_the_run_ticked(
    opened: Callable[[str], Page], label: str, comes: str
) -> None:
    page = opened("canvas?run=chaser")  # the run that was looked at before
    page.get_by_role("link", name="Overview").click()
    settle(page)
    assert check(page, "overview")["run"] == "chaser"
    tick(page, "sort-tempered")
    page.get_by_role("link", name=label).click()
    page.wait_for_url(f"**/{comes}?*")
    settle(page)
    assert check(page, label)["run"] == "sort-tempered"
    drawn = str(page.locator('[data-testid="stMainBlockContainer"]').text_content())
    assert "sort-tempered" in drawn and "chaser" not in drawn


def test_two_runs_ticked_are_the_two_compared(opened: Callable[[str], Page]) -> None:
    page = opened("compare?run=chaser&run2=chain-standard")
    page.get_by_role("link", name="Overview").click()
    settle(page)
    tick(page, "sorter")
    tick(page, "sort-tempered")
    fill(page, "Filter", "")
    page.get_by_role("link", name="Compare sort").click()
    page.wait_for_url("**/compare?*")
    settle(page)
    shown = check(page, "compare")
    assert {shown["run"], shown["run2"]} == {"sorter", "sort-tempered"}
    card, overall = page.locator(".st-key-sides"), page.locator('[class*="st-key-panel-compare-overall"]')
    assert card.locator("strong").all_inner_texts() == [f"A · {shown['run']}"]
    assert card.get_by_role("combobox", name="Run B").input_value() == shown["run2"]
    legend = overall.locator(".js-plotly-plot .legendtext").all_text_contents()
    assert legend[:2] == [f"A · {shown['run']}", f"B · {shown['run2']}"], legend  # what was measured


def test_a_link_without_a_run_says_it_at_once_and_the_way_back_is_the_view_before(
    opened: Callable[[str], Page], browser: Any
) -> None:
    page = opened("canvas?show-edit=true")
    first = check(page, "without a run")
    assert first["run"] == "chaser" and first["position"] and first["edit_query"]
    again(browser, page, "without a run")
    fill(page, "Input number", "5")
    second = check(page, "number 5")
    page.go_back()
    expect(page.get_by_label("Input number", exact=True).first).to_have_value("0")
    settle(page)
    assert check(page, "back") == first
    page.go_forward()
    expect(page.get_by_label("Input number", exact=True).first).to_have_value("5")
    settle(page)
    assert check(page, "forward") == second


def test_a_run_that_is_gone_is_said_and_no_other_is_taken_for_it(
    opened: Callable[[str], Page], served: Path, browser: Any
) -> None:
    shutil.copytree(served / "sorter", served / "live")
    page = opened("canvas?run=live")
    assert check(page, "there")["run"] == "live"
    shutil.rmtree(served / "live")
    page.reload()
    gone = page.get_by_text("live is not in this folder any more. Choose a run.")
    expect(gone).to_be_visible(timeout=30_000)
    settle(page)
    assert fields(page)["run"] == "" and not headings(page) and address_of(page)["run"] == "live"
    choose(page, "Run", "sorter")
    assert check(page, "another chosen")["run"] == "sorter" and gone.count() == 0
    beside = opened("compare?run=sorter&run2=live")
    expect(beside.get_by_text("live is not in this folder any more.")).to_be_visible(timeout=30_000)
    assert fields(beside)["run2"] == ""


def test_pins_outlive_a_reload_and_are_the_browsers_own(
    opened: Callable[[str], Page], address: str, browser: Any
) -> None:
    page = opened("residual?run=sorter")
    page.locator('[class*="st-key-panel-residual"]').get_by_role("button", name="Code").first.click()
    page.get_by_role("button", name="Pin as evidence").first.click()
    pinned = page.get_by_text("1 figure pinned")
    expect(pinned).to_be_visible(timeout=30_000)
    settle(page)
    kept = f"workbench-evidence-{urlparse(address).port}"  # or explorers on two ports would take each other's
    assert kept in [cookie["name"] for cookie in page.context.cookies()]
    page.reload()
    expect(pinned).to_be_visible(timeout=30_000)
    page.locator("[data-testid=stSidebar]").get_by_role("button", name="Evidence").click()
    expect(page.get_by_role("link", name="Residual on both bases")).to_be_visible()
    stranger = opened("residual?run=sorter")
    expect(stranger.get_by_text("No figure pinned yet")).to_be_visible(timeout=30_000)


def test_a_run_being_trained_is_not_called_ended_and_the_page_follows_it(
    opened: Callable[[str], Page], served: Path
) -> None:
    out = served / "growing"
    more = ["--steps", "100000", "--save_every", "20", "--eval_every", "40", "--eval_size", "8", "--log_every", "20"]
    more += ["--batch_size", "4", "--checkpoint_every", "40"]
    command = [sys.executable, "-P", "-m", "workbench", "train", "sort-tempered", "--out", str(out), *more]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as trainer:
        try:
            until = time.monotonic() + 90
            while not (out / "config.json").exists() or load_run(out).step() < 60:
                assert trainer.poll() is None and time.monotonic() < until
                time.sleep(0.2)
            page = opened("canvas?run=growing")
            facts = page.locator('[data-testid="stSidebar"]').get_by_text(re.compile("of 100,000 steps")).first
            first = facts.inner_text()
            assert "% at step" in first and "the end" not in first
            assert check(page, "while it trains")["step"] == "latest"
            expect(facts).not_to_have_text(first, timeout=60_000)  # by itself
            page.context.close()
            early = opened("canvas?run=growing&step=40")
            facts = early.locator('[data-testid="stSidebar"]').get_by_text(re.compile("of 100,000 steps")).first
            first = facts.inner_text()
            assert "% at step 40" in first and fields(early)["step"] == "40"
            expect(facts).not_to_have_text(first, timeout=60_000)
            settle(early)
            assert "% at step 40" in facts.inner_text() and fields(early)["step"] == "40"
        finally:
            trainer.kill()
    shutil.rmtree(out)


CHANGES: list[tuple[str, Callable[[Page], None]]] = [
    ("number 6", lambda page: fill(page, "Input number", "6")),
    ("another run of the task", lambda page: choose(page, "Run", "sorter")),
    ("number 3", lambda page: fill(page, "Input number", "3")),
    ("a short input", lambda page: fill(page, "Length", "2")),
    ("another task", lambda page: choose(page, "Run", "chain-chacal")),
    ("the checkpoint before", lambda page: step_back(page)),
    ("hard inputs", lambda page: choose(page, "Which inputs", "hardest first, by the loss")),
]


def step_back(page: Page) -> None:
    """Move the slider of checkpoints one to the left."""
    page.locator(".st-key-step input").first.focus()
    page.keyboard.press("ArrowLeft")
    settle(page)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(PAGES))
def test_every_page_shows_what_it_uses_after_every_change_and_a_fresh_browser_the_same(
    opened: Callable[[str], Page], browser: Any, name: str
) -> None:
    path = "" if name == next(iter(PAGES)) else name  # the first page has no name of its own in the URL
    page = opened(f"{path}?run=sort-tempered")
    check(page, "at first")
    again(browser, page, "at first")
    for after, change in CHANGES:
        change(page)
        check(page, after)
        again(browser, page, after)
