"""The pins as a Jupyter notebook: the code of each, with its figure as it was pinned as output."""

from __future__ import annotations

import json
import platform
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from workbench.app.config_in_words import plain
from workbench.app.evidence.html_page import back
from workbench.app.evidence.pin import Pin, figure_of
from workbench.app.evidence.stills import Still, as_image, drawn, photographs
from workbench.app.evidence.svg import size_of
from workbench.util.messages import harmless

INTRODUCTION = (
    "# Evidence\n\nEach figure stands below the code that makes it, as it was when it was pinned. The code was read "
    "from the folder with the runs: if the folder came from somebody else, read it before you run it."
)
LARGEST = 2_000  # pixels of a picture's longer side


def notebook(pins: Sequence[Pin]) -> str:
    """The notebook as JSON of nbformat 4.5."""
    cells = [_markdown("introduction", INTRODUCTION)]
    stills = drawn(pins)
    for pin, still, picture in zip(pins, stills, _pictures(stills), strict=True):
        cells += [_markdown(f"{pin.id}-words", _words(pin)), _code(pin, still, picture)]
    version = platform.python_version()
    language = {"name": "python", "version": version, "file_extension": ".py", "mimetype": "text/x-python"}
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    metadata = {"kernelspec": kernel, "language_info": language}
    made = {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells}
    return json.dumps(made, indent=1, ensure_ascii=False)


def _pictures(stills: Sequence[Still]) -> list[bytes | None]:
    """PNG of each figure, which shows where scripts and SVG do not; None where there is none."""
    shown = [still for still in stills if isinstance(still, str)]
    try:
        pictures = iter(photographs([_page(svg) for svg in shown]) if shown else [])
    except ValueError:
        return [None] * len(stills)
    return [next(pictures) if isinstance(still, str) else None for still in stills]


def _page(svg: str) -> tuple[str, int, int]:
    """A page that is as large as the figure, or as large as a picture may be."""
    width, height = size_of(svg)
    smaller = min(1.0, LARGEST / max(width, height))
    image = as_image(svg, "", 'style="display:block;width:100%"')
    return f'<body style="margin:0">{image}</body>', max(1, round(width * smaller)), max(1, round(height * smaller))


def _words(pin: Pin) -> str:
    about = " · ".join(filter(None, (pin.where(), pin.behind(), f"{pin.date:%d %b %Y}")))
    parts = [f"## {_shown(pin.title)}", _shown(about), f"**{_shown(pin.note)}**" if pin.note.strip() else ""]
    parts += [_shown(pin.says), f"Input: {_shown(pin.input)}" if pin.input else ""]
    return "\n\n".join(filter(None, [*parts, f"In the explorer: {_shown(back(pin))}"]))


def _shown(text: str) -> str:
    """Text as Markdown shows it: no markup."""
    return plain(harmless(" ".join(text.split())))


def _markdown(id: str, source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": id, "metadata": {}, "source": source}


def _code(pin: Pin, still: Still, picture: bytes | None) -> dict[str, Any]:
    data: dict[str, Any] = {"text/plain": pin.title}
    if picture is not None:
        data["image/png"] = b64encode(picture).decode()
    if pin.drawing is not None:
        data["image/svg+xml"] = pin.drawing
    else:
        try:
            data["application/vnd.plotly.v1+json"] = json.loads(figure_of(str(pin.chart)).to_json() or "{}")
        except ValueError as error:
            data["text/plain"] = f"{pin.title}: {error}"
    output = {"output_type": "display_data", "metadata": {}, "data": data}
    return {
        "cell_type": "code",
        "id": f"{pin.id}-code",
        "metadata": {},
        "execution_count": None,
        "source": pin.code,
        "outputs": [output],
    }
