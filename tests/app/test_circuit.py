"""The page Circuit: which edges carry the answer, measured beside the page, with what circuits of each size keep."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.app.support import charts, check_code, drawing_titles, numbers, page, panels
from workbench.app import state
from workbench.app.panels import background, circuit
from workbench.app.panels.circuit import SHARES
from workbench.circuits.summary import with_interval
from workbench.runs import load_run

PANELS = ["The circuit", "Heads and MLPs by position"]


def measured(root: Path, name: str, kind: str, metric: str = "logit_difference") -> circuit.Found:
    """Have a run's circuit found, as its page would ask."""
    asked = circuit.Asked(state.opened(load_run(root / name)), kind, metric, "eap_ig")
    found: circuit.Found = background.ask(asked.key, lambda: circuit.measure(asked)).future.result(60)
    return found


def verdict(explorer: AppTest) -> str:
    return next(one.value for one in explorer.markdown if "edges keep" in one.value).replace("\\", "")


def test_the_page_stands_first_and_then_says_what_was_found(explorer: AppTest, run_root: Path) -> None:
    page(explorer, "circuit", run="chain-chacal")
    assert any("To be measured which edges" in one.value for one in explorer.caption) and not panels(explorer)
    found = measured(run_root, "chain-chacal", "pointer").summary
    page(explorer, "circuit", run="chain-chacal")
    size = found.halves.settings["edges"]
    assert panels(explorer) == PANELS
    assert drawing_titles(explorer) == [f"A circuit of {len(found.circuit)} of 23 edges"]
    at = next(i for i, share in enumerate(SHARES) if round(share * 23) == size)
    kept, without = (round(100 * float(one.mean().values[at])) for one in (found.curve, found.without))
    said = verdict(explorer)
    assert f"{len(found.circuit)} of 23 edges keep {kept}% of the logit difference; without them {without}%" in said
    assert f"share {float(found.halves.values):.0%} (by chance {found.halves.settings['chance']:.0%})" in said
    largest = found.largest_of_control()
    assert largest is not None
    assert f"where pairs change nothing relevant, the largest is {with_interval(largest[1])}." in said
    assert found.nodes_control is not None
    top, below = (numbers(one["z"]) for one in charts(explorer)[1]["data"])
    assert np.allclose(top, found.nodes.mean().values) and np.allclose(below, found.nodes_control.mean().values)
    assert any("does most, at position" in one.value for one in explorer.markdown)
    assert check_code(explorer) == 3


def test_another_size_is_drawn_marked_and_in_the_address(explorer: AppTest, run_root: Path) -> None:
    found = measured(run_root, "chain-chacal", "pointer").summary
    page(explorer, "circuit", run="chain-chacal", edges="18 edges")
    assert drawing_titles(explorer)[0].endswith("of 23 edges") and "of 23 edges keep" in verdict(explorer)
    chart = charts(explorer)[0]
    ring = next(line for line in chart["data"] if line.get("name") == "the circuit drawn")
    assert np.allclose(numbers(ring["y"]), found.curve.mean().select(share=0.8).values)
    slider = explorer.select_slider(key="edges")
    slider.set_value("23").run()
    assert not explorer.exception and explorer.query_params["edges"] in ("23 edges", ["23 edges"])
    assert drawing_titles(explorer) == ["A circuit of 23 of 23 edges"]
    assert "keep 100% of the logit difference; without them 0% is left" in verdict(explorer)


def test_another_kind_of_pair_is_another_measurement(explorer: AppTest, run_root: Path) -> None:
    measured(run_root, "chain-chacal", "pointer")
    page(explorer, "circuit", run="chain-chacal")
    explorer.selectbox(key="pairs").set_value("value").run()
    assert not panels(explorer) and any("To be measured" in one.value for one in explorer.caption)
    measured(run_root, "chain-chacal", "value")
    page(explorer, "circuit", run="chain-chacal", pairs="value")
    assert panels(explorer) == PANELS


def test_every_edge_is_in_the_table(explorer: AppTest, run_root: Path) -> None:
    found = measured(run_root, "sorter", "symbol").summary
    page(explorer, "circuit", run="sorter", **{"show-circuit-edges": "true"})
    (table,) = explorer.dataframe
    assert set(table.value["edge"]) == set(found.circuit.graph.names)
    assert table.value["in the circuit"].sum() == len(found.circuit)
    score = table.value["score, logits"].abs()
    assert score.is_monotonic_decreasing
    assert found.control is not None
    by_edge = table.value.set_index("edge")["control"]
    mean = found.control.mean()
    assert np.allclose(by_edge[list(mean.coords["edge"])], mean.values)
    assert {"low", "high", "low of control", "high of control"} <= set(table.value)


def test_where_there_is_no_circuit_one_line_says_why(
    explorer: AppTest, run_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise ValueError("there is <b>nothing</b> that a circuit could keep")

    asked = circuit.Asked(state.opened(load_run(run_root / "chaser")), "pointer", "logit_difference", "eap_ig")
    background.ask(asked.key, fails).future.exception(30)
    page(explorer, "circuit", run="chaser")
    (info,) = explorer.info
    assert "No circuit can be found here: there is <b>nothing" in info.value.replace("\\", "") and not panels(explorer)
    monkeypatch.setattr(type(asked.opened.subject.task), "pair_kinds", {})
    page(explorer, "circuit", run="chaser")
    (info,) = explorer.info
    assert "no pairs of questions that differ in one thing" in info.value
