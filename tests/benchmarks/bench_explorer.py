"""The explorer in a browser: from a click to the updated page, the first page, a 512-token input, and a long session.

Chromium and the server share this machine's cores. A click is timed in the page itself, from the moment it is made to
the first frame that shows what is new: of a cell its panel, of another input the whole page, on every page there is.
What the server computes for a click is its processor time, and its memory is that of all its processes.

python tests/benchmarks/bench_explorer.py            print the table
python tests/benchmarks/bench_explorer.py --write    and put it into README.md beside this file
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness import Table, main

sys.path.insert(0, str(Path(__file__).parents[2]))

import workbench
from tests.app.browsing import browsing, measured, open_page, settle, started
from workbench.app.views import PAGES

ZOO = Path(__file__).parents[2] / "app" / "zoo"
CELL = '.cell[data-point*="hook"]'  # of the residual, not a head among the small patterns
CLICKS = 60
STARTS = 5  # of a server and a browser, to the first page
INPUTS = 20  # clicks to another input on each page
SESSION = 1000  # interactions after which the server's memory is looked at again
WARM = 100  # of them before it is looked at first, while caches fill

CLICK = """async ([selector, index]) => {
  const find = (root, selector) => {
    for (const host of root.querySelectorAll('*')) {
      const hit = host.shadowRoot?.querySelectorAll(selector)
      if (hit?.length) return hit
    }
    return root.querySelectorAll(selector)
  }
  const title = () => find(document, '[aria-label^="Tokens at position"]')[0]?.getAttribute('aria-label')
  const cells = find(document, selector), before = title(), start = performance.now()
  cells[index % cells.length].dispatchEvent(new MouseEvent('click', { bubbles: true, composed: true }))
  while (title() === before && performance.now() - start < 10000) await new Promise(requestAnimationFrame)
  return performance.now() - start
}"""


def clicks(page: Any, selector: str) -> list[float]:
    """Milliseconds from each of many clicks on different cells to the panel that names the new cell."""
    taken = []
    for i in range(CLICKS):
        taken.append(float(page.evaluate(CLICK, [selector, 7 + 37 * i])))
        page.wait_for_timeout(250)
    return taken


def until(page: Any, url: str, selector: str) -> float:
    """Seconds from asking for an address to seeing something of it."""
    start = time.perf_counter()
    page.goto(url)
    page.wait_for_selector(selector, timeout=60_000)
    return time.perf_counter() - start


GAMMA = """async (value) => {
  const find = (root) => root.querySelector('.hops input[aria-label^="γ"]') ?? [...root.querySelectorAll("*")]
    .map((host) => host.shadowRoot && find(host.shadowRoot)).find(Boolean)
  const field = find(document), start = performance.now()
  field.value = value
  field.dispatchEvent(new Event("input", { bubbles: true }))
  await new Promise(requestAnimationFrame)
  return performance.now() - start
}"""


def gamma(table: Table, page: Any) -> None:
    """Another γ while a token's paths are followed, which the page does by itself."""
    page.locator(".hops .play").click()
    page.wait_for_timeout(4000)
    taken = sorted(float(page.evaluate(GAMMA, str(0.3 + 0.6 * i / CLICKS))) for i in range(CLICKS))
    median, high = statistics.median(taken), taken[int(0.95 * len(taken)) - 1]
    table.add(f"another γ, in the page ({CLICKS} times)", f"{median:.0f} ms", f"{high:.0f} ms")
    table.ask("γ: 95th percentile, milliseconds", high, most=50)


NEXT = """async () => {
  const field = () => document.querySelector(".st-key-sample input").value
  const done = () => document.querySelector('[data-testid="stApp"]').dataset.testScriptState === "notRunning"
  const before = field(), start = performance.now()
  document.querySelector(".st-key-step-next button").click()
  while ((field() === before || !done()) && performance.now() - start < 30000) await new Promise(requestAnimationFrame)
  return performance.now() - start
}"""


def processor_seconds(group: int) -> float:
    """Seconds that a server's processes have computed so far."""
    return sum(sum(map(int, fields[11:13])) for fields in _processes(group)) / os.sysconf("SC_CLK_TCK")


def megabytes(group: int) -> float:
    """Resident memory of a server's processes."""
    return sum(int(fields[21]) for fields in _processes(group)) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _processes(group: int) -> list[list[str]]:
    """The fields of `/proc/…/stat` from the third on, of the processes of a group."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            fields = path.read_text(encoding="utf-8").rsplit(")", 1)[1].split()
            if int(fields[2]) == group:
                found.append(fields)
    return found


def every_page(table: Table, browser: Any, address: str, server: int) -> None:
    """To another input on each page: in the browser until the page is made, and what the server computes for it."""
    for name in PAGES:
        page = open_page(browser, f"{address}/{name}?run=demo")
        measured(page)  # what is computed beside the page would count as the click's
        for _ in range(3):  # these compile and cache
            page.evaluate(NEXT)
        before, taken = processor_seconds(server), []
        for _ in range(INPUTS):
            taken.append(float(page.evaluate(NEXT)))
        computed = (processor_seconds(server) - before) / INPUTS
        page.context.close()
        taken.sort()
        median, high = statistics.median(taken), taken[int(0.95 * len(taken)) - 1]
        what = f"another input, {name} page ({INPUTS} clicks; {computed:.2f} s of the server's processor each)"
        table.add(what, f"{median:.0f} ms", f"{high:.0f} ms")
        table.ask(f"another input, {name}: median milliseconds", median, most=300)
        table.ask(f"another input, {name}: 95th percentile, milliseconds", high, most=800)
        table.ask(f"another input, {name}: server seconds a click", computed, most=0.25)


HEAD = """async (head) => {
  const maps = () => [...document.querySelectorAll('*')].map((host) => host.shadowRoot).filter(Boolean)
  const titles = () => maps().map((root) => root.querySelector('svg[aria-label]')?.getAttribute('aria-label') ?? '')
  const cell = maps().map((root) => root.querySelector(`.cell[data-cell="0,${head}"]`)).find(Boolean)
  const start = performance.now()
  cell.dispatchEvent(new MouseEvent('click', { bubbles: true, composed: true }))
  const done = () => titles().filter((title) => title.includes(`layer 0, head ${head}`)).length === 2
  while (!done() && performance.now() - start < 10000) await new Promise(requestAnimationFrame)
  return performance.now() - start
}"""


def another_head(table: Table, browser: Any, address: str) -> None:
    """On the page Weights, from a click on another head to its map and the bars of its strongest entry."""
    page = open_page(browser, f"{address}/weights?run=demo")
    page.wait_for_selector("[data-grid]")
    settle(page)
    taken = []
    for i in range(1, INPUTS + 4):
        taken.append(float(page.evaluate(HEAD, i % 4)))
        page.wait_for_timeout(400)
    page.close()
    taken = sorted(taken[3:])  # the first ones cache
    median, high = statistics.median(taken), taken[int(0.95 * len(taken)) - 1]
    table.add(f"another head, weights page ({INPUTS} clicks)", f"{median:.0f} ms", f"{high:.0f} ms")
    table.ask("another head, weights: median milliseconds", median, most=300)


PANELS = {
    "entropy": ".st-key-panel-entropy .main-svg",
    "mechanisms": "[class*=st-key-claim-card-]",
    "hops": ".st-key-panel-hops-mass .main-svg",
}
TO_A_PAGE = """async (link, panel) => {
  const waits = () => document.querySelector("[data-testid=stSpinner], [data-testid=stProgress]")
  const drawn = () => document.querySelector(panel)
  const start = performance.now()
  const after = async (what) => {
    while (!what() && performance.now() - start < 60000) await new Promise(requestAnimationFrame)
    return performance.now() - start
  }
  link.click()
  return [await after(() => waits() || drawn()), await after(drawn)]
}"""


def held_out(table: Table, browser: Any, address: str, runs: list[str]) -> None:
    """From a click on a page to its panel of held-out sequences of 512 tokens, of runs that nothing is known of."""
    page = open_page(browser, f"{address}/hops?run=demo", width=1600)  # where the menu has room for all pages
    for name, panel in PANELS.items():
        progress, taken = [], []
        for run in runs:
            page.goto(f"{address}/residual?run={run}")
            page.wait_for_selector(CELL)
            settle(page)
            first, last = page.get_by_role("link", name=name.title()).evaluate(TO_A_PAGE, panel)
            progress.append(first / 1e3)
            taken.append(last / 1e3)
            measured(page)
        what = f"512 tokens, held out: {name} page, progress shown after {statistics.median(progress):.1f} s"
        table.add(f"{what} ({len(runs)} runs)", f"{statistics.median(taken):.2f} s", f"{max(taken):.2f} s (most)")
        table.ask(f"held out at 512 tokens, {name}: seconds, most", max(taken), most=5)
    page.close()


def long_session(table: Table, browser: Any, address: str, server: int) -> None:
    """The server's memory over many interactions of one browser."""
    page = open_page(browser, f"{address}/canvas?run=demo")
    for _ in range(WARM):
        page.evaluate(NEXT)
    first = megabytes(server)
    for _ in range(SESSION - WARM):
        page.evaluate(NEXT)
    last = megabytes(server)
    page.context.close()
    table.add(f"the server's memory after {WARM} and after {SESSION} interactions", f"{first:.0f} MB", f"{last:.0f} MB")
    table.ask(f"memory after {SESSION} interactions, over that after {WARM}", last / first, most=1.1)


def first_page(table: Table, root: Path) -> None:
    """From asking for the address to the runs, each time with a server and a browser that were just started."""
    taken = []
    for _ in range(STARTS):
        with started(root) as (_, opened), browsing() as browser:
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            taken.append(until(page, opened.split("/?")[0], '[data-testid="stMainBlockContainer"] h3'))
    median = statistics.median(taken)
    table.add(
        f"first page, server and browser just started ({STARTS} times)", f"{median:.2f} s", f"{max(taken):.2f} s (most)"
    )
    table.ask("seconds to the first page, median", median, most=2)


def heights(table: Table, browser: Any) -> None:
    """How far each page of the runs that come along scrolls before anything is folded out."""
    tallest: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as empty, started(Path("runs"), cwd=empty) as (_, opened):
        for run in sorted(path.parent.name for path in ZOO.glob("*/config.json")):
            for name in PAGES:
                page = open_page(browser, f"{opened.split('/?')[0]}/{name}?run={run}")
                measured(page)
                main = "document.querySelector('[data-testid=stMainBlockContainer]')"
                tallest[f"{name} of {run}"] = int(page.evaluate(f"{main}.scrollHeight"))
                page.context.close()
    name = max(tallest, key=lambda name: tallest[name])
    median = statistics.median(tallest.values())
    what = f"height of a page of the zoo's runs, 1280 px wide ({len(tallest)} pages; most: {name})"
    table.add(what, f"{median:.0f} px", f"{tallest[name]} px (most)")
    table.ask("height of the tallest page in pixels", tallest[name], most=2000)


def on_a_cell(table: Table, browser: Any, address: str) -> None:
    """From a click on a cell to its panel."""
    for name in ("canvas", "residual"):
        page = open_page(browser, f"{address}/{name}?run=demo")
        page.wait_for_selector(CELL)
        settle(page)
        clicks(page, CELL)  # the first ones compile and cache
        taken = sorted(clicks(page, CELL))
        median, high = statistics.median(taken), taken[int(0.95 * len(taken)) - 1]
        table.add(f"click on a cell, {name} page ({CLICKS} clicks)", f"{median:.0f} ms", f"{high:.0f} ms")
        table.ask(f"{name}: median milliseconds", median, most=300)
        table.ask(f"{name}: 95th percentile, milliseconds", high, most=800)
        page.close()


def long_input(table: Table, browser: Any, address: str, run: str) -> None:
    """Another γ of the demo run, and the canvas of inputs of 512 tokens."""
    page = open_page(browser, f"{address}/canvas?run=demo")
    gamma(table, page)
    taken = []
    for sample in range(5):
        taken.append(until(page, f"{address}/canvas?run={run}&sample={sample}", ".cell"))
        settle(page)
    page.close()
    table.add(
        "512 tokens: a new page with the whole canvas (5 inputs)",
        f"{statistics.median(taken):.2f} s",
        f"{max(taken):.2f} s (most)",
    )
    table.ask("seconds to the canvas of 512 tokens", max(taken[1:]), most=2)


def explorer() -> Table:
    table = Table("explorer", "what", "median", "95th percentile")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        workbench.train("chain-chacal", out=root / "demo", progress=False)
        runs = [f"long-{seed}" for seed in range(5)]
        for seed, run in enumerate(runs):
            workbench.train("chain-chacal", out=root / run, progress=False, steps=0, task={"n": 512}, seed=seed)
        first_page(table, root)
        with browsing() as browser, started(root) as (server, opened):
            address = opened.split("/?")[0]
            on_a_cell(table, browser, address)
            long_input(table, browser, address, runs[0])
            another_head(table, browser, address)
            every_page(table, browser, address, server.pid)
            heights(table, browser)
            held_out(table, browser, address, runs)
            long_session(table, browser, address, server.pid)
    return table


if __name__ == "__main__":
    main(__doc__, explorer)
