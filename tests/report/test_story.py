"""A run's story: its sentences are those of "How it works", and every picture is drawn from what was measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import workbench
from workbench.figures import Drawing
from workbench.inspection import Inspected, inspect_run
from workbench.inspection.findings import findings
from workbench.inspection.found import Kept, find
from workbench.inspection.judged import judgements
from workbench.inspection.seed_groups import seed_groups
from workbench.judgement.words.findings import Statement, statements
from workbench.judgement.words.findings import focus as focus_in_words
from workbench.mechanisms import MECHANISMS
from workbench.report.story import SURE, TITLES, of_findings, story
from workbench.runs import Run
from workbench.runs.compiled import compile_run

MEASURED = ["overall", "accuracy", "gold_mass", "entropy", *MECHANISMS]


@pytest.fixture(scope="module")
def sorter(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return compile_run("sorter", tmp_path_factory.mktemp("story") / "sorter", {"q": 9})


@pytest.fixture(scope="module")
def inspected(sorter: Run) -> Inspected:
    return inspect_run(sorter, n=4, seed=0, only=MEASURED)


def said(one: Inspected) -> list[Statement]:
    return statements(findings(seed_groups([one])[0]))


def test_every_statement_has_its_chapter_and_the_last_says_how_sure_one_may_be(
    sorter: Run, inspected: Inspected
) -> None:
    seen = workbench.see(sorter, workbench.example(sorter.model(), sorter.task(), 0))
    chapters = story(inspected, seen)
    told = [chapter.statement.text for chapter in chapters]
    assert [one.text for one in said(inspected)] == told[1:-1]
    assert chapters[0].title == "What is it asked?" and isinstance(chapters[0].pictures[0], Drawing)
    assert chapters[-1].title == "How sure is this?" and "held-out sequences" in told[-1]
    assert len({chapter.title for chapter in chapters}) == len(chapters)
    assert all(chapter.limits and chapter.pictures for chapter in chapters[:-1])
    assert story(inspected)[0].title == "What does it get right?", "without an input it begins with the answers"


def test_the_bars_of_a_claim_are_its_rates_on_these_sequences(inspected: Inspected) -> None:
    told = next(one for one in story(inspected) if one.statement.claims and "needed" in one.statement.chips)
    (name,) = told.statement.claims
    held, edited = (bars for bars in told.pictures[0].data if bars.type == "bar")
    judged = [place for place in judgements(inspected, name) if place.needed]
    assert held.x[0] == judged[0].rate and np.isin(held.x[0], inspected[name].at_head().mean.values)
    assert judged[0].test is not None and edited.x[0] == judged[0].test.claimed.changed / judged[0].test.claimed.n
    assert f"{judged[0].test.claimed.changed:g} of {judged[0].test.claimed.n}" in edited.customdata[0]
    assert set(told.numbers) >= {name, f"{name}-causal"} and len(told.pictures) == 1


def test_what_is_kept_is_told_in_the_same_words_and_bars_with_nothing_measured(sorter: Run) -> None:
    *_, whole = find(sorter)
    seen = workbench.see(sorter, workbench.example(sorter.model(), sorter.task(), 0))
    told, again = story(whole.inspected, seen), of_findings(Kept.of(whole).findings, sorter, seen)
    assert [one.statement for one in told] == [one.statement for one in again]
    assert [one.title for one in told] == [one.title for one in again]
    bars = [(one.pictures, other.pictures) for one, other in zip(told, again, strict=True) if one.statement.claims]
    assert bars and all(first == second for first, second in bars)
    without = [one.title for one in again if not one.pictures]
    assert without == [TITLES["answers"], TITLES["spread"], SURE], "these take what was measured"


def test_how_sure_one_may_be_is_a_row_for_every_claim_and_place_with_its_interval_control_and_result(
    inspected: Inspected,
) -> None:
    table = story(inspected)[-1].table
    assert table is not None
    judged = {name: judgements(inspected, name) for name in MECHANISMS if name in inspected}
    assert len(table) == sum(map(len, judged.values())) > len(judged) > 0
    mean, (one,) = inspected["minimum"].mean, judged["minimum"]
    (row,) = table[table["claim"] == mean.name].to_dict("records")
    assert row["of"] == f"{int(mean.n)} cases" and row["holds"] == str(one.often)
    assert row["in"] == f"{100 * one.rate:g}% [{100 * float(mean.low):.1f}, {100 * float(mean.high):g}]"
    assert str(one.against) in row["result"] and str(one.need) in row["result"]
    assert one.test is not None and row["edited answers that change"] == (
        f"{one.test.claimed.changed:g} of {one.test.claimed.n}"
    )
    assert one.strongest is not None and f"{one.strongest.hits:g} of {one.strongest.n:,}" in row["nearest control"]
    assert story(inspect_run(inspected.run, n=4, seed=0, only=["entropy"]))[-1].table is None


def test_a_chapter_can_be_named_before_its_pictures_are_there(inspected: Inspected) -> None:
    named = of_findings(findings(seed_groups([inspected])[0]), inspected.run)
    assert [chapter.title for chapter in named] == [chapter.title for chapter in story(inspected)]


def test_what_is_kept_names_the_head(sorter: Run) -> None:
    seen = workbench.see(sorter, workbench.example(sorter.model(), sorter.task(), 0))
    *_, whole = find(sorter)
    focus = whole.findings.focus
    assert focus is not None
    other = focus.model_copy(update={"head": (1, 0), "needed": (1, 0)})
    first = of_findings(whole.findings.model_copy(update={"focus": other}), sorter, seen)[0]
    assert first.statement.text.endswith(f"through layer 1, head 0. {focus_in_words(other)}")
    assert isinstance(first.pictures[0], Drawing) and first.pictures[0].title.startswith("Layer 1, head 0")


def test_what_an_untrained_model_does_too_is_said_to_tell_nothing(tmp_path: Path) -> None:
    run = workbench.train("chain-standard", out=tmp_path / "run", progress=False, steps=2, eval_size=16)
    one = inspect_run(run, n=8, seed=0, only=MEASURED)
    assert not any(place.tells for place in judgements(one, "chain_following"))
    chapters = [chapter for chapter in story(one) if chapter.statement.claims]
    assert {chapter.statement.claims for chapter in chapters} == {("chain_following",)}
    assert {chip for chapter in chapters for chip in chapter.statement.chips} <= {"absent", "tells nothing"}
    assert TITLES["tells nothing"] in [chapter.title for chapter in chapters]
    assert "few sequences leave wide intervals" in story(one)[-1].limits


def test_of_a_run_without_a_log_or_claims_the_rest_is_told(inspected: Inspected, sorter: Run) -> None:
    few = inspect_run(sorter, n=4, seed=0, only=["entropy"])
    assert [chapter.title for chapter in story(few)] == ["How far do its representations spread?", "How sure is this?"]
    assert "When was it learnt?" not in [chapter.title for chapter in story(inspected)], "it was not trained"


def test_when_it_was_learnt_is_told_from_the_log(tmp_path: Path) -> None:
    run = workbench.train("chain-chacal", out=tmp_path / "run", progress=False, steps=40, eval_size=32, eval_every=10)
    told = {one.title: one for one in story(inspect_run(run, n=4, seed=0, only=["overall"]))}["When was it learnt?"]
    curve = run.metrics().dropna(subset="accuracy")
    last = f"{curve['accuracy'].iloc[-1]:.0%} at step {curve['step'].iloc[-1]}, the last evaluation"
    assert told.statement.text.startswith("Answer tokens right: 50% ") and last in told.statement.text
    assert "32 held-out sequences drawn as in training" in told.limits
    assert np.allclose(told.pictures[0].data[0].y, curve["accuracy"])
