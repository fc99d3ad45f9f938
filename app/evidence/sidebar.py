"""The evidence's place in the sidebar: every pin with its note and its way back, and what they leave as."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st

from workbench.app.config_in_words import plain
from workbench.app.evidence import collection, html_page
from workbench.app.evidence.collection import Kept
from workbench.app.evidence.pin import LONGEST_NOTE
from workbench.app.fields.url import whole_view
from workbench.app.views import PAGES
from workbench.util.messages import brief

REMOVED = "evidence_removed"  # in the session: the pin removed last, which can be had back


@st.fragment
def show() -> None:
    """Fill the evidence's place in the sidebar."""
    kept, problems = collection.everything()
    collection.remember_browser()
    if not kept and not problems and REMOVED not in st.session_state:
        st.caption("No figure pinned yet. A panel's *Code* menu pins its figure here.")
        return
    # The label stays the same: with another one a browser takes it for another popover, which is closed.
    box = st.popover("Evidence", icon=":material/push_pin:", width="stretch", key="evidence_open", on_change="rerun")
    st.caption(f"{len(kept)} figure{'s' * (len(kept) != 1)} pinned")
    if not box.open:
        return
    with box:
        if reason := collection.why_not_on_disk():
            st.caption(plain(reason))
        for problem in problems:
            st.warning(plain(problem))
        removed: Kept | None = st.session_state.get(REMOVED)
        if removed is not None:
            with st.container(horizontal=True, vertical_alignment="center"):
                st.caption(f"Removed: {plain(brief(removed.pin.title, 60))}")
                st.button("Undo", icon=":material/undo:", key="unpin-undo", on_click=_restore, args=(removed,))
        if kept:  # first, in reach however many follow
            st.download_button(
                "As one page",
                lambda: html_page.page([one.pin for one in kept]),
                "evidence.html",
                "text/html",
                help="One HTML page, which can be printed",
                on_click="ignore",
                key="evidence-page",
            )
        for one in kept:
            _row(one)


def _row(one: Kept) -> None:
    """A pin: its title leads back, its note can be edited."""
    pin, place = one.pin, one.place
    with st.container(border=True, key=f"pin-{pin.id}", gap="small"):
        left, right = st.columns([6, 1], vertical_alignment="center")
        title = f"**{plain(brief(pin.title, 120))}**"
        if pin.page in PAGES:
            file, query = f"views/{PAGES[pin.page].file}", whole_view(pin.query)
            left.page_link(file, label=title, help="Open the page as it was", query_params=query)
        else:  # a page that is not here any more
            left.markdown(title)
        if place is not None:
            help = f"Remove “{plain(brief(pin.title, 60))}” from the evidence"
            right.button(":material/delete:", key=f"unpin-{pin.id}", help=help, on_click=_remove, args=(one,))
        st.caption(plain(brief(" · ".join(filter(None, (pin.where(), pin.behind(), f"{pin.date:%d %b %Y}"))), 200)))
        if place is None:
            st.caption(plain(brief(pin.note)))
            return
        key, known = f"note-{pin.id}", f"note-known-{pin.id}"
        if st.session_state.get(known) != pin.note or key not in st.session_state:  # another tab may have changed it
            st.session_state[key] = st.session_state[known] = pin.note
        st.text_area(
            f"Note on {plain(brief(pin.title, 60))}",
            key=key,
            max_chars=LONGEST_NOTE,
            height=68,
            label_visibility="collapsed",
            placeholder="A note: what does this show?",
            on_change=lambda: _try(partial(place.note, pin.id, st.session_state[key])),
        )


def _remove(one: Kept) -> None:
    if one.place is not None:
        _try(partial(one.place.remove, one.pin.id))
        st.session_state[REMOVED] = one


def _restore(one: Kept) -> None:
    st.session_state.pop(REMOVED, None)
    if one.place is not None:
        _try(partial(one.place.put, one.pin))


def _try(change: Callable[[], None]) -> None:
    """Change what is kept, or say why that cannot be done."""
    try:
        change()
    except (ValueError, OSError) as error:
        st.toast(plain(brief(error)), icon=":material/error:")
