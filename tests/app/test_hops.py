"""The page of hops: its matrices, γ, masses and paths are the library's, whatever the run and the input."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import workbench
from tests.app.browsing import measured, serving
from tests.app.conftest import APP
from tests.app.support import RUNS, charts, check_code, drawings, numbers, page, panels, says, titles
from workbench.capture import Capture
from workbench.inspection import inspect_run
from workbench.instruments.attention import attention_graph, path_mass, resolvent, rollout
from workbench.instruments.attention.strongest_paths import across_layers, within_layer

PANELS = [
    "Follow a token",
    "Mass by hop: this input",
    "Mass by hop: held-out sequences",
    "Hop ladder of this head: every query",
    "Another γ: every query",
    "Strongest paths",
]


def seen(root: Path, run: str, of: str | None = None) -> Capture:
    """What the page looks at when nothing is chosen; of another run, on the same input."""
    own = workbench.load_run(root / run)
    return workbench.see(workbench.load_run(root / (of or run)), workbench.example(own.model(), own.task()))


def matrices(chart: dict[str, Any]) -> dict[str, np.ndarray]:
    """The heat maps of a figure under their titles."""
    names = [note["text"] for note in chart["layout"]["annotations"]]
    heats = [trace["z"] for trace in chart["data"] if trace["type"] == "heatmap"]
    return {name: numbers(z) for name, z in zip(names, heats, strict=True)}


def bars(chart: dict[str, Any]) -> dict[str, list[float]]:
    """The stacked bars of a ladder: part -> its length in each row."""
    return {trace["name"]: trace["x"] for trace in chart["data"] if trace["type"] == "bar"}


@pytest.mark.parametrize("run", RUNS)
def test_every_kind_of_run_has_its_panels_and_the_code_that_makes_them(explorer: AppTest, run: str) -> None:
    page(explorer, "hops", run=run)
    assert not explorer.error and not explorer.warning
    assert panels(explorer) == PANELS
    assert len(charts(explorer)) + len(drawings(explorer)) == check_code(explorer) == 6
    alone = run in ("sort-tempered", "multiply-seqvcr", "items-in-boxes")
    assert [info.value[:24] for info in explorer.info] == ["This folder has no other"] * alone


def test_the_ladder_is_the_heads_matrices_beside_the_rollout_of_the_deepest_other_run(
    explorer: AppTest, run_root: Path
) -> None:
    page(explorer, "hops", run="chain-chacal", head="layer 0, head 2", hops_powers="3")
    assert explorer.selectbox(key="other_run").value == "chain-standard"
    assert sorted(explorer.selectbox(key="other_run").options) == ["chain-standard", "chaser"]
    drawn = matrices(charts(explorer)[0])
    own = attention_graph.matrices(seen(run_root, "chain-chacal"), 0, 0, 2, n_hops=3)
    deep = rollout.matrices(seen(run_root, "chain-chacal", "chain-standard"), 0)
    assert list(drawn)[1:3] == ["A²: 2 steps", "A³: 3 steps"] and len(drawn) == 5
    assert np.array_equal(np.stack(list(drawn.values())[:4]), own.values)
    assert np.array_equal(drawn["rollout of chain-standard"], deep.values[0])
    explorer.selectbox(key="other_run").set_value("chaser").run()
    assert not explorer.exception and "rollout of chaser" in matrices(charts(explorer)[0])


def test_gamma_starts_at_the_layers_own_and_recomputes_matrix_and_mass(explorer: AppTest, run_root: Path) -> None:
    page(explorer, "hops", run="chain-chacal", head="layer 0, head 1")
    assert explorer.slider(key="gamma").value == 0.9
    assert list(matrices(charts(explorer)[1])) == ["γ = 0: the pattern", "γ = 0.9: what the layer applies"]
    explorer.slider(key="gamma").set_value(0.35).run()
    assert not explorer.exception
    own = seen(run_root, "chain-chacal")
    drawn = matrices(charts(explorer)[1])
    A = attention_graph.pattern(own, 0)[0, 1]
    assert drawn["γ = 0.35"] == pytest.approx(resolvent.resolvent(A, 0.35).numpy(), abs=1e-6)
    assert drawn["γ = 0.9: what the layer applies"] == pytest.approx(attention_graph.resolvent(own, 0)[0, 1].numpy())
    n_hops = own.truth.n_hops
    mass = [path_mass.measure(own, n_hops=n_hops, gamma=gamma) for gamma in (0.0, None, 0.35)]
    expected = [m.select(layer=0, head=1, hop=2, example=0).values.item() for m in mass]
    assert bars(charts(explorer)[2])["hop 2"] == pytest.approx(expected) and expected[0] != expected[2]


def test_a_link_brings_gamma_back_and_a_standard_layer_has_none_of_its_own(explorer: AppTest) -> None:
    page(explorer, "hops", run="chain-standard", gamma="0.2")
    assert list(matrices(charts(explorer)[1])) == ["γ = 0: the pattern", "γ = 0.2"]
    assert any("what ChaCAL would read through this layer's pattern" in said.value for said in explorer.caption)
    explorer.selectbox(key="run").set_value("sort-tempered").run()
    assert explorer.slider(key="gamma").value == 0.9


def test_gold_mass_is_that_of_inspection_with_its_controls_of_both_runs(explorer: AppTest, run_root: Path) -> None:
    page(explorer, "hops", run="chain-chacal", head="layer 0, head 3")
    ladder = charts(explorer)[3]
    assert says(explorer, "128 sequences")
    found = inspect_run(workbench.load_run(run_root / "chain-chacal"), n=128, seed=0, only=["path_mass"], causal=False)
    where = {"layer": 0, "head": 3, "hop": 1}
    expected = [
        one.mean.select(**where).values.item() for one in (found["path_mass"], *found["path_mass"].controls.values())
    ]
    assert bars(ladder)["hop 1"][:4] == pytest.approx(expected) and len(bars(ladder)["hop 1"]) == 8
    explorer.segmented_control(key="hops_by").set_value("rollout").run()
    assert not explorer.exception and "Rollout mass by hop" in titles(explorer)
    assert check_code(explorer) == 6


def test_paths_lead_from_the_query_to_the_key_within_a_layer_and_through_all(explorer: AppTest, run_root: Path) -> None:
    page(explorer, "hops", run="chain-standard", head="layer 1, head 0", position="30", hops_to="9", hops_most="2")
    own = seen(run_root, "chain-standard")
    expected = within_layer(attention_graph.pattern(own, 1)[0, 0], 30, 9, most=2)
    ways = [trace["name"] for trace in charts(explorer)[4]["data"] if trace["mode"] == "lines"]
    assert sorted(ways) == [f"{rank}: {way(path)}" for rank, path in enumerate(expected, start=1)]
    explorer.segmented_control(key="hops_through").set_value("all layers").run()
    deep = across_layers([attention_graph.resolvent(own, layer)[0] for layer in (0, 1)], 30, 9, most=2)
    drawn = charts(explorer)[4]
    assert drawn["data"][-1]["x"][0] == pytest.approx(30 - 0.1) and f"weight {deep[0].weight:.3g}" in str(drawn["data"])
    assert check_code(explorer) == 6
    explorer.number_input(key="hops_to").set_value(31).run()
    assert [info.value[:38] for info in explorer.info] == ["A path leads back to an earlier positi"]


def way(path: Any) -> str:
    return f"{' → '.join(map(str, path.positions))}, weight {path.weight:.3g}"


@pytest.mark.parametrize(
    "given",
    ["sort-tempered: 4", "multiply-seqvcr: 12 * 34", "chain-chacal: 0 1 2 3 0 1 2 3"],
)
def test_the_shortest_inputs_show_what_there_is(explorer: AppTest, given: str) -> None:
    run, text = given.split(": ")
    page(explorer, "hops", run=run, how="Type", input=text, position="0")
    assert not explorer.error and panels(explorer) == PANELS
    assert any("earlier position" in info.value for info in explorer.info)


def test_a_checkpoint_is_measured_in_place_of_the_end(explorer: AppTest, run_root: Path) -> None:
    step = workbench.load_run(run_root / "sort-tempered").checkpoints()[0]
    page(explorer, "hops", run="sort-tempered", step=str(step))
    assert f"sort-tempered at step {step}" in charts(explorer)[3]["data"][0]["y"][0]
    assert check_code(explorer) == 6


@pytest.mark.parametrize("number", ["1e400", "9" * 400, "nan", "-3", "x"])
def test_a_link_with_what_is_no_position_opens_the_default(explorer: AppTest, number: str) -> None:
    page(explorer, "hops", run="chaser", position=number, hops_to=number, hops_most=number, sample=number)
    assert explorer.number_input(key="position").value == 31 and not explorer.error


@pytest.fixture
def odd_root(run_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run without a graph, one that asks for sets, one of many tokens, and one whose weights do not load."""
    (tmp_path / "words.txt").write_text("the quick brown fox jumps over the lazy dog. " * 60, encoding="utf-8")
    text = {"name": "text", "path": str(tmp_path / "words.txt"), "block": 16}
    workbench.train("chain-standard", out=tmp_path / "text", progress=False, steps=2, eval_size=4, task=text)
    for name, n in (("sets", 32), ("long", 160)):
        task = {"name": "pointer_chain", "n": n, "k": 4, "reading": "chain"}
        workbench.train("chain-chacal", out=tmp_path / name, progress=False, steps=2, eval_size=4, task=task)
    shutil.copytree(run_root / "chain-standard", tmp_path / "broken")
    shutil.copy(run_root / "sort-tempered" / "weights.safetensors", tmp_path / "broken")
    monkeypatch.setattr(sys, "argv", ["main.py", "--root", str(tmp_path)])
    return tmp_path


def test_odd_runs_say_in_one_line_what_does_not_apply(odd_root: Path) -> None:
    odd = AppTest.from_file(str(APP), default_timeout=60)
    page(odd, "hops", run="text")
    assert panels(odd) == [title for title in PANELS if not title.startswith("Mass by hop")]
    assert "This task has no graph" in odd.info[0].value and not odd.error
    assert list(matrices(charts(odd)[0])) == ["A: the pattern", "A²: 2 steps", "resolvent: all hops at once"]
    assert check_code(odd) == 4
    odd.selectbox(key="run").set_value("sets").run()
    assert not odd.exception and panels(odd) == PANELS
    assert len(odd.warning) == 1 and "does not fit its config" in odd.warning[0].value


def test_of_a_long_input_a_window_is_drawn_from_where_one_chooses(odd_root: Path) -> None:
    odd = AppTest.from_file(str(APP), default_timeout=60)
    page(odd, "hops", run="long")
    assert says(odd, "positions 32 to 159 of 160")
    odd.slider(key="start").set_value(5).run()
    assert sum("positions 5 to 132 of 160" in one.value for one in odd.markdown) >= 2
    assert not says(odd, "positions 32 to 159 of 160")
    for chart in charts(odd)[:2]:
        assert all(matrix.shape == (128, 128) for matrix in matrices(chart).values())


@pytest.mark.browser
def test_of_long_inputs_the_other_run_is_measured_beside_the_page(browser: Any, tmp_path: Path) -> None:
    """The run's own mass is there while the other's is still measured; then both are, as the library measures them."""
    shape = {"n_layers": 1, "n_heads": 1, "d_model": 8, "d_mlp": 8}
    long: dict[str, Any] = {"task": {"n": 256, "k": 64}, "model": shape, "steps": 1, "batch_size": 2, "eval_size": 2}
    for name, preset in (("one", "chain-chacal"), ("other", "chain-standard")):
        workbench.train(preset, out=tmp_path / name, progress=False, **long)
    ladder = "document.querySelector('.st-key-panel-hops-mass .js-plotly-plot')"
    rows = f"{ladder}?._fullLayout.yaxis._categories ?? []"
    with serving(tmp_path) as address:
        page = browser.new_page()
        page.goto(f"{address}/hops?run=one&other_run=other")
        meanwhile = f"/(To be measured|Measuring) other/.test(document.body.innerText) && ({rows}).length"
        page.wait_for_function(meanwhile, timeout=60_000)
        own = page.evaluate(rows)
        measured(page)
        both = page.evaluate(rows)
    assert 0 < len(own) < len(both) and not any("other" in row for row in own), own
    assert both[: len(own)] == own and any("other" in row for row in both), both
