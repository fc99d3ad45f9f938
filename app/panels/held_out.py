"""What is measured of a run on held-out sequences, cached: the same weights and settings are measured once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from workbench.inspection import Result, Sample, inspect_run
from workbench.runs import Run, load_run
from workbench.tasks import Task

MOST, FEWEST = 128, 8  # sequences drawn, of all the task's conditions together
NUMBERS = 2**21  # of one head's patterns of all these sequences, so that long ones are measured in seconds
SEED = 0


@dataclass(frozen=True)
class HeldOut:
    """What of `Inspected` pages draw: the results by name, and the sequences that they are of."""

    results: dict[str, Result]
    sample: Sample

    def __getitem__(self, name: str) -> Result:
        return self.results[name]


def n_each(task: Task) -> int:
    """Sequences of each of the task's test conditions: fewer where they are long."""
    total = max(FEWEST, min(MOST, NUMBERS // task.n_ctx**2))
    return max(4, total // len(task.conditions))


def held_out(
    run: Run, only: Sequence[str], *, step: int | None = None, settings: Mapping[str, Mapping[str, Any]] | None = None
) -> HeldOut:
    """Some instruments on held-out sequences, with their controls.

    Raises:
        ValueError: in one line, if the weights cannot be loaded or a setting is wrong.
    """
    key = (str(run.path), run.version_at(step), step)
    return _held_out(key, tuple(only), {name: dict(own) for name, own in (settings or {}).items()})


@st.cache_data(show_spinner="Measuring on held-out sequences …", max_entries=400)
def _held_out(key: tuple[str, int, int | None], only: tuple[str, ...], settings: dict[str, dict[str, Any]]) -> HeldOut:
    run = load_run(key[0])
    found = inspect_run(run, n=n_each(run.task()), seed=SEED, only=only, settings=settings, step=key[2], causal=False)
    return HeldOut(found.results, found.sample)


def line(run: Run, only: Sequence[str], *, step: int | None = None, settings: str = "", of: str = "run") -> str:
    """The call that measures the same, as Python.

    Args:
        run, only, step: as for `held_out`.
        settings: the expression for its settings; empty for the default ones.
        of: the expression for the run.
    """
    more = (f", settings={settings}" if settings else "") + ("" if step is None else f", step={step}")
    return f"inspect_run({of}, n={n_each(run.task())}, seed={SEED}, only={list(only)}{more}, causal=False)"
