"""The pins as one HTML page that needs no other file, is read on a screen, and fits the paper it is printed on."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from urllib.parse import urlencode

from workbench.app.evidence.pin import Pin, figure_of
from workbench.app.evidence.stills import Still, as_image, drawn
from workbench.util.messages import harmless

STYLE = Path(__file__).with_name("page.css")
POLICY = "default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""What the page may load: nothing. The figures' library stands in the page."""


def page(pins: Sequence[Pin]) -> str:
    """The whole page, which loads nothing. Charts can be pointed at on the screen; on paper stand pictures of them."""
    from plotly.offline import get_plotlyjs

    sections = "".join(_section(pin, still) for pin, still in zip(pins, drawn(pins), strict=True))
    script = f"<script>{get_plotlyjs()}</script>" if 'class="live"' in sections else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Evidence · workbench</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE.read_text(encoding='utf-8')}</style>{script}</head>"
        f"<body><h1>Evidence</h1>{sections}</body></html>"
    )


def words(text: str) -> str:
    """Text as HTML shows it: no markup, and no signs that turn lines around or cannot be seen."""
    return escape(harmless(text))


def _section(pin: Pin, still: Still) -> str:
    about = " · ".join(filter(None, (pin.where(), pin.behind(), f"{pin.date:%d %b %Y}")))
    note = f'<p class="note">{words(pin.note)}</p>' if pin.note else ""
    shown = f'<p class="input">Input: {words(pin.input)}</p>' if pin.input else ""
    return (
        f'<section><h2>{words(pin.title)}</h2><p class="about">{words(about)}</p>{note}{_figure(pin, still)}'
        f'<p>{words(pin.says)}</p>{shown}<p class="back">In the explorer: <code>{words(back(pin))}</code></p>'
        "<details><summary>The Python code that makes this figure</summary>"
        f"<pre>{escape(pin.code)}</pre></details></section>"
    )


def _figure(pin: Pin, still: Still) -> str:
    """The picture; of a chart also what can be pointed at."""
    picture = (
        f'<p class="missing">{words(str(still))}</p>' if isinstance(still, ValueError) else as_image(still, pin.title)
    )
    if pin.chart is None:
        return f"<figure>{picture}</figure>"
    try:
        figure = figure_of(pin.chart).update_layout(width=None, autosize=True)
        options = {"displaylogo": False, "responsive": True}
        live = figure.to_html(full_html=False, include_plotlyjs=False, config=options)
    except ValueError as error:
        return f'<p class="missing">{words(str(error))}</p>'
    return f'<figure><div class="live">{live}</div><div class="still">{picture}</div></figure>'


def back(pin: Pin) -> str:
    """What leads back to the page as it was, behind the explorer's address."""
    return f"{pin.page}?{urlencode([(key, value) for key, values in pin.query.items() for value in values])}"
