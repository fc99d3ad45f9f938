"""Every page can be used by who cannot see it well, or at all: no violation that axe-core finds, in both themes."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.app.browsing import open_page, settle
from workbench.app.views import PAGES

pytestmark = [pytest.mark.browser, pytest.mark.slow]
NOT_OURS = {"stDataFrame"}  # of the pages' own toolkit, which no page can mend


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing(browser: Any, address: str, name: str, dark: bool) -> None:
    page = open_page(browser, f"{address}/{name}?run=chain-chacal", dark=dark)
    expect(page.locator(".st-key-panel-how", has_text="easuring on")).to_have_count(0, timeout=60_000)
    settle(page)  # what is about to change is pale
    page.wait_for_timeout(1000)
    found = [
        f"{violation['id']}: {node['html'][:200]}"
        for violation in Axe().run(page).response["violations"]
        for node in violation["nodes"]
        if not any(kind in str(node) for kind in NOT_OURS)
    ]
    assert not found, "\n".join(found)
