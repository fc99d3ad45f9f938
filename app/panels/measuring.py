"""What takes seconds to measure: the page stands at once, says that it is measured and for how long, then has it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import streamlit as st

from workbench.app.panels import background

EVERY = 1.0  # seconds between two looks at what is being measured


def awaited(key: Hashable, measure: Callable[[], Any], what: str) -> background.Job | None:
    """What was asked for under this key, when it is done; until then None, and the page says what is being measured.

    Args:
        key: of the measurement.
        measure: makes it.
        what: in words, as in `Measuring on held-out sequences`.
    """
    job = background.job(key)
    if job is not None and job.future.done():
        return job
    began = False

    def look() -> None:
        nonlocal began
        if not began:  # this is the page being made: the browser asks again when it shows it
            began = True
            st.caption(f":material/hourglass: To be measured {what} …")
            return
        job = background.ask(key, measure)
        if job.future.done():
            st.rerun()
        told = "".join(f": {words}" for words in job.told)
        st.caption(f":material/hourglass: Measuring {what}{told}, {job.seconds:.0f} s so far …")

    st.fragment(look, run_every=EVERY)()
    return None
