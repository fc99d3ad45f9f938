"""Every figure of a report as a file of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import plotly.io

from workbench.lookup import tell_apart
from workbench.report.sections import Section

FORMATS = ("html", "svg", "png")
WIDTH, SCALE = 1000, 2


def check_formats(asked: Sequence[str]) -> None:
    """Raise ValueError if a format does not exist."""
    unknown = next((name for name in asked if name not in FORMATS), None)
    if unknown is not None:
        raise ValueError(f"a figure is not exported as {unknown!r}; there is: {', '.join(FORMATS)}")


def write_figures(folder: Path, sections: Sequence[Section], formats: Sequence[str]) -> list[Path]:
    """Write each figure as SECTION-NUMBER.FORMAT; HTML files need nothing else.

    Sections of runs whose names differ in signs alone (`a/b`, `a-b`) are numbered: SECTION, SECTION-2.

    Raises:
        ValueError: if SVG or PNG was asked for, and there is no browser to draw them.
    """
    if not formats:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    slugs = tell_apart([section.slug for section in sections], number="{}-{}")
    figures = {
        f"{slug}-{number}": figure.update_layout(template="plotly_white")
        for slug, section in zip(slugs, sections, strict=True)
        for number, figure in enumerate(section.drawn, 1)
    }
    written = []
    if "html" in formats:
        for stem, figure in figures.items():
            figure.write_html(folder / f"{stem}.html")
            written.append(folder / f"{stem}.html")
    for name in dict.fromkeys(name for name in formats if name != "html"):
        files = [folder / f"{stem}.{name}" for stem in figures]
        try:
            plotly.io.write_images(list(figures.values()), files, width=WIDTH, scale=SCALE if name == "png" else 1)
        except (RuntimeError, OSError) as error:  # kaleido says so of a browser that is not there
            raise ValueError(
                f"{name} figures are drawn by Chrome or Chromium, which could not be started ({error}); "
                "install it, or export html alone"
            ) from None
        written += files
    return written
