"""Every instrument and mechanism keeps the same contract: what its text says, what it returns, which nulls it has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from workbench.capture import Capture, Subject, capture
from workbench.inspection import inspect_run
from workbench.instruments import INSTRUMENTS
from workbench.instruments.lens import tuned_lens
from workbench.measurement.controls import CONTROLS
from workbench.mechanisms import MECHANISMS
from workbench.runs import Run
from workbench.runs.compiled import compile_run
from workbench.util.seeds import generator

EVERYTHING: dict[str, Any] = {**INSTRUMENTS, **MECHANISMS}


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


def seen(run: Run, name: str) -> tuple[Capture, dict[str, Any]]:
    """A capture of what one instrument needs, and what it has to fit first."""
    thing, model = EVERYTHING[name], run.model()
    subject = Subject.of(model, run.task(), run.name)
    batch = run.task().sample(12, generator(0, "contract"))
    fitted = thing.fit(model, subject, 0) if hasattr(thing, "fit") else {}
    return capture(run.hooked(), subject, batch, thing.needs(subject)), fitted


@pytest.mark.parametrize("name", EVERYTHING)
def test_its_text_says_what_it_does_not_show_and_what_its_control_is(name: str) -> None:
    text = " ".join((EVERYTHING[name].__doc__ or "").split())
    assert "not show" in text, "nothing about what it does not show"
    assert "ontrol" in text, "nothing about its control"


@pytest.mark.parametrize("name", EVERYTHING)
def test_its_nulls_exist_and_have_words(name: str) -> None:
    assert EVERYTHING[name].CONTROLS
    for null in EVERYTHING[name].CONTROLS:
        assert CONTROLS[null].words and CONTROLS[null].short


@pytest.mark.parametrize("model", ["sorter", "chaser"])
@pytest.mark.parametrize("name", EVERYTHING)
@torch.no_grad()
def test_it_measures_each_example_or_says_why_not(name: str, model: str, compiled: dict[str, Run]) -> None:
    run, thing = compiled[model], EVERYTHING[name]
    why = thing.why_not(Subject.of(run.model(), run.task(), run.name))
    if why is not None:
        assert why and "\n" not in why
        return
    found, fitted = seen(run, name)
    measured = (thing.measure if name in INSTRUMENTS else thing.score)(found, **fitted)
    assert measured.dims[-1] == "example" and measured.values.shape[-1] == 12
    assert measured.name and measured.caption and measured.units and measured.settings["model"] == run.name
    assert not all(value != value for value in measured.values.ravel())


@pytest.mark.parametrize("name", [name for name, claim in MECHANISMS.items() if hasattr(claim, "causal")])
def test_a_causal_test_edits_the_claimed_thing_and_another(name: str, compiled: dict[str, Run]) -> None:
    for run in compiled.values():
        subject = Subject.of(run.model(), run.task(), run.name)
        if MECHANISMS[name].why_not(subject) is not None:
            continue
        batch = run.task().sample(12, generator(1, "contract"))
        found = MECHANISMS[name].causal(run.hooked(), subject, batch, generator(0))
        assert found.dims[:2] == ("edit", "outcome") and found.dims[-1] == "example"
        assert {"claimed", "elsewhere"} <= set(found.coords["edit"])
        assert {"as claimed", "changed"} == set(found.coords["outcome"])


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
