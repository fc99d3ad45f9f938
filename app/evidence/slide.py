"""Up to four pins as one slide of 16:9: HTML that prints to one page, and a picture of it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from workbench.app.evidence.html_page import document, live_chart, words
from workbench.app.evidence.pin import Pin
from workbench.app.evidence.stills import Still, as_image, drawn, photographs

MOST = 4  # pins: more could not be read from the back of a room
WIDTH, HEIGHT = 1280, 720  # pixels
ROOM = {1: (1190, 480), 2: (580, 480), 3: (580, 190), 4: (580, 190)}
"""Number of pins -> width and height of each figure."""
LARGER = {1: 0.5, 2: 0.62, 3: 0.62, 4: 0.62}
"""Number of pins -> width for which a chart is laid out, of the width it gets: text of print, made larger."""
LONGEST = 220  # characters of a caption


def page(pins: Sequence[Pin]) -> str:
    """The slide as an HTML page of its size.

    Raises:
        ValueError: if there are none, or more than fit.
    """
    if not 1 <= len(pins) <= MOST:
        raise ValueError(f"a slide shows 1 to {MOST} pins, not {len(pins)}")
    stills = drawn(pins, round(ROOM[len(pins)][0] * LARGER[len(pins)]))
    sections = "".join(_section(pin, still, *ROOM[len(pins)]) for pin, still in zip(pins, stills, strict=True))
    wheres = {pin.where() for pin in pins}
    title = next(iter(wheres)) if len(wheres) == 1 and wheres != {""} else "Evidence"
    last = max(pin.date for pin in pins)
    body = (
        f'<h1>{words(title)}</h1><main class="of-{len(pins)}">{sections}</main>'
        f"<footer><span>workbench</span><span>{last:%d %b %Y}</span></footer>"
    )
    return document(title, "slide.css", body, plotly='class="live"' in sections)


def picture(pins: Sequence[Pin]) -> bytes:
    """The slide as PNG of 2560 × 1440 pixels. Raises ValueError in one line, if no browser can draw it."""
    return photographs([(page(pins), WIDTH, HEIGHT)])[0]


def _section(pin: Pin, still: Still, width: int, height: int) -> str:
    about = " · ".join(filter(None, (pin.where(), pin.behind())))
    return (
        f"<section><h2>{words(pin.title)}</h2>{_figure(pin, still, width, height)}"
        f'<p class="says">{words(first_sentence(pin.says))}</p><p class="about">{words(about)}</p></section>'
    )


def _figure(pin: Pin, still: Still, width: int, height: int) -> str:
    """The picture; of a chart that no browser here could draw, the chart that the reader's browser draws."""
    if isinstance(still, str):
        return f'<div class="figure">{as_image(still, pin.title)}</div>'
    try:
        size = {"width": width, "height": height, "title": None, "margin": {"t": 20}}
        return f'<div class="figure"><div class="live">{live_chart(str(pin.chart), **size)}</div></div>'
    except ValueError as error:
        return f'<div class="figure missing">{words(str(error))}</div>'


def first_sentence(text: str) -> str:
    """The first sentence; of a long one its beginning."""
    first = re.split(r"(?<=[.!?])\s", text.strip(), maxsplit=1)[0]
    return first if len(first) <= LONGEST else f"{first[: LONGEST - 1].rstrip()}…"
