"""What can be measured on a capture. A new instrument is one file and one entry in `INSTRUMENTS`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch

from workbench.capture import Capture, Subject
from workbench.instruments import (
    accuracy,
    anisotropy,
    attention_graph,
    attention_hops,
    effective_rank,
    entropy,
    graph_measures,
    head_roles,
    lens_agreement,
    logit_lens,
    overall,
    path_mass,
    projection,
    rollout,
    spectrum,
    tuned_lens,
    unexplained,
)
from workbench.instruments.control import mismatched, random_graph
from workbench.instruments.entropy import matrix_entropy
from workbench.instruments.grouped import by_group, group_of
from workbench.instruments.measurement import Measurement
from workbench.instruments.streaming import over_batches
from workbench.instruments.tuned_lens import TunedLens, train_lens


class Instrument(Protocol):
    """What every instrument module offers; its docstring says what it shows and what it does not.

    One that needs something trained first has `fit(model, subject, seed)`, which returns settings of its `measure`; one
    that takes long says `ON_REQUEST = True`, and is measured only where it is asked for by name.
    """

    __doc__: str | None

    @property
    def CONTROLS(self) -> tuple[str, ...]:  # noqa: N802 (a module's constant)
        """What tells whether a number means something: names in `NULLS`, or `untrained`, the same measure on a model of
        the same shape with fresh weights.
        """

    def why_not(self, subject: Subject) -> str | None:
        """Why this cannot be measured on this model and task, in one line; None if it can."""

    def needs(self, subject: Subject) -> list[str]:
        """The hook names to capture."""

    @property
    def measure(self) -> Callable[..., Measurement]:
        """`measure(capture, **settings)`: per-example results, with the last dim `example`.

        What looks at the weights alone has no such dim: it is the same for every sequence, and has no interval.
        """


INSTRUMENTS: dict[str, Instrument] = {
    "overall": overall,
    "accuracy": accuracy,
    "entropy": entropy,
    "effective_rank": effective_rank,
    "spectrum": spectrum,
    "anisotropy": anisotropy,
    "projection": projection,
    "unexplained": unexplained,
    "logit_lens": logit_lens,
    "lens_agreement": lens_agreement,
    "tuned_lens": tuned_lens,
    "attention_graph": attention_graph,
    "attention_hops": attention_hops,
    "path_mass": path_mass,
    "rollout": rollout,
    "graph_measures": graph_measures,
    "head_roles": head_roles,
}

NULLS: dict[str, Callable[[Capture, torch.Generator], Capture]] = {
    "mismatched": mismatched,
    "random_graph": random_graph,
}
"""What leaves a capture as it is but for the one thing that is claimed of it."""

__all__ = [
    "INSTRUMENTS",
    "NULLS",
    "Instrument",
    "Measurement",
    "TunedLens",
    "by_group",
    "group_of",
    "matrix_entropy",
    "mismatched",
    "over_batches",
    "random_graph",
    "train_lens",
]
