"""The report has the circuit of each run when it is asked for, with its numbers, or says why there is none."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from workbench.circuits import Circuit
from workbench.cli import main
from workbench.report import Report, inspect
from workbench.tasks import Sorting


@pytest.fixture(scope="module")
def report(compiled: Path) -> Report:
    paths = [compiled / "sorter", compiled / "chaser"]
    return inspect(paths, out=compiled / "report", n=8, only=["accuracy"], circuit=True, export=["html"])


def test_each_run_has_a_section_with_its_drawing_figures_and_words(report: Report) -> None:
    html = report.html.read_text(encoding="utf-8")
    for one in report.circuits:
        assert one.summary is not None, one.why
        start = html.index(f"<h2>Circuit: {one.name}</h2>")
        section = html[start : html.find("</section>", start)]
        assert f"A circuit of {len(one.summary.circuit)} of" in section and "<svg" in section
        assert section.count("plotly-graph-div") == 2
        assert "Control, pairs that change nothing relevant" in section
        judged = one.summary.judgement
        assert f"The circuit of {len(one.summary.circuit)} of {judged.n_edges} edges keeps" in section
    assert [file.name for file in report.figures if file.name.startswith("circuit-sorter")]


def test_its_numbers_json_graphviz_and_svg_are_beside_the_runs_own(report: Report) -> None:
    for one in report.circuits:
        folder = report.html.parent / "data" / one.name / "circuit"
        assert one.summary is not None
        assert Circuit.from_json((folder / "circuit.json").read_text("utf-8")).names == one.summary.circuit.names
        assert (folder / "circuit.dot").read_text("utf-8").startswith("digraph")
        assert (folder / "circuit.svg").read_text("utf-8").startswith("<svg")
        kept = {
            name
            for name, edge in json.loads((folder / "mib.json").read_text("utf-8"))["edges"].items()
            if edge["in_graph"]
        }
        assert kept == set(one.summary.circuit.names)
        shown = json.loads((folder / "neuronpedia.json").read_text("utf-8"))
        assert {node["node_id"] for node in shown["nodes"]} == set(one.summary.circuit.nodes)
        assert shown["metadata"]["scan"] == one.name and len(shown["metadata"]["prompt_tokens"]) > 2
        scores = pd.read_parquet(folder / "scores.parquet")
        assert scores["value"].to_numpy() == pytest.approx(one.summary.scores.mean().values)


def test_where_there_is_none_the_report_says_why(compiled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sorting, "pair_kinds", {})
    out = compiled / "without"
    given = ["--n", "8", "--only", "accuracy", "--circuit", "--quiet", "--out", str(out)]
    assert main(["inspect", str(compiled / "sorter"), *given]) == 0
    html = (out / "report.html").read_text(encoding="utf-8")
    assert "No circuit can be found: sorting has no pairs" in html
    assert not (out / "data" / "sorter" / "circuit").exists()


def test_a_report_has_no_circuits_unless_they_are_asked_for(compiled: Path) -> None:
    plain = inspect([compiled / "sorter"], out=compiled / "plain", n=8, only=["accuracy"])
    assert not plain.circuits and "Circuit:" not in plain.html.read_text(encoding="utf-8")
