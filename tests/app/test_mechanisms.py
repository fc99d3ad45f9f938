"""The mechanisms page without a browser: claims here and elsewhere, where they fail, and edits of the input."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import workbench
from tests.app import support
from tests.app.conftest import APP
from workbench.app.panels.claim_card import Verdict
from workbench.app.panels.held_out import n_each
from workbench.inspection import claims, inspect_run
from workbench.inspection import test_batches as drawn_batches
from workbench.inspection.judged import judged_claims
from workbench.interventions import CutEdge, try_edit
from workbench.judgement.against_controls import Against, Compared
from workbench.judgement.claim import Judgement, Need, Often
from workbench.judgement.findings import Findings, MeasuredOn
from workbench.judgement.words import claims as claims_in_words
from workbench.runs.compiled import compile_run

HERE, HELD, FAILS, CAUSAL, SPREADS, EDIT = (
    "What is claimed, and whether it holds on this input",
    "On held-out sequences",
    "Sequences in which it fails",
    "Causal test",
    "Dispersion of attention over lengths",
    "Try an edit: cut an edge, remove a head, or swap what is held, on this input",
)


SAMPLE = MeasuredOn(drawn=8, distinct=8, kind="held-out")


@pytest.fixture(scope="module")
def other_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs that the shared root has not: a task without mechanisms, and one that asks for sets."""
    root = tmp_path_factory.mktemp("mechanisms")
    workbench.train("increment-standard", out=root / "increment", progress=False, steps=2, eval_size=16)
    compile_run("chaser", root / "sets", {"n": 16, "reading": "chain"})
    return root


@pytest.fixture
def elsewhere(other_root: Path, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    monkeypatch.setattr(sys, "argv", ["main.py", "--root", str(other_root)])
    return AppTest.from_file(str(APP), default_timeout=60)


def badges(explorer: AppTest) -> list[str]:
    """What the cards say of this input."""
    return [text for text in every_badge(explorer) if text.endswith("on this input") or "on this input:" in text]


def every_badge(explorer: AppTest) -> list[str]:
    found = (re.search(r"badge\[.*?: (.+)\]$", text.value) for text in explorer.markdown)
    return [match[1] for match in found if match]


def verdict(explorer: AppTest) -> str:
    """What the drawing of the edit says, and of what edit."""
    said = [text.value for text in explorer.markdown if text.value.startswith("**") and ":gray[" in text.value]
    return said[-1].replace("\\", "")


def edge_of_the_last(run_root: Path, name: str) -> tuple[int, int]:
    run = workbench.load_run(run_root / name)
    batch = workbench.example(run.model(), run.task(), 0)
    return batch.tokens.shape[1] - 1, int(batch.tokens[0, -1])


@pytest.mark.parametrize(
    ("run", "by"),
    [
        ("chain-chacal", "By hop"),
        ("chain-standard", "By hop"),
        ("sort-tempered", "By length"),
        ("multiply-seqvcr", None),
        ("items-in-boxes", "By hop"),
        ("turned", "By length"),
    ],
)
def test_every_kind_of_run_has_its_claims_and_the_code_of_every_panel_makes_its_figure(
    explorer: AppTest, run: str, by: str | None
) -> None:
    support.page(explorer, "mechanisms", run=run, causal="true")
    spreads = [SPREADS] if run in ("sort-tempered", "turned") else []  # the tasks whose lengths vary
    expected = [HERE, HELD, *([by] if by else []), FAILS, CAUSAL, *spreads, EDIT]
    assert sorted(support.panels(explorer)) == sorted(expected)
    assert not explorer.error and bool(explorer.info) == (by is None)
    assert len(badges(explorer)) == {"chain-chacal": 1, "chain-standard": 1, "sort-tempered": 4, "turned": 4}.get(
        run, 2
    )
    if run not in ("chain-chacal", "turned"):  # like another one, and the page's time is short
        assert support.check_code(explorer) == (4 if by else 3) + len(spreads)


def judged(rate: float, result: Against, need: Need = Need.UNTESTED) -> Judgement:
    control = Compared(against="untrained", hits=10, n=100, models=8, most=0.2, p=0.01, result=result)
    ends = {"rate": rate, "low": rate, "high": rate, "n": 50, "often": Often.of(rate), "need": need}
    return Judgement(claim="minimum", title="Minimum", place={}, controls=(control,), **ends)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rate", "result", "colour"),
    [
        (1.0, Against.BEYOND, "blue"),
        (0.24, Against.BEYOND, "gray"),
        (1.0, Against.NO_MORE, "gray"),
        (1.0, Against.TOO_FEW, "gray"),
        (0.0, Against.NO_MORE, "gray"),
    ],
)
def test_only_what_mostly_holds_beyond_its_controls_has_a_blue_seal(rate: float, result: Against, colour: str) -> None:
    """A claim that holds in 24% of cases is not sealed, however few a control has."""
    first, *others = Verdict.on_many([judged(rate, result)], None)
    assert (first.colour, first.words) == (colour, f"{Often.of(rate)}: {100 * rate:g}%")
    assert [one.colour for one in others] == ([] if not rate else ["blue" if result is Against.BEYOND else "gray"])


@pytest.mark.parametrize("need", Need)
def test_a_badge_says_whether_answers_need_a_claim_that_holds_where_the_run_is_known(need: Need) -> None:
    place = judged(1.0, Against.BEYOND, need)
    known = Findings.model_validate({"name": "a run", "samples": [SAMPLE], "claims": [{"places": [place]}]})
    (badge,) = Verdict.on_many([judged(1.0, Against.BEYOND)], known)[2:]
    *_, shown = claims_in_words.in_short(place, [place], [place])
    words = claims_in_words.need_in_a_word([place])
    assert (badge.words, badge.colour) == ((shown, "violet") if place.needed else (words, "gray"))
    alike = judged(1.0, Against.NO_MORE)
    assert len(Verdict.on_many([alike], known)[2:]) == place.needed, "of what controls do too it tells nothing"
    assert [one.words for one in Verdict.on_many([place], None)[2:]] == [], "of a run that nobody knows"


def test_where_an_input_has_nothing_to_test_a_badge_says_so_of_this_input() -> None:
    assert Verdict.of([float("nan")]).words == "cannot be told on this input"


def test_of_a_known_mechanism_every_claim_holds_here_elsewhere_and_under_edits(
    explorer: AppTest, run_root: Path
) -> None:
    support.page(explorer, "mechanisms", run="sorter", claim="Minimum", causal="true")
    assert badges(explorer)[1:] == ["holds on this input"] * 3
    rate, control, _ = support.charts(explorer)[1]["data"]
    assert _numbers(rate["y"]) == [1] * 8 and max(_numbers(control["y"])) < 1
    task = workbench.load_run(run_root / "sorter").task()
    distinct = sum(len(batch) for _, _, batch in drawn_batches(task, n_each(task), 0))
    captions = [text.value for text in explorer.caption]
    assert any(f"holds in all {distinct} held-out" in text for text in captions) and distinct < 8 * n_each(task)
    assert sum(f"held-out sequences ({8 * n_each(task)} drawn, {distinct} distinct" in text for text in captions) == 2
    as_claimed, changed = support.charts(explorer)[2]["data"]
    assert _numbers(as_claimed["x"]) == _numbers(changed["x"]) == [1, 1, 0]


def test_a_card_says_whether_the_claim_holds_beyond_its_controls(explorer: AppTest) -> None:
    """In the compiled sorter copying is left to the residual stream, where re-initialised models copy as well."""
    support.page(explorer, "mechanisms", run="sorter", claim="Minimum", causal="true")
    said = [text for text in every_badge(explorer) if "input" not in text]
    assert said[0].startswith("always: 100%") and said[1] == claims_in_words.AGAINST[Against.NO_MORE]
    assert said[2:] == ["always: 100%", "beyond its controls"] * 3
    assert any("right answers change, " in text.value for text in explorer.markdown)


def test_a_causal_test_is_told_in_the_words_of_an_inspection_of_these_sequences(
    explorer: AppTest, run_root: Path
) -> None:
    support.page(explorer, "mechanisms", run="chaser", causal="true")
    run = workbench.load_run(run_root / "chaser")
    found = inspect_run(run, n=n_each(run.task()), seed=0, only=["chain_following"])
    judged = judged_claims(found)
    told = [text.value.replace("\\", "") for text in explorer.markdown]
    assert judged and all(line in told for claim in judged for line in claims_in_words.tested(claim))


def test_the_numbers_are_those_of_the_library(explorer: AppTest, run_root: Path) -> None:
    support.page(explorer, "mechanisms", run="sort-tempered", claim="Copy", claim_point="after MLP 1")
    run = workbench.load_run(run_root / "sort-tempered")
    found = inspect_run(run, n=n_each(run.task()), seed=0, only=["copy"], nulls=("mismatched",), causal=False)
    point = "blocks.1.hook_resid_post"
    runs, _ = claims.by_condition(found, "copy", point=point) or ({}, {})
    assert _numbers(support.charts(explorer)[1]["data"][0]["y"]) == pytest.approx(runs["sort-tempered"].values.tolist())
    fails, tested = claims.failing(found, "copy", point=point)
    assert any(f"in {len(fails)} of the {tested} held-out" in text.value for text in explorer.caption)


def test_a_claim_about_heads_is_read_at_the_head_in_focus(explorer: AppTest, run_root: Path) -> None:
    run = workbench.load_run(run_root / "chain-standard")
    found = inspect_run(run, n=n_each(run.task()), seed=0, only=["chain_following"], nulls=("untrained",), causal=False)
    for head in ((0, 1), (1, 3)):
        support.page(explorer, "mechanisms", run="chain-standard", head=f"layer {head[0]}, head {head[1]}")
        expected = found["chain_following"].mean.select(layer=head[0], head=head[1])
        assert _numbers(support.charts(explorer)[1]["data"][0]["y"]) == pytest.approx(expected.values.tolist())


def test_a_link_opens_a_sequence_in_which_the_claim_fails(explorer: AppTest) -> None:
    support.page(explorer, "mechanisms", run="sort-tempered", claim="Minimum")
    links = [match for text in explorer.markdown if (match := re.search(r"\]\(canvas\?(.+)\)$", text.value))]
    assert len(links) == 10
    query = {name: values[0] for name, values in parse_qs(links[0][1]).items()}
    assert query["run"] == "sort-tempered" and query["how"] == "Type"
    fresh = AppTest.from_file(str(APP), default_timeout=60)
    (drawing,) = (svg for svg in support.drawings(support.page(fresh, "canvas", **query)) if "data-cell" in svg)
    tokens = re.findall(r'data-tip="position \d+: (\S+)"', drawing)
    assert tokens[: tokens.index("⊥")] == query["input"].split()
    again = support.page(AppTest.from_file(str(APP), default_timeout=60), "mechanisms", **query)
    assert badges(again)[1] == "does not hold on this input"


def test_a_checkpoint_keeps_its_step_in_code_and_links(explorer: AppTest) -> None:
    support.page(explorer, "mechanisms", run="sort-tempered", step="0", claim="Minimum")
    assert not explorer.exception and all("step=0" in block.value for block in explorer.code)
    links = [text.value for text in explorer.markdown if "](canvas?" in text.value]
    assert links and all("step=0" in link for link in links)


def test_claims_that_do_not_apply_are_listed_with_the_reason(explorer: AppTest) -> None:
    support.page(explorer, "mechanisms", run="chaser")
    (box,) = [box for box in explorer.expander if not box.label.startswith("**")]
    said = [text.value.replace("\\", "") for text in box.markdown]
    assert box.label == "9 claims that do not apply to this run, and why" and len(said) == 9
    assert any(text.startswith("**Carry**") and "is not multiplication" in text for text in said)


def test_a_task_without_mechanisms_says_so_and_can_be_edited(elsewhere: AppTest) -> None:
    support.page(elsewhere, "mechanisms", run="increment")
    assert support.panels(elsewhere) == [SPREADS, EDIT] and len(elsewhere.info) == 1
    assert "The list below says why." in elsewhere.info[0].value
    assert support.check_code(elsewhere) == 2


def test_a_task_that_asks_for_sets_shows_what_is_found_of_them(elsewhere: AppTest) -> None:
    support.page(elsewhere, "mechanisms", run="sets", edit_query="15", edit_key="every")
    assert "of the set asked for at position 15, 3 of 3 found before" in verdict(elsewhere)
    assert support.check_code(elsewhere) == 3


@pytest.mark.parametrize(("run", "text"), [("chain-chacal", "5 6 7 8"), ("sort-tempered", "4"), ("sorter", "4 4")])
def test_the_shortest_inputs_show_claims_and_edits(explorer: AppTest, run: str, text: str) -> None:
    support.page(explorer, "mechanisms", run=run, how="Type", input=text)
    assert support.panels(explorer)[-1] == EDIT and not explorer.error
    for kind in ("head", "write", "patch", "exchange", "cut"):
        explorer.segmented_control(key="edit_kind").set_value(kind).run()
        assert not explorer.exception and not explorer.error


def test_the_edit_in_the_url_is_tried_and_only_the_answer_that_rests_on_it_changes(
    explorer: AppTest, run_root: Path
) -> None:
    query, key = edge_of_the_last(run_root, "chaser")
    support.page(explorer, "mechanisms", run="chaser", edit_query=str(query), edit_key=str(key))
    assert verdict(explorer).startswith(f"**1 of 28 answers changes (1 lost): position {query} says “{key}”")
    support.page(
        explorer, "mechanisms", run="chaser", edit_query=str(query), edit_key=str(key - 1 if key % 4 else key + 1)
    )
    explorer.selectbox(key="edit_key").set_value(0).run()
    assert verdict(explorer).startswith("**None of 28 answers changes")


def test_the_numbers_of_an_edit_are_those_of_the_library(explorer: AppTest, run_root: Path) -> None:
    support.page(explorer, "mechanisms", run="sort-tempered")
    values = {"edit_layer": 1, "edit_head": "every", "edit_query": 9, "edit_key": "every"}
    for key, value in values.items():
        explorer.selectbox(key=key).set_value(value).run()
    run = workbench.load_run(run_root / "sort-tempered")
    seen = workbench.see(run, workbench.example(run.model(), run.task(), 0))
    told = try_edit(run.hooked(), seen, CutEdge(9, None, 1)).verdict()
    assert verdict(explorer).startswith(f"**{told[0].upper()}{told[1:]}**")


def test_one_click_exchanges_the_minimum_and_the_fields_follow(explorer: AppTest) -> None:
    support.page(explorer, "mechanisms", run="sorter", how="Type", input="5 3 9")
    explorer.button(key="edit-exchange the minimum and another").click().run()
    assert explorer.segmented_control(key="edit_kind").value == "exchange"
    assert (explorer.text_input(key="edit_first").value, explorer.text_input(key="edit_second").value) == ("3", "9")
    assert verdict(explorer).startswith("**1 of 3 answers changes (1 lost): position 3 says “9” in place of “3”")
    explorer.text_input(key="edit_second").set_value("5").run()
    assert "says “5” in place of “3”" in verdict(explorer)
    explorer.button(key="edit-remove this head").click().run()
    assert "writes nothing" in verdict(explorer) and explorer.segmented_control(key="edit_kind").value == "head"


def test_what_cannot_be_done_is_said_under_its_field(explorer: AppTest) -> None:
    support.page(explorer, "mechanisms", run="sort-tempered", edit_query="2", edit_key="5")
    assert [error.value for error in explorer.error] == ["position 2 cannot read position 5, which comes after it"]
    explorer.segmented_control(key="edit_kind").set_value("exchange").run()
    explorer.text_input(key="edit_first").set_value("<b>seven").run()
    assert len(explorer.error) == 1 and "is not in the vocabulary" in explorer.error[0].value
    assert r"\<b\>" in explorer.error[0].value
    explorer.text_input(key="edit_first").set_value("").run()
    explorer.segmented_control(key="edit_kind").set_value("patch").run()
    explorer.text_input(key="edit_other").set_value("5 six").run()
    assert [error.value for error in explorer.error] == ["'six' is not a number between 1 and 32"]
    assert not explorer.exception


def test_nonsense_in_the_url_shows_the_page_as_without_it(explorer: AppTest) -> None:
    nonsense = {"edit_kind": "burn it", "edit_query": "900", "edit_key": "x", "edit_layer": "7", "claim": "none"}
    support.page(explorer, "mechanisms", run="sort-tempered", **nonsense)
    assert not explorer.error and support.panels(explorer)[-1] == EDIT


def test_an_edit_of_one_run_is_not_carried_to_the_next(explorer: AppTest) -> None:
    support.page(explorer, "mechanisms", run="chain-chacal", edit_query="30", edit_key="27")
    assert explorer.selectbox(key="edit_query").value == 30
    explorer.selectbox(key="run").set_value("multiply-seqvcr").run()
    assert not explorer.exception and not explorer.error
    assert explorer.selectbox(key="edit_query").value != 30


def test_a_click_on_an_edge_fills_the_fields() -> None:
    """Also where the edge is the one that the fields started at before, and would now start at another."""

    def script() -> None:
        import streamlit as st

        from workbench.app.fields.edit import fill
        from workbench.app.fields.widgets import choose
        from workbench.interventions import CutEdge

        st.button("click", key="click", on_click=fill, args=(None, CutEdge(9, 3, layer=1, head=0)))
        standing = 9 if "edit_kind" not in st.session_state else 5
        choose("Query", range(16), "edit_query", standing)

    clicked = AppTest.from_function(script).run()
    assert clicked.selectbox(key="edit_query").value == 9
    clicked.button(key="click").click().run()
    found = {key: clicked.session_state[f"edit_{key}"] for key in ("kind", "layer", "head", "query", "key")}
    assert found == {"kind": "cut", "layer": 1, "head": 0, "query": 9, "key": 3}


def test_another_kind_of_edit_starts_where_it_is_suggested(explorer: AppTest) -> None:
    support.page(explorer, "mechanisms", run="sorter", how="Type", input="5 3 9")
    explorer.segmented_control(key="edit_kind").set_value("write").run()
    assert (explorer.selectbox(key="edit_point").value, explorer.selectbox(key="edit_position").value) == (
        "blocks.1.hook_mlp_out",
        "every",
    )
    explorer.segmented_control(key="edit_kind").set_value("exchange").run()
    assert (explorer.selectbox(key="edit_point").value, explorer.selectbox(key="edit_position").value) == (
        "blocks.0.hook_resid_mid",
        3,
    )
    assert "says “9” in place of “3”" in verdict(explorer)


def _numbers(values: Any) -> list[float]:
    """Of a figure's JSON, where arrays may be base64."""
    if isinstance(values, dict):
        from base64 import b64decode

        return np.frombuffer(b64decode(values["bdata"]), dtype=values["dtype"]).tolist()
    return [float(value) for value in values]


def test_dispersion_is_drawn_beside_another_run_where_lengths_vary_and_not_elsewhere(
    explorer: AppTest, run_root: Path
) -> None:
    support.page(explorer, "mechanisms", run="sort-tempered", dispersion_beside="sorter")
    drawn = next(one for one in support.charts(explorer) if one["layout"]["title"]["text"] == "Dispersion of attention")
    run = workbench.load_run(run_root / "sort-tempered")
    held = inspect_run(run, n=n_each(run.task()), seed=0, only=["dispersion"], causal=False)
    line = next(trace for trace in drawn["data"] if trace["name"] == "sort-tempered, head 1")
    assert support.numbers(line["y"]) == pytest.approx(
        held["dispersion"].mean.select(layer=0, head=1).values, nan_ok=True
    )
    assert {"sorter", "sort-tempered, re-initialised models", "uniform attention"} <= {
        one["name"] for one in drawn["data"]
    }
    assert any(
        "Evenness of rows, mean over heads: sort-tempered" in text.value.replace("\\", "") for text in explorer.markdown
    )
    support.page(explorer, "mechanisms", run="chain-chacal")
    assert SPREADS not in support.panels(explorer)
