"""Pictures of every page of the explorer: light and 1280 pixels wide, as the docs have them.

python -m tests.app.screenshots --out docs/explorer
python -m tests.app.screenshots --out docs/explorer --all      # dark and 1920 pixels wide, too

Of the runs that come with the workbench, as everyone sees them who opens the explorer on an empty folder.
"""

from __future__ import annotations

import argparse
import io
import re
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image
from playwright.sync_api import expect

from tests.app.browsing import browsing, open_page, settle, started
from workbench.app.views import PAGES
from workbench.figures.pictures import in_few_colours

QUERIES = {
    "overview": "?run=chain-chacal",
    "story": "story?run=chain-chacal&chapter=Chain+following",
    "canvas": "canvas?run=chain-chacal",
    "residual": "residual?run=sort-tempered&length=9",
    "entropy": "entropy?run=multiply-vanilla&overlay=multiply-seqvcr&show-entropy-runs=true",
    "weights": "weights?run=sort-tempered&head=1.0&circuit_kind=OV%3A+what+reading+a+token+writes",
    "hops": "hops?run=chain-chacal",
    "mechanisms": "mechanisms?run=sort-tempered&length=9",
    "circuit": "circuit?run=multiply-vanilla",
    "training": "training?run=chain-chacal",
    "probes": "probes?run=sort-tempered&show-probe-use=true&probe_causal=true",
    "compare": "compare?run=chain-chacal&run2=chain-standard&show-compare-canvas=true",
}
"""Page -> its address, where it shows most with a run or a setting of its own."""

TALLEST = 3200
WIDTHS, THEMES = (1280, 1920), ("light", "dark")
KEPT = {"canvas": THEMES}  # page -> the themes in which the docs show it; the others are light


def taken(page: Any, width: int) -> Image.Image:
    """The whole page, however far it scrolls."""
    settle(page)
    page.wait_for_timeout(2500)
    waiting = page.locator('[data-testid="stCaptionContainer"]', has_text=re.compile("easur.*…"))
    expect(waiting).to_have_count(0, timeout=120_000)
    settle(page)
    height = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
    page.set_viewport_size({"width": width, "height": min(max(800, height), TALLEST)})
    settle(page)
    return Image.open(io.BytesIO(page.screenshot()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--all", action="store_true", help="every theme and width, not those of the docs alone")
    parser.add_argument("--only", nargs="*", default=list(PAGES), choices=list(PAGES))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as empty, started(Path("runs"), cwd=empty) as (_, opened), browsing() as browser:
        address = opened.split("/?")[0]
        for name in options.only:
            themes, widths = (THEMES, WIDTHS) if options.all else (KEPT.get(name, THEMES[:1]), WIDTHS[:1])
            for theme, width in product(themes, widths):
                page = open_page(browser, f"{address}/{QUERIES.get(name, name)}", width=width, dark=theme == "dark")
                file = options.out / f"{name}-{theme}-{width}.png"
                taken(page, width).save(file)
                in_few_colours(file)
                page.context.close()


if __name__ == "__main__":
    main()
