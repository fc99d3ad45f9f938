"""A preset that learns modular addition by heart first and by a few frequencies later: what is said of it holds."""

from __future__ import annotations

from pathlib import Path

import pytest

import workbench
from workbench.capture import Subject
from workbench.inspection.progress_measures import first_step, half_way, progress_measures
from workbench.instruments.weights import fourier
from workbench.mechanisms import fourier_addition
from workbench.runs import Run
from workbench.util.seeds import generator


@pytest.fixture(scope="module")
def grokked(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder: Path = tmp_path_factory.mktemp("grokked") / "run"
    return workbench.train("addition-grok", out=folder, progress=False)


@pytest.mark.slow
def test_train_accuracy_comes_first_and_the_excluded_loss_rises_before_test_accuracy_does(grokked: Run) -> None:
    measured = progress_measures(grokked)
    curves = {curve: measured.select(curve=curve).values for curve in measured.coords["curve"]}
    steps = measured.coords["step"]
    assert curves["test accuracy"][-1] > 0.95
    learned, generalised = (first_step(curves[f"{side} accuracy"].tolist(), steps, 0.9) for side in ("train", "test"))
    assert learned is not None and generalised is not None and generalised >= 2 * learned
    # From where the excluded loss is least to where test accuracy first reaches 0.9: which is half way first?
    end = next(i for i, right in enumerate(curves["test accuracy"]) if right >= 0.9)
    start = int(curves["excluded loss"][: end + 1].argmin())
    assert steps[start] >= learned
    excluded, right = (curves[curve][start : end + 1] for curve in ("excluded loss", "test accuracy"))
    half_way_at = [int(((one - one[0]) / (one[-1] - one[0]) >= 0.5).argmax()) for one in (excluded, right)]
    assert excluded[-1] > 1.3 * excluded[0] and half_way_at[0] <= half_way_at[1]
    found = half_way(measured)
    assert found is not None and (found.excluded, found.accuracy) == tuple(steps[start + i] for i in half_way_at)
    restricted = curves["restricted loss"]
    assert restricted[start] < 0.3 * restricted[0], "the method is built while test accuracy stands still"


@pytest.mark.slow
def test_its_frequencies_are_named_few_and_needed_and_the_claim_holds(grokked: Run) -> None:
    subject = Subject.of(grokked.model(), grokked.task(), "grokked")
    named = fourier.measure(subject).settings["key"]["embedding"]
    assert 2 <= len(named) <= 10
    batch = grokked.task().sample(500, generator(0), split="test")
    removed = fourier_addition.ablation(grokked.hooked(), subject, batch, named).mean()
    right = dict(zip(removed.coords["edit"], removed.values.tolist(), strict=True))
    assert right["none"] > 0.95 and right["removed"] < 0.1 and right["others removed"] > 0.9
    causal = fourier_addition.causal(grokked.hooked(), subject, batch, generator(1)).mean()
    assert causal.select(edit="claimed", outcome="as claimed").values > 0.9
    assert causal.select(edit="elsewhere", outcome="changed").values < 0.1
