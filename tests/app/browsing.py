"""The explorer in a real browser: its server, the system's Chromium, and the waits that both need."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

from playwright.sync_api import Page, sync_playwright

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


def chromium() -> str | None:
    """The system's browser, if there is one."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@contextmanager
def browsing(*flags: str) -> Iterator[Any]:
    """A headless Chromium."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=[*FLAGS, *flags])
        yield browser
        browser.close()


@contextmanager
def started(
    root: Path, *more: str, python: str | Path = sys.executable, **how: Any
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The explorer, started by its own command; the process, and the address that it prints, with its token."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    command = [str(python), "-m", "workbench", "explore", "--root", str(root), "--port", str(port), "--headless"]
    server = subprocess.Popen([*command, *more], stdout=subprocess.PIPE, text=True, start_new_session=True, **how)
    with server:
        try:
            assert server.stdout is not None
            yield server, next(part for part in server.stdout.readline().split() if part.startswith("http"))
        finally:
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGTERM)


@contextmanager
def serving(root: Path) -> Iterator[str]:
    """The same, and its address as anyone on this machine knows it: without the token."""
    with started(root) as (_, address):
        yield address.split("/?")[0]


def settle(page: Page) -> None:
    """Wait until Streamlit is done and the charts stand still."""
    page.wait_for_timeout(300)
    page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]', timeout=90_000)
    page.wait_for_function("!document.querySelector('[data-testid=\"stSkeleton\"]')")  # a part that is still loading
    page.wait_for_function(
        "[...document.querySelectorAll('[data-testid=\"stPlotlyChart\"]')].every(one => one.querySelector('.main-svg'))"
    )
    drawn: list[str] | None = None
    while drawn != (now := headings(page)):  # a busy machine draws one figure after the other
        drawn = now
        page.wait_for_timeout(700)


def measured(page: Page) -> None:
    """Wait until nothing is being measured beside the page, and what was measured is drawn."""
    waiting = "/To be measured|Measuring /.test(document.querySelector('[data-testid=\"stMain\"]').innerText)"
    page.wait_for_function(f"!{waiting}", timeout=120_000)
    settle(page)


def choose(page: Page, label: str, option: str) -> None:
    """Choose in a select box, as a person does."""
    field = page.get_by_role("combobox", name=label).first
    field.click()
    field.fill(option)  # of many options only those in view are there
    page.get_by_role("option", name=option, exact=True).click()
    settle(page)


def choose_head(page: Page, layer: int, head: int, key: str = "head") -> None:
    """Click a head among the small patterns, as a person does."""
    page.locator(f'.st-key-grid-{key} [data-cell="{layer},{head}"]').click()
    settle(page)


def fill(page: Page, label: str, text: str) -> None:
    """Type into a field, as a person does."""
    field = page.get_by_label(label, exact=True).first
    field.fill(text)
    field.press("Enter")
    settle(page)


FIELDS = """() => {
  const found = {}
  const inside = (place) => [...place.querySelectorAll("*")].map((host) => host.shadowRoot).find(Boolean)
  for (const place of document.querySelectorAll('[data-testid="stElementContainer"][class*="st-key-"]')) {
    const key = place.className.match(/st-key-(\\S+)/)[1]
    const one = (selector) => place.querySelector(selector)
    if (one('[data-testid="stSlider"]')) found[key] = one('[data-testid="stSliderThumbValue"]').innerText
    else if (one('[data-testid="stButtonGroup"]')) found[key] = one('[aria-checked="true"]')?.innerText ?? "nothing"
    else if (one('[data-testid="stRadio"]')) found[key] = one("label:has(input:checked) p")?.innerText ?? "nothing"
    else if (one('[data-testid="stCheckbox"]')) found[key] = one("input").checked ? "true" : ""
    else if (/^grid-/.test(key)) {
      const chosen = inside(place)?.querySelector(".chosen")
      if (chosen) found[key.slice(5)] = chosen.dataset.tip.match(/layer \\d+, head \\d+/)[0]
    }
    else if (one('[data-testid="stSelectbox"], [data-testid="stNumberInput"], [data-testid="stTextInput"]'))
      found[key] = one("input").value
  }
  return found
}"""


def fields(page: Page) -> dict[str, str]:
    """What the browser shows in every field of the page: key -> text, as a person reads it."""
    found: dict[str, str] = page.evaluate(FIELDS)
    return found


def headings(page: Page) -> list[str]:
    """The titles of every drawing and plot of the page, which the server made of what is used."""
    drawn = page.locator("svg[aria-label][role=img]").evaluate_all(
        "all => all.map(one => one.ariaLabel ?? one.getAttribute('aria-label')).filter(Boolean)"
    )
    plotted = page.locator(".js-plotly-plot").evaluate_all(
        "all => all.map(one => one.layout?.meta?.title).filter(Boolean)"
    )
    return [*drawn, *plotted]


def address_of(page: Page) -> dict[str, str]:
    """The parameters of the page's address, each of which is there once."""
    found = parse_qs(urlparse(page.url).query)
    assert all(len(values) == 1 for values in found.values()), page.url
    return {key: values[0] for key, values in found.items()}


def open_page(browser: Any, url: str, *, width: int = 1280, dark: bool = False) -> Page:
    """A fresh browser at this address, when everything is drawn."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light", accept_downloads=True
    )
    page = context.new_page()
    page.goto(url)
    page.wait_for_selector(
        '[data-testid="stMainBlockContainer"] [data-testid="stElementContainer"]', state="attached", timeout=90_000
    )
    settle(page)
    return page
