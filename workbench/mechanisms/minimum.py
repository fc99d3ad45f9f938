"""Minimum at the delimiter: the first attention layer writes the smallest input token, in the decoder basis.

The task-hinting paper, §4, for sorting: the smallest token is the first output, so one layer of attention is
enough to begin. Read at `blocks.0.hook_resid_mid`. The score does not show that the output depends on it; the causal
test does: with the decoder coordinates of the minimum and of another token exchanged, that token must come first.
Control: the minimum of another example of equal length (`mismatched`; small alphabets and long inputs make minima agree
by chance), and a re-initialised model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from workbench import interventions
from workbench.capture import Capture, Subject
from workbench.instruments.residual import projection
from workbench.interventions import Edit, Exchange, Question, SpanEdit
from workbench.measurement import Measurement
from workbench.mechanisms.base import missing
from workbench.tasks import Batch
from workbench.util.ties import hit

if TYPE_CHECKING:
    from workbench.models.hooked import AnyHooked

POINT = "blocks.0.hook_resid_mid"
CONTROLS = ("mismatched", "untrained")


def needs(subject: Subject) -> list[str]:
    return [POINT]


def why_not(subject: Subject) -> str | None:
    """Why this claim cannot be tested on this model, in one line; None if it can."""
    return missing(subject, "minimum")


def score(capture: Capture) -> Measurement:
    """Whether the delimiter's top token is the minimum: 1 or 0 an example, 1/k where k tie (NaN without a delimiter).

    Dim `example`.
    """
    minimum = capture.truth.labels["minimum"]
    on_basis = projection.inner_products(capture.subject, capture[POINT], "decoder").cpu()
    holds = hit(on_basis, minimum).amax(-1).double()
    return Measurement(
        name="Minimum at the delimiter",
        values=torch.where((minimum >= 0).any(-1), holds, torch.nan).numpy(),
        dims=("example",),
        coords={"example": range(len(minimum))},
        units="share",
        settings={"model": capture.subject.name, "basis": "decoder", "point": POINT},
        caption="Share of sequences whose delimiter points at the smallest input token in the decoder basis after the "
        "first attention layer. It does not show that the output depends on it.",
    )


def causal(model: AnyHooked, subject: Subject, batch: Batch, generator: torch.Generator) -> Measurement:
    """Whether the first output becomes another token when the delimiter's residual is made to point at that one.

    Edits at `blocks.0.hook_resid_mid`: `claimed` exchanges the decoder coordinates of the minimum and of another
    example's minimum, at ⊥; `residual` puts there the whole residual of another example of equal length; `elsewhere`
    adds the change of `claimed` at a random position before ⊥ instead.

    Returns dims `edit`, `outcome`, `example`; see `interventions.outcomes`.
    """
    n_pos = batch.tokens.shape[1]
    minimum, delimiter = subject.task.truth(batch.tokens).labels["minimum"].max(-1)
    there = minimum >= 0
    different = (minimum[:, None] != minimum) & there[:, None] & there
    other, has_other = interventions.choose_one(different, generator)
    twin, has_twin = interventions.choose_one(different & (delimiter[:, None] == delimiter), generator)
    before, has_before = interventions.choose_one(torch.arange(n_pos) < delimiter[:, None], generator)
    residual = interventions.activation(model, batch.tokens, POINT)
    pointed = interventions.exchanged(residual, subject.decoder, minimum.clamp(min=0), minimum[other])
    change = interventions.at_position(pointed - residual, delimiter)[:, None]
    at_delimiter = interventions.single_position(delimiter, n_pos, has_other)
    elsewhere = interventions.single_position(before, n_pos, has_other & has_before)
    edits = {
        "claimed": SpanEdit(POINT, at_delimiter, pointed, minimum[other]),
        "residual": SpanEdit(POINT, at_delimiter & has_twin[:, None], residual[twin], minimum[twin]),
        "elsewhere": SpanEdit(POINT, elsewhere, residual + change, minimum[other]),
    }
    return interventions.outcomes(
        model,
        subject,
        batch.tokens,
        Question(delimiter, minimum),
        edits,
        name="Minimum at the delimiter",
        caption="Whether the first output becomes the token that the delimiter is made to point at in the decoder "
        "basis (claimed), the minimum of the example whose residual it is given (residual), and whether the same "
        "change before the delimiter leaves it alone (elsewhere).",
    )


def suggested_edits(seen: Capture) -> dict[str, Edit]:
    """The causal test's exchange on one input: of its smallest symbol and its largest."""
    place = delimiter_and_symbols(seen)
    if place is None or len(place[1]) < 2:
        return {}
    delimiter, symbols = place
    smallest = int(seen.truth.labels["minimum"][0, delimiter])
    return {"exchange the minimum and another": Exchange(POINT, smallest, symbols[-1], delimiter)}


def delimiter_and_symbols(seen: Capture) -> tuple[int, list[int]] | None:
    """The delimiter's position in a single sequence, and the symbols before it, smallest first; None without one."""
    if "minimum" not in seen.truth.labels or not (delimiter := seen.truth.labels["minimum"][0] >= 0).any():
        return None
    position = int(delimiter.long().argmax())
    return position, sorted(set(seen.batch.tokens[0, :position].tolist()))
