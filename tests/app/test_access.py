"""Every page can be used by who cannot see it well, or at all, and on a small screen.

No violation that axe-core finds, in both themes; and nothing that is cut off on a phone, or at 200 %.
"""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.app.browsing import measured, open_page, settle
from workbench.app.views import PAGES

pytestmark = [pytest.mark.browser, pytest.mark.slow]
NOT_OURS = {"stDataFrame"}  # of the pages' own toolkit, which no page can mend

CUT_OFF = """() => {
  const cut = new Set(), main = document.querySelector('[data-testid="stMain"]');
  if (main.scrollWidth > main.clientWidth) cut.add('the page is wider than the screen');
  for (const one of main.querySelectorAll('p, td, th, h1, h2, h3, svg text')) {
    const box = one.getBoundingClientRect();
    if (!box.width || !box.height || !one.textContent.trim() || one.closest('.heard')) continue;
    for (let up = one.parentElement; up !== main; up = up.parentElement) {
      const across = getComputedStyle(up).overflowX, frame = up.getBoundingClientRect();
      if (across === 'auto' || across === 'scroll') break;  // it can be scrolled to
      const clips = across !== 'visible' || up.dataset.testid === 'stMarkdownContainer';
      if (clips && (box.right > frame.right + 2 || box.left < frame.left - 2)) {
        cut.add(`${one.tagName}: ${one.textContent.slice(0, 60)}`);
        break;
      }
    }
  }
  return [...cut];
}"""
"""Texts that lie outside of what shows them, or of their own place in the page, and cannot be scrolled to."""


@pytest.mark.parametrize("width", [390, 640], ids=["phone", "200 percent"])
@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_cut_off_on_a_small_screen(browser: Any, address: str, name: str, width: int) -> None:
    page = open_page(browser, f"{address}/{name}?run=chain-chacal", width=width)
    measured(page)
    assert page.evaluate(CUT_OFF) == []


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
