"""The explorer's door, in a real Chromium: what a stranger's page can do, what leaves the machine, what stays."""

from __future__ import annotations

import http.server
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import psutil
import pytest
from playwright.sync_api import expect

import workbench
from tests.app.browsing import browsing, chromium, open_page, started
from workbench.app.views import PAGES

pytestmark = pytest.mark.browser
ADDRESSES = ("", *list(PAGES)[1:])  # the first page is also what opens without a name


@pytest.fixture(scope="module")
def browser(require_chromium: None) -> Iterator[Any]:
    """One for which every name is this machine's: how rebinding ends, without a name server."""
    assert chromium()
    with browsing("--host-resolver-rules=MAP evil.example 127.0.0.1") as found:
        yield found


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs with names that a browser might take for pictures and links."""
    root = tmp_path_factory.mktemp("door")
    small: dict[str, Any] = {"task": {"n": 8, "k": 2}, "eval_size": 16, "steps": 3, "model": {"d_model": 16}}
    workbench.train("chain-chacal", out=root / "![x](http:evil.example)", progress=False, **small)
    workbench.train("chain-chacal", out=root / "plain", progress=False, checkpoint_count=2, **small)
    return root


@pytest.fixture(scope="module")
def server(root: Path, browser: Any) -> Iterator[tuple[subprocess.Popen[str], str]]:
    with started(root) as found:
        yield found


@pytest.fixture(scope="module")
def strangers() -> Iterator[str]:
    """The address of a stranger's page, by the name that leads to this machine."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<title>a stranger's</title>")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield f"http://evil.example:{served.server_port}"
        served.shutdown()


OPENS = """address => new Promise(done => {
    const socket = new WebSocket(address, ["streamlit"]);
    socket.onopen = () => done(true);
    socket.onerror = () => done(false);
})"""


def test_a_page_of_a_name_that_leads_here_drives_nothing(browser: Any, server: Any, strangers: str) -> None:
    port = urlparse(server[1]).port
    page = browser.new_page()
    rebound = page.goto(f"http://evil.example:{port}/?token=guessed")
    assert rebound.status == 421 and "--host" in page.content() and "stApp" not in page.content()
    assert page.goto(strangers).status == 200
    for name in ("evil.example", "localhost", "127.0.0.1"):
        assert not page.evaluate(OPENS, f"ws://{name}:{port}/_stcore/stream"), name
    own = browser.new_page()
    own.goto(f"http://localhost:{port}/")
    assert own.evaluate(OPENS, f"ws://localhost:{port}/_stcore/stream")  # or the lines above would say nothing
    page.close()
    own.close()


def test_the_first_page_answers_to_its_name_as_the_others_do(browser: Any, server: Any) -> None:
    base = f"http://localhost:{urlparse(server[1]).port}"
    for typed, path in (("/overview", "/"), ("/overview?run=plain", "/"), ("/hops?run=plain", "/hops")):
        page = open_page(browser, base + typed)
        assert urlparse(page.url).path == path and page.get_by_text("Page not found").count() == 0, typed
        assert parse_qs(urlparse(page.url).query).get("run", ["plain"]) == ["plain"]
        page.context.close()


def test_nothing_leaves_the_machine(browser: Any, server: Any) -> None:
    address = server[1].split("/?")[0]
    context = browser.new_context()
    asked: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    page = context.new_page()
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text) if "Content Security" in message.text else None)
    for name in ADDRESSES:
        page.goto(f"{address}/{name}?run=plain")
        page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]', timeout=90_000)
        page.wait_for_timeout(500)
        icon = page.locator("link[rel~=icon]").first.evaluate("link => link.href")
        assert icon.startswith((address, "data:")), icon
    own = urlparse(address).netloc
    assert len(asked) > 20 and not [url for url in asked if urlparse(url).netloc not in ("", own)]
    assert not refused  # nothing was only kept in by the browser
    context.close()


def test_only_the_printed_address_may_train_and_a_server_that_ends_leaves_nothing_behind(
    browser: Any, server: tuple[subprocess.Popen[str], str], root: Path
) -> None:
    process, address = server
    stranger = open_page(browser, address.split("/?")[0])
    expect(stranger.get_by_role("button", name="Train it")).to_be_disabled()
    expect(stranger.get_by_text("open the whole address that")).to_be_visible()
    page = open_page(browser, address)
    assert "token=" not in page.url
    page.get_by_label("Steps").fill("20000")
    page.get_by_label("Steps").press("Tab")
    page.get_by_label("Name of the run").fill("begun")
    page.get_by_label("Name of the run").press("Tab")
    page.get_by_role("button", name="Train it").click()
    stop = ".st-key-demo_stop button"  # not the toolbar's, which stops what computes
    page.locator(stop).wait_for(timeout=60_000)
    expect(page.locator(stop)).to_be_enabled()
    stranger.reload()
    stranger.locator(stop).wait_for(timeout=60_000)
    expect(stranger.locator(stop)).to_be_disabled()
    own = psutil.Process(process.pid)
    family = [own, *own.children(recursive=True)]
    assert len(family) == 2, "the server and the run it trains"
    until = time.monotonic() + 60
    while not (root / "begun" / "config.json").exists() and time.monotonic() < until:
        time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    gone, left = psutil.wait_procs(family, timeout=30)
    assert not left and len(gone) == 2


def test_ctrl_c_ends_the_server_at_once_and_quietly(tmp_path: Path) -> None:
    with started(tmp_path) as (process, _):
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0


@pytest.mark.parametrize("ending", [signal.SIGHUP, signal.SIGKILL, signal.SIGINT])
def test_a_run_that_the_server_trains_ends_with_it_however_it_ends(ending: signal.Signals, tmp_path: Path) -> None:
    """Without a browser: a process that starts a demo run as the server does."""
    code = f"""
import sys, time; from pathlib import Path; from workbench.app.server.demo import Slot
slot = Slot(); slot.start(Path({str(tmp_path)!r}), "begun", "chain-chacal", 20_000, 0)
print(slot.demo.process.pid, flush=True); time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.send_signal(ending)
        gone, left = psutil.wait_procs([child], timeout=60)
        assert gone and not left
