"""Which controls an inspection holds a measure against, and on how many sequences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from workbench.inspection import inspect_run
from workbench.inspection.averages import VOID, _is_the_same
from workbench.measurement import Measurement
from workbench.runs import load_run

ZOO = Path(__file__).parents[2] / "app" / "zoo"


@pytest.mark.parametrize(("name", "void"), [("multiply-pause", True), ("chain-chacal", False), ("sort-plain", False)])
def test_shuffled_truth_is_no_control_where_every_example_has_the_same(name: str, void: bool) -> None:
    """All products of two numbers of two digits have the same edges; chains have not."""
    result = inspect_run(load_run(ZOO / name), n=8, seed=0, only=["gold_mass"], causal=False)["gold_mass"]
    assert ("mismatched" in result.controls) != void and "untrained" in result.controls
    assert result.mean.caption.endswith(VOID) == void


def test_what_was_hit_as_often_by_chance_stays_a_control() -> None:
    def measured(values: list[float]) -> Measurement:
        coords = {"example": range(len(values))}
        return Measurement("Claim", np.array(values), ("example",), coords, units="share")

    assert not _is_the_same(measured([1, 0, 0, 1]), measured([0, 1, 1, 0]))
    assert _is_the_same(measured([0.2, 0.7, np.nan, 0.3]), measured([0.7, np.nan, 0.3, 0.2]))
    assert not _is_the_same(measured([0.2, 0.7, 0.3]), measured([0.7, 0.3, 0.21]))
    assert not _is_the_same(measured([0.2, 0.7]), measured([0.7, 0.2, 0.1]))


def test_untrained_models_see_as_many_sequences_as_a_batch_of_the_model() -> None:
    """A claim scored against means of its batch is found more rarely in a smaller one."""
    result = inspect_run(load_run(ZOO / "multiply-pause"), n=64, seed=0, only=["carry"], causal=False)["carry"]
    assert result.controls["untrained"].examples.values.shape[-1] == result.examples.values.shape[-1] > 50
