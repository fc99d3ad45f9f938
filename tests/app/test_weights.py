"""The page Weights: circuits of a head, their singular vectors and entries, as the library has them; no input."""

from __future__ import annotations

import numpy as np
from streamlit.testing.v1 import AppTest

from tests.app.support import charts, check_code, numbers, page, panels, titles
from workbench.capture import Subject
from workbench.instruments.weights import token_circuits
from workbench.runs import load_run


def test_every_panel_shows_the_chosen_head_and_its_code_makes_it(explorer: AppTest, run_root: object) -> None:
    page(explorer, "weights", run="sorter", head="1.0")
    assert panels(explorer)[:3] == ["Between tokens", "Its singular vectors", "One entry, by its directions"]
    assert titles(explorer)[0] == "QK circuit, layer 1, head 0"
    assert check_code(explorer) == len(charts(explorer)) >= 4


def test_the_map_is_the_librarys_for_each_kind(explorer: AppTest, run_root: object) -> None:
    run = load_run(run_root / "sorter")  # type: ignore[operator]
    subject = Subject.of(run.model(), run.task(), run.name)
    page(explorer, "weights", run="sorter", head="0.1", circuit_kind="OV: what reading a token writes")
    drawn = charts(explorer)[0]["data"][0]
    expected = token_circuits.circuit(subject, 0, 1, "OV").values
    assert np.allclose(numbers(drawn["z"]).reshape(expected.shape), expected, atol=1e-6)
    explorer.selectbox(key="circuit_kind").select("mixing").run()
    assert not explorer.exception and titles(explorer)[0] == "What a head would read, layer 0, head 1"
    assert "QK circuit" in titles(explorer)[1]


def test_another_entry_is_another_sum(explorer: AppTest, run_root: object) -> None:
    page(explorer, "weights", run="sorter", head="0.0")
    subtitles = []
    for token in (0, 2):
        explorer.selectbox(key="entry_from").select(token).run()
        assert not explorer.exception
        subtitles.append(charts(explorer)[2]["layout"]["title"]["subtitle"]["text"])
    assert subtitles[0] != subtitles[1] and "the sum of the bars" in subtitles[0]


def test_one_layer_has_no_composition(explorer: AppTest) -> None:
    page(explorer, "weights", run="chaser")
    assert "Which heads could compose" not in panels(explorer)
