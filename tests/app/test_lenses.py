"""The panel of lenses on the residual page: made beside the page, and drawn as the library has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import workbench
from tests.app.support import charts, check_code, numbers, page
from workbench.app import state
from workbench.app.panels import background, lenses
from workbench.instruments.lens import jacobian_lens, logit_lens
from workbench.measurement import Measurement
from workbench.report.verdicts_by_place import named_from


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
    background.ask(("lens", "Jacobian", *looked_at.key), lambda: made).future.result(60)
    explorer.run()
    assert not explorer.exception
    assert check_code(explorer) == 5
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
    assert len(charts(explorer)) == 2


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
        "As the model says them, 1 of 2 answers are on top after attention 0 and ever after."
    )
    assert named_from(table, [2]) == "As the model says it, the answer is on top after MLP 0 and ever after."
    assert named_from(table, []) is None
