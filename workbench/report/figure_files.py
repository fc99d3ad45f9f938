"""Every figure of a report written to a file of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from workbench.figures.for_paper import SHARP as SHARP_IN_PRINT
from workbench.figures.for_paper import for_paper
from workbench.figures.pictures import write_pictures
from workbench.figures.style import in_one_line
from workbench.report.sections import Section, slug
from workbench.util.lookup import tell_apart

FORMATS = ("html", "svg", "png", "pdf")
WIDTH = 1000
SHARP = 2  # pixels of a PNG for each of the layout's
LONGEST = 100  # letters of a name


def write_figures(
    folder: Path, sections: Sequence[Section], formats: Sequence[str], width: str | None = None
) -> list[Path]:
    """Write each figure to SECTION-FIGURE.FORMAT, named after the titles; HTML files are self-contained.

    With a `width`, `column` or `page`, pictures are laid out for print (`figures.for_paper`).

    Raises:
        ValueError: if another format was asked for, and there is no browser to draw it.
    """
    if not formats:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    drawn = [figure.update_layout(template="plotly_white") for section in sections for figure in section.drawn]
    figures = dict(zip(stems(sections), drawn, strict=True))
    written = []
    if "html" in formats:
        for stem, figure in figures.items():
            figure.write_html(folder / f"{stem}.html")
            written.append(folder / f"{stem}.html")
    if width is not None:
        figures = {stem: for_paper(figure, width=width) for stem, figure in figures.items()}
    for name in dict.fromkeys(name for name in formats if name != "html"):
        files = [folder / f"{stem}.{name}" for stem in figures]
        scale = 1 if name != "png" else SHARP if width is None else SHARP_IN_PRINT
        write_pictures(list(figures.values()), files, width=WIDTH, scale=scale)
        written += files
    return written


def stems(sections: Sequence[Section]) -> list[str]:
    """A name for each figure, of its section's title and its own; figures without a title have a number.

    Where two of a section have one title, what they are of follows (`figures.style.framed`). Names that are still
    alike (as those of runs whose names differ in signs alone, `a/b`, `a-b`) are numbered.
    """
    slugs, names = tell_apart([section.slug[:LONGEST] for section in sections], number="{}-{}"), list[str]()
    for start, section in zip(slugs, sections, strict=True):
        titles = [slug(in_one_line(figure.layout.title.text or "")) for figure in section.drawn]
        for number, (figure, title) in enumerate(zip(section.drawn, titles, strict=True), 1):
            if titles.count(title) > 1 and title:
                title = f"{title}-{slug((figure.layout.meta or {}).get('of', ''))}"
            rest = title.removeprefix(f"{start}-").strip("-")  # a title may begin with its section's
            names.append(start if title == start else f"{start}-{rest or number}"[: 2 * LONGEST].strip("-"))
    return tell_apart(names, number="{}-{}")
