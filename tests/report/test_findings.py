"""What a report says first: sentences made from the numbers, at most seven, that say no more than the numbers do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import workbench
from workbench.inspection import Inspected, inspect_run
from workbench.inspection.findings import findings
from workbench.inspection.judged import judged_claims
from workbench.inspection.seed_groups import seed_groups
from workbench.judgement.against_controls import Against
from workbench.judgement.words import claims
from workbench.judgement.words.summary import MOST, sentences
from workbench.report import inspect
from workbench.report.comparisons import clearest, over_seeds
from workbench.runs.compiled import compile_run
from workbench.util.words import capitalised

SMALL = {"steps": 20, "eval_size": 16, "batch_size": 16, "warmup": 2, "task": {"n": 16, "k": 4}}


@pytest.fixture(scope="module")
def sorter(tmp_path_factory: pytest.TempPathFactory) -> Inspected:
    """A model that sorts, with weights worked out by hand."""
    folder = tmp_path_factory.mktemp("compiled")
    return inspect_run(compile_run("sorter", folder / "sorter", {"q": 6, "max_length": 6}), n=32, seed=0)


def said(inspected: list[Inspected]) -> list[str]:
    return sentences([findings(one) for one in seed_groups(inspected)], clearest(over_seeds(inspected)))


@pytest.mark.slow
def test_of_a_model_that_is_known_it_says_what_is_known(sorter: Inspected) -> None:
    text = said([sorter])
    assert 3 <= len(text) <= MOST and all(sentence.endswith(".") for sentence in text)
    assert (
        text[0].startswith("sorter gets 100% [")
        and " of answer tokens right, on " in text[0]
        and "(length 2 to 6)" in text[0]
    )
    told = [sentence for sentence in text if sentence.startswith(("Minimum", "Identity", "Copy"))]
    groups = [(claim, group) for claim in judged_claims(sorter) for group in claim.alike]
    first = max((one for one in groups if one[1][0].needed and one[1][0].beyond), key=lambda one: one[1][0].rate)
    assert told[0].startswith(claims.name_of(*first)) and f" {capitalised(claims.holding(first[1]))}. " in told[0]
    assert told[0].endswith(f"{capitalised(claims.needing(first[1]))}.")
    assert all(
        any(claims.holding(group) in capitalised(one) for one in told)
        or any(capitalised(claims.holding(group)) in one for one in told)
        for _, group in groups
    )
    (test,) = [one.test for one in first[1]]
    assert test is not None and test.elsewhere is not None and test.claimed.n == test.claimed.changed
    assert f"{test.claimed.n} of {test.claimed.n} right answers change" in told[0]
    assert f"elsewhere, {test.elsewhere.changed:g} of {test.elsewhere.n} change" in told[0]
    assert text[-1].startswith("Measured on ") and "say nothing of other seeds" in text[-1]


@pytest.mark.slow
def test_of_a_re_initialised_model_it_says_of_no_claim_that_it_is_beyond_its_controls(tmp_path: Path) -> None:
    run = workbench.train("sort-standard", out=tmp_path / "fresh", progress=False, steps=0, eval_size=16)
    one = inspect_run(run, n=32, seed=0)
    text = " ".join(said([one]))
    assert not any(place.needed for claim in judged_claims(one) for place in claim.places)
    assert "The answers need it:" not in text and "beyond its controls" not in text
    assert claims.AGAINST[Against.NO_MORE] in text or claims.AGAINST[Against.NOT_CLEAR] in text or "not found" in text


def test_of_two_groups_of_seeds_it_says_where_they_stand_in_how_many_a_claim_holds_and_how_they_differ(
    tmp_path: Path,
) -> None:
    inspected = []
    for attention in ("chacal", "standard"):
        for seed in range(3):
            model = {"d_model": 16, "n_heads": 2, "attention": attention}
            out = tmp_path / f"{attention}-{seed}"
            run = workbench.train("chain-chacal", out=out, progress=False, **{**SMALL, "model": model, "seed": seed})
            only = ["overall", "chain_following"]
            inspected.append(inspect_run(run, n=16, seed=0, only=only, causal=False, name=out.name))
    text = said(inspected)
    assert re.fullmatch(r"All 2 configs get about as many answers right \([\d.]+ to [\d.]+%\)\.", text[0])
    alone = r"\d of 6 runs( \(\d at every place where it is read\))?, each taken alone"
    over = r"over the seeds in \d of 2 configs"
    assert re.match(rf"Chain following holds beyond its controls in {alone}, and {over}", text[1]), text[1]
    assert "difference" in text[2] and "after Holm" in text[2]
    assert text[-1].endswith("means and intervals are over 3 seeds of each config.")


@pytest.mark.slow
def test_the_report_of_a_sweep_says_on_its_first_screen_what_was_found(tmp_path: Path) -> None:
    """Three variants, three depths, three seeds: no heading of 27 names, no table of 36 columns."""
    runs = []
    for attention in ("standard", "chacal", "tempered"):
        for layers in (1, 2, 3):
            for seed in range(3):
                runs.append(tmp_path / f"{attention}-{layers}-seed={seed}")
                model = {"d_model": 16, "n_heads": 2, "n_layers": layers, "attention": attention}
                changes = {**SMALL, "model": model, "seed": seed}
                workbench.train("chain-chacal", out=runs[-1], progress=False, **changes)
    report = inspect(runs, n=8, only=["overall", "gold_mass"], out=tmp_path / "report")
    page = report.html.read_text(encoding="utf-8")
    assert "<h1>27 runs of 9 configs</h1>" in page
    assert "Compared over seeds (8)</summary>" in page and "Attention on one sequence (9)</summary>" in page
    assert page.count("<h2>Attention on one sequence") == 9
    columns = page.split("<h2>Summary</h2>")[1].split("</tr>")[0].count("<th>")
    assert columns == 9, "of many runs the table has the means over seeds alone"
    assert len(list((tmp_path / "report" / "data").iterdir())) >= 36, "the numbers of each run are in files"


def test_where_nothing_was_measured_nothing_is_said() -> None:
    assert sentences([]) == []
