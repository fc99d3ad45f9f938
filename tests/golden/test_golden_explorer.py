"""Links into the explorer and pins that someone has kept: they open, and show what they showed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest

from tests.app.support import numbers
from tests.golden import links
from tests.golden.picture import HERE
from workbench.app.evidence.pin import Pin, figure_of
from workbench.app.evidence.storage import FOLDER, OnDisk
from workbench.app.views import PAGES
from workbench.figures import Drawing

PINS = sorted((HERE / "runs" / FOLDER).glob("*.json"))


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("page", PAGES)
def test_a_link_shows_what_it_showed(page: str, kept: Any, same: Callable[..., None]) -> None:
    _, shown = links.opened(page, kept("links", page, "link"))
    same(kept("links", page, "shows"), shown, key=page)
    assert not shown["exceptions"] and set(kept("links", page, "link")) <= set(shown["address"])


def test_every_page_has_a_link(kept: Any) -> None:
    assert set(kept("links")) == set(PAGES)  # in whatever order the menu has them


@pytest.mark.usefixtures("place")
def test_pins_are_read_and_lead_back_to_their_page(kept: Any) -> None:
    pins, problems = OnDisk(Path("runs")).pins()
    assert [pin.id for pin in pins] == [path.stem for path in PINS] and not problems
    session, shown = links.opened(pins[0].page, {name: values[-1] for name, values in pins[0].query.items()})
    assert not shown["exceptions"] and shown["address"] == {name: values[-1] for name, values in pins[0].query.items()}
    with links.explorer():
        session.session_state["evidence_open"] = True
        session.run()
    assert not session.exception
    led = [one.proto.label for one in session.get("page_link") if one.proto.help == "Open the page as it was"]
    assert led == [f"**{pin.title}**" for pin in pins]


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("path", PINS, ids=lambda path: path.stem[-4:])
def test_the_lines_of_a_pin_make_its_figure(path: Path) -> None:
    pin = Pin.read(path.read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    exec(compile(pin.code, "<pin>", "exec"), names)
    figure = names["figure"]
    if pin.drawing is not None:
        assert isinstance(figure, Drawing) and figure.svg().count("<rect") == pin.drawing.count("<rect") > 9
    else:
        assert isinstance(figure, go.Figure) and len(figure_of(str(pin.chart)).data) == len(figure.data) > 0
        now, then = (json.loads(str(chart))["data"] for chart in (figure.to_json(), pin.chart))
        for one, other in zip(now, then, strict=True):
            assert one["type"] == other["type"]
            assert numbers(one["y"]) == pytest.approx(numbers(other["y"]), rel=1e-6, abs=1e-7, nan_ok=True)
