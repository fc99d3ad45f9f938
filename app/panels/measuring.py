"""What takes seconds to measure: the page stands at once, says that it is measured and for how long, then has it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any

import streamlit as st

from workbench.app import config_in_words as words
from workbench.app.config_in_words import plain
from workbench.app.panels import background
from workbench.app.panels.background import Job

EVERY = 1.0  # seconds between two looks at what is being measured
LEAST = 1.0  # seconds left that are worth saying


def awaited(key: Hashable, measure: Callable[[Job], Any], what: str, none: str) -> Any:
    """What was measured under this key; until it is, None, and the page says what is being measured.

    Where it cannot be measured it is None too, and the page says why.

    Args:
        key: of the measurement.
        measure: makes it, and may tell the job how far it is.
        what: in words, as in `Measuring on held-out sequences`.
        none: what there is not where it cannot be measured, in words, before the reason.
    """
    job = in_parts(key, lambda job: iter([measure(job)]), lambda so_far: what, lambda so_far: None)
    if job is None:
        return None
    if error := job.future.exception():
        st.info(plain(f"{none}: {error}"))
        return None
    return job.future.result()


def in_parts(
    key: Hashable,
    measure: Callable[[Job], Iterator[Any]],
    what: Callable[[Any], str],
    meanwhile: Callable[[Any], None] | None = None,
) -> Job | None:
    """The same of what is known part by part: until it is done, what is known of it is on the page.

    Args:
        key: of the measurement.
        measure: see `background.ask`.
        what: what is being measured after the part that it is given, in words; None stands for nothing yet.
        meanwhile: draws a part, and again when more is known; by default the whole page is made anew then, from the
            job that is returned.

    Returns:
        The job when it is done; without `meanwhile` also before, as soon as a part of it is there.
    """
    asked = background.job(key)
    if asked is not None and asked.future.done():
        return asked
    shown = None if asked is None else asked.so_far
    began = False

    def look() -> None:
        nonlocal began
        if not began:  # this is the page being made: the browser asks again when it shows it
            began = True
            _draw(asked, what, meanwhile)
            return
        job = background.ask(key, measure)
        if job.future.done() or (meanwhile is None and job.so_far is not shown):
            st.rerun()
        _draw(job, what, meanwhile)

    st.fragment(look, run_every=EVERY)()
    return asked if shown is not None and meanwhile is None else None


def _draw(job: Job | None, what: Callable[[Any], str], meanwhile: Callable[[Any], None] | None) -> None:
    """What is known so far, and that the rest is being measured."""
    so_far = None if job is None else job.so_far
    if so_far is not None and meanwhile is not None:
        meanwhile(so_far)
    if to_come := what(so_far):  # nothing is to come in the moment before it is done
        st.caption(f":material/hourglass: {in_words(job, to_come)}")


def in_words(job: Job | None, what: str) -> str:
    """How long it has been measured, and how long it will be."""
    if job is None:
        return f"To be measured {what} …"
    left = "" if job.left is None or job.left < LEAST else f", about {words.seconds(job.left)} left"
    told = f": {job.told}" if job.told else ""
    return f"Measuring {what}{told}, {job.seconds:.0f} s so far{left} …"
