"""Evidence: pins kept in the folder, what they leave as, and files of pins that a stranger wrote."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs

import plotly.graph_objects as go
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from tests.app.conftest import APP
from tests.app.support import charts, drawings, page, same
from workbench.app.evidence import collection, html_page, storage
from workbench.app.evidence.pin import Pin, figure_of
from workbench.app.evidence.svg import only_shapes
from workbench.figures import Drawing

Session = Callable[[], AppTest]
HOSTILE = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9" width="9" height="9" onload="alert(1)">'
    "<script>alert(2)</script><style>@import url(http://evil.example/a.css)</style>"
    '<a href="javascript:alert(3)"><rect width="9" height="9"/></a><foreignObject><p>four</p></foreignObject>'
    '<image href="http://evil.example/5.png" width="9" height="9"/><rect fill="url(http://evil.example/6)" x="1"/>'
    '<g onclick="alert(7)" class="edge"><rect width="9" height="8" fill="red"/></g></svg>'
)


@pytest.fixture
def folder(run_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one's own with one run, which a browser with the token looks at."""
    root = tmp_path / "runs"
    shutil.copytree(run_root / "sort-tempered", root / "sort-tempered")
    monkeypatch.setattr(sys, "argv", ["main.py", "--root", str(root)])
    monkeypatch.setattr(collection, "may_write", lambda: True)  # as with the token; see test_guard
    return root


@pytest.fixture
def session(folder: Path) -> Session:
    """Opens the explorer over `folder` as another browser would."""
    return lambda: AppTest.from_file(str(APP), default_timeout=60)


def open_evidence(explorer: AppTest) -> AppTest:
    """Open the popover, as a click does."""
    explorer.session_state["evidence_open"] = True
    explorer.run()
    assert not explorer.exception, explorer.exception[0].value
    return explorer


def with_pin(explorer: AppTest, button: str = "residual-pin", **query: str) -> AppTest:
    """Pin a panel of the page on one input."""
    page(explorer, "residual", **{"run": "sort-tempered", "how": "Type", "input": "3 1 2"} | query)
    explorer.button(key=button).click().run()
    assert not explorer.exception
    return explorer


def pins(folder: Path) -> list[Pin]:
    """The pins that lie in a folder, all of which can be read."""
    found, problems = storage.OnDisk(folder).pins()
    assert not problems
    return found


def example(**about: object) -> Pin:
    """A pin made by hand."""
    figure = about.pop("figure", None) or go.Figure(go.Scatter(y=[1, 2]), {"title": {"text": "Of two"}})
    given = {"title": "A", "says": "Says. More.", "code": "1 + 1", "page": "residual", "query": {"run": ("r",)}} | about
    return Pin.of(figure, **given)


def write(folder: Path, name: str = "f" * 24, **changed: object) -> Path:
    """A file of a pin, some of whose values are changed."""
    path = folder / storage.FOLDER / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(json.loads(example().model_dump_json()) | {"id": name} | changed))
    return path


def links(explorer: AppTest) -> list[tuple[str, dict[str, list[str]]]]:
    """The page and the query that each pin leads back to."""
    found = [element.proto for element in explorer.get("page_link") if element.proto.help == "Open the page as it was"]
    return [(one.page, parse_qs(one.query_string)) for one in found]


def test_a_pin_says_what_it_is_of_and_leads_back_to_its_page(folder: Path, session: Session) -> None:
    explorer = with_pin(session())
    with_pin(explorer, "trajectory-pin")
    drawing, chart = pins(folder)
    assert [drawing.title, chart.title] == ["Residual on both bases", "Over the layers at this position"]
    assert drawing.runs == ("sort-tempered",) and drawing.input == "3 1 2" and drawing.page == "residual"
    assert "workbench.load_run" in drawing.code and drawing.n is None and drawing.behind() == "one input"
    shown = drawings(explorer)[0]
    assert drawing.drawing is not None and shown.count("<rect") == drawing.drawing.count("<rect") > 9
    made = json.loads(figure_of(str(chart.chart)).to_json() or "")
    assert any(same(made["data"], one["data"]) for one in charts(explorer))
    (_, query), _ = links(open_evidence(explorer))
    assert {key: tuple(values) for key, values in query.items() if key != "whole"} == drawing.query
    assert query["input"] == ["3 1 2"] and "unfold" in query
    page(explorer, "residual", **{key: values[-1] for key, values in query.items()})
    assert explorer.text_input(key="input").value == "3 1 2" and "whole" not in explorer.query_params


def test_a_link_back_empties_what_the_session_holds_beside_it(session: Session) -> None:
    explorer = page(session(), "canvas", run="sort-tempered", focus="3")
    assert explorer.query_params["focus"] == "3"
    explorer.query_params.clear()
    page(explorer, "canvas", run="sort-tempered", whole="0f")
    assert "focus" not in explorer.query_params


def test_pins_outlive_the_server_and_show_in_another_browser(folder: Path, session: Session) -> None:
    with_pin(session())
    st.cache_resource.clear()
    other = open_evidence(page(session(), "canvas", run="sort-tempered"))
    (title,) = (one.proto.label for one in other.get("page_link") if one.proto.help == "Open the page as it was")
    assert title == "**Residual on both bases**"


def test_two_browsers_do_not_lose_each_others_pins(folder: Path, session: Session) -> None:
    one, other = session(), session()
    page(one, "residual", run="sort-tempered")
    page(other, "residual", run="sort-tempered")
    one.button(key="residual-pin").click().run()
    other.button(key="trajectory-pin").click().run()
    one.button(key="residual-pin").click().run()
    assert len(pins(folder)) == 3
    first, second, third = pins(folder)
    open_evidence(one).text_area(key=f"note-{first.id}").set_value("of one").run()
    open_evidence(other).text_area(key=f"note-{second.id}").set_value("of the other").run()
    assert [pin.note for pin in pins(folder)] == ["of one", "of the other", ""]
    assert open_evidence(one).text_area(key=f"note-{second.id}").value == "of the other"
    other.button(key=f"unpin-{third.id}").click().run()
    one.text_area(key=f"note-{third.id}").set_value("too late").run()
    assert [pin.id for pin in pins(folder)] == [first.id, second.id] and not one.exception


def test_a_pin_that_was_removed_can_be_had_back(folder: Path, session: Session) -> None:
    explorer = open_evidence(with_pin(session()))
    (before,) = pins(folder)
    explorer.button(key=f"unpin-{before.id}").click().run()
    assert not pins(folder)
    explorer.button(key="unpin-undo").click().run()
    assert pins(folder) == [before] and not explorer.exception
    assert "unpin-undo" not in [button.key for button in explorer.button]


@pytest.mark.parametrize("reason", ["read-only", "view-only", "not a folder", "come with the workbench"])
def test_where_the_folder_cannot_be_written_pins_stay_in_the_browser_and_it_says_why(
    folder: Path, session: Session, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    run = "sort-tempered"
    if reason == "read-only":
        monkeypatch.setattr("os.access", lambda *_: False)
    elif reason == "view-only":
        monkeypatch.setattr(collection, "may_write", lambda: False)
    elif reason == "not a folder":
        (folder / storage.FOLDER).write_text("mine")
    else:
        shutil.rmtree(folder / run)
    before = sorted(folder.rglob("*"))
    explorer = open_evidence(with_pin(session(), input="3 1 2"))
    assert any(reason in caption.value.replace("\\", "") for caption in explorer.caption)
    (area,) = explorer.text_area
    area.set_value("mine").run()
    mine = explorer.session_state["evidence"]
    assert [pin.note for pin in mine.pins()[0]] == ["mine"] and sorted(folder.rglob("*")) == before
    explorer.button(key=str(area.key).replace("note-", "unpin-")).click().run()
    assert not mine.pins()[0] and not explorer.exception


def test_a_view_only_browser_sees_the_folders_pins_and_changes_none(
    folder: Path, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, note="kept")
    monkeypatch.setattr(collection, "may_write", lambda: False)
    explorer = open_evidence(page(session(), "canvas", run="sort-tempered"))
    assert "kept" in [caption.value for caption in explorer.caption] and not explorer.text_area
    assert not [button.key for button in explorer.button if str(button.key).startswith("unpin-")]


def test_the_page_fits_paper_and_loads_nothing(folder: Path) -> None:
    html = html_page.page([example(title="<b>x</b>", note="<i>n</i>"), example(figure=Drawing("D", "", "", 9, 9))])
    assert "&lt;b&gt;x" in html and "<b>x" not in html and "&lt;i&gt;n" in html
    assert "default-src &#x27;none&#x27;" in html and "@media print" in html and "break-inside: avoid" in html
    assert "max-width: 100%" in html and html.count("data:image/svg+xml;base64,") == 2
    assert "residual?run=r" in html


def test_without_a_browser_on_the_machine_everything_still_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise RuntimeError("no Chrome here")

    monkeypatch.setattr("kaleido.start_sync_server", missing)
    monkeypatch.setattr("choreographer.Browser", missing)
    one = example(title="never drawn before", figure=go.Figure(go.Scatter(y=[3, 1, 4])))
    assert "no Chrome here" in html_page.page([one])


def test_of_a_strangers_drawing_only_the_shapes_are_left() -> None:
    safe = only_shapes(HOSTILE)
    for word in ("script", "alert", "evil", "javascript", "onload", "onclick", "foreignObject", "@import", "four"):
        assert word not in safe
    assert 'class="edge"' in safe and 'fill="red"' in safe and only_shapes(safe) == safe


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<p/>",
        '<!DOCTYPE svg [<!ENTITY a "b">]><svg/>',
        "<svg>" * 100_000,
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1" width="1" height="1e9"/>',
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1" width="nan" height="1"/>',
    ],
)
def test_what_is_no_drawing_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        only_shapes(text)
    assert "\n" not in str(caught.value)


DAMAGED: dict[str, dict[str, object]] = {
    "wrong type": {"title": 3},
    "not a number": {"n": float("nan")},
    "a number that is true": {"checkpoint": True},
    "unknown": {"url": "https://evil.example"},
    "a link": {"query": {"run": ["x"], "javascript:alert(1)": ["x"]}},
    "a token": {"query": {"token": ["x"]}},
    "embedded": {"query": {"embed": ["true"]}},
    "another page": {"page": "../../evil"},
    "two figures": {"drawing": HOSTILE},
    "no figure": {"chart": None},
    "no drawing": {"chart": None, "drawing": "<svg"},
    "long": {"title": "x" * 501},
    "surrogate": {"note": "\ud800"},
}


@pytest.mark.parametrize("how", DAMAGED)
def test_a_damaged_pin_is_said_in_one_line_and_stays(folder: Path, how: str) -> None:
    path = write(folder, **DAMAGED[how])
    content = path.read_bytes()
    found, (problem,) = storage.OnDisk(folder).pins()
    assert not found and path.name in problem and "\n" not in problem and len(problem) < 310
    storage.OnDisk(folder).put(example())
    assert path.read_bytes() == content and len(storage.OnDisk(folder).pins()[0]) == 1


def test_files_that_are_too_large_or_lead_elsewhere_are_left_out(folder: Path, tmp_path: Path) -> None:
    write(folder, "0" * 24).write_text("x" * (storage.MOST_BYTES + 1))
    outside = write(folder, "1" * 24).rename(tmp_path / f"{'1' * 24}.json")
    (folder / storage.FOLDER / outside.name).symlink_to(outside)
    write(folder, "2" * 24).rename(folder / storage.FOLDER / f"{'3' * 24}.json")
    write(folder, "4" * 24).write_text("[" * 100_000)
    found, problems = storage.OnDisk(folder).pins()
    assert not found and len(problems) == 4


def test_nothing_is_written_through_a_strangers_link(folder: Path, tmp_path: Path) -> None:
    path = write(folder)
    mine = tmp_path / "mine"
    mine.write_text("mine")
    (path.parent / f".{path.name}.partial").symlink_to(mine)
    with pytest.raises(ValueError, match="link"):
        storage.OnDisk(folder).note(path.stem, "a note")
    shutil.rmtree(path.parent)
    (tmp_path / "elsewhere").mkdir()
    (folder / storage.FOLDER).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="link"):
        storage.OnDisk(folder).put(example())
    assert mine.read_text() == "mine" and not list((tmp_path / "elsewhere").iterdir())


def test_there_is_room_for_so_many_pins(folder: Path) -> None:
    for number in range(storage.MOST):
        write(folder, f"{number:024x}")
    with pytest.raises(ValueError, match="remove one first"):
        storage.OnDisk(folder).put(example())
    write(folder)
    found, problems = storage.OnDisk(folder).pins()
    assert len(found) == storage.MOST and "1 more" in problems[0]


@pytest.mark.parametrize(
    "chart",
    [
        "{",
        "[]",
        '{"data": 5, "layout": {}}',
        '{"data": [{"type": "scattermap"}], "layout": {}}',
        '{"data": [], "layout": {"images": [{"source": "http://evil.example/x.png"}]}}',
        '{"data": [], "layout": {"nothing": 1}}',
        '{"data": [{"type": "scatter", "y": "</script><script>alert(1)</script>"}], "layout": {"height": "tall"}}',
        "[" * 100_000,
    ],
)
def test_a_strangers_chart_that_plotly_refuses_is_said_in_its_place(chart: str) -> None:
    one = example().model_copy(update={"chart": chart})
    html = html_page.page([one])
    assert "this chart cannot be read" in html and "<script>alert" not in html


def test_markup_in_a_charts_words_does_not_end_the_script() -> None:
    one = example(figure=go.Figure(go.Scatter(y=[1]), {"title": {"text": "</script><script>alert(1)</script>"}}))
    assert "<script>alert" not in html_page.page([one])


def test_a_strangers_words_are_shown_as_they_are(folder: Path, session: Session) -> None:
    write(folder, title=":red[x] ![y](http://evil.example/y.png) <b>", note="$z$", chart=None, drawing=HOSTILE)
    explorer = open_evidence(page(session(), "canvas", run="sort-tempered"))
    (title,) = (one.proto.label for one in explorer.get("page_link") if one.proto.help == "Open the page as it was")
    assert title.startswith("**\\:red\\[x\\] \\!\\[y\\]") and explorer.text_area[0].value == "$z$"
    html = html_page.page(pins(folder))
    assert "alert" not in html and "evil.example/y.png)" in html and "<b>" not in html
