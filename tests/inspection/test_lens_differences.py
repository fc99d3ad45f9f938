"""Two runs on the same sequences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import workbench
from workbench.inspection import inspect_run
from workbench.inspection.lens_differences import lens_differences
from workbench.runs import Run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    root: Path = tmp_path_factory.mktemp("pairs")
    how: dict[str, object] = {"progress": False, "steps": 12, "eval_size": 32, "checkpoint_count": 2}
    one = workbench.train("sort-tempered", out=root / "one", **how)  # type: ignore[arg-type]
    return one, workbench.train("sort-standard", out=root / "other", **how)  # type: ignore[arg-type]


def test_every_test_sequence_is_compared_once_and_a_run_with_itself_agrees(runs: tuple[Run, Run]) -> None:
    one, other = runs
    found = lens_differences(one, other, n=4, seed=0)
    inspected = inspect_run(one, n=4, seed=0, only=["logit_lens"], nulls=(), causal=False)
    assert found.values.shape == inspected["logit_lens"].examples.values.shape
    assert found.coords["point"] == inspected["logit_lens"].examples.coords["point"]
    assert np.nanmax(np.abs(lens_differences(one, one, n=4, seed=0).values)) < 1e-9 < np.nanmin(found.values)


def test_checkpoints_of_one_run_are_compared(runs: tuple[Run, Run]) -> None:
    one, _ = runs
    first = one.checkpoints()[0]
    found = lens_differences(one, one, n=2, seed=0, step=first)
    back = lens_differences(one, one, n=2, seed=0, second_step=first)
    assert np.nanmean(found.values) > 1e-6 and not np.allclose(found.values, back.values, equal_nan=True)
    with pytest.raises(ValueError, match="no checkpoint of step 999"):
        lens_differences(one, one, n=2, seed=0, step=999)


def test_runs_of_other_vocabularies_are_refused(runs: tuple[Run, Run], tmp_path: Path) -> None:
    other = workbench.train("chain-chacal", out=tmp_path / "chain", progress=False, steps=1, eval_size=8)
    with pytest.raises(ValueError):
        lens_differences(runs[0], other, n=2, seed=0)


def test_a_run_is_inspected_without_controls_where_its_task_has_a_graph(runs: tuple[Run, Run]) -> None:
    found = inspect_run(runs[0], n=4, seed=0, only=["gold_mass"], nulls=(), causal=False)
    beside = inspect_run(runs[0], n=4, seed=0, only=["gold_mass"], nulls=("mismatched",), causal=False)
    assert found["gold_mass"].controls == {} and set(beside["gold_mass"].controls) == {"mismatched"}
    assert found.head == beside.head and "gold_mass-mismatched" not in found.all()
    assert found["gold_mass"].at_head().mean.values == beside["gold_mass"].at_head().mean.values
