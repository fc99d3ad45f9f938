"""The picture of the explorer: for each page the link of a state of it, and what its fields hold when it is opened."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from tests.app.conftest import APP
from tests.golden.make import INPUT
from tests.golden.picture import Picture
from workbench.app.evidence import collection
from workbench.app.panels import background, how_it_works
from workbench.app.views import PAGES

WIDGETS = ("selectbox", "multiselect", "radio", "slider", "select_slider", "number_input", "text_input", "text_area")
TOGGLES = ("toggle", "checkbox", "button_group")
CHOSEN: dict[str, dict[str, Any]] = {
    "overview": {"filter": "lear"},
    "story": {},
    "canvas": {"position": 5, "focus": 3, "threshold": 0.1},
    "residual": {"point": "blocks.0.hook_resid_mid", "position": 4, "final_norm": False},
    "entropy": {"entropy_alpha": 2.0, "entropy_centre": True, "entropy_unit": True},
    "weights": {"circuit_kind": "OV", "entry_from": 3, "entry_to": 2},
    "hops": {"other_run": "chaser"},
    "mechanisms": {"claim_hop": 2},
    "circuit": {"metric": "probability", "n_pairs": 128, "method": "eap"},
    "training": {"step": "3", "train_log": True},
    "probes": {"probe_label": "root", "probe_n": 256},
    "compare": {"run2": "rounded", "compare_n": 16},
}
"""Page -> what is chosen there before its link is taken: field -> value. A new page needs an entry, perhaps empty."""
SHORTER = {
    "run": "single",
    "how": "Own input",
    "input": "6 4 1 0 2 3 5 4",
}  # of which there are several, and checkpoints
OF_SEVERAL = ("hops", "training", "compare")


@contextmanager
def explorer() -> Iterator[AppTest]:
    """The explorer over the runs of the current folder, as a browser with the token sees it; it keeps nothing."""
    with (
        patch.object(sys, "argv", ["main.py", "--root", "runs", "--start", "."]),
        patch.object(collection, "may_write", lambda: True),
        patch.object(how_it_works, "keep", lambda found: None),
        patch.object(background, "_jobs", {}),
    ):
        yield AppTest.from_file(str(APP), default_timeout=120)


def opened(page: str, query: dict[str, str]) -> tuple[AppTest, Picture]:
    """A page as its link opens it, and what it shows: the address, and what each field of the address holds."""
    with explorer() as session:
        session.query_params.update(query)
        session._page_hash = calc_hash(page)  # see `tests.app.support.page`, which also opens every panel
        session.run()
        return session, shown(session)


def shown(session: AppTest) -> Picture:
    """What a page shows: errors, its address, and what its fields hold."""
    address = {key: one if isinstance(one, str) else one[-1] for key, one in session.query_params.items()}
    state = {key: session.session_state[key] for key in address if key in session.session_state}
    return {
        "exceptions": [one.value for one in session.exception],
        "errors": [one.value for one in session.error],
        "address": address,
        "fields": {key: value if isinstance(value, int | float | str) else str(value) for key, value in state.items()},
    }


def linked(page: str) -> Picture:
    """The picture of one page: its link after something was chosen, and what it shows when that is opened."""
    session, _ = opened(page, SHORTER if page in OF_SEVERAL else INPUT)
    with explorer():
        for key, value in CHOSEN[page].items():
            widget: Any = next(one for kind in (*WIDGETS, *TOGGLES) for one in session.get(kind) if one.key == key)
            widget.set_value(value).run()
    link = shown(session)["address"]
    return {"link": link, "shows": opened(page, link)[1]}


def all_linked() -> Picture:
    """Every page."""
    return {page: linked(page) for page in PAGES}
