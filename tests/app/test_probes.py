"""Probes: cards with controls of every run that has labels; what cannot be probed is said in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import workbench
from probes import probe_run, verdict
from tests.app.support import RUNS, charts, check_code, page, titles


def cards(explorer: AppTest, run: str, **query: str) -> AppTest:
    return page(explorer, "probes", run=run, **{"probe_n": "64", **query})


@pytest.mark.parametrize("run", RUNS)
def test_every_kind_of_run_has_a_card_and_its_layers(explorer: AppTest, run: str) -> None:
    cards(explorer, run)
    assert not explorer.error
    assert [one.value for one in explorer.subheader] == ["Linear probe", "By layer"]
    label = explorer.selectbox(key="probe_label").value
    assert titles(explorer) == [f"Linear probe for {label}", f"Linear probe for {label}, by layer"]
    assert all("Decodable is not used" in one.value for one in explorer.caption if "probe" in one.value)


def test_the_card_is_the_librarys_and_its_lines_make_it(explorer: AppTest, run_root: Path) -> None:
    cards(explorer, "chain-chacal", probe_label="root", probe_point="layer 0, after attention", step="0")
    run = workbench.load_run(run_root / "chain-chacal")
    found = probe_run(run, "root", point="blocks.0.hook_resid_mid", n=64, step=0)
    said = verdict(found).replace(":", "\\:")
    assert f"**{said[:1].upper()}{said[1:]}.**" in [one.value for one in explorer.markdown]
    texts = charts(explorer)[0]["data"][1]["text"]
    assert texts == [f"{value:.1%}" for value in found.values]
    assert check_code(explorer) == 2


def test_what_is_chosen_is_what_is_probed(explorer: AppTest) -> None:
    cards(explorer, "sort-tempered", probe_label="copies left")
    assert explorer.selectbox(key="probe_label").value == "copies_left"
    before = charts(explorer)
    explorer.selectbox(key="probe_point").set_value("blocks.0.hook_resid_pre").run()
    after = charts(explorer)
    assert before[0]["data"] != after[0]["data"] and before[1]["data"] == after[1]["data"]
    explorer.number_input(key="probe_position").set_value(18).run()
    assert not explorer.exception and charts(explorer)[1]["data"] != after[1]["data"]
    assert "position 18" in charts(explorer)[0]["layout"]["title"]["subtitle"]["text"]
    assert check_code(explorer) == 2


def test_what_cannot_be_probed_is_said_in_one_line(explorer: AppTest) -> None:
    cards(explorer, "chain-chacal", probe_label="hop", probe_position="9")
    assert not charts(explorer) and "nothing to decode" in explorer.error[0].value
    explorer.number_input(key="probe_position").set_value(0).run()
    assert not explorer.exception and "means nothing at position 0" in explorer.error[0].value
    explorer.number_input(key="probe_position").set_value(None).run()
    assert not explorer.exception and not explorer.error and len(charts(explorer)) == 2


def test_what_takes_long_is_fitted_on_request(explorer: AppTest) -> None:
    cards(explorer, "chain-chacal", probe_n="1024", probe_label="root")
    assert len(charts(explorer)) == 1 and "28,672 vectors of 32 classes" in explorer.info[0].value
    assert explorer.toggle(key="probe_layers").value is False
    explorer.number_input(key="probe_position").set_value(20).run()
    assert not explorer.exception and not explorer.info and len(charts(explorer)) == 2


def test_a_task_without_labels_has_nothing_to_probe(explorer: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    from workbench.tasks import Truth
    from workbench.tasks.pointer_chain import PointerChain

    monkeypatch.setattr(PointerChain, "truth", lambda self, tokens: Truth())
    monkeypatch.setattr("workbench.capture._sample_truth", lambda task: Truth())
    cards(explorer, "chaser")
    assert "labels nothing" in explorer.info[0].value and not charts(explorer)
