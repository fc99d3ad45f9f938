"""Up to four pins as one slide of 16:9: HTML that prints to one page, and a picture of it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from workbench.app.evidence.html_page import document, live_chart, words
from workbench.app.evidence.pin import Pin
from workbench.app.evidence.stills import Still, as_image, drawn, photographs

MOST = 4  # pins: more could not be read from the back of a room
WIDTH, HEIGHT = 1280, 720  # pixels
ROOM = {1: (1190, 470), 2: (580, 455), 3: (580, 205), 4: (580, 205)}
"""Number of pins -> width and height of each figure."""
LAID_OUT = {1: 0.55, 2: 0.65, 3: 0.8, 4: 0.8}
"""Number of pins -> the size for which a chart is laid out, of the room that it gets: text of print, made larger."""
LONGEST = 220  # characters of a caption


def page(pins: Sequence[Pin]) -> str:
    """The slide as an HTML page of its size.

    Raises:
        ValueError: if there are none, or more than fit.
    """
    if not 1 <= len(pins) <= MOST:
        raise ValueError(f"a slide shows 1 to {MOST} pins, not {len(pins)}")
    width, height = ROOM[len(pins)]
    size = round(width * LAID_OUT[len(pins)]), round(height * LAID_OUT[len(pins)])
    wheres = {pin.where() for pin in pins}
    shared = wheres.pop() if len(wheres) == 1 else ""
    sections = "".join(
        _section(pin, still, "" if shared else pin.where(), (width, height))
        for pin, still in zip(pins, drawn(pins, size), strict=True)
    )
    title = shared or ", ".join(dict.fromkeys(run for pin in pins for run in pin.runs)) or "Evidence"
    last = max(pin.date for pin in pins)
    body = (
        f'<h1>{words(title)}</h1><main class="of-{len(pins)}">{sections}</main>'
        f"<footer><span>workbench</span><span>{last:%d %b %Y}</span></footer>"
    )
    return document(title, "slide.css", body, plotly='class="live"' in sections)


def picture(pins: Sequence[Pin]) -> bytes:
    """The slide as PNG of 2560 × 1440 pixels. Raises ValueError in one line, if no browser can draw it."""
    return photographs([(page(pins), WIDTH, HEIGHT)])[0]


def _section(pin: Pin, still: Still, where: str, room: tuple[int, int]) -> str:
    about = " · ".join(filter(None, (where, pin.behind())))
    return (
        f'<section><header><h2>{words(pin.title)}</h2><p class="about">{words(about)}</p></header>'
        f'{_figure(pin, still, room)}<p class="says">{words(first_sentence(pin.says))}</p></section>'
    )


def _figure(pin: Pin, still: Still, room: tuple[int, int]) -> str:
    """The picture; of a chart that no browser here could draw, the chart that the reader's browser draws."""
    if isinstance(still, str):
        return f'<div class="figure">{as_image(still, pin.title)}</div>'
    width, height = room
    try:
        live = live_chart(str(pin.chart), width=width, height=height, title=None, margin={"t": 20})
        return f'<div class="figure"><div class="live">{live}</div></div>'
    except ValueError as error:
        return f'<div class="figure missing">{words(str(error))}</div>'


def first_sentence(text: str) -> str:
    """The first sentence, after what is said to who can click; of a long one its beginning."""
    sentences = re.split(r"(?<=[.!?])\s+", text.strip())
    first = next((one for one in sentences if not one.startswith(("Hover", "Click"))), sentences[0])
    return first if len(first) <= LONGEST else f"{first[: LONGEST - 1].rstrip()}…"
