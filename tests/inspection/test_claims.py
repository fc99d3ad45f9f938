"""What is said of claims on held-out sequences is what they score there, sequence by sequence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import workbench
from workbench import figures
from workbench.inspection import Inspected, claims, inspect_run
from workbench.mechanisms import MECHANISMS
from workbench.runs import Run
from workbench.runs.compiled import compile_run

SORTING = ("copy", "minimum", "successor", "identity_removed")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("claims")
    compile_run("sorter", root / "sorter", {"q": 9, "max_length": 10})
    compile_run("chaser", root / "chaser", {"n": 16})
    workbench.train("sort-tempered", out=root / "sort", progress=False, steps=20, eval_size=16)
    return root


def inspected(run: Run, *names: str, head: tuple[int, int] | None = None) -> Inspected:
    return inspect_run(run, n=8, seed=0, only=names, causal=False, head=head)


@pytest.fixture(scope="module")
def sorter(root: Path) -> Inspected:
    return inspected(workbench.load_run(root / "sorter"), *SORTING)


@pytest.fixture(scope="module")
def chaser(root: Path) -> Inspected:
    return inspected(workbench.load_run(root / "chaser"), "chain_following", head=(0, 0))


@pytest.fixture(scope="module")
def barely(root: Path) -> Inspected:
    return inspected(workbench.load_run(root / "sort"), *SORTING)


def test_a_known_mechanism_holds_everywhere_and_fails_nowhere(sorter: Inspected, chaser: Inspected) -> None:
    for name in ("minimum", "successor", "identity_removed"):
        assert claims.failing(sorter, name) == ([], int(np.sum(~np.isnan(sorter[name].examples.values))))
        runs, _ = claims.by_condition(sorter, name) or ({}, {})
        assert list(runs) == ["sorter"] and (runs["sorter"].values == 1).all() and runs["sorter"].dims == ("length",)
    assert claims.failing(chaser, "chain_following") == ([], 8)
    runs, controls = claims.by_hop(chaser, "chain_following")
    assert runs["chaser"].dims == ("hop",) and (runs["chaser"].values == 1).all()
    assert list(controls) == ["chaser"] and all(m.dims == ("hop",) for m in controls["chaser"].values())
    assert min(float(np.nanmin(m.values)) for m in controls["chaser"].values()) < 0.5


def test_sequences_that_fail_are_those_in_which_the_claim_scores_less_than_one(barely: Inspected, root: Path) -> None:
    """Scored again, one by one, from what a person would type."""
    run = workbench.load_run(root / "sort")
    task = run.task()
    fails, tested = claims.failing(barely, "minimum")
    assert tested == len(barely.sample.tokens) == len(barely.sample.conditions) and 0 < len(fails) < tested
    numbers = [number for number, _ in fails]
    holds = next(i for i in range(tested) if i not in numbers)
    for number in (numbers[0], numbers[-1], holds):
        batch = task.parse(task.question(barely.sample.tokens[number]))
        score = MECHANISMS["minimum"].score(workbench.see(run, batch)).values[0]
        assert score == barely["minimum"].examples.values[number] == (number not in numbers)
        assert int(task.question_length(batch.tokens)) == barely.sample.conditions[number]["length"]


def test_the_worst_come_first_and_of_equals_the_shorter(barely: Inspected) -> None:
    fails, _ = claims.failing(barely, "copy", point="blocks.1.hook_attn_out")
    ranks = [(share, len(barely.sample.tokens[number])) for number, share in fails]
    assert ranks == sorted(ranks) and len({share for share, _ in ranks}) > 1
    everywhere, _ = claims.failing(barely, "copy")
    number, share = everywhere[0]
    assert share == pytest.approx(np.nanmean(barely["copy"].examples.values[:, number]))


def test_rates_by_condition_are_the_means_of_its_sequences_with_every_control(barely: Inspected) -> None:
    runs, controls = claims.by_condition(barely, "copy", point="blocks.1.hook_resid_mid") or ({}, {})
    rate = runs["sort"]
    lengths = [condition["length"] for condition in barely.sample.conditions]
    scores = barely["copy"].examples.select(point="blocks.1.hook_resid_mid").values
    for length, value in zip(rate.coords["length"], rate.values, strict=True):
        assert value == pytest.approx(scores[np.array(lengths) == length].mean())
    assert list(controls["sort"]) == ["mismatched", "untrained"]
    (figure,) = figures.mechanism_rates(runs, controls)
    assert {"sort", "sort, with shuffled truth", "sort, re-initialised models"} <= {line.name for line in figure.data}


def test_a_task_with_a_single_test_set_has_no_rates_by_condition(chaser: Inspected) -> None:
    assert claims.by_condition(chaser, "chain_following", hop=1) is None


def test_every_claim_stands_beside_the_control_that_was_asked_for(sorter: Inspected, chaser: Inspected) -> None:
    pairs = claims.beside(sorter, "untrained", ["minimum", "copy"])
    assert [score.name for score, _ in pairs] == ["Minimum at the delimiter", "Copy before the delimiter"]
    assert np.array_equal(pairs[0][1].values, sorter["minimum"].controls["untrained"].mean.values)
    ((score, control),) = claims.beside(chaser)
    assert score.dims == control.dims == ("hop",) and score.settings["head"] == 0


def test_wrong_names_and_places_say_what_there_is(sorter: Inspected) -> None:
    for function in (claims.failing, claims.by_condition, claims.by_hop):
        with pytest.raises(ValueError, match="unknown claim among those measured 'carry'"):
            function(sorter, "carry")
    with pytest.raises(ValueError, match="unknown control 'random_graph'"):
        claims.beside(sorter, "random_graph")
    with pytest.raises(ValueError, match="no dim 'hop'"):
        claims.by_hop(sorter, "minimum")
    with pytest.raises(ValueError, match=r"has no point 'blocks\.9\.hook_resid_mid'"):
        claims.failing(sorter, "copy", point="blocks.9.hook_resid_mid")
