"""A task with few questions draws the same ones again and again: none counts twice in anything that is measured."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor

import workbench
from workbench import figures
from workbench.capture import Subject
from workbench.inspection import Inspected, claims, examples, inspect_run, over_training, plan
from workbench.inspection import lens_differences as pairs
from workbench.inspection.plan import sets_of_heads
from workbench.instruments import WEIGHTS
from workbench.measurement import Measurement
from workbench.probes.causal_test import Experiment
from workbench.report import inspect
from workbench.runs import Run, save_run
from workbench.tasks import Batch, Task, make

FEW: dict[str, dict[str, Any]] = {
    "arithmetic": {"min_operators": 1, "operators": 2, "p": 5},
    "multiplication": {"digits": 1},
    "sorting": {"q": 4, "max_length": 4},
}
DRAWN = 200
Question = tuple[int, ...]


def question(task: Task, tokens: Tensor) -> Question:
    return tuple(tokens[: int(task.question_length(tokens[None]))].tolist())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """An untrained model of each task, which is wrong often enough."""
    found = {}
    for name, settings in FEW.items():
        task = make(name, **settings)
        config = workbench.DecoderConfig(
            d_vocab=len(task.vocabulary), n_ctx=task.n_ctx, n_layers=2, d_model=16, n_heads=2, d_mlp=16
        )
        model = workbench.Decoder(config, workbench.generator(0))
        found[name] = save_run(tmp_path_factory.mktemp("few") / name, model, task)
    return found


@pytest.fixture(scope="module")
def inspected(runs: dict[str, Run]) -> dict[str, Inspected]:
    return {name: inspect_run(run, n=DRAWN, seed=0, nulls=["mismatched"]) for name, run in runs.items()}


@pytest.mark.parametrize("name", FEW)
def test_no_question_is_measured_twice_under_one_condition(name: str, inspected: dict[str, Inspected]) -> None:
    found = inspected[name]
    task = found.run.task()
    under = [
        (str(condition), question(task, tokens))
        for condition, tokens in zip(found.sample.conditions, found.sample.tokens, strict=True)
    ]
    assert len(set(under)) == len(under) < DRAWN * len(task.conditions) == found.sample.drawn
    for key, m in ((key, result.examples) for key, result in found.results.items() if key not in WEIGHTS):
        assert m.values.shape[m.axis("example")] == len(under), key
    means = {key: result.mean for key, result in found.results.items()}
    tests = {f"{key}-causal": result.causal.mean for key, result in found.results.items() if result.causal}
    for key, m in (means | tests).items():
        assert key in WEIGHTS or m.n is None or m.n.max() <= len(under), key


@pytest.mark.parametrize("name", FEW)
def test_a_head_is_chosen_on_no_question_that_is_measured(
    name: str, runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen_on: list[Batch | None] = []

    def looked_for(measures: Any, own: Any, other: Batch | None, seed: int) -> Any:
        chosen_on.append(other)
        return sets_of_heads(measures, own, other, seed)

    monkeypatch.setattr(plan, "sets_of_heads", looked_for)
    found = inspect_run(runs[name], n=DRAWN, seed=0, nulls=(), only=["attention_graph"])
    task = runs[name].task()
    (other,) = chosen_on
    assert other is not None
    on = [question(task, tokens) for tokens in other.tokens]
    assert len(set(on)) == len(on)
    assert not set(on) & {question(task, tokens) for tokens in found.sample.tokens}


def test_drawing_the_same_questions_more_often_makes_no_interval_narrower(runs: dict[str, Run]) -> None:
    """Both draws have every question of the test side, so that they are one sample."""
    few, many = (
        inspect_run(runs["multiplication"], n=n, seed=0, only=["overall", "entropy"], nulls=()) for n in (200, 1600)
    )
    task = runs["multiplication"].task()
    assert {question(task, row) for row in few.sample.tokens} == {question(task, row) for row in many.sample.tokens}
    for name in ("overall", "entropy"):
        one, other = few[name].mean, many[name].mean
        assert np.array_equal(one.n, other.n)
        assert other.values == pytest.approx(one.values)
        widths = [m.high - m.low for m in (one, other)]
        assert widths[1] == pytest.approx(widths[0], rel=0.1)  # sequences come in another order


def test_a_list_of_failures_has_no_sequence_twice(inspected: dict[str, Inspected], runs: dict[str, Run]) -> None:
    found = inspected["sorting"]
    task = found.run.task()
    fails, tested = claims.failing(found, "minimum")
    listed = [question(task, found.sample.tokens[number]) for number, _ in fails]
    assert 1 < len(listed) <= tested and len(set(listed)) == len(listed)
    hard = _listed(runs["multiplication"], "wrong")
    assert len(hard) > 1 and len(set(hard)) == len(hard)


def _listed(run: Run, which: str) -> Sequence[Question]:
    task, model, found = run.task(), run.model(), []
    with pytest.raises(ValueError, match=r"of 64 inputs \(64 drawn, \d+ distinct\) \d+ have a wrong answer"):
        for number in range(examples.POOL + 1):
            found.append(question(task, examples.example(model, task, number, which=which).tokens[0]))
    return found


def test_captions_and_tables_say_how_many_are_distinct(inspected: dict[str, Inspected], runs: dict[str, Run]) -> None:
    found = inspected["arithmetic"]
    said = f"{found.sample.drawn} drawn, {len(found.sample.tokens)} distinct"
    assert found.sample.in_words == said
    entropy = found["entropy"].mean
    assert (entropy.settings["drawn"], entropy.settings["distinct"]) == (found.sample.drawn, len(found.sample.tokens))
    (figure,) = figures.by_layer({"a": entropy}, {})
    assert f"means over {len(found.sample.tokens)} sequences;" in figure.layout.title.subtitle.text
    report = inspect([runs["arithmetic"].path], n=DRAWN, only=["overall"])
    assert re.search(f"^held-out sequences +{said}$", report.says, re.M)
    assert said in report.html.read_text(encoding="utf-8")


def test_two_runs_and_training_are_measured_on_the_same_distinct_sequences(
    runs: dict[str, Run], inspected: dict[str, Inspected]
) -> None:
    run, n = runs["arithmetic"], len(inspected["arithmetic"].sample.tokens)
    apart = pairs.lens_differences(run, run, n=DRAWN, seed=0)
    assert len(apart.coords["example"]) == n
    seen = over_training.moment(run, n=DRAWN, seed=0, only=["overall"])
    assert seen.measured["overall"].n is not None and seen.measured["overall"].n.max() == n


class Weights:
    """An instrument that looks at no sequence."""

    CONTROLS = ("untrained",)
    looks = 0

    @staticmethod
    def why_not(subject: Subject) -> str | None:
        return None

    @classmethod
    def measure(cls, subject: Subject) -> Measurement:
        """The mean size of each basis's numbers."""
        cls.looks += 1
        bases = {"encoder": subject.encoder, "decoder": subject.decoder}
        values = np.array([float(basis.abs().mean()) for basis in bases.values()])
        return Measurement("Size of the bases", values, ("basis",), {"basis": list(bases)}, "norm")


def test_an_instrument_of_the_weights_has_no_interval_over_sequences(
    runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(WEIGHTS, "weights", Weights)  # type: ignore[arg-type]
    monkeypatch.setattr(Weights, "looks", 0)
    both = [runs["arithmetic"].path, runs["multiplication"].path]
    report = inspect(both, n=8, only=["weights", "overall"], out=tmp_path / "report")
    assert Weights.looks == 2 * (1 + 8), "once for each model and each of its controls, whatever the sequences"
    found = report.inspected[0]
    size = found["weights"].mean
    assert size.low is None and size.high is None and size.n is None and "drawn" not in size.settings
    assert size.values == pytest.approx(Weights.measure(found.example.subject).values)
    untrained = found["weights"].controls["untrained"].mean
    assert untrained.low is not None and (untrained.low <= untrained.values).all()
    (drawn,) = figures.draw("weights", {"a": size}, {}, {})
    assert "interval" not in drawn.layout.title.subtitle.text
    page = report.html.read_text(encoding="utf-8")
    assert "Size of the bases" in page and "weights alone, so that there is no interval over sequences" in page


def test_a_causal_test_of_a_probe_edits_no_question_twice(runs: dict[str, Run]) -> None:
    run = runs["arithmetic"]
    how = {"how": "interchange", "n": 60, "seed": 0, "step": None, "rank": None}
    made = Experiment.of(run, "value", "labelled", **how)  # type: ignore[arg-type]
    tried = [question(run.task(), row) for row in made.tried.tokens]
    assert len(set(tried)) == len(tried) < 60
    assert (made.settings["drawn"], made.settings["distinct"]) == (60, len(tried))
    assert not set(tried) & {question(run.task(), row) for row in made.fitted.tokens}
