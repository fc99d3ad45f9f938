"""The page Circuit on a demo run and 512 pairs: seconds to measure, and milliseconds from a click to the updated page.

Chromium and the server share this machine's cores. A click on an edge is timed in the page itself, from the moment it
is made to the first frame in which both the drawing and the line under it are new.

python tests/benchmarks/bench_circuit_page.py            print the table
python tests/benchmarks/bench_circuit_page.py --write    and put it into README.md beside this file
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from harness import Table, main

sys.path.insert(0, str(Path(__file__).parents[2]))

import workbench
from tests.app.browsing import browsing, measured, open_page, serving, settle
from workbench.app import state
from workbench.app.panels.circuit import Asked, measure

PAIRS, CLICKS, TIMES = 512, 20, 3
FIRST = 3  # clicks, which compile

CLICK = """async (index) => {
  const find = (root, selector) => {
    for (const host of root.querySelectorAll('*')) {
      const hit = host.shadowRoot?.querySelectorAll(selector)
      if (hit?.length) return hit
    }
    return root.querySelectorAll(selector)
  }
  const line = () => document.querySelector('.st-key-by-hand')?.innerText
  const drawing = () => find(document, 'svg[aria-label^="A circuit of"]')[0]?.outerHTML
  const edges = [...find(document, '.reach')].sort((a, b) => (a.dataset.name < b.dataset.name ? -1 : 1))
  const before = [line(), drawing()], start = performance.now()
  edges[index % edges.length].dispatchEvent(new MouseEvent('click', { bubbles: true, composed: true }))
  while ((line() === before[0] || drawing() === before[1]) && performance.now() - start < 10000)
    await new Promise(requestAnimationFrame)
  return performance.now() - start
}"""


def clicks(page: Any, edges: range) -> list[float]:
    """Milliseconds from each of many clicks to the updated page: each changes another edge, so nothing is cached."""
    taken = []
    for index in edges:
        taken.append(float(page.evaluate(CLICK, index)))
        page.wait_for_timeout(250)
    return taken


def circuit_page() -> Table:
    table = Table("circuit-page", "what", "median", "most, or 95th percentile")
    with tempfile.TemporaryDirectory() as folder, browsing() as browser:
        root = Path(folder)
        run = workbench.train("chain-chacal", out=root / "demo", progress=False)
        kind = next(iter(run.task().pair_kinds))
        seconds = []
        for _ in range(TIMES):
            start = time.perf_counter()
            measure(Asked(state.opened(run), kind, "logit_difference", "eap_ig", PAIRS))
            seconds.append(time.perf_counter() - start)
        what = f"a circuit of {PAIRS} pairs, all that the page shows ({TIMES} times)"
        table.add(what, f"{statistics.median(seconds):.2f} s", f"{max(seconds):.2f} s")
        table.ask(f"seconds to measure {PAIRS} pairs", statistics.median(seconds), most=10)
        with serving(root) as address:
            page = open_page(browser, f"{address}/circuit?run=demo&n_pairs={PAIRS}")
            measured(page)
            settle(page)
            clicks(page, range(CLICKS, CLICKS + FIRST))
            taken = sorted(clicks(page, range(CLICKS)))
            median, high = statistics.median(taken), taken[int(0.95 * len(taken)) - 1]
            table.add(f"click on an edge, {PAIRS} pairs ({CLICKS} clicks)", f"{median:.0f} ms", f"{high:.0f} ms")
            table.ask("click to the updated page: 95th percentile, milliseconds", high, most=800)
    return table


if __name__ == "__main__":
    main(__doc__, circuit_page)
