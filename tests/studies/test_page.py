"""All results as one page: every verdict, every contrast with its seeds; nothing that a stranger wrote is markup."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from workbench.cli import main
from workbench.judgement.verdict import Verdict
from workbench.judgement.words.studies import sentence
from workbench.studies import STUDIES, keep_earlier, read_ledger
from workbench.studies.page import page, plot
from workbench.studies.result import Result

LEDGER = Path(__file__).parents[2] / "docs" / "studies"


@pytest.fixture(scope="module")
def results() -> list[Result]:
    return keep_earlier([], read_ledger(LEDGER / "ledger.json"), STUDIES)


def test_the_page_has_every_result_under_its_verdict_and_every_contrast(results: list[Result]) -> None:
    html = page(results, STUDIES)
    kinds = re.findall(r'<article class="(\w+)">', html)
    assert kinds == [one.verdict.name.lower() for one in results]
    holds = kinds.count(Verdict.HOLDS.name.lower())
    assert f"Of {len(results)} claims that were asked again, {holds} hold" in html
    drawn = [outcome for one in results for outcome in one.outcomes if plot(outcome) is not None]
    assert html.count("<svg") == len(drawn) > len(results)
    assert len(html.encode()) < 2_000_000 and "<script" not in html and "src=" not in html


def test_a_contrasts_plot_has_a_mark_for_each_seed_and_each_groups_mean(results: list[Result]) -> None:
    outcome = next(outcome for one in results for outcome in one.outcomes if len(outcome.groups) == 2)
    drawing = plot(outcome)
    assert drawing is not None
    assert drawing.body.count("<circle") == sum(len(group.each or ()) for group in outcome.groups) > 0
    for group in outcome.groups:
        assert group.name in drawing.body and f"n = {group.n}" in drawing.body


def test_what_a_stranger_named_is_text(results: list[Result]) -> None:
    hostile = "<img src=x onerror=alert(1)>"
    one = results[0]
    outcome = one.outcomes[0]
    named = outcome.model_copy(
        update={"groups": tuple(group.model_copy(update={"name": hostile}) for group in outcome.groups)}
    )
    html = page([replace(one, question=hostile, note=hostile, outcomes=[named])], STUDIES)
    assert "<img" not in html and "&lt;img" in html and hostile in sentence(named)


def test_the_command_writes_it_and_refuses_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    given = ["study", "report", "--root", "none", "--out", str(LEDGER), "--page"]
    assert main([*given, "all.html"]) == 0 and "results on one page: all.html" in capsys.readouterr().out
    assert Path("all.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    for name, why in (("all.html", "already"), ("all.pdf", "ends in .html")):
        assert main([*given, name]) == 2 and why in capsys.readouterr().err
    assert main(["study", "list", "--page", "x.html"]) == 2 and not Path("x.html").exists()
