"""Minimum at the delimiter: the first attention layer writes the smallest input token, in the decoder basis.

The task-hinting paper, §4, for sorting: the smallest token is the first output, so one layer of attention is
enough to begin. Read at `blocks.0.hook_resid_mid`, or after the attention of another layer, which can find it as well.
Symbols alone are compared: the delimiter and padding are no answer, so nothing trains their directions in the decoder
basis, and wide models with large embeddings point at them in up to 40 % of sequences. The score does not show that the
output depends on it; the causal test does: with the decoder coordinates of the minimum and of another token exchanged,
that token must come first.
Control: the minimum of another example of equal length (`mismatched`; small alphabets and long inputs make minima agree
by chance), and a re-initialised model.
"""

from __future__ import annotations

from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from workbench import interventions
from workbench.capture import Capture, Subject
from workbench.instruments.residual import projection
from workbench.interventions import Edit, Exchange, SpanEdit
from workbench.measurement import Measurement
from workbench.measurement.places import point_name
from workbench.mechanisms.base import missing
from workbench.models import AnyHooked
from workbench.tasks import Batch
from workbench.util.ties import hit

POINT = "blocks.0.hook_resid_mid"
CONTROLS = ("mismatched", "untrained")

why_not = partial(missing, labels=("minimum",))


def needs(subject: Subject) -> list[str]:
    """The residual after the attention of every layer."""
    return [f"blocks.{layer}.hook_resid_mid" for layer in range(subject.n_layers)]


@torch.no_grad()
def on_symbols(capture: Capture, point: str, basis: str) -> Float[Tensor, "batch pos token"]:
    """Inner products of a residual with a basis, −∞ for the delimiter and for padding."""
    delimiters = capture.batch.tokens[capture.truth.labels["minimum"] >= 0].unique().tolist()
    on_basis = projection.project(capture[point], projection.basis(capture.subject, basis)).cpu()
    on_basis[..., [token for token in (*delimiters, capture.subject.task.pad) if token >= 0]] = -torch.inf
    return on_basis


def score(capture: Capture, *, layer: int = 0) -> Measurement:
    """Whether the delimiter's top symbol is the minimum: 1 or 0 an example, 1/k where k tie (NaN without a delimiter).

    Args:
        capture: with `needs`.
        layer: after whose attention.

    Dim `example`. Raises ValueError if the model has no such layer.
    """
    if not 0 <= layer < capture.subject.n_layers:
        raise ValueError(f"minimum.layer must be one of 0..{capture.subject.n_layers - 1}, not {layer}")
    point = needs(capture.subject)[layer]
    minimum = capture.truth.labels["minimum"]
    on_basis = on_symbols(capture, point, "decoder")
    holds = hit(on_basis, minimum).amax(-1).double()
    return Measurement(
        name="Minimum at the delimiter",
        values=torch.where((minimum >= 0).any(-1), holds, torch.nan).numpy(),
        dims=("example",),
        coords={},
        units="share",
        settings={"model": capture.subject.name, "basis": "decoder", "point": point},
        caption="Share of sequences whose delimiter points at the smallest input token, of all symbols, in the decoder "
        f"basis {point_name(point)}. It does not show that the output depends on it.",
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
    has_delimiter = minimum >= 0
    different = (minimum[:, None] != minimum) & has_delimiter[:, None] & has_delimiter
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
        delimiter,
        minimum,
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
