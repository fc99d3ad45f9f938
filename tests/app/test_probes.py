"""Probes: what the page shows is what the library and the command line say; what cannot be probed is said in a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

import workbench
from tests.app.support import RUNS, charts, check_code, numbers, page, panels, says, titles
from workbench.app.config_in_words import plain
from workbench.app.fields import probe_question
from workbench.app.panels import background, measuring
from workbench.cli import main
from workbench.judgement.decodable import BASELINES
from workbench.probes import ask, verdict

OWN = "a question of your own"
BESIDE = (*BASELINES, "re-initialised model")  # what a label has to gain over


def asked(explorer: AppTest, run: str, **query: str) -> AppTest:
    return page(explorer, "probes", run=run, **{"probe_n": "64", **query})


@pytest.mark.parametrize("run", RUNS)
def test_every_kind_of_run_has_a_question_with_its_layers_and_card(explorer: AppTest, run: str) -> None:
    asked(explorer, run)
    assert not explorer.error
    assert panels(explorer)[:3] == [
        "What can be decoded",
        "At one point, beside its controls",
        "Is it used?",
    ]
    assert len(charts(explorer)) == 2 and all("probe" in title or "Regression" in title for title in titles(explorer))
    assert any("Decodable does not mean used" in one.value for one in explorer.caption)


def test_the_page_the_library_and_the_command_line_give_the_same_numbers(
    explorer: AppTest, run_root: Path, tmp_path: Path
) -> None:
    path = run_root / "chain-chacal"
    answer = ask(workbench.load_run(path), "hops", n=64, causal=False)
    found = answer.measured.select(label="root")
    assert (
        main(["probe", str(path), "hops", "--n", "64", "--no-causal", "--quiet", "--out", str(tmp_path / "out")]) == 0
    )
    table = pd.read_csv(tmp_path / "out" / "probe.csv")
    written = table[table["label"] == "root"]["value"].to_numpy().reshape(found.values.shape)
    assert np.allclose(written, found.values, equal_nan=True)

    asked(explorer, "chain-chacal", probe_label="root", probe_point="layer 0, after attention")
    layers, card = charts(explorer)
    shown = {line["name"]: numbers(line["y"]) for line in layers["data"]}
    for i, name in enumerate(found.coords["condition"]):
        assert np.allclose(shown[name], found.values[:, i])
    own = found.select(point="blocks.0.hook_resid_mid")
    assert card["data"][1]["text"] == [f"{value:.1%}" for value in own.values]
    said = plain(verdict(own))
    assert f"**{said[:1].upper()}{said[1:]}.**" in [one.value for one in explorer.markdown]
    assert check_code(explorer) == 2


def test_what_is_decoded_is_tested_and_described_on_request(explorer: AppTest) -> None:
    asked(explorer, "chain-chacal", probe_label="root", probe_causal="true", probe_code="true")
    assert not explorer.error and len(charts(explorer)) == 4
    assert any(one.value.startswith("**Used\\:") for one in explorer.markdown)
    assert "Learning curve: root" in titles(explorer)
    assert check_code(explorer) == 4


def test_ones_own_question(explorer: AppTest) -> None:
    own = {"probe_preset": OWN, "probe_label": "copies left", "probe_where": "every output"}
    asked(explorer, "sort-tempered", probe_point="layer 1, after the MLP", **own)
    assert explorer.selectbox(key="probe_label").value == "copies_left"
    before = charts(explorer)
    explorer.selectbox(key="probe_point").set_value("blocks.0.hook_resid_pre").run()
    after = charts(explorer)
    assert before[0]["data"] == after[0]["data"] and before[1]["data"] != after[1]["data"]
    explorer.selectbox(key="probe_where").set_value("at one position").run()
    explorer.number_input(key="probe_position").set_value(12).run()
    assert not explorer.exception and says(explorer, "position 12")
    explorer.selectbox(key="probe_kind").set_value("ridge").run()
    assert says(explorer, "ridge")
    assert check_code(explorer) == 2


def test_places_are_chosen_among_those_that_have_something_to_tell(explorer: AppTest) -> None:
    asked(explorer, "multiply-seqvcr", probe_n="128")
    assert explorer.selectbox(key="probe_preset").value == "carry"
    assert "5" not in explorer.selectbox(key="probe_place").options
    assert charts(explorer)[0]["data"][0]["type"] == "heatmap"


def test_what_cannot_be_probed_is_said_in_one_line(explorer: AppTest) -> None:
    own = {"probe_preset": OWN, "probe_where": "at one position", "probe_label": "depth"}
    asked(explorer, "chain-chacal", probe_position="9", **own)
    assert not charts(explorer) and "nothing to tell apart" in explorer.error[0].value
    explorer.number_input(key="probe_position").set_value(0).run()
    assert not explorer.exception and "means nothing at position 0" in explorer.error[0].value


def test_what_takes_long_is_fitted_on_request(explorer: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_question, "UNASKED", 0.0)
    monkeypatch.setattr(probe_question, "AT_ONCE", 0.0)
    asked(explorer, "chain-chacal", probe_label="root")
    fit = explorer.button(key="probe_anyway-press")
    assert not charts(explorer) and "about" in fit.label and not being_measured(explorer)
    fit.click().run()
    assert not explorer.exception and being_measured(explorer)
    assert explorer.query_params["probe_anyway"] == "true"


def test_what_takes_some_seconds_is_fitted_beside_the_page_unasked(
    explorer: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[tuple[Any, Any]] = []
    awaited = measuring.awaited
    monkeypatch.setattr(measuring, "awaited", lambda *given: (waited.append(given[:2]), awaited(*given))[1])
    page(explorer, "probes", run="chain-chacal", probe_n="64", probe_label="root")
    at_once = charts(explorer)
    monkeypatch.setattr(probe_question, "AT_ONCE", 0.0)
    explorer.run()
    assert (
        at_once
        and not charts(explorer)
        and not any("Fit" in b.label for b in explorer.button)
        and being_measured(explorer)
    )
    key, measure = waited[-1]
    background.ask(key, lambda job: iter([measure(job)])).future.result(60)  # as the browser does on its next look
    explorer.run()
    assert [chart["data"] for chart in charts(explorer)] == [chart["data"] for chart in at_once]
    assert not being_measured(explorer) and check_code(explorer) == 2


def being_measured(explorer: AppTest) -> bool:
    return any("easur" in one.value for one in explorer.caption)


def test_label_and_point_are_at_first_those_that_gain_most_over_their_baselines(
    explorer: AppTest, run_root: Path
) -> None:
    asked(explorer, "chain-chacal")
    measured = ask(workbench.load_run(run_root / "chain-chacal"), "hops", n=64, causal=False).measured
    chosen = {
        "label": explorer.selectbox(key="probe_label").value,
        "point": explorer.selectbox(key="probe_point").value,
    }
    gains = {}
    for label in measured.coords["label"]:
        for point in measured.coords["point"]:
            one = measured.select(label=label, point=point)
            beside = [one.select(condition=name).values for name in one.coords["condition"] if name in BESIDE]
            gains[label, point] = float(one.select(condition="trained").values - np.nan_to_num(beside).max())
    assert gains[chosen["label"], chosen["point"]] == pytest.approx(max(gains.values())) and len(gains) > 10
