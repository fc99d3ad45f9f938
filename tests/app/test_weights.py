"""The page Weights: circuits of a head, their singular vectors and entries, as the library has them; no input."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from streamlit.testing.v1 import AppTest

from tests.app.support import charts, check_code, drawing_titles, drawings, page, panels
from workbench.capture import Subject
from workbench.instruments.weights import token_circuits
from workbench.runs import load_run


def test_every_panel_shows_the_chosen_head_and_its_code_makes_it(explorer: AppTest, run_root: object) -> None:
    page(explorer, "weights", run="sorter", head="1.0")
    assert panels(explorer)[:3] == ["Between tokens", "One entry, by its directions", "Its singular vectors"]
    assert sorted(drawing_titles(explorer)) == [
        "Entry of the QK circuit, layer 1, head 0",
        "QK circuit, layer 1, head 0",
    ]
    assert check_code(explorer) == len(charts(explorer)) + 2 >= 4


def test_the_map_is_the_librarys_for_each_kind(explorer: AppTest, run_root: object) -> None:
    run = load_run(run_root / "sorter")  # type: ignore[operator]
    subject = Subject.of(run.model(), run.task(), run.name)
    page(explorer, "weights", run="sorter", head="0.1", circuit_kind="OV: what reading a token writes")
    expected = token_circuits.circuit(subject, 0, 1, "OV").values
    assert np.allclose(drawn(explorer)["values"], expected, rtol=1e-3, atol=1e-6)
    explorer.selectbox(key="circuit_kind").select("mixing").run()
    assert not explorer.exception
    assert sorted(drawing_titles(explorer)) == [
        "Entry of the QK circuit, layer 0, head 1",
        "What a head would read, layer 0, head 1",
    ]
    assert any("have their largest entry" in m.value or "no one step" in m.value for m in explorer.markdown)


def drawn(explorer: AppTest) -> dict[str, Any]:
    """What the page's script knows of the map."""
    more = [json.loads(element.proto.json)["more"] for element in explorer.get("bidi_component")]
    (grid,) = [one["grid"] for one in more if one]
    return grid  # type: ignore[no-any-return]


def framed(explorer: AppTest) -> str:
    """The row and the column of the cell that is framed in the map."""
    (at,) = [svg.split('data-at="')[1].split('"')[0] for svg in drawings(explorer) if "data-at" in svg]
    return at


def test_another_entry_is_another_sum_and_the_first_is_the_strongest(explorer: AppTest, run_root: object) -> None:
    page(explorer, "weights", run="sorter", head="0.0")
    values = np.abs(np.array(drawn(explorer)["values"]))
    row, column = np.unravel_index(values.argmax(), values.shape)
    assert framed(explorer) == f"{row},{column}"
    subtitles = []
    for token in (0, 2):
        explorer.selectbox(key="entry_from").select(token).run()
        assert not explorer.exception
        subtitles += [one.value for one in explorer.markdown if "the sum of the bars" in one.value]
        assert framed(explorer) == f"{token},{column}"
    assert len(set(subtitles)) == 2


def test_the_page_opens_on_the_circuit_by_which_the_head_tells_keys_apart(explorer: AppTest, run_root: object) -> None:
    run = load_run(run_root / "chaser")  # type: ignore[operator]
    subject = Subject.of(run.model(), run.task(), run.name)
    spread = token_circuits.spreads(subject, 0, 0)
    page(explorer, "weights", run="chaser", head="0.0")
    assert explorer.selectbox(key="circuit_kind").value == spread.coords["circuit"][int(spread.values.argmax())]
    assert any("In its weights the head picks mostly" in m.value for m in explorer.markdown)


def test_one_layer_has_no_composition(explorer: AppTest) -> None:
    page(explorer, "weights", run="chaser")
    assert "Which heads could compose" not in panels(explorer)
