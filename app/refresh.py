"""Reloads the page while a run on it is being trained."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import streamlit as st

from workbench.runs import METRICS, Run

EVERY = 3.0  # seconds between two looks, at least
SHARE = 4.0  # times the seconds that the page takes to make, at least, so that it stands still most of the time


def when_training(runs: Iterable[Run], took: float) -> None:
    """Reload when one of these runs has newer weights, checkpoints or logs; looks every few seconds.

    Args:
        runs: the runs on the page; finished ones are skipped.
        took: seconds that the page took to make.
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
    """A value that changes whenever what a page shows of the run does."""
    log = Path(run.path, METRICS)
    return (run.version, len(run.checkpoints()), log.stat().st_size if log.is_file() else 0, run.finished)
