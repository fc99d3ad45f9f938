"""Figures written as pictures, each as large as its own layout says."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import plotly.io

from workbench.util.distribution import needs

WIDTH, HEIGHT = 700, 500  # pixels of a layout that says nothing: Plotly's own
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # of a disk or quota


@contextmanager
def quiet_browser() -> Iterator[None]:
    """Within this context a browser that is driven logs nothing.

    What fails is raised; what the libraries log, with a traceback, is that they read from it while it closed.
    """
    loggers = [logging.getLogger(name) for name in ("asyncio", "choreographer", "kaleido")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def write_pictures(
    figures: Sequence[go.Figure], paths: Sequence[Path], *, width: int | None = None, scale: float = 1
) -> None:
    """Draw figures into files, whose endings say as what: `.svg`, `.png`, `.pdf`.

    Plotly's own `write_images` draws every figure at one size, whatever its layout says.

    Args:
        width: pixels of the layout of those that say no width of their own.
        scale: pixels of a PNG for each of the layout's.

    Raises:
        ValueError: if kaleido, or a browser to draw them, is missing.
        OSError: if the disk is full.
    """
    if not figures:
        return
    needs("kaleido", "a picture of a figure")
    widths = [figure.layout.width or width or WIDTH for figure in figures]
    heights = [figure.layout.height or HEIGHT for figure in figures]
    try:
        with quiet_browser():
            plotly.io.write_images(list(figures), list(paths), width=widths, height=heights, scale=scale)
    except (RuntimeError, OSError) as error:  # kaleido says so of a browser that is not there
        if isinstance(error, OSError) and error.errno in FULL:
            error.filename = error.filename or str(paths[0].parent)
            raise
        raise ValueError(
            f"pictures are drawn by Chrome or Chromium, which could not be started ({error}); install it (figures as "
            "HTML need none)"
        ) from None


def in_few_colours(path: Path) -> None:
    """Write a PNG anew with 256 colours: a quarter of the size.

    Half are the commonest ones, which stay as they are, half are spread over the rare.

    Raises:
        ValueError: if Pillow is missing.
    """
    needs("PIL", "a picture in few colours")
    from PIL import Image
    from scipy.spatial import KDTree

    with Image.open(path) as opened:
        whole = opened.convert("RGB")
    pixels = np.asarray(whole)  # [row, column, 3]
    colours, at, counts = np.unique(pixels.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True)
    spread: Any = whole.quantize(128, method=Image.Quantize.MAXCOVERAGE).getpalette()
    common, rare = colours[np.argsort(-counts, kind="stable")[:128]], np.reshape(spread, (-1, 3))
    palette = np.concatenate([common, rare]).astype(np.uint8)
    nearest = KDTree(palette).query(colours)[1]  # Pillow's own search is coarse: white would be nearly white
    small = Image.fromarray(nearest[at].reshape(pixels.shape[:2]).astype(np.uint8), mode="P")
    small.putpalette(palette.tobytes())
    small.save(path, "PNG", optimize=True)
