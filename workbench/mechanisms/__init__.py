"""Claims about how a task is solved. A new mechanism is one file and one entry in `MECHANISMS`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from workbench.capture import Capture, Subject
from workbench.measurement import Measurement
from workbench.mechanisms import (
    carry,
    chain_following,
    copy,
    entity_state,
    fourier_addition,
    identity_removed,
    induction,
    minimum,
    partial_product,
    successor,
)
from workbench.tasks import Batch

if TYPE_CHECKING:
    import torch

    from workbench.models.hooked import AnyHooked


class Mechanism(Protocol):
    """What every mechanism module offers; the first line of its docstring is the claim.

    A mechanism may also have `suggested_edits(seen)`: edits of one input, by name, that show on it what the causal test
    shows on many (`mechanisms.suggestions`).
    """

    __doc__: str | None

    @property
    def CONTROLS(self) -> tuple[str, ...]:  # noqa: N802 (a module's constant)
        """The controls beside its score: names in `measurement.controls.CONTROLS`."""

    def why_not(self, subject: Subject) -> str | None:
        """Why the claim cannot be tested on this model, in one line; None if it can."""

    def needs(self, subject: Subject) -> list[str]:
        """The hook names to capture."""

    def score(self, capture: Capture) -> Measurement:
        """How often the claim holds: shares per example, with the last dim `example`."""

    def causal(self, model: AnyHooked, subject: Subject, batch: Batch, generator: torch.Generator) -> Measurement:
        """What edits of the claimed thing, and edits elsewhere, do to answers: dims `edit`, `outcome`, `example`.

        Edits are `claimed`, perhaps others, and `elsewhere`; outcomes are `as claimed` (the answer became what the
        claim predicts) and `changed`. Only answers that are right before the edit are tested; NaN where none is. A
        claim about single heads takes `heads`, the (layer, head) of those that the edit is made in, and says so in its
        caption; None is every head, or all that the last layer reads.

        Args:
            model: the hooked model.
            subject: its facts.
            batch: what it runs on.
            generator: decides which answers are tested, and by which edits.
        """


MECHANISMS: dict[str, Mechanism] = {
    "copy": copy,
    "minimum": minimum,
    "successor": successor,
    "identity_removed": identity_removed,
    "chain_following": chain_following,
    "entity_state": entity_state,
    "partial_product": partial_product,
    "carry": carry,
    "fourier_addition": fourier_addition,
    "induction": induction,
}


def title(name: str) -> str:
    """The name of a claim: its docstring up to the colon."""
    return (MECHANISMS[name].__doc__ or name).split(":", 1)[0]


def sentence(name: str) -> str:
    """What is claimed: the rest of the docstring's first line, after the colon."""
    return (MECHANISMS[name].__doc__ or "").split("\n", 1)[0].split(": ", 1)[-1]


__all__ = ["MECHANISMS", "Mechanism", "sentence", "title"]
