"""The panel of principal components on the Residual page."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import workbench
from tests.app.support import ask, charts, numbers, page
from workbench.app import state
from workbench.app.panels.held_out import n_each
from workbench.inspection.components import components


def test_components_follow_the_fields_and_are_those_of_the_library(explorer: AppTest, run_root: Path) -> None:
    run, point = workbench.load_run(run_root / "sorter"), "blocks.0.hook_resid_mid"
    found = components(run, label="minimum", n=n_each(run.task()), seed=0, point=point, k=6)
    page(explorer, "residual", run="sorter", components_label="minimum", components_point="after attention 0")
    assert any("the principal components by minimum" in caption.value for caption in explorer.caption)
    key = ("components", *state.opened(run).key, "minimum", point)
    ask(key, lambda: found).future.result(60)
    explorer.selectbox(key="components_y").set_value(3).run()
    assert not explorer.exception
    drawn = next(one for one in charts(explorer) if one["layout"]["title"]["text"].startswith("Principal components"))
    assert sum(len(numbers(trace["y"])) for trace in drawn["data"]) == found.scores.values.shape[1]
    assert sorted(y for trace in drawn["data"] for y in numbers(trace["y"])) == pytest.approx(
        sorted(found.scores.select(component=3).values)
    )
    assert any("between classes of minimum" in text.value for text in explorer.markdown)
