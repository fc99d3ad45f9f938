"""Carry: the residual of the position that predicts a digit of the product tells what is carried into its column.

For multiplication (Seq-VCR, §4.1), after attention and after the MLP of every layer. Scored without training a probe:
among positions of one place the residual is nearest to the mean of those with its own carry, the means being those of
the other half of the batch. It does not show that the carry is used, nor that it is told apart from the digits that
decide it. The causal test does the first: moved from the mean of its carry to that of another, the residual must give
the digit that is higher by the difference, modulo 10. Control: the carries of other examples (`mismatched`), and a
re-initialised model, which does better than those: the digit before, which its residual holds, goes with the carry.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from workbench import interventions
from workbench.capture import Capture, Subject
from workbench.instruments.residual import projection
from workbench.interventions import SpanEdit
from workbench.measurement import Measurement
from workbench.mechanisms.partial_product import why_not
from workbench.models import AnyHooked
from workbench.tasks import Batch, Truth
from workbench.util.ties import hit

__all__ = ["CONTROLS", "causal", "needs", "score", "why_not"]

CONTROLS = ("mismatched", "untrained")
CAUSAL_CAPTION = (
    "Whether a digit of the product moves by the difference of the carries once its residual is moved from the mean of "
    "one to that of the other (claimed) or is that of an example with the other (residual), and whether as long a step "
    "in a random direction leaves it alone (elsewhere)."
)

needs = projection.needs


def score(capture: Capture) -> Measurement:
    """Share of the product's places whose residual is nearest to the mean of its carry: dims `point`, `example`.

    Left out are places at which the other half of the batch has one carry alone, or not the example's own: with too
    small a batch, all of them (NaN).
    """
    points, n = needs(capture.subject), len(capture.batch)
    carry = _by_place(capture.truth.labels["carry"], capture.truth)
    values = np.full((len(points), n), np.nan)
    for p, point in enumerate(points):
        residual = _by_place(capture[point].cpu().double(), capture.truth)
        for half, means in enumerate(_means_of_the_other_half(residual, carry)):
            own, known = carry[half::2].T, ~means.isnan().any(-1)
            # Nearness to each mean is ⟨x, m⟩ − ½‖m‖², without ½‖x‖², the same for all. It is rounded to float32: means
            # that differ by rounding errors only are then equally near, as where nothing depends on the carry.
            x, m = residual[half::2].transpose(0, 1), means.nan_to_num().double()
            near = (x @ m.mT - m.square().sum(-1)[:, None] / 2).float()  # [place, n, carry]
            near = near.masked_fill(~known[:, None], -torch.inf)
            scored = known.gather(1, own) & (known.sum(-1, keepdim=True) > 1)
            values[p, half::2] = ((hit(near, own) * scored).sum(0) / scored.sum(0)).numpy()
    return Measurement(
        name="Carry",
        values=values,
        dims=("point", "example"),
        coords={"point": points},
        units="share",
        settings={"model": capture.subject.name, "examples behind the means": n // 2},
        caption="Share of the product's places whose residual is nearest to the mean residual of the same place and "
        "carry in the other half of the batch. It does not show that the model uses it.",
    )


def _by_place(values: Tensor, truth: Truth) -> Tensor:
    """The values at the positions that predict the product's digits: `[batch, pos, …]` to `[batch, place, …]`."""
    return values[truth.labels["digit"] >= 0].unflatten(0, (len(values), -1))


def _means_of_the_other_half(
    residual: Float[Tensor, "batch place d_model"], carry: Int[Tensor, "batch place"]
) -> Float[Tensor, "half place carry d_model"]:
    """The mean residual of each place and carry, for even examples over the odd ones, and for these over the even.

    NaN where there is no such carry.
    """
    member = torch.nn.functional.one_hot(carry, int(carry.max()) + 1 if len(carry) else 1).to(residual)
    sums = [torch.einsum("npc,npd->pcd", member[other::2], residual[other::2]) for other in (1, 0)]
    counts = [member[other::2].sum(0)[..., None] for other in (1, 0)]
    return torch.stack(sums) / torch.stack(counts)


def causal(model: AnyHooked, subject: Subject, batch: Batch, generator: torch.Generator) -> Measurement:
    """Whether a digit of the product moves with the carry that the residual tells.

    Of each example one place above the lowest is tested. Edits at the last layer's `hook_resid_mid`, which its MLP
    reads: `claimed` adds the mean of another carry less that of its own (of the same place, over the other half of the
    batch); `residual` puts there the residual of another example with another carry and a column equal modulo 10, whose
    digit it must give; `elsewhere` adds as long a vector in a random direction.

    Returns dims `edit`, `outcome`, `example`; see `interventions.outcomes`.
    """
    point, tokens = f"blocks.{subject.n_layers - 1}.hook_resid_mid", batch.tokens
    truth, n, n_pos = subject.task.truth(tokens), *tokens.shape
    digit = truth.labels["digit"]
    position, testable = interventions.choose_one(digit > 0, generator)
    place, rows = interventions.at_position(digit, position), torch.arange(n)
    residual = interventions.activation(model, tokens, point).cpu()
    carries, digits = (_by_place(ids, truth) for ids in (truth.labels["carry"], tokens.roll(-1, dims=1)))
    own, right = carries[rows, place], digits[rows, place]
    means = _means_of_the_other_half(_by_place(residual.float(), truth), carries)[rows % 2, place]
    known = ~means.isnan().any(-1)  # [batch, carry]; another carry than the own, where both have a mean
    allowed = interventions.excluding(known & known.gather(1, own[:, None]), own)
    other, has_other = interventions.choose_one(allowed, generator)
    change = (means[rows, other] - means[rows, own])[:, None].nan_to_num()
    aside = torch.nn.functional.normalize(torch.randn(change.shape, generator=generator), dim=-1)
    moved = (right + other - own) % 10
    column = (digits - carries) % 10  # at the place, a twin's is equal modulo 10, with another carry into it
    alike = (column.T[place] == column[rows, place, None]) & (carries.T[place] != own[:, None])  # [batch, other]
    twin, has_twin = interventions.choose_one(alike, generator)

    here = interventions.single_position(position, n_pos, testable & has_other)
    with_twin = interventions.single_position(position, n_pos, testable & has_twin)
    edits = {
        "claimed": SpanEdit(point, here, residual + change, moved),
        "residual": SpanEdit(point, with_twin, residual[twin], digits[twin, place]),
        "elsewhere": SpanEdit(point, here, residual + aside * change.norm(dim=-1, keepdim=True), moved),
    }
    return interventions.outcomes(model, subject, tokens, position, right, edits, name="Carry", caption=CAUSAL_CAPTION)
