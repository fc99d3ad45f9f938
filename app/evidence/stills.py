"""Pins as pictures that need no script: charts drawn by a browser on this machine, and pages photographed by it."""

from __future__ import annotations

import asyncio
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Sequence
from html import escape
from pathlib import Path
from threading import Lock
from typing import Any
from warnings import catch_warnings, simplefilter

import plotly.graph_objects as go
import plotly.io

from workbench.app.evidence.pin import Pin, figure_of
from workbench.figures.for_paper import PIXELS_PER_INCH, for_paper
from workbench.figures.pictures import quiet_browser
from workbench.util.distribution import needs
from workbench.util.messages import brief

WIDTH, HEIGHT, TALLEST = 1000, 450, 2000  # pixels of a chart: as wide as a report's, as tall as it says it is
SECONDS = 60  # for one photograph
MOST_KEPT = 100  # charts that were drawn
Still = str | ValueError  # a figure's SVG, or why there is none
Size = tuple[int, int]
_KEPT: dict[tuple[str, Size | None], str] = {}
_ONE_AT_A_TIME = Lock()


def drawn(pins: Sequence[Pin], size: Size | None = None) -> list[Still]:
    """The SVG of each pin, or why it cannot be drawn.

    Args:
        pins: the pins.
        size: pixels for which charts are laid out as for print, without their titles; None: as on the screen.
    """
    charts: dict[str, Still] = {}
    with _ONE_AT_A_TIME, quiet_browser():
        wanted = dict.fromkeys(pin.chart for pin in pins if pin.chart is not None)
        charts |= {chart: _KEPT[chart, size] for chart in wanted if (chart, size) in _KEPT}
        new = [chart for chart in wanted if chart not in charts]
        charts |= dict(zip(new, _drawn_now(new, size), strict=True))
        _KEPT.update({(chart, size): still for chart, still in charts.items() if isinstance(still, str)})
        for key in list(_KEPT)[:-MOST_KEPT]:
            del _KEPT[key]
    return [charts[pin.chart] if pin.chart is not None else str(pin.drawing) for pin in pins]


def _drawn_now(charts: Sequence[str], size: Size | None) -> list[Still]:
    """Draw charts, all with one browser; none is started for those that cannot be read."""
    figures = [_laid_out(chart, size) for chart in charts]
    if all(isinstance(figure, ValueError) for figure in figures):
        return [figure for figure in figures if isinstance(figure, ValueError)]
    try:
        needs("kaleido", "a chart that shows without a script")
        import kaleido

        kaleido.start_sync_server(silence_warnings=True)
    except (ValueError, RuntimeError, OSError) as error:
        return [figure if isinstance(figure, ValueError) else _no_browser(error) for figure in figures]
    try:
        return [figure if isinstance(figure, ValueError) else _svg(figure) for figure in figures]
    finally:
        kaleido.stop_sync_server(silence_warnings=True)


def _svg(figure: go.Figure) -> Still:
    try:
        with catch_warnings():
            simplefilter("ignore")  # that options of ours, which there are none of, are not used
            return bytes(plotly.io.to_image(figure, "svg")).decode()
    except (ValueError, RuntimeError, OSError) as error:
        return _no_browser(error)


def _laid_out(chart: str, size: Size | None) -> go.Figure | ValueError:
    """A chart's figure with its size; or why it cannot be read."""
    try:
        figure = figure_of(chart)
        if size is None:
            return figure.update_layout(width=WIDTH, height=min(figure.layout.height or HEIGHT, TALLEST))
        width, height = size
        return for_paper(figure, width=width / PIXELS_PER_INCH, words=False, height=min(height, 2 * width))
    except ValueError as error:
        return error
    except (TypeError, AttributeError, IndexError) as error:  # a stranger's leaves out what every figure has
        return ValueError(f"this chart cannot be read: {error}")


def _no_browser(error: Exception) -> ValueError:
    return ValueError(
        f"charts are drawn by Chrome or Chromium, which could not be started ({brief(error, 200)}); install it on the "
        "machine of the explorer"
    )


def as_image(svg: str, alt: str, attribute: str = "") -> str:
    """An `img` of SVG, with an attribute more if one is given: in a picture no script runs, and nothing is loaded."""
    source = b64encode(svg.encode()).decode()
    return f'<img {attribute} alt="{escape(alt)}" src="data:image/svg+xml;base64,{source}">'


def photographs(pages: Sequence[tuple[str, int, int]], scale: float = 2) -> list[bytes]:
    """PNG of HTML pages, each given with its width and height in pixels.

    Raises:
        ValueError: in one line, if there is no browser.
    """
    try:
        needs("kaleido", "a picture of a page")
        with _ONE_AT_A_TIME, quiet_browser(), tempfile.TemporaryDirectory() as folder:
            return asyncio.run(_photographs(pages, scale, Path(folder)))
    except (ValueError, RuntimeError, OSError, TimeoutError) as error:
        raise _no_browser(error) from None


async def _photographs(pages: Sequence[tuple[str, int, int]], scale: float, folder: Path) -> list[bytes]:
    from choreographer import Browser  # what kaleido draws with

    pictures = []
    async with Browser(headless=True, enable_sandbox=False) as browser:
        tab: Any = await browser.create_tab("")
        await tab.send_command("Page.enable")
        for number, (html, width, height) in enumerate(pages):
            file = folder / f"{number}.html"
            file.write_text(html, encoding="utf-8")
            size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False}
            await tab.send_command("Emulation.setDeviceMetricsOverride", size)
            loaded = tab.subscribe_once("Page.loadEventFired")
            await tab.send_command("Page.navigate", {"url": file.as_uri()})
            await asyncio.wait_for(loaded, SECONDS)
            answer = await asyncio.wait_for(tab.send_command("Page.captureScreenshot", {"format": "png"}), SECONDS)
            pictures.append(b64decode(answer["result"]["data"]))
    return pictures
