"""A preset that learns modular addition by heart first and by a few frequencies later: what is said of it holds."""

from __future__ import annotations

from pathlib import Path

import pytest

import workbench
from workbench.capture import Subject
from workbench.inspection.progress_measures import other_frequencies, progress_measures
from workbench.instruments.weights import fourier
from workbench.judgement.grokking import early_rise, half_way
from workbench.mechanisms import fourier_addition
from workbench.runs import Run
from workbench.util.seeds import generator


@pytest.fixture(scope="module", params=range(4))
def grokked(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Run:
    folder: Path = tmp_path_factory.mktemp("grokked") / "run"
    return workbench.train("addition-grok", out=folder, progress=False, seed=request.param)


@pytest.mark.slow
def test_train_accuracy_comes_first_and_the_excluded_loss_rises_before_test_accuracy_does(grokked: Run) -> None:
    measured = progress_measures(grokked)
    curves = {curve: measured.select(curve=curve).values for curve in measured.coords["curve"]}
    control = progress_measures(grokked, frequencies=other_frequencies(measured))
    steps, right = measured.coords["step"], curves["test accuracy"]
    assert right[-1] > 0.98
    learned, generalised = (int((curves[f"{side} accuracy"] >= 0.9).argmax()) for side in ("train", "test"))
    assert steps[generalised] >= 4 * steps[learned]
    # While fewer than half of the held-out sums are right: the key waves are missed more and more, others are not.
    before = slice(learned, int((right >= 0.5).argmax()))
    rise, others = early_rise(measured), early_rise(control)
    assert rise is not None and others is not None
    assert (rise.start, rise.end) == (steps[learned], steps[before.stop - 1])
    # On two kinds of processor and nine seeds: 0.16 to 1.30 nats, and at most 0.03.
    assert rise.nats > 0.1 and rise.nats > 4 * others.nats
    restricted = curves["restricted loss"][before]
    # On three kinds of processor: at most 0.64 of what it was.
    assert restricted[-1] < 0.75 * restricted[0], "the method is built while test accuracy stands still"
    start = int(curves["excluded loss"][: generalised + 1].argmin())
    found = half_way(measured)
    assert found is not None and (found.start, found.end) == (steps[start], steps[generalised])
    assert found.rise == pytest.approx(curves["excluded loss"][generalised] - curves["excluded loss"][start])


@pytest.mark.slow
def test_its_frequencies_are_named_few_and_needed_and_the_claim_holds(grokked: Run) -> None:
    subject = Subject.of(grokked.model(), grokked.task(), "grokked")
    named = fourier.measure(subject).settings["key"]["embedding"]
    assert 2 <= len(named) <= 10
    batch = grokked.task().sample(500, generator(0), split="test")
    removed = fourier_addition.ablation(grokked.hooked(), subject, batch, named).mean()
    right = dict(zip(removed.coords["edit"], removed.values.tolist(), strict=True))
    # On three kinds of processor at most 0.132 are left; a guess is right in one of p.
    assert right["none"] > 0.97 and right["removed"] < 0.2 and right["others removed"] > 0.9
    causal = fourier_addition.causal(grokked.hooked(), subject, batch, generator(1)).mean()
    # On three kinds of processor at least 0.79, and at most 0.04 and 0.19.
    assert causal.select(edit="claimed", outcome="as claimed").values > 0.7
    assert causal.select(edit="elsewhere", outcome="as claimed").values < 0.1
    assert causal.select(edit="elsewhere", outcome="changed").values < 0.25
