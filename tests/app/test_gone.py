"""A run that is moved or deleted while its page is drawn: the page says so, and shows no traceback."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from tests.app.conftest import APP
from workbench.app import state
from workbench.app.panels import questions
from workbench.runs import load_run

ZOO = APP.with_name("zoo")


@pytest.mark.parametrize("page", ["mechanisms", "compare"])
def test_a_run_that_goes_while_its_page_is_drawn_is_one_line(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes behind the sidebar, which has opened it; `compare` draws in fragments, whose errors are shown at once."""
    shutil.copytree(ZOO / "chain-standard", tmp_path / "run")
    show = questions.show

    def gone(name: str) -> None:
        (tmp_path / "run").rename(tmp_path / ".elsewhere")
        show(name)

    monkeypatch.setattr(questions, "show", gone)
    monkeypatch.setattr(sys, "argv", ["main.py", "--root", str(tmp_path)])
    explorer = AppTest.from_file(str(APP), default_timeout=120)
    explorer.query_params.update({"unfold": "true"})
    explorer._page_hash = calc_hash(page)
    explorer.run()
    assert not explorer.exception
    told = [error.value.replace("\\", "") for error in explorer.error]
    assert told and all(f"{tmp_path / 'run'} was moved or deleted" in text for text in told), told


def test_another_error_is_raised_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ZOO / "chain-standard", tmp_path / "run")
    run = load_run(tmp_path / "run")
    monkeypatch.setattr(state, "on_page", lambda: {str(run.path): run})
    monkeypatch.setattr(state, "scanned", lambda: ([run], []))
    with pytest.raises(KeyError):
        state.tell_if_gone(KeyError("a fault"))
    (tmp_path / "run").rename(tmp_path / "moved")
    with pytest.raises(ValueError, match="is not there any more: it was moved or deleted"):
        run.model()
