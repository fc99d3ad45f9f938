"""Compare: any two runs, checkpoints or inputs; what is drawn is the library's, and what cannot be, is said."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import workbench
from tests.app.conftest import APP
from tests.app.support import charts, check_code, drawings, page, panels, says, titles
from workbench.inspection import inspect_run, over_training
from workbench.inspection.layer_similarity import layer_similarity
from workbench.inspection.lens_differences import lens_differences
from workbench.measurement.compare_runs import difference
from workbench.runs import load_run

PANELS = [
    "Right answers overall",
    "Entropy by layer",
    "This input in A and in B",
    "What each layer already predicts",
    "How alike their layers are",
    "How often each mechanism's claim holds",
    "Right answers by condition",
]
HOW = {"n": 16, "seed": 0, "nulls": (), "causal": False}


def compare(explorer: AppTest, run: str, other: str, **query: str) -> AppTest:
    return page(explorer, "compare", run=run, run2=other, compare_n="16", **query)


def drawn(explorer: AppTest, title: str) -> list[dict]:
    """The traces of the figure with this title."""
    return next(chart["data"] for chart in charts(explorer) if chart["layout"]["title"]["text"] == title)


def numbers(trace: dict) -> np.ndarray:
    """A trace's y, which plotly may have packed."""
    y = trace["y"]
    if isinstance(y, dict):
        import base64

        return np.frombuffer(base64.b64decode(y["bdata"]), dtype=np.dtype(y["dtype"]))
    return np.array(y)


@pytest.mark.parametrize(
    ("run", "other"),
    [
        ("chain-chacal", "chaser"),
        ("chain-standard", "chain-chacal"),
        ("sort-tempered", "sorter"),
        ("sorter", "turned"),
        ("multiply-seqvcr", "items-in-boxes"),
        ("items-in-boxes", "chain-standard"),
    ],
)
def test_any_two_runs_stand_side_by_side(explorer: AppTest, run: str, other: str) -> None:
    compare(explorer, run, other)
    assert not explorer.error and panels(explorer) == PANELS
    assert f"**A · {run}**" in [one.value.partition("  \n")[0] for one in explorer.markdown]
    assert explorer.selectbox(key="run2").value == other
    for title in ("Accuracy", "Matrix entropy"):
        assert [trace["name"] for trace in drawn(explorer, title)][:2] == [f"A · {run}", f"B · {other}"]
    assert len(drawings(explorer)) >= 2


@pytest.mark.parametrize(
    ("run", "other", "query", "n"),
    [
        ("chain-chacal", "chain-standard", {}, 10),
        ("sort-tempered", "sorter", {"how2": "Sample", "sample2": "2"}, 7),
        ("sort-tempered", "sort-tempered", {"step2": "0", "compare_claim": "Minimum at the delimiter"}, 10),
        ("sort-tempered", "sort-tempered", {"how2": "Type", "input2": "4 3 2"}, 8),
        ("multiply-seqvcr", "items-in-boxes", {}, 5),
    ],
)
def test_the_lines_of_every_panel_make_its_figure(explorer: AppTest, run: str, other: str, query: dict, n: int) -> None:
    compare(explorer, run, other, **query)
    assert check_code(explorer) == n


def test_the_difference_is_the_librarys_paired_over_the_same_sequences(explorer: AppTest, run_root: Path) -> None:
    compare(explorer, "chain-chacal", "chain-standard")
    runs = [workbench.load_run(run_root / name) for name in ("chain-chacal", "chain-standard")]
    found = [inspect_run(run, only=["entropy"], **HOW)["entropy"].examples for run in runs]
    apart = difference(*found, same_examples=True)
    one, other, below = drawn(explorer, "Matrix entropy")
    assert numbers(one) == pytest.approx(found[0].mean().values) and numbers(other) == pytest.approx(
        found[1].mean().values
    )
    assert numbers(below) == pytest.approx(apart.values) and len(apart.values) == 3 < len(numbers(other)) == 5
    table = explorer.dataframe[0].value
    assert list(table.columns)[-3:] == ["n", "p", "p (Holm)"] and set(table["n"]) == {"16"}


def test_other_sequences_are_not_paired_and_nothing_is_tested(explorer: AppTest) -> None:
    compare(explorer, "sort-tempered", "multiply-seqvcr")
    assert not explorer.dataframe
    assert says(explorer, "not paired")
    said = [one.value for one in explorer.info]
    assert any("cannot read A's input" in one for one in said) and any("different tokens" in one for one in said)
    assert any("grouped by length, B's by digit" in one for one in said)


def test_what_was_measured_at_other_lengths_says_so_of_each_side(explorer: AppTest) -> None:
    compare(explorer, "sort-tempered", "sorter")
    assert says(explorer, "**A at length 2 to") and says(explorer, "; B at length 2 to")


def test_lengths_beyond_training_have_a_number_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["main.py", "--root", str(tmp_path)])
    explorer = page(
        AppTest.from_file(str(APP), default_timeout=120),
        "compare",
        run="sort-plain",
        run2="sort-tempered",
        compare_n="16",
    )
    rates = []
    for name in ("sort-plain", "sort-tempered"):
        found = inspect_run(load_run(APP.parent / "zoo" / name), only=["overall"], **HOW)
        longer = [i for i, each in enumerate(found.sample.conditions) if each["length"] > 10]
        assert 0 < len(longer) < len(found.sample.conditions)
        rates.append(found["overall"].examples.select(unit="sequence").pick(longer))
    apart = difference(*rates, same_examples=True)
    a, b, by = (f"{100 * float(m.values):.1f}" for m in (*(rate.mean() for rate in rates), apart))
    said = next(text.replace("\\", "") for each in explorer.markdown if "Of these" in (text := each.value))
    assert "Of these, at length 16 to 50, beyond training: per sequence: " in said
    assert f"{a}% in A, {b}% in B, +{by} percentage points" in said


def test_by_default_it_is_another_run_of_the_same_task_or_the_same_run(explorer: AppTest) -> None:
    page(explorer, "compare", run="chain-standard")
    assert explorer.selectbox(key="run2").value == "chain-chacal"
    explorer.selectbox(key="run").set_value("multiply-seqvcr").run()
    assert not explorer.exception and explorer.selectbox(key="run2").value == "multiply-seqvcr"
    assert "Both sides are the same model, so only the two inputs are compared." in [one.value for one in explorer.info]
    assert explorer.number_input(key="sample2").value == 1 and len(drawings(explorer)) == 2
    explorer.number_input(key="sample2").set_value(5).run()
    assert not explorer.exception and len(drawings(explorer)) == 2
    explorer.segmented_control(key="how2").set_value("Same input").run()
    assert [one.value for one in explorer.info] == [
        "Both sides are the same: choose another run, checkpoint or input for B."
    ]
    assert not charts(explorer)


def test_a_run_that_is_alone_is_compared_with_its_own_checkpoint(
    run_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(run_root / "sort-tempered", tmp_path / "sort-tempered")
    monkeypatch.setattr(sys, "argv", ["main.py", "--root", str(tmp_path)])
    explorer = page(AppTest.from_file(str(APP), default_timeout=60), "compare", compare_n="16")
    kept = over_training.checkpoints(load_run(run_root / "sort-tempered"))
    assert explorer.select_slider(key="step2").value == str(kept[(len(kept) - 1) // 2])
    assert explorer.segmented_control(key="how2").value == "Same input" and charts(explorer)


def test_two_checkpoints_are_compared_over_held_out_sequences(explorer: AppTest) -> None:
    compare(explorer, "sort-tempered", "sort-tempered", step2="0")
    assert explorer.selectbox(key="run2").value == "sort-tempered" and explorer.select_slider(key="step2").value == "0"
    names = [trace["name"] for trace in drawn(explorer, "Matrix entropy")]
    assert names == ["A · sort-tempered", "B · sort-tempered at step 0", "difference"]
    assert "Difference of attention: pattern" in titles(explorer)


def test_two_inputs_of_one_model_are_compared_by_themselves(explorer: AppTest) -> None:
    compare(explorer, "sort-tempered", "sort-tempered", how2="Type", input2="4 3 2 4 4 4", step2="the end")
    assert not explorer.error and not explorer.dataframe
    assert any("the same model" in one.value for one in explorer.info)
    assert says(explorer, "no interval")
    before = numbers(drawn(explorer, "Matrix entropy")[1])
    explorer.text_input(key="input2").set_value("9 8").run()
    after = numbers(drawn(explorer, "Matrix entropy")[1])
    assert not explorer.exception and not np.allclose(before, after)
    explorer.text_input(key="input2").set_value("nine").run()
    assert not explorer.exception and "'nine' is not a number" in explorer.error[0].value
    assert not charts(explorer)


def test_what_is_chosen_changes_what_is_drawn(explorer: AppTest, run_root: Path) -> None:
    compare(explorer, "chain-standard", "chain-chacal", head="layer 1, head 2")
    assert explorer.session_state["head"] == "1.2" and len(drawings(explorer)) == 3
    before = drawings(explorer)
    explorer.session_state["head2"] = "0.3"
    explorer.run()
    assert not explorer.exception
    assert [a == b for a, b in zip(before, drawings(explorer), strict=True)] == [True, False, True]
    explorer.selectbox(key="compare_lens").set_value("kl").run()
    (line,) = drawn(explorer, "Decoded from each layer: KL(first ‖ second)")
    runs = [workbench.load_run(run_root / name) for name in ("chain-standard", "chain-chacal")]
    assert numbers(line) == pytest.approx(lens_differences(*runs, n=16, seed=0).mean().values)
    (alike,) = drawn(explorer, "CKA of layers")
    expected, _ = layer_similarity(*runs, n=16, seed=0)
    assert numbers({"y": alike["z"]}) == pytest.approx(expected.values.reshape(-1))
    assert check_code(explorer) == 10


@pytest.mark.parametrize(
    ("run", "text", "other"), [("chain-chacal", "5 6 7 8", "9 9 9 9"), ("sort-tempered", "4", "7")]
)
def test_the_shortest_inputs_are_compared(explorer: AppTest, run: str, text: str, other: str) -> None:
    compare(explorer, run, run, how="Type", input=text, how2="Type", input2=other)
    assert not explorer.error and panels(explorer) == PANELS
