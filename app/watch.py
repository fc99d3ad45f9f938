"""The page is made anew when a run on it that is being trained gets further."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import streamlit as st

from workbench.runs import METRICS, Run

EVERY = 3.0  # seconds
SHARE = 4.0  # times what the page takes: most of the time it stands still


def training(runs: Iterable[Run], took: float) -> None:
    """Look every few seconds whether one of these has newer weights, checkpoints or logs.

    Args:
        runs: those on the page. Finished ones are left out.
        took: how long the page took to make, in seconds.
    """
    unfinished = tuple(run for run in runs if not run.finished)
    if not unfinished:
        return
    seen = tuple(map(signature, unfinished))

    def look() -> None:
        if tuple(map(signature, unfinished)) != seen:
            st.rerun()

    st.fragment(look, run_every=max(EVERY, SHARE * took))()


def signature(run: Run) -> tuple[int, ...]:
    """Changes whenever what a page shows of a run does."""
    log = Path(run.path, METRICS)
    return (run.version, len(run.checkpoints()), log.stat().st_size if log.is_file() else 0, run.finished)
