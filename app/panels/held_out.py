"""What is measured of a run on held-out sequences, cached: the same weights and settings are measured once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from workbench.app.panels import code
from workbench.app.panels.code import Symbol
from workbench.inspection import Result, Sample, inspect_run
from workbench.inspection.found import SEED, n_each
from workbench.runs import Run

Settings = Mapping[str, Mapping[str, Any]]  # instrument -> its arguments


@dataclass(frozen=True)
class HeldOut:
    """The part of `Inspected` that pages draw: the results by name, and the sequences they were measured on."""

    results: dict[str, Result]
    sample: Sample

    def __getitem__(self, name: str) -> Result:
        return self.results[name]


def settings_of(run: Run, only: Sequence[str], settings: Settings | None) -> dict[str, Any]:
    """How pages inspect a run: arguments of `inspect_run` but for the step."""
    own = None if settings is None else {name: dict(values) for name, values in settings.items()}
    return {"n": n_each(run.task()), "seed": SEED, "only": list(only), "settings": own}


def held_out(
    run: Symbol,
    only: Sequence[str],
    *,
    step: int | None = None,
    settings: Settings | None = None,
    computed_by: Callable[..., HeldOut] | None = None,
) -> Symbol:
    """Some instruments on held-out sequences, with their controls: the call of `inspect_run`, computed as `HeldOut`.

    Args:
        run, only, step, settings: arguments of `inspect_run`.
        computed_by: computes it, of a run that is measured beside the page; by default at once, and once.

    Raises:
        ValueError: in one line, if the weights cannot be loaded or a setting is wrong.
    """
    how = settings_of(code.value_of(run), only, settings)
    return code.call(inspect_run, run, **how, step=step, causal=False, computed_by=computed_by or _cached)


def measured_beside(run: Run, only: Sequence[str], step: int | None, tell: Callable[[float], None]) -> HeldOut:
    """The same, computed anew wherever this is called; `tell` is told how much is done."""
    return _inspected(run, **settings_of(run, only, None), step=step, causal=False, progress=tell)


def _inspected(run: Run, **how: Any) -> HeldOut:
    found = inspect_run(run, **how)
    return HeldOut(found.results, found.sample)


def _cached(run: Run, **how: Any) -> HeldOut:
    return _held_out(str(run.path), run.version_at(how["step"]), how, run)


# A resource, not data: measurements are never changed, and a copy of many takes longer than drawing them.
@st.cache_resource(show_spinner="Measuring on held-out sequences …", max_entries=400)
def _held_out(path: str, version: int, how: dict[str, Any], _run: Run) -> HeldOut:
    return _inspected(_run, **how)
