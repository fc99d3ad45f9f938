"""What can be measured on a capture. A new instrument is one file and one entry in `INSTRUMENTS`.

Every instrument is a module of this package: `from workbench.instruments import entropy, path_mass`. Those that are not
in `INSTRUMENTS` (`flow`, `resolvent`, `strongest_paths`, `trajectory`; `similarity`, `lens_difference`) answer a
question about one input or two models, and are called by themselves. Those in `WEIGHTS` look at the weights alone,
without any input; those in `SETS` at one vector a sequence over many sequences together, so that no sequence has a
number of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from workbench.capture import Subject
from workbench.instruments.answers import accuracy, edit_distance, exact_match, loss, overall
from workbench.instruments.attention import (
    attention_graph,
    attention_hops,
    dispersion,
    gold_mass,
    graph_measures,
    head_roles,
    path_mass,
    rollout,
)
from workbench.instruments.attention import flow as flow
from workbench.instruments.attention import resolvent as resolvent
from workbench.instruments.attention import strongest_paths as strongest_paths
from workbench.instruments.lens import LENSES as LENSES
from workbench.instruments.lens import jacobian_lens, lens_agreement, logit_lens, tuned_lens
from workbench.instruments.lens import lens_difference as lens_difference
from workbench.instruments.lens.jacobian_lens import JacobianLens as JacobianLens
from workbench.instruments.lens.tuned_lens import TunedLens as TunedLens
from workbench.instruments.lens.tuned_lens import train_lens as train_lens
from workbench.instruments.residual import (
    alpha_req,
    anisotropy,
    curvature,
    effective_rank,
    entropy,
    projection,
    spectrum,
    unexplained,
)
from workbench.instruments.residual import similarity as similarity
from workbench.instruments.residual import trajectory as trajectory
from workbench.instruments.residual.renyi import matrix_entropy as matrix_entropy
from workbench.instruments.sets import dime, infonce, lidar, rankme
from workbench.instruments.streaming import over_batches as over_batches
from workbench.instruments.weights import basis_overlap, composition, fourier, token_circuits
from workbench.measurement import Measurement


class AnyInstrument(Protocol):
    """What every instrument module offers; its docstring says what it shows and what it does not."""

    __doc__: str | None

    @property
    def CONTROLS(self) -> tuple[str, ...]:  # noqa: N802 (a module's constant)
        """The controls that its numbers are compared with: names in `measurement.controls.CONTROLS`."""

    def why_not(self, subject: Subject) -> str | None:
        """Why this cannot be measured on this model and task, in one line; None if it can."""

    @property
    def measure(self) -> Callable[..., Measurement]:
        """Takes what its kind of instrument is about, then its settings by keyword."""


class Instrument(AnyInstrument, Protocol):
    """An instrument of activations: `measure(capture, **settings)`, per example, with the last dim `example`.

    One that needs something trained first has `fit(model, subject, seed)`, which returns settings of its `measure`; one
    that takes long says `ON_REQUEST = True`, and is measured only where it is asked for by name.
    """

    def needs(self, subject: Subject) -> list[str]:
        """The hook names to capture."""


class SetInstrument(AnyInstrument, Protocol):
    """An instrument of many sequences together: `measure(model, subject, batches, **settings)`, dim `layer`.

    It holds one batch in memory.
    """

    @property
    def NEEDS_ANSWERS(self) -> bool:  # noqa: N802 (a module's constant)
        """Whether it pairs questions by their answers: its `measure` then has `shuffled`, the null of other answers."""


INSTRUMENTS: dict[str, Instrument] = {
    "overall": overall,
    "accuracy": accuracy,
    "loss": loss,
    "exact_match": exact_match,
    "edit_distance": edit_distance,
    "entropy": entropy,
    "effective_rank": effective_rank,
    "spectrum": spectrum,
    "anisotropy": anisotropy,
    "alpha_req": alpha_req,
    "curvature": curvature,
    "projection": projection,
    "unexplained": unexplained,
    "logit_lens": logit_lens,
    "lens_agreement": lens_agreement,
    "tuned_lens": tuned_lens,
    "jacobian_lens": jacobian_lens,
    "attention_graph": attention_graph,
    "gold_mass": gold_mass,
    "attention_hops": attention_hops,
    "path_mass": path_mass,
    "rollout": rollout,
    "graph_measures": graph_measures,
    "head_roles": head_roles,
    "dispersion": dispersion,
}

WEIGHTS: dict[str, AnyInstrument] = {
    "basis_overlap": basis_overlap,
    "fourier": fourier,
    "composition": composition,
    "token_circuits": token_circuits,
}
"""Of the weights alone: `measure(subject, **settings)`, without the dim `example` or an interval."""

SETS: dict[str, SetInstrument] = {"rankme": rankme, "lidar": lidar, "dime": dime, "infonce": infonce}
