"""Pins as pictures that need no script: charts drawn by a browser on this machine."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from html import escape
from threading import Lock
from warnings import catch_warnings, simplefilter

import plotly.graph_objects as go
import plotly.io

from workbench.app.evidence.pin import Pin, figure_of
from workbench.figures.pictures import quiet_browser
from workbench.util.distribution import needs
from workbench.util.messages import brief

WIDTH, HEIGHT, TALLEST = 1000, 450, 2000  # pixels of a chart: as wide as a report's, as tall as it says it is
MOST_KEPT = 100  # charts that were drawn
Still = str | ValueError  # a figure's SVG, or why there is none
_KEPT: dict[str, str] = {}
_ONE_AT_A_TIME = Lock()


def drawn(pins: Sequence[Pin]) -> list[Still]:
    """The SVG of each pin, or why it cannot be drawn."""
    charts: dict[str, Still] = {}
    with _ONE_AT_A_TIME, quiet_browser():
        wanted = dict.fromkeys(pin.chart for pin in pins if pin.chart is not None)
        charts |= {chart: _KEPT[chart] for chart in wanted if chart in _KEPT}
        new = [chart for chart in wanted if chart not in charts]
        charts |= dict(zip(new, _drawn_now(new), strict=True))
        _KEPT.update({chart: still for chart, still in charts.items() if isinstance(still, str)})
        for key in list(_KEPT)[:-MOST_KEPT]:
            del _KEPT[key]
    return [charts[pin.chart] if pin.chart is not None else str(pin.drawing) for pin in pins]


def _drawn_now(charts: Sequence[str]) -> list[Still]:
    """Draw charts, all with one browser; none is started for those that cannot be read."""
    figures = [_laid_out(chart) for chart in charts]
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


def _laid_out(chart: str) -> go.Figure | ValueError:
    """A chart's figure with its size; or why it cannot be read."""
    try:
        figure = figure_of(chart)
        return figure.update_layout(width=WIDTH, height=min(figure.layout.height or HEIGHT, TALLEST))
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
