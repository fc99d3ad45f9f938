"""One run as one HTML page that needs no server: what was found, inputs to look at, its curves, its numbers.

The page asks nothing of anywhere: its drawings are packed into it, its one script is allowed by its hash alone, and
that script is the explorer's (`figures/scripts/`) with a few lines more.
"""

from __future__ import annotations

from pathlib import Path

from workbench.report.run_page.contents import HEADS, contents
from workbench.report.run_page.document import document
from workbench.runs import Run, load_run
from workbench.util.html_file import write_page

MOST_BYTES = 5_000_000


def run_page(run: Run, *, progress: bool = False) -> str:
    """The page as HTML.

    What was found is read where it is kept beside the weights (the explorer keeps it), and measured otherwise, which
    takes minutes.

    Args:
        run: the run.
        progress: show a progress bar on standard error.

    Raises:
        ValueError: if the run has no weights, or its log is damaged.
    """
    holds = contents(run, progress)
    for most in HEADS:
        text = document(holds, holds.heads[:most])
        if len(text.encode()) < MOST_BYTES:
            break
    return text


def export_page(run: Run | str | Path, out: str | Path, *, progress: bool = False) -> Path:
    """Write `run_page` of a run or its folder as a file that must not exist yet.

    Raises:
        ValueError: if the run cannot be opened, `out` is taken, or its name does not end in .html.
    """
    opened = load_run(run)
    return write_page(Path(out), lambda: run_page(opened, progress=progress))
