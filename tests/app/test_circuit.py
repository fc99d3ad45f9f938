"""The page Circuit: which edges carry the answer, measured beside the page, with what circuits of each size keep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.app.support import ask, charts, check_code, drawing_titles, drawings, numbers, page, panels
from workbench.app import state
from workbench.app.panels import background, circuit
from workbench.app.panels.circuit import SHARES
from workbench.circuits import Circuit, circuit_answers, faithfulness
from workbench.judgement.words import circuits as words
from workbench.measurement.numbers import percent
from workbench.runs import load_run

PANELS = ["The circuit", "Heads and MLPs by position"]


def measured(root: Path, name: str, kind: str, **more: Any) -> circuit.Found:
    """Have a run's circuit found, as its page would ask."""
    asked = circuit.Asked(state.opened(load_run(root / name)), kind, "logit_difference", "eap_ig", **more)
    found: circuit.Found = ask(asked.key, lambda: circuit.measure(asked)).future.result(60)
    return found


def verdict(explorer: AppTest) -> str:
    return next(one.value for one in explorer.markdown if "edges keeps" in one.value).replace("\\", "")


def test_the_page_stands_first_and_then_says_what_was_found(explorer: AppTest, run_root: Path) -> None:
    page(explorer, "circuit", run="chain-chacal")
    assert any("To be measured which edges" in one.value for one in explorer.caption) and not panels(explorer)
    found = measured(run_root, "chain-chacal", "pointer").summary
    page(explorer, "circuit", run="chain-chacal")
    assert panels(explorer) == PANELS
    assert drawing_titles(explorer) == [f"A circuit of {len(found.circuit)} of 23 edges"]
    drawn, edges = found.judgement.drawn, len(found.circuit)
    judged, beside = verdict(explorer), "".join(one.value for one in explorer.markdown).replace("\\", "")
    assert judged == f"**{words.of_circuit(drawn, 'logit difference', 23)}**" and drawn.edges == edges
    assert f"and {drawn.answers} of 32 answers on 32 test pairs" in judged
    assert explorer.select_slider(key="edges").value == str(edges), "one count of edges everywhere"
    assert all(line in beside for line in words.of_rest(found.judgement.left, found.judgement.halves))
    assert found.control is not None
    assert words.of_largest(found.scores.mean(), found.control.mean()) in beside
    assert found.nodes_control is not None
    top, below = (numbers(one["z"]) for one in charts(explorer)[1]["data"])
    assert np.allclose(top, found.nodes.mean().values) and np.allclose(below, found.nodes_control.mean().values)
    assert any("does most, at position" in one.value for one in explorer.markdown)
    assert check_code(explorer) == 3
    assert len([one for one in explorer.caption if "64 pairs of held-out questions" in one.value]) == 1
    assert any("EAP and EAP-IG" in one.value and "miss both backups" in one.value for one in explorer.caption)


def test_another_size_is_drawn_marked_and_in_the_address(explorer: AppTest, run_root: Path) -> None:
    found = measured(run_root, "chain-chacal", "pointer").summary
    edges = found.curve.settings["edges"][SHARES.index(0.8)]
    page(explorer, "circuit", run="chain-chacal", edges=f"{edges} edges")
    assert drawing_titles(explorer) == [f"A circuit of {edges} of 23 edges"]
    assert f"The circuit of {edges} of 23 edges keeps" in verdict(explorer)
    chart = charts(explorer)[0]
    ring = next(line for line in chart["data"] if line.get("name") == "the circuit drawn")
    assert np.allclose(numbers(ring["y"]), found.curve.mean().select(share=0.8).values)
    slider = explorer.select_slider(key="edges")
    slider.set_value("23").run()
    assert not explorer.exception and explorer.query_params["edges"] in ("23 edges", ["23 edges"])
    assert drawing_titles(explorer) == ["A circuit of 23 of 23 edges"]
    assert "keeps 100% of the logit difference and 32 of 32 answers on 32 test pairs: faithful" in verdict(explorer)
    beside = [one.value.replace("\\", "") for one in explorer.markdown]  # below the drawing
    assert any(one.startswith("All other edges alone keep 0%.") for one in beside)


def test_another_kind_of_pair_is_another_measurement(explorer: AppTest, run_root: Path) -> None:
    measured(run_root, "chain-chacal", "pointer")
    page(explorer, "circuit", run="chain-chacal")
    explorer.selectbox(key="pairs").set_value("value").run()
    assert not panels(explorer) and any("To be measured" in one.value for one in explorer.caption)
    measured(run_root, "chain-chacal", "value")
    page(explorer, "circuit", run="chain-chacal", pairs="value")
    assert panels(explorer) == PANELS


def test_more_pairs_and_later_answers_are_other_measurements_with_their_code(explorer: AppTest, run_root: Path) -> None:
    found = measured(run_root, "sorter", "symbol", n=128, later=True)
    assert len(found.summary.comparison.pairs) == 64 and found.summary.comparison.pairs.later
    page(explorer, "circuit", run="sorter", n_pairs="128", later="true")
    assert panels(explorer) == PANELS and check_code(explorer) == 3
    assert any("128 pairs of held-out" in one.value and "behind the first" in one.value for one in explorer.caption)
    explorer.toggle(key="later").set_value(False).run()
    assert not panels(explorer)


def test_what_waits_for_a_measurement_says_how_far_it_is(run_root: Path) -> None:
    said: list[str] = []
    asked = circuit.Asked(state.opened(load_run(run_root / "chaser")), "pointer", "probability", "eap")
    circuit.measure(asked, said.append)
    assert said[0] == "64 pairs drawn" and said[1] == "edges scored on 32 pairs (1 of 6)"
    assert [one[-8:] for one in said[1:]] == [f"({k} of 6)" for k in range(1, 7)]
    job = background.ask("a measurement that tells", lambda job: iter([job.say("half of it")]))
    assert job.future.result(30) is None and job.told == "half of it"


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
    ask(asked.key, fails).future.exception(30)
    page(explorer, "circuit", run="chaser")
    (info,) = explorer.info
    assert "No circuit can be found here: there is <b>nothing" in info.value.replace("\\", "") and not panels(explorer)
    monkeypatch.setattr(type(asked.opened.subject.task), "pair_kinds", {})
    page(explorer, "circuit", run="chaser")
    (info,) = explorer.info
    assert "no pairs of questions that differ in one thing" in info.value


def by_hand(explorer: AppTest) -> str:
    return next(one.value for one in explorer.markdown if "whole model's answer to" in one.value).replace("\\", "")


def test_an_edge_cut_by_hand_takes_the_answers_that_rest_on_it_and_undo_brings_them_back(
    explorer: AppTest, run_root: Path
) -> None:
    summary = measured(run_root, "chaser", "pointer").summary
    page(explorer, "circuit", run="chaser")
    as_found, n = summary.circuit, len(summary.comparison.pairs)
    assert f"gives the whole model's answer to {n} of {n} pairs, and {n} are right" in by_hand(explorer)
    names = ["input->a0.h0<q>", "input->m0"]
    assert names[0] in as_found.names and names[1] not in as_found.names
    explorer.multiselect(key="changed").set_value(names[:1]).run()
    cut = as_found.changed(names[:1])
    of_model, broken = circuit_answers(summary.comparison, [Circuit.of(cut.graph, cut.graph.names), cut])
    same = int((of_model == broken).sum())
    assert same < n // 2
    said = by_hand(explorer)
    assert f"Cut input → a0.h0<q>: the whole model's answer to {same} of {n} pairs (as found {n}), {same} right" in said
    shares = faithfulness(summary.comparison, [as_found, cut, cut.complement()]).mean().values
    before, kept, left = (percent(float(share)) for share in shares)
    assert f"{kept} of the logit difference is kept (as found {before}), and without these edges {left} is left" in said
    assert explorer.query_params["changed"] in (names[0], names[:1])
    assert "; cut by hand" in drawings(explorer)[0] and check_code(explorer) == 3
    explorer.multiselect(key="changed").set_value(names).run()
    assert drawing_titles(explorer) == [f"A circuit of {len(as_found)} of {as_found.graph.n_edges} edges"]
    assert "Cut input → a0.h0<q>, taken in input → m0" in by_hand(explorer)
    explorer.button(key="by-hand-undo").click().run()
    assert explorer.multiselect(key="changed").value == names[:1] and by_hand(explorer) == said
    explorer.button(key="by-hand-undo").click().run()
    assert f"to {n} of {n} pairs" in by_hand(explorer) and "by hand" not in drawings(explorer)[0]


def test_edges_changed_by_hand_come_with_a_link_and_go_with_the_size(explorer: AppTest, run_root: Path) -> None:
    summary = measured(run_root, "chain-chacal", "pointer").summary
    edge = max(summary.circuit.names, key=lambda name: abs(summary.circuit.scores[name]))
    edges = summary.curve.settings["edges"][SHARES.index(0.8)]
    link = {"changed": edge, "show-circuit-answers": "true", "edges": f"{edges} edges"}
    page(explorer, "circuit", run="chain-chacal", **link)
    (answers,) = explorer.dataframe
    pairs, task = summary.comparison.pairs, load_run(run_root / "chain-chacal").task()
    assert sorted(answers.value["question"]) == sorted(task.question(row) for row in pairs.clean.tokens)
    assert (answers.value["right"] == (answers.value["changed by hand"] == answers.value["right answer"])).all()
    moved = (answers.value["circuit"] != answers.value["changed by hand"]).to_numpy()
    assert moved.any() and (moved[:-1] >= moved[1:]).all(), "those that the change moves stand first"
    explorer.select_slider(key="edges").set_value("23").run()
    assert not explorer.multiselect(key="changed").value and "changed by hand" not in explorer.dataframe[0].value


def test_a_click_on_what_is_no_edge_changes_nothing_and_on_an_edge_twice_neither() -> None:
    def script() -> None:
        import streamlit as st

        from workbench.app.fields.url import of_page
        from workbench.app.fields.widgets import several
        from workbench.app.panels.circuit_by_hand import CHANGED, MOST, toggle
        from workbench.circuits import Circuit, Graph

        graph = Graph(2, 4)
        with of_page("circuit"):
            for name in ("a0.h0->logits", "<script>", *graph.names[:MOST]):
                st.button(name, key=name, on_click=toggle, args=(Circuit.of(graph, []), name))
            several("Edges", graph.names, CHANGED, MOST, "")

    at = AppTest.from_function(script).run()
    for name in ("a0.h0->logits", "<script>"):
        at.button(key=name).click().run()
    assert not at.exception and at.multiselect(key="changed").value == ["a0.h0->logits"]
    at.button(key="a0.h0->logits").click().run()
    assert not at.multiselect(key="changed").value
    names = [button.key for button in at.button[2:]]
    for name in (*names, "a0.h0->logits"):
        at.button(key=name).click().run()
    assert at.multiselect(key="changed").value == names, "there is a most, and the last click goes beyond it"
