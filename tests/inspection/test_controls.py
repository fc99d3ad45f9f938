"""Which controls an inspection holds a measure against, and on how many sequences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.models.tiny_models import tiny
from workbench import report
from workbench.inspection import inspect_model, inspect_run
from workbench.inspection.averages import EMPTY, VOID, _is_the_same
from workbench.inspection.over_training import Moment, join
from workbench.inspection.seed_groups import seed_groups
from workbench.measurement import Measurement
from workbench.models.pretrained import Pretrained
from workbench.report.story import story
from workbench.runs import load_run
from workbench.tasks import own_sequences

ZOO = Path(__file__).parents[2] / "app" / "zoo"


@pytest.mark.parametrize(("name", "void"), [("multiply-vanilla", True), ("chain-chacal", False), ("sort-plain", False)])
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
    result = inspect_run(load_run(ZOO / "multiply-vanilla"), n=64, seed=0, only=["carry"], causal=False)["carry"]
    assert result.controls["untrained"].examples.values.shape[-1] == result.examples.values.shape[-1] > 50


FEW = {
    "one sequence": [[5, 6, 7, 8, 9]],
    "no two of equal length": [[5, 6, 7, 8, 9], [5, 6, 7]],
    "the same one twice": [[5, 6, 7, 8, 9], [5, 6, 7, 8, 9]],
}


@pytest.mark.parametrize("few", FEW)
def test_a_control_that_no_example_is_left_for_is_left_out_and_this_is_said(few: str, tmp_path: Path) -> None:
    given = own_sequences([torch.tensor(one) for one in FEW[few]], 40, pad=0)
    found = inspect_model(Pretrained(tiny("llama")), given, causal=False)
    assert np.isfinite(found["loss"].mean.values) and "random_graph" in found["head_roles"].controls
    for name in ("loss", "accuracy", "overall", "projection", "head_roles"):
        assert "mismatched" not in found[name].controls and found[name].mean.caption.endswith(EMPTY), name
    written = report.write([found], tmp_path / "report")
    assert EMPTY in written.html.read_text(encoding="utf-8")


def test_a_run_and_its_claims_are_measured_on_one_input_too() -> None:
    run = load_run(ZOO / "chain-standard")
    found = inspect_run(run, n=1, seed=0, causal=False)
    assert {*found["chain_following"].controls} == {"untrained", "random_graph"}
    assert EMPTY in found["chain_following"].mean.caption and story(found)


def test_seeds_and_steps_have_the_controls_that_all_of_them_have() -> None:
    """One seed's sequences can be too few for a control, another's not."""
    run = load_run(ZOO / "chain-standard")
    few, more = (inspect_run(run, n=n, seed=0, only=["overall"], causal=False, name=f"run-{n}") for n in (1, 4))
    other = replace(few, run=replace(run, config=run.config.model_copy(update={"seed": 1})))
    for members in ([more, other], [other, more]):
        (group,) = seed_groups(members)
        assert not group["overall"].controls and len(group.members) == 2
    timeline = join(run, [Moment.of(few, 1), Moment.of(more, 2)])
    assert list(timeline.measured) == ["overall"] and not timeline.controls
