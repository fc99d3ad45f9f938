"""The panel of lenses on the residual page: made beside the page, and drawn as the library has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import workbench
from tests.app.support import ask, charts, check_code, numbers, page, says, titles
from workbench.app import state
from workbench.app.panels import lenses
from workbench.instruments.lens import jacobian_lens, logit_lens
from workbench.judgement.words.by_place import named_from, swapped
from workbench.measurement import Measurement


def shown(explorer: AppTest) -> dict[str, Any]:
    (chart,) = (one for one in charts(explorer) if "lens" in one["layout"]["title"]["text"])
    return chart


def shade(chart: dict[str, Any]) -> Any:
    return numbers(next(trace["z"] for trace in chart["data"] if trace["type"] == "heatmap"))


@pytest.mark.parametrize("run", ["sort-tempered", "chain-chacal"])
def test_the_jacobian_lens_is_made_beside_the_page_and_is_the_library_s(
    explorer: AppTest, run_root: Path, run: str
) -> None:
    opened = workbench.load_run(run_root / run)
    page(explorer, "residual", run=run, lens="Jacobian lens")
    assert any("what the Jacobian lens needs" in caption.value for caption in explorer.caption)
    looked_at = state.opened(opened)
    made = jacobian_lens.fit(looked_at.model, looked_at.subject, lenses.SEED)
    ask(("lens", "Jacobian", *looked_at.key), lambda: made).future.result(60)
    explorer.run()
    assert not explorer.exception
    assert check_code(explorer) == 6
    chart = shown(explorer)
    assert chart["layout"]["title"]["text"] == "What each layer says through the Jacobian lens"
    seen = workbench.see(opened, workbench.example(opened.model(), opened.task()))
    assert shade(chart) == pytest.approx(logit_lens.lens_tokens(seen, 0, **made).values, abs=1e-6)
    assert any("mean Jacobian of the later layers" in caption.value for caption in explorer.caption)
    explorer.segmented_control(key="lens").set_value("logit").run()
    assert shade(shown(explorer)) == pytest.approx(logit_lens.lens_tokens(seen, 0).values, abs=1e-6)


def test_the_lens_of_a_model_for_which_it_takes_hours_is_refused_in_the_panel(
    explorer: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lenses, "MOST", 1.0)
    page(explorer, "residual", run="sort-tempered", lens="Jacobian lens")
    assert any("in Python, with fewer sequences" in one.value for one in explorer.info)
    assert not [title for title in titles(explorer) if "lens" in title]


def test_the_verdict_names_the_point_from_which_half_of_the_answers_stay() -> None:
    points = ["blocks.0.hook_resid_pre", "blocks.0.hook_resid_mid", "blocks.0.hook_resid_post"]
    labels = np.array([["a", "b", "c"], ["a", "x", "z"], ["a", "x", "y"]])
    table = Measurement(
        name="t",
        values=np.zeros((3, 3)),
        dims=("point", "position"),
        coords={"point": points, "position": ["0", "1", "2"]},
        units="probability",
        settings={},
        labels=labels,
        caption="",
    )
    assert named_from(table, [1, 2]) == (
        "The token that the model answers is on top after attention 0, and stays there at 1 of 2 answers."
    )
    assert named_from(table, [2]) == ("The token that the model answers is on top after MLP 0, and stays there.")
    assert named_from(table, []) is None


def test_the_swap_of_this_input_with_itself_has_the_untouched_run_on_its_diagonal(explorer: AppTest) -> None:
    page(explorer, "residual", run="sort-tempered", swap_into="This input", swap_from="3", swap_to="3")
    (chart,) = (one for one in charts(explorer) if one["layout"]["title"]["text"].startswith("The source's residual"))
    assert np.diag(shade(chart)) == pytest.approx(shade(chart)[0, 0], rel=1e-3)
    assert says(explorer, "the source says")
    explorer.segmented_control(key="swap_into").set_value("another").run()
    assert not explorer.exception and check_code(explorer) == 6


def test_the_verdict_of_swaps_counts_those_that_give_the_source_s_answer() -> None:
    points = ["blocks.0.hook_resid_pre", "blocks.0.hook_resid_mid"]
    labels = np.array([[["a", "b"], ["b", "b"]], [["", ""], ["", ""]], [["a", "a"], ["a", "a"]]])
    table = Measurement(
        name="t",
        values=np.full((3, 2, 2), 0.25),
        dims=("run", "from", "into"),
        coords={"run": ("swapped", "random", "untouched"), "from": points, "into": points},
        units="probability",
        settings={"answer": "b"},
        labels=labels,
        caption="",
    )
    assert swapped(table) == (
        "3 of 4 swaps make the target say b, the source's answer (untouched: 25%). In the first it is taken at the "
        "embedding and put in after attention 0."
    )
    nothing = Measurement(**{**vars(table), "settings": {"answer": "c"}})
    assert swapped(nothing) == "No swap makes the target say c, the source's answer (untouched: 25%)."
