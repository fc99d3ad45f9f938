"""The pins that a browser sees: those of the folder, then its own, which could not be kept there."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from workbench.app import state
from workbench.app.evidence.pin import Pin
from workbench.app.evidence.storage import InMemory, OnDisk, Place, why_read_only
from workbench.app.fields.url import memory
from workbench.app.panels.clicks import component
from workbench.app.server.guard import may_write
from workbench.app.state import Look
from workbench.app.views import PAGES
from workbench.measurement import Measurement

MOST_BROWSERS = 50  # whose pins the server keeps
LONGEST_INPUT = 20_000  # characters that are kept of it
SCRIPT = Path(__file__).with_name("cookie.js").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Kept:
    """A pin with the place that keeps it.

    Attributes:
        pin: the pin.
        place: what keeps it; None where this browser may only look.
    """

    pin: Pin
    place: Place | None


def everything() -> tuple[list[Kept], list[str]]:
    """All pins that this browser sees; and in one line each, what of the folder cannot be read."""
    of_folder, problems = OnDisk(state.root()).pins()
    place = OnDisk(state.root()) if why_not_on_disk() is None else None
    return [Kept(pin, place) for pin in of_folder] + [Kept(pin, own()) for pin in own().pins()[0]], problems


def why_not_on_disk() -> str | None:
    """Why new pins are not kept in the folder, as a sentence; None if they are."""
    if state.shows_zoo():
        reason = "the runs shown come with the workbench"
    elif not may_write():
        reason = "this browser tab is view-only; open the whole address that the command printed to keep them"
    else:
        reason = why_read_only(state.root()) or ""
    return f"New pins stay in this browser until the server ends, because {reason}." if reason else None


def pin(title: str, says: str, figure: Any, code: str, numbers: Mapping[str, Measurement]) -> str | None:
    """Pin a figure of the page that is shown; returns why it is kept in memory alone, if it should be on disk.

    Raises:
        ValueError: in one line, if it cannot be kept at all.
    """
    words = re.sub(r"\\([^\w\s])", r"\1", says)  # without the signs that keep Markdown from taking them for its own
    made = Pin.of(figure, title=title, says=words, code=code, n=_examples(numbers), **_of_page(code))
    if why_not_on_disk() is None:
        try:
            OnDisk(state.root()).put(made)
            return None
        except OSError as error:
            _keep_own(made)
            return f"It is kept in this browser alone, because the folder cannot be written: {error.strerror}."
    _keep_own(made)
    return None


def _of_page(code: str) -> dict[str, Any]:
    """What the page is about, and what leads back to it."""
    session, look = memory(), st.session_state.get("look")
    query = {key: tuple(values) for key, values in (session.written | session.shown).items()}
    about: dict[str, Any] = {"page": session.page, "query": query}
    if isinstance(look, Look) and PAGES[str(session.page)].needs_run:
        about["runs"] = tuple(dict.fromkeys(run.name for run in state.on_page().values()))
        about["checkpoint"] = look.opened.step
        about["head"] = query.get("head", ("",))[-1]
        if re.search(r"^batch = ", code, re.MULTILINE):  # the code has what the figure needs, and no more
            about["input"] = look.opened.subject.task.question(look.batch.tokens[0])[:LONGEST_INPUT]
    return about


def _examples(numbers: Mapping[str, Measurement]) -> int | None:
    """The number of examples behind the figure; None if it is about one input."""
    most = 0
    for one in numbers.values():
        if one.n is not None and one.n.size:
            most = max(most, int(one.n.max()))
        elif "example" in one.dims:
            most = max(most, len(one.coords["example"]))
    return most if most > 1 else None


def own() -> InMemory:
    """The pins that this browser keeps. All its tabs share them, and they survive a reload."""
    if "evidence" not in st.session_state:
        token = st.context.cookies.get(_cookie(), "")
        known = _of_browsers().get(token)
        st.session_state["evidence_token"] = token if known is not None else secrets.token_urlsafe()
        st.session_state["evidence"] = InMemory() if known is None else known
    mine: InMemory = st.session_state["evidence"]
    return mine


def _keep_own(made: Pin) -> None:
    own().put(made)
    browsers = _of_browsers()
    browsers[st.session_state["evidence_token"]] = own()
    for token in list(browsers)[:-MOST_BROWSERS]:
        browsers.pop(token, None)


@st.cache_resource(show_spinner=False)
def _of_browsers() -> dict[str, InMemory]:
    """Token of a browser's cookie -> its pins."""
    return {}


def _cookie() -> str:
    """The cookie's name: browsers do not tell the servers of one machine apart by their ports."""
    return f"workbench-evidence-{st.get_option('server.port')}"


def remember_browser() -> None:
    """Have the browser keep the token of its own pins, if it has some."""
    if own().pins()[0]:
        value = st.session_state["evidence_token"]
        component("workbench_evidence", SCRIPT)(data={"name": _cookie(), "value": value}, key="evidence-cookie")
