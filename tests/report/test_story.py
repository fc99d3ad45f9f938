"""A run's story: its sentences are those of "How it works", and every picture is drawn from what was measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from workbench.report.found import Kept, find
from workbench.report.how_it_works import FAR_APART, claims_of, how_it_works, rates_in_words

import workbench
from workbench.figures import Drawing
from workbench.inspection import Inspected, inspect_run
from workbench.inspection.claims import verdicts_on
from workbench.inspection.seed_groups import seed_groups
from workbench.mechanisms import MECHANISMS
from workbench.report import story as stories
from workbench.report.story import LEARNT, SURE, of_many_inputs, story, title_of, with_input
from workbench.report.verdicts_by_place import at
from workbench.runs import Run
from workbench.runs.compiled import compile_run

MEASURED = ["overall", "accuracy", "gold_mass", "entropy", *MECHANISMS]


@pytest.fixture(scope="module")
def sorter(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return compile_run("sorter", tmp_path_factory.mktemp("story") / "sorter", {"q": 9})


@pytest.fixture(scope="module")
def inspected(sorter: Run) -> Inspected:
    return inspect_run(sorter, n=4, seed=0, only=MEASURED)


def test_every_statement_has_its_chapter_and_the_last_says_how_sure_one_may_be(
    sorter: Run, inspected: Inspected
) -> None:
    seen = workbench.see(sorter, workbench.example(sorter.model(), sorter.task(), 0))
    chapters = story(inspected, seen)
    told = [chapter.statement.text for chapter in chapters]
    assert [text for text in told if text in {one.text for one in how_it_works(seed_groups([inspected])[0])}] == told[
        1:-1
    ]
    assert chapters[0].title == "What is it asked?" and isinstance(chapters[0].pictures[0], Drawing)
    assert chapters[-1].title == "How sure is this?" and "held-out sequences" in told[-1]
    assert len({chapter.title for chapter in chapters}) == len(chapters) <= stories.MOST_CHAPTERS
    assert all(chapter.limits and chapter.pictures for chapter in chapters[:-1])
    assert story(inspected)[0].title == "What does it get right?", "without an input it begins with the answers"


def test_the_bars_of_a_claim_are_its_rates_on_these_sequences(inspected: Inspected) -> None:
    told = next(one for one in story(inspected) if one.statement.claims and "needed" in one.statement.chips)
    (name,) = told.statement.claims
    rates = [bar for bar in told.pictures[0].data if bar.type == "bar"]
    assert np.allclose(np.ravel(rates[0].x), np.ravel(inspected[name].at_head().mean.values), equal_nan=True)
    assert set(told.numbers) >= {name, f"{name}-causal"} and len(told.pictures) == 2


def test_how_sure_one_may_be_is_a_row_for_every_claim_and_place_with_its_interval_control_and_verdict(
    inspected: Inspected,
) -> None:
    table = story(inspected)[-1].table
    assert table is not None
    verdicts = {name: verdicts_on(inspected, name) for name in MECHANISMS if name in inspected}
    assert len(table) == sum(map(len, verdicts.values())) > len(verdicts) > 0
    mean, (verdict,) = inspected["minimum"].mean, verdicts["minimum"]
    (row,) = table[table["claim"] == mean.name].to_dict("records")
    assert row["n"] == str(int(mean.n)) and row["holds in"] == f"{verdict.rate:.0%}"
    assert row["95 % interval"].startswith(f"{float(mean.low):.0%}") and row["verdict"].startswith(verdict.holds.value)
    assert verdict.tested is not None and row["right answers edited"] == f"{verdict.tested.n:,}"
    assert verdict.strongest is not None and row["strongest control"].startswith(f"{verdict.strongest.value:.0%} (")
    assert story(inspect_run(inspected.run, n=4, seed=0, only=["entropy"]))[-1].table is None


def test_a_chapter_can_be_named_before_its_pictures_are_there(inspected: Inspected) -> None:
    statements = list(how_it_works(seed_groups([inspected])[0]))
    titles = [chapter.title for chapter in of_many_inputs(inspected)]
    assert [title_of(one) for one in statements] == [title for title in titles if title not in (LEARNT, SURE)]


def test_what_is_kept_names_the_head_while_not_all_is_measured(sorter: Run, inspected: Inspected) -> None:
    seen = workbench.see(sorter, workbench.example(sorter.model(), sorter.task(), 0))
    *_, whole = find(sorter)
    known = Kept.of(whole).model_copy(update={"head": "This head, because.", "needed": (1, 0)})
    first = with_input(of_many_inputs(inspected), inspected, seen, known)[0]
    assert "through layer 1, head 0. This head, because." in first.statement.text
    assert isinstance(first.pictures[0], Drawing) and first.pictures[0].title.startswith("Layer 1, head 0")


def test_of_places_far_apart_the_most_and_the_least_are_told(inspected: Inspected) -> None:
    (one,) = seed_groups([inspected])
    for alike in claims_of(one, "copy"):
        rates = {at(dict(verdict.place)): verdict.rate for verdict in alike.verdicts if not np.isnan(verdict.rate)}
        most, least = max(rates, key=rates.__getitem__), min(rates, key=rates.__getitem__)
        told = rates_in_words(alike.verdicts)
        if rates[most] - rates[least] >= FAR_APART:
            assert told == f"{rates[most]:.0%} of cases {most}, in {rates[least]:.0%} {least}"
        else:
            assert told.endswith("% of cases")
    first, second = (
        replace(verdict, rate=rate) for verdict, rate in zip(verdicts_on(inspected, "copy"), (0.1, 0.9), strict=False)
    )
    assert rates_in_words([first, second]) == f"90% of cases {at(dict(second.place))}, in 10% {at(dict(first.place))}"
    assert rates_in_words([first, replace(second, rate=0.2)]) == "10 to 20% of cases"
    assert rates_in_words([replace(first, rate=float("nan"))]) == "none of cases"


def test_what_an_untrained_model_does_too_is_said_to_tell_nothing(tmp_path: Path) -> None:
    run = workbench.train("chain-standard", out=tmp_path / "run", progress=False, steps=2, eval_size=16)
    one = inspect_run(run, n=8, seed=0, only=MEASURED)
    titles = {chapter.title: chapter for chapter in story(one)}
    assert "Chain following" not in titles
    assert "tells nothing" in titles["What tells nothing?"].statement.text
    assert titles["What tells nothing?"].statement.claims == ("chain_following",)
    assert "few sequences leave wide intervals" in titles["How sure is this?"].limits


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
