"""A page of one's own: one new file and one entry in `PAGES` put it into the explorer's menu."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from tests.app.support import page
from workbench.app.views import PAGES, Page

OWN = """
import streamlit as st

from workbench.app.fields import widgets
from workbench.app.fields.values import belongs_to_run
from workbench.app.state import current

belongs_to_run("own_number")
st.subheader(f"An own page about {current().opened.name}")
widgets.number("Number", 0, 9, "own_number", 3)
"""


@pytest.fixture
def menu(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the explorer's menu holds once a page was opened: name in the URL -> title."""
    shown: dict[str, str] = {}
    navigation = st.navigation

    def recorded(pages: list[Any], **settings: Any) -> Any:
        shown.update({one.url_path: one.title for one in pages})
        return navigation(pages, **settings)

    monkeypatch.setattr(st, "navigation", recorded)
    return shown


def test_every_file_of_the_folder_is_a_page_under_its_own_name() -> None:
    files = {path.stem for path in Path(PAGES["overview"].path).parent.glob("*.py")} - {"__init__"}
    assert files == set(PAGES) and all(own.path.stem == name for name, own in PAGES.items())


def test_an_own_page_is_one_file_and_one_entry(
    explorer: AppTest, menu: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    monkeypatch.setitem(PAGES, "own", Page("My own page", str(tmp_path / "own.py")))
    page(explorer, "own", run="sorter", own_number="7")
    assert menu["own"] == "My own page" and list(menu.values())[:-1] == [one.title for one in PAGES.values()][:-1]
    assert explorer.subheader[0].value == "An own page about sorter"
    assert explorer.number_input(key="own_number").value == 7
    explorer.selectbox(key="run").set_value("chaser").run()
    assert explorer.subheader[0].value == "An own page about chaser"
    assert explorer.number_input(key="own_number").value == 3 and explorer.query_params["own_number"] == "3"
