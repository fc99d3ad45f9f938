"""Pictures of figures in files."""

from __future__ import annotations

import logging
from pathlib import Path

import plotly.graph_objects as go
import pytest
from PIL import Image

from workbench.figures import for_paper
from workbench.figures.for_paper import INCHES, PIXELS_PER_INCH
from workbench.figures.pictures import WIDTH, write_pictures


def test_every_figure_is_drawn_as_large_as_it_says(tmp_path: Path) -> None:
    pytest.importorskip("kaleido")
    bar = go.Figure(go.Bar(y=[1, 2]))
    figures = [for_paper(bar), for_paper(bar, width="page"), go.Figure(bar).update_layout(height=320), bar]
    paths = [tmp_path / f"{number}.png" for number in range(len(figures))]
    write_pictures(figures, paths, width=900, scale=2)
    sizes = [Image.open(path).size for path in paths]
    assert [width for width, _ in sizes] == [
        *(2 * round(INCHES[width] * PIXELS_PER_INCH) for width in ("column", "page")),
        1800,
        1800,
    ]
    assert [height for _, height in sizes[:3]] == [2 * figure.layout.height for figure in figures[:3]]
    write_pictures([bar], paths[:1])
    assert Image.open(paths[0]).size[0] == WIDTH


def test_no_figure_needs_no_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plotly.io.write_images", None)
    write_pictures([], [])


def test_what_the_browsers_libraries_log_as_it_closes_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """They log tracebacks of what fails after the last picture; what fails before is raised, and is one line."""
    loggers = [logging.getLogger(name) for name in ("choreographer._brokers._async", "kaleido.kaleido", "asyncio")]

    def drawn(*_: object, **__: object) -> None:
        for logger in loggers:
            logger.error("Error in run_read_loop.", exc_info=OSError("closed"))

    monkeypatch.setattr("plotly.io.write_images", drawn)
    write_pictures([go.Figure()], [tmp_path / "one.pdf"])
    assert not caplog.records
    for logger in loggers:
        logger.error("of others")
    assert len(caplog.records) == 3
