"""The report's one page as a browser shows it: the finding first, on a wide screen and on a phone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from workbench.report import inspect

pytestmark = pytest.mark.browser
FIRST_SCREEN = {"wide": (1280, 900), "phone": (390, 844)}


@pytest.fixture(scope="module")
def report(run_root: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a report of two runs, with drawings, plots and tables."""
    out, only = tmp_path_factory.mktemp("report"), ["accuracy", "overall", "gold_mass", "path_mass"]
    runs = [run_root / "chain-chacal", run_root / "chain-standard"]
    return f"file://{inspect(runs, out=out, n=8, only=only).html}"


def opened(browser: Any, report: str, screen: str) -> Page:
    width, height = FIRST_SCREEN[screen]
    page: Page = browser.new_page(viewport={"width": width, "height": height})
    page.goto(report)
    expect(page.locator(".main-svg").first).to_be_attached()
    return page


@pytest.mark.parametrize("screen", FIRST_SCREEN)
def test_what_was_found_is_on_the_first_screen_and_nothing_is_wider(browser: Any, report: str, screen: str) -> None:
    page = opened(browser, report, screen)
    expect(page.locator(".found li").first).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth") == FIRST_SCREEN[screen][0]


def test_contents_stand_beside_the_text_or_are_unfolded_above_it(browser: Any, report: str) -> None:
    page = opened(browser, report, "phone")
    entry = page.get_by_role("navigation").get_by_role("link", name="Path mass by hop")
    expect(entry).to_be_hidden()
    page.get_by_text("Contents", exact=True).click()
    entry.click()
    expect(page.get_by_role("heading", name="Path mass by hop")).to_be_in_viewport()
    page.set_viewport_size({"width": 1280, "height": 900})  # the plots are drawn anew
    expect(entry).to_be_visible(timeout=30_000)
    page.set_viewport_size({"width": 390, "height": 844})
    expect(entry).to_be_hidden(timeout=30_000)


def test_axe_finds_nothing_in_a_report(browser: Any, report: str) -> None:
    found = Axe().run(opened(browser, report, "wide")).response["violations"]
    assert not [f"{one['id']}: {node['html'][:200]}" for one in found for node in one["nodes"]]
