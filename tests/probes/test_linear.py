from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import workbench
from probes import fit, probe_layers, probe_run, verdict
from workbench.instruments import Measurement
from workbench.runs import Run


def planted(n: int = 120, per_sequence: int = 4, d: int = 12) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vectors with a class written along fixed directions, under noise."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, n * per_sequence)
    directions = np.linalg.qr(random.normal(size=(d, d)))[0][:3]
    features = 6 * directions[labels] + random.normal(size=(len(labels), d))
    return features, labels, np.repeat(np.arange(n), per_sequence)


def test_a_planted_direction_is_decoded() -> None:
    assert fit(*planted(), seed=0).accuracy >= 0.99


def test_labels_that_are_not_there_are_not_decoded() -> None:
    features, labels, sequences = planted()
    labels = np.random.default_rng(1).permutation(labels)
    probe = fit(features, labels, sequences, seed=0)
    error = probe.right.std() / len(probe.right) ** 0.5
    assert probe.accuracy < 1 / 3 + 4 * error


def test_sequences_are_never_on_both_sides() -> None:
    """Vectors that name their sequence tell a sequence's label only to a probe that has seen the sequence."""
    random = np.random.default_rng(2)
    labels = np.repeat(random.integers(0, 2, 60), 5)
    sequences = np.repeat(np.arange(60), 5)
    probe = fit(np.eye(60)[sequences], labels, sequences, seed=0)
    assert len(probe.right) == 18
    assert probe.accuracy < 0.8


def test_the_same_seed_gives_the_same_probe() -> None:
    first, again = fit(*planted(), seed=3), fit(*planted(), seed=3)
    assert np.array_equal(first.right, again.right)


def test_nothing_to_decode_is_refused() -> None:
    features, labels, sequences = planted()
    with pytest.raises(ValueError, match="nothing to decode"):
        fit(features, np.zeros_like(labels), sequences, seed=0)
    with pytest.raises(ValueError, match="it needs 2"):
        fit(features[:4], labels[:4], sequences[:4], seed=0)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("probe") / "run"
    return workbench.train("chain-chacal", out=out, progress=False, checkpoint_count=3)


def test_the_root_is_decoded_from_a_trained_model_and_from_no_control(run: Run) -> None:
    found = probe_run(run, "root", point="blocks.0.hook_resid_mid", n=160)
    trained, *controls = found.values
    assert trained > 0.97
    assert max(controls) < 0.5
    assert found.low is not None and found.low[0] > max(controls)
    again = probe_run(run, "root", point="blocks.0.hook_resid_mid", n=160)
    assert np.array_equal(found.values, again.values)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"label": "leaf", "point": "blocks.0.hook_resid_mid"}, "there is: hop, parent"),
        ({"label": "root", "point": "blocks.7.hook_resid_mid"}, "no hook point"),
        ({"label": "root", "point": "blocks.0.hook_resid_mid", "position": 0}, "nothing at position 0"),
    ],
)
def test_wrong_questions_are_refused(run: Run, settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        probe_run(run, **settings)


def test_runs_opened_by_path_give_the_same_figures(run: Run) -> None:
    reopened = workbench.load_run(Path(run.path))
    a, b = (probe_run(r, "hop", point="blocks.0.hook_resid_post", n=64) for r in (run, reopened))
    assert np.array_equal(a.values, b.values)


def test_a_checkpoint_is_probed_as_it_was(run: Run) -> None:
    point = "blocks.0.hook_resid_mid"
    start, end = (probe_run(run, "root", point=point, n=96, step=step) for step in (run.checkpoints()[0], None))
    assert start.values[0] < 0.5 < end.values[0] and start.settings["model"] == "run at step 0"
    assert start.values[2:] == pytest.approx(end.values[2:])  # the untrained model and the labels are the same
    with pytest.raises(ValueError, match="step-7"):
        probe_run(run, "root", point=point, n=96, step=7)


def test_layers_are_probed_one_by_one(run: Run) -> None:
    found = probe_layers(run, "root", n=96)
    assert found.dims == ("point", "condition")
    assert found.coords["point"] == [f"blocks.0.hook_resid_{at}" for at in ("pre", "mid", "post")]
    alone = probe_run(run, "root", point="blocks.0.hook_resid_mid", n=96)
    assert np.array_equal(found.select(point="blocks.0.hook_resid_mid").values, alone.values)
    assert found.select(point="blocks.0.hook_resid_pre", condition="trained").values < 0.5
    some = probe_layers(run, "root", points=["blocks.0.hook_resid_post"], position=9, n=96, step=0)
    assert some.values.shape == (1, 4) and some.settings["position"] == 9


def outcome(trained: float, best: float, width: float) -> Measurement:
    values = np.array([trained, 0.1, best, 0.2])
    ends = {"low": values - width, "high": values + width}
    coords = {"condition": ("trained", "shuffled labels", "untrained model", "most frequent label")}
    return Measurement("Linear probe", values, ("condition",), coords, "share", **ends)  # type: ignore[arg-type]


def test_a_verdict_needs_the_whole_interval_above_the_best_control() -> None:
    said = "97% against 31% for the best control, untrained model"
    assert verdict(outcome(0.97, 0.31, 0.05)) == f"decodable: {said}"
    assert verdict(outcome(0.97, 0.31, 0.34)) == f"not told apart from its controls: {said}"
    assert verdict(outcome(0.3, 0.31, 0.001)).startswith("no better than its controls: 30%")
    assert verdict(outcome(0.97, 0.31, np.nan)).startswith("too few sequences to tell: 97%")
