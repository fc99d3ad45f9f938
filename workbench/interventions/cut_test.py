"""The causal test of a claim about edges: an answer is lost without the edge claimed, and not without another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool
from torch import Tensor

from workbench.capture import Subject
from workbench.interventions.edges import cut_edges
from workbench.interventions.heads import Head
from workbench.interventions.outcomes import OUTCOMES
from workbench.interventions.sampling import choose_one
from workbench.measurement import Measurement
from workbench.tasks import Batch, correct

if TYPE_CHECKING:
    from workbench.models.hooked import AnyHooked


@torch.no_grad()
def cut_test(
    model: AnyHooked,
    subject: Subject,
    batch: Batch,
    claimed: Bool[Tensor, "batch query key"],
    generator: torch.Generator,
    *,
    heads: Sequence[Head] | None = None,
    name: str,
    caption: str,
) -> Measurement:
    """Cut one edge of one right answer of each example, and see whether the answer is lost.

    Args:
        model, subject, batch: the hooked model, its facts, and what it runs on.
        claimed: the edges over which answers are claimed to come, each from the position that gives the answer.
        generator, heads: draws the answer and its edges; where to cut, (layer, head) of each or None for every head.
        name, caption: name and caption of the measurement.

    Returns 1 or 0, NaN where an example allows no test: dims `edit` (`claimed`: the edge; `elsewhere`: an edge from the
    same position to another one, itself included, not claimed), `outcome` (both: right before, wrong now), `example`.
    """
    before = correct(cut_edges(model, batch, None, []).cpu(), batch) == 1
    query, tested = choose_one(before & claimed.any(-1), generator)  # one right answer of each example, if there is one
    rows, earlier = torch.arange(len(batch)), torch.arange(batch.tokens.shape[1]) <= query[:, None]
    lost = []
    for allowed in (claimed[rows, query], earlier & ~claimed[rows, query]):
        key, there = choose_one(allowed, generator)
        made, cut = tested & there, torch.stack([rows, query, key], dim=1)
        after = correct(cut_edges(model, batch, None, cut[made], heads=heads).cpu(), batch) == 1
        lost.append(torch.where(made, (~after[rows, query]).double(), torch.nan))
    return Measurement(
        name=name,
        values=torch.stack(lost)[:, None].expand(-1, len(OUTCOMES), -1).contiguous().numpy(),
        dims=("edit", "outcome", "example"),
        coords={"edit": ("claimed", "elsewhere"), "outcome": OUTCOMES, "example": range(len(batch))},
        units="share",
        settings={"model": subject.name},
        caption=f"{caption} Over answers that are right before the edit, one an example.",
    )
