"""What every instrument and mechanism must do; each check takes one, and the runs that it is measured on.

The runs are models whose weights are written by hand (a sorter and a pointer chaser), so that nothing is trained.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from workbench.capture import Capture, Subject, capture
from workbench.instruments import INSTRUMENTS, WEIGHTS
from workbench.measurement import Measurement
from workbench.measurement.controls import CONTROLS
from workbench.mechanisms import MECHANISMS
from workbench.runs import Run
from workbench.runs.compiled import compile_run
from workbench.testing.require import NotTested, require
from workbench.util.seeds import generator

N = 12  # sequences
COMPILED: dict[str, dict[str, Any]] = {"sorter": {"q": 6, "max_length": 6}, "chaser": {"n": 16, "k": 4}}


@dataclass(frozen=True)
class Measure:
    """An instrument or a mechanism, and the runs to measure it on."""

    name: str
    runs: tuple[Run, ...]

    @property
    def module(self) -> Any:
        return {**INSTRUMENTS, **WEIGHTS, **MECHANISMS}[self.name]

    @property
    def of_weights(self) -> bool:
        return self.name in WEIGHTS

    def of(self, found: Capture, **fitted: Any) -> Measurement:
        """What it measures on a capture."""
        given = found.subject if self.of_weights else found
        measured = (self.module.score if self.name in MECHANISMS else self.module.measure)(given, **fitted)
        require(isinstance(measured, Measurement), f"it returns a Measurement, not a {type(measured).__name__}")
        assert isinstance(measured, Measurement)
        return measured

    def applies(self) -> Iterator[tuple[Run, Subject]]:
        """The runs that it can be measured on. Raises NotTested if there are none."""
        refused = []
        for run in self.runs:
            subject = Subject.of(run.model(), run.task(), run.name)
            why = self.module.why_not(subject)
            if why is None:
                yield run, subject
            else:
                require(bool(why) and "\n" not in why, f"why_not gives a reason in one line, not {why!r}")
                refused.append(why)
        if len(refused) == len(self.runs):
            raise NotTested(f"it measures none of these models ({refused[0]}): give a run that it does with `runs=`")

    def seen(self, run: Run, subject: Subject) -> tuple[Capture, dict[str, Any]]:
        """A capture of what it needs, and what it has to fit first."""
        batch = run.task().sample(N, generator(0, "contract"))
        fitted = self.module.fit(run.model(), subject, 0) if hasattr(self.module, "fit") else {}
        return capture(run.hooked(), subject, batch, self.needs(subject)), fitted

    def needs(self, subject: Subject) -> list[str]:
        """The hook names that it asks for: none where it looks at the weights alone."""
        return [] if self.of_weights else self.module.needs(subject)


@cache
def compiled() -> tuple[Run, ...]:
    """The models written by hand, in a folder that is gone when this process ends."""
    folder = tempfile.TemporaryDirectory(prefix="workbench-")
    _KEPT.append(folder)
    return tuple(compile_run(name, Path(folder.name) / name, settings) for name, settings in COMPILED.items())


_KEPT: list[tempfile.TemporaryDirectory[str]] = []


def its_text_says_what_it_does_not_show(measure: Measure) -> None:
    """Its docstring says what it does not show, and what its controls are, all of which exist."""
    text = " ".join((measure.module.__doc__ or "").split())
    require("not show" in text, 'its docstring says nothing of what it does "not show"')
    require("ontrol" in text, "its docstring says nothing of its controls")
    require(measure.module.CONTROLS or measure.of_weights, f"CONTROLS names none; there is: {', '.join(CONTROLS)}")
    unknown = [name for name in measure.module.CONTROLS if name not in CONTROLS]
    require(not unknown, f"CONTROLS names {unknown}; there is: {', '.join(CONTROLS)}")


@torch.no_grad()
def each_example_is_measured(measure: Measure) -> None:
    """It measures each example, and says in which units, of which model."""
    for run, subject in measure.applies():
        found, fitted = measure.seen(run, subject)
        measured = measure.of(found, **fitted)
        require(
            ("example" in measured.dims) != measure.of_weights,
            f"the dims are {measured.dims}: of sequences, with `example` last; of the weights alone, without it",
        )
        if not measure.of_weights:
            require(measured.dims[-1] == "example", f"`example` is the last dim, not one before: {measured.dims}")
            require(
                measured.values.shape[-1] == N, f"{N} examples were given, and {measured.values.shape[-1]} measured"
            )
        for name in ("name", "caption", "units"):
            require(getattr(measured, name), f"the measurement has no {name}")
        require(measured.settings.get("model") == run.name, "settings['model'] is the name of the capture's subject")
        require(not np.isnan(measured.values).all(), f"of {run.name} it measures nothing but NaN: why_not could say so")


@torch.no_grad()
def the_same_twice(measure: Measure) -> None:
    """The same capture gives the same numbers, and is left as it was."""
    for run, subject in measure.applies():
        found, fitted = measure.seen(run, subject)
        before = {name: found[name].clone() for name in measure.needs(subject)}
        first, second = measure.of(found, **fitted).values, measure.of(found, **fitted).values
        require(np.array_equal(first, second, equal_nan=True), "measured twice, the same capture gave other numbers")
        changed = [name for name, values in before.items() if not torch.equal(found[name], values)]
        require(not changed, f"it changes the activations that it is given: {changed}")


def edits_and_outcomes_of_its_causal_test(measure: Measure) -> None:
    """Its causal test edits what is claimed and something else, and says what becomes of the answers."""
    if not hasattr(measure.module, "causal"):
        raise NotTested("it has no causal test")
    for run, subject in measure.applies():
        batch = run.task().sample(N, generator(1, "contract"))
        found = measure.module.causal(run.hooked(), subject, batch, generator(0))
        require(found.dims[:2] == ("edit", "outcome"), f"the dims begin with edit, outcome, not {found.dims[:2]}")
        require(found.dims[-1] == "example", f"the last dim is `example`, not {found.dims[-1]}")
        edits, outcomes = set(found.coords["edit"]), set(found.coords["outcome"])
        require({"claimed", "elsewhere"} <= edits, f"edits are claimed, elsewhere (and more), not {sorted(edits)}")
        require({"as claimed", "changed"} == outcomes, f"outcomes are as claimed, changed, not {sorted(outcomes)}")
        values = found.values[~np.isnan(found.values)]
        require(bool(((values >= 0) & (values <= 1)).all()), "outcomes are shares: 0 to 1, or NaN where none is tested")


CHECKS = (
    its_text_says_what_it_does_not_show,
    each_example_is_measured,
    the_same_twice,
    edits_and_outcomes_of_its_causal_test,
)
