"""A run over training, measured without being inspected whole: moments, and a timeline made of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import workbench
from workbench import figures
from workbench.inspection import inspect_run, over_training
from workbench.instruments.answers import overall
from workbench.runs import Run

SHORT = {"steps": 30, "eval_size": 16, "batch_size": 8, "model": {"d_model": 16, "n_heads": 2}}
ONLY = ("overall", "gold_mass", "attention_graph", "minimum", "entropy", "copy")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("timeline") / "run"
    return workbench.train("sort-standard", out=out, progress=False, checkpoint_every=10, **SHORT)


def test_a_moment_is_that_checkpoint_on_held_out_sequences(run: Run) -> None:
    seen = over_training.moment(run, 10, n=8, seed=3, only=["overall"], conditions=[{"length": 4}])
    draws = workbench.generator(3, "inspect", "length=4")
    batch = run.task().sample(8, draws, split="test", length=4)
    by_hand = overall.measure(workbench.see(run, batch, step=10)).mean("example")
    assert seen.step == 10 and seen.measured["overall"].values.tolist() == by_hand.values.tolist()
    assert list(seen.controls) == ["overall"] and over_training.moment(run, n=8, seed=3, only=["overall"]).step == 30


def test_conditions_can_be_chosen_and_none_chosen_are_all_of_them(run: Run) -> None:
    some = inspect_run(run, n=4, seed=0, only=["overall"], conditions=[{"length": 2}, {"length": 16}])
    assert some.sample.conditions == [{"length": 2}] * 4 + [{"length": 16}] * 4
    every = inspect_run(run, n=4, seed=0, only=["overall"])
    assert every.sample.conditions == [c for c in run.task().conditions for _ in range(4)]
    whole = inspect_run(run, n=4, seed=0, only=["overall"], conditions=run.task().conditions)
    assert whole.sample.fingerprint == every.sample.fingerprint != some.sample.fingerprint


def test_a_timeline_is_the_same_measured_inspected_or_joined_from_moments(run: Run) -> None:
    how = {"n": 8, "seed": 0, "only": ONLY, "conditions": [{"length": 5}]}
    measured = over_training.measure(run, **how)
    followed = over_training.follow(inspect_run(run, nulls=("mismatched",), causal=False, **how), **how)
    end = over_training.moment(run, **how)
    parts = [over_training.moment(run, step, head=end.head, **how) for step in over_training.checkpoints(run)]
    joined = over_training.join(run, [*parts, end])
    assert measured.steps == followed.steps == joined.steps == [0, 10, 20, 30]
    assert measured.head == followed.head == joined.head == end.head
    assert list(measured.all()) == list(followed.all()) == list(joined.all())
    for name, one in measured.all().items():
        for other in (followed.all()[name], joined.all()[name]):
            np.testing.assert_array_equal(one.values, other.values)
            np.testing.assert_array_equal(one.low, other.low)


def test_one_head_is_followed_and_measuring_less_measures_the_same(run: Run) -> None:
    whole = over_training.measure(run, n=8, seed=0, only=ONLY)
    alone = over_training.measure(run, n=8, seed=0, only=["gold_mass"], head=whole.head)
    assert alone.measured["gold_mass"].values.tolist() == whole.measured["gold_mass"].values.tolist()
    assert alone.controls["gold_mass"].values.tolist() == whole.controls["gold_mass"].values.tolist()
    other = (1 - whole.head[0], whole.head[1])
    moved = over_training.measure(run, n=8, seed=0, only=["gold_mass"], head=other)
    assert moved.head == other
    lines = {line.name: line for line in figures.timeline(moved, "gold_mass").data if line.name}  # bands have no name
    (drawn,) = [line for name, line in lines.items() if not name.endswith(", control")]
    expected = whole.measured["gold_mass"].select(layer=other[0], head=other[1]).values
    assert list(drawn.y) == pytest.approx(list(expected))


@pytest.mark.parametrize("name", ["overall", "gold_mass", "minimum", "entropy", "copy", "attention_graph"])
def test_every_measure_is_drawn_over_the_steps(run: Run, name: str) -> None:
    followed = over_training.measure(run, n=4, seed=0, only=ONLY, conditions=[{"length": 5}])
    figure = figures.timeline(followed, name)
    named = [trace for trace in figure.data if trace.name]
    assert named and all(list(trace.customdata) == [0, 10, 20, 30] for trace in named)
    dotted = [trace for trace in named if trace.name.endswith("control")]
    assert bool(dotted) == (name in ("gold_mass", "minimum", "copy"))
    of_head = "layer {}, head {}".format(*followed.head) in figure.layout.title.subtitle.text
    assert of_head == (name in ("gold_mass", "attention_graph"))


def test_what_was_not_measured_and_a_run_without_checkpoints_are_refused(run: Run, tmp_path: Path) -> None:
    followed = over_training.measure(run, n=2, seed=0, only=["overall"], conditions=[{"length": 2}])
    with pytest.raises(ValueError, match="unknown measure of this timeline 'entropy'; there is: overall"):
        figures.timeline(followed, "entropy")
    bare = workbench.train("sort-standard", out=tmp_path / "bare", progress=False, **SHORT)
    with pytest.raises(ValueError, match="no checkpoints to draw a timeline of"):
        over_training.measure(bare, n=2, seed=0)
