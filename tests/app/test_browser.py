"""The explorer in a real headless Chromium, started by its own command."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, sync_playwright

pytestmark = pytest.mark.browser
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        message = "no Chromium on this machine; install it with: apt-get install chromium"
        if os.environ.get("WORKBENCH_REQUIRE_BROWSER"):
            pytest.fail(message)
        pytest.skip(message)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def address(run_root: Path, browser: Any) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "workbench", "explore", "--root", str(run_root), "--port", str(port), "--headless"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True) as server:
        try:
            address = f"http://localhost:{port}"
            for _ in range(120):
                try:
                    urllib.request.urlopen(f"{address}/_stcore/health", timeout=1)
                    break
                except OSError:
                    time.sleep(0.5)
            yield address
        finally:
            os.killpg(server.pid, 15)


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(address)
    page.wait_for_selector('[data-testid="stPlotlyChart"] .main-svg', timeout=90_000)
    settle(page)
    yield page
    page.close()


def settle(page: Page) -> None:
    """Wait until Streamlit is done and the charts stand still."""
    page.wait_for_selector('[data-testid="stStatusWidget"]', state="detached", timeout=60_000)
    page.wait_for_timeout(1500)


def test_page_shows_no_error_and_no_empty_panel(page: Page) -> None:
    assert page.locator('[data-testid="stException"]').count() == 0
    charts = page.locator('[data-testid="stPlotlyChart"]')
    assert charts.count() == 6
    for i in range(charts.count()):
        charts.nth(i).scroll_into_view_if_needed()
        page.wait_for_timeout(300)
        drawn = charts.nth(i).locator(".trace, .hm, .bars .point, .scatterlayer path, image").count()
        assert drawn > 0, charts.nth(i).inner_text()


def test_clicking_a_cell_shows_the_tokens_behind_it(page: Page) -> None:
    title = page.locator(".gtitle", has_text="Tokens at position")
    before = title.first.text_content()
    chart = page.locator('[data-testid="stPlotlyChart"]', has_text="Top token in the decoder basis")
    chart.scroll_into_view_if_needed()
    box = chart.locator(".nsewdrag").first.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] * 0.11, box["y"] + box["height"] * 0.75)
    settle(page)
    after = page.locator(".gtitle", has_text="Tokens at position").first.text_content()
    assert before != after and "position 3:" in str(after)


def test_the_server_listens_on_localhost_alone(address: str) -> None:
    """A server bound to every interface would answer on any loopback address, not only on localhost's."""
    port = int(address.rsplit(":", 1)[1])
    with pytest.raises(OSError), socket.create_connection(("127.0.0.2", port), timeout=1):
        pass
