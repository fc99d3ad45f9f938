"""Subjects: models whose mechanism is written into their weights, so that what a method finds can be marked.

    planted = make("either_head", seed=3)       # drawn from a seed: basis, heads, places, codes
    planted.truth.needed                        # (('a0.h0', 'a0.h1'), ('m0',)): either head suffices
    planted.save(Path("either")); load(Path("either"))

A new subject is one function in the file of its family and one entry in that file's dict. Its truth is not believed:
the tests cut every edge, silence every set of nodes and erase every label, in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from workbench.benchmark.subjects import chains, composed, symbols, token_and_position
from workbench.benchmark.subjects.planted import Effect, Label, Planted, PlantedTruth
from workbench.tasks import TASKS, Task
from workbench.util.lookup import lookup

SUBJECTS: dict[str, Callable[[int | None], Planted]] = {
    **chains.CHAINS,
    **symbols.SYMBOLS,
    **composed.COMPOSED,
    "turned_token": token_and_position.turned_token,
}
OWN_TASKS: dict[str, type[Task]] = {
    task.name: task for task in (chains.ParityChain, chains.StraightChain, symbols.Symbols, token_and_position.Turned)
}
"""The tasks of subjects that are not in `TASKS`: nobody trains on them."""


def make(name: str, seed: int | None = None, dtype: torch.dtype = torch.float32) -> Planted:
    """A subject by name.

    Args:
        name: one of `SUBJECTS`.
        seed: draws the residual's basis, which head does what, and what else the subject leaves open. With None
            nothing is drawn: coordinates are axes, and parts are in order.
        dtype: of the weights.

    Raises:
        ValueError: if there is no such subject.
    """
    made = lookup(SUBJECTS, name, "subject")
    with torch.no_grad():
        return replace(made(seed), about=(made.__doc__ or "").split("\n")[0]).to(dtype)


def load(folder: Path) -> Planted:
    """A subject from the folder that `Planted.save` wrote; its truth is as it was written, and nothing is run.

    Raises:
        ValueError: in one line, if a file is missing, damaged, or not of this form.
    """
    return Planted.load(folder, TASKS | OWN_TASKS)


__all__ = ["OWN_TASKS", "SUBJECTS", "Effect", "Label", "Planted", "PlantedTruth", "load", "make"]
