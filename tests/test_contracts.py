"""Every instrument and mechanism keeps the same contract: what its text says, what it returns, which nulls it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from workbench.capture import Subject
from workbench.inspection import inspect_run
from workbench.instruments import INSTRUMENTS, WEIGHTS
from workbench.instruments.lens import tuned_lens
from workbench.mechanisms import MECHANISMS
from workbench.runs import Run
from workbench.runs.compiled import compile_run
from workbench.testing import NotTested
from workbench.testing.measures import CHECKS, Measure

EVERYTHING: dict[str, Any] = {**INSTRUMENTS, **WEIGHTS, **MECHANISMS}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    root = tmp_path_factory.mktemp("compiled")
    return {
        "sorter": compile_run("sorter", root / "sorter", {"q": 6, "max_length": 6}),
        "chaser": compile_run("chaser", root / "chaser", {"n": 16, "k": 4}),
    }


@pytest.fixture(autouse=True, scope="module")
def short_training() -> Iterator[None]:
    """What has to be fitted first is fitted briefly: how well is not asked here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuned_lens, "MOST_STEPS", 50)
        yield


@pytest.mark.parametrize("check", CHECKS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("name", EVERYTHING)
def test_a_measure_keeps_its_contract(name: str, check: Callable[[Measure], None], compiled: dict[str, Run]) -> None:
    measure = Measure(name, tuple(compiled.values()))
    try:
        check(measure)
    except NotTested:
        assert not hasattr(measure.module, "causal") or not list(measured_on(measure))


def measured_on(measure: Measure) -> Iterator[Run]:
    """The runs of which it does not say why not."""
    for run in measure.runs:
        if measure.module.why_not(Subject.of(run.model(), run.task(), run.name)) is None:
            yield run


@torch.no_grad()
@pytest.mark.parametrize("name", EVERYTHING)
def test_each_example_has_its_own_value(name: str, compiled: dict[str, Run]) -> None:
    measure = Measure(name, tuple(compiled.values()))
    for run in measured_on(measure):
        found, fitted = measure.seen(run, Subject.of(run.model(), run.task(), run.name))
        assert (measure.of(found, **fitted).dims[-1] == "example") != (name in WEIGHTS)


@pytest.mark.parametrize("model", ["sorter", "chaser"])
def test_under_every_null_a_known_model_measures_otherwise_and_its_claims_hold_less(
    model: str, compiled: dict[str, Run]
) -> None:
    found = inspect_run(compiled[model], n=16, seed=0, causal=False)
    for name, result in found.results.items():
        assert set(result.controls) == set(EVERYTHING[name].CONTROLS)
        if name == "logit_lens" and model == "chaser":
            continue  # what its one attention layer writes is the answer, and fresh layers write nothing
        own = result.at_head().mean.values if name == "gold_mass" else result.mean.values
        for null, control in result.controls.items():
            under = control.mean.values[None] if control.draws is None else control.draws.values  # each model's own
            under = (
                control.mean.select(layer=found.head[0], head=found.head[1]).values[None]
                if (name == "gold_mass" and control.draws is None)
                else under
            )
            assert not all(np.allclose(own, each, atol=1e-3, equal_nan=True) for each in under), f"{name}, {null}"
            if name in MECHANISMS:
                assert np.nanmax(own) == 1 > np.nanmin(control.mean.values), f"{name}, {null}"
