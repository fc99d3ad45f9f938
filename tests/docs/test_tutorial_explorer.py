"""The tutorial of the explorer is walked in a browser, and every sentence that it quotes is read there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.app.browsing import browsing, chromium, open_page, settle, started
from tests.docs.pages import ROOT

TUTORIAL = ROOT / "docs" / "tutorial-explorer.md"


@pytest.mark.browser
@pytest.mark.slow
def test_each_step_of_the_explorers_tutorial_shows_what_it_quotes(tmp_path: Path) -> None:
    if chromium() is None:
        pytest.skip("needs Chromium or Google Chrome")
    with started(tmp_path) as (_, address), browsing() as browser:
        page = open_page(browser, address)
        quotes = re.findall(r"^> (.+)$", TUTORIAL.read_text(encoding="utf-8"), re.M)
        overview, head, cut, hop, mass, claims = quotes
        shown(page, overview)
        page.get_by_text("How does one layer follow seven pointers?").click()
        page.wait_for_url("**/canvas?*")
        settle(page)
        shown(page, head)
        page.locator('[data-edge="31,24"]').first.dispatch_event("click")
        shown(page, cut)
        page.locator(".st-key-clicked").get_by_role("button", name="Undo").click()
        settle(page)
        page.get_by_role("link", name="Hops").click()
        settle(page)
        expect(page.get_by_text(hop)).to_be_visible()  # beside the drawing, in a part of the page of its own
        shown(page, mass)
        page.get_by_role("link", name="Mechanisms").click()
        settle(page)
        shown(page, claims)
        page.get_by_role("button", name="Code").first.click()
        expect(page.get_by_role("button", name="Pin as evidence")).to_be_visible()


def shown(page: Any, words: str) -> None:
    """Wait until the page has these words."""
    expect(page.locator('[data-testid="stMain"]')).to_contain_text(words, timeout=60_000)
