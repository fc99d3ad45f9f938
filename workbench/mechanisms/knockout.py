"""Knockout of edges of gold chains, hop by hop: which answers need the edge, and which of them are lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from workbench.capture import Subject, sample_truth
from workbench.interventions import Head, cut_edges
from workbench.measurement import Measurement
from workbench.mechanisms.heads import where_in_words
from workbench.tasks import Batch, Truth, correct

if TYPE_CHECKING:
    from workbench.models.hooked import AnyHooked

MOST_HOPS = 8
NEED = ("need the edge", "do not")
LEAD = 1e-3  # in nats; what leads by less is not told apart
CAPTION = (
    "Share of right answers that are wrong once the edge of hop h is cut in {where}: those that rest on it, and those "
    "that do not. It shows that the edge is needed, not what is read over it."
)
NOWHERE = torch.iinfo(torch.long).max


@dataclass(frozen=True)
class Answers:
    """The answers that a batch asks for, whether they are right, and how many hops of a chain each needs.

    A position with one class to predict has one answer, which needs its whole chain. A position that predicts the set
    of its ancestors has an answer for each ancestor, which needs the hops up to that ancestor.

    Attributes:
        right: whether each answer is right.
        needs: how many hops of the position's chain the answer needs; 0 where there is no answer.
    """

    right: Bool[Tensor, "batch pos answer"]
    needs: Int[Tensor, "batch pos answer"]

    @staticmethod
    def of(logits: Float[Tensor, "batch pos class"], batch: Batch, truth: Truth) -> Answers:
        """The answers that these logits give.

        Of a set, an ancestor is right where its logit is larger, by `LEAD` or more, than that of every class outside
        the set.
        """
        if batch.targets.ndim == 2 or "ancestors" not in truth.arrays:
            right = (correct(logits, batch) == 1)[..., None]
            return Answers(right, torch.where(batch.loss_mask, NOWHERE, 0)[..., None])
        ancestors = truth.arrays["ancestors"]
        rival = logits.masked_fill(batch.targets, -torch.inf).amax(-1, keepdim=True)
        answered = (ancestors >= 0) & batch.loss_mask[..., None]
        hop = torch.arange(1, ancestors.shape[-1] + 1)
        leads = logits.gather(2, ancestors.clamp(min=0)) >= rival + LEAD
        return Answers(leads & answered, torch.where(answered, hop, 0))


@dataclass(frozen=True)
class Knockout:
    """One edge to cut in each example: hop h on the chain of a query that is drawn at random.

    Attributes:
        made: whether the example has such an edge.
        query: the position whose chain it is.
        edge: the position that may no longer read, and the position that it may not read.
        place: for each position, after how many hops of its chain the edge comes; `NOWHERE` where the edge is not on
            the position's chain.
    """

    made: Bool[Tensor, " batch"]
    query: Int[Tensor, " batch"]
    edge: Int[Tensor, "batch 2"]
    place: Int[Tensor, "batch pos"]

    @staticmethod
    def draw(truth: Truth, answers: Answers, hop: int, generator: torch.Generator) -> Knockout:
        """Draw a query with a right answer that needs an edge of this hop, and that edge."""
        n, n_pos = answers.right.shape[:2]
        every = torch.arange(n)
        # Ancestors one hop up, h hops up, and h − 1 hops up (the query itself for h = 1).
        step, beyond = truth.adjacency(n, n_pos, 1), truth.adjacency(n, n_pos, hop)
        near = torch.eye(n_pos, dtype=torch.bool).expand(n, -1, -1)
        near = near if hop == 1 else truth.adjacency(n, n_pos, hop - 1)
        # Ancestors h hops up that are reached by one step from one h − 1 hops up.
        over = (near.float() @ step.float() > 0) & beyond
        able = (answers.right & (answers.needs >= hop)).any(-1) & over.any(-1)
        # The query, then the end of the edge, then its beginning.
        query = one_of(able, generator)
        to = one_of(over[every, query], generator)
        start = one_of(near[every, query] & step[every, :, to], generator)
        # Every position with the edge's beginning among its ancestors has the edge on its chain, at that many hops.
        edges = truth.edges[truth.edges[:, 3] == start[truth.edges[:, 0]]]
        place = torch.full((n, n_pos), NOWHERE)
        place.view(-1).scatter_reduce_(0, edges[:, 0] * n_pos + edges[:, 2], edges[:, 1], "amin")
        place[every, start] = 0
        return Knockout(able.any(-1), query, torch.stack([start, to], dim=-1), place)

    def needed(self, answers: Answers) -> Bool[Tensor, "batch pos answer"]:
        """Whether an answer needs the edge."""
        return self.place[..., None] < answers.needs

    def shares_lost(self, before: Answers, after: Answers, hop: int) -> Float[Tensor, "answers batch"]:
        """The shares of right answers that are lost: of those that rest on the edge as their hop, and of the others."""
        lost, needed, here = before.right & ~after.right, self.needed(before), (self.place == hop - 1)[..., None]
        shares = torch.stack([share(lost, before.right & needed & here), share(lost, before.right & ~needed)])
        return torch.where(self.made, shares, torch.nan)

    def elsewhere(self, truth: Truth, generator: torch.Generator) -> Knockout:
        """Other cuts beside these: a gold edge that is not on the query's chain, from a position before the query."""
        n, n_pos = self.place.shape
        every, step = torch.arange(n), truth.adjacency(n, n_pos, 1)
        on_chain = truth.adjacency(n, n_pos)[every, self.query]
        able = step.any(-1) & ~on_chain & (torch.arange(n_pos) < self.query[:, None])
        start = one_of(able, generator)
        edge = torch.stack([start, one_of(step[every, start], generator)], dim=-1)
        return Knockout(self.made & able.any(-1), self.query, edge, self.place)

    def run(self, model: AnyHooked, batch: Batch, heads: Sequence[Head] | None) -> Float[Tensor, "batch pos class"]:
        """The model's logits with these edges cut in these heads; None for every one."""
        edges = torch.cat([torch.arange(len(self.made))[:, None], self.edge], dim=1)[self.made]
        return cut_edges(model, batch, None, edges, heads=heads).cpu()


def one_of(mask: Bool[Tensor, "batch pos"], generator: torch.Generator) -> Int[Tensor, " batch"]:
    """A position at which the mask is true, drawn at random for each row; position 0 where it is true nowhere."""
    return torch.where(mask, torch.rand(mask.shape, generator=generator), -1.0).argmax(-1)


def hops_of(subject: Subject, hops: Sequence[int] | None) -> list[int]:
    """The hops to cut, by default those that the task's chains have, at most `MOST_HOPS`.

    Raises:
        ValueError: if there is none, or one is below 1.
    """
    hops = list(range(1, min(sample_truth(subject).n_hops, MOST_HOPS) + 1) if hops is None else hops)
    if not hops or min(hops) < 1:
        raise ValueError(f"hops to cut are whole numbers from 1, at least one of them, not {hops}")
    return hops


def share(of: Bool[Tensor, "batch pos answer"], among: Bool[Tensor, "batch pos answer"]) -> Float[Tensor, " batch"]:
    """For each example, the share of the answers in `among` that are also in `of`; NaN where `among` is empty."""
    return (of & among).flatten(1).sum(-1).double() / among.flatten(1).sum(-1)


def knockout_by_hop(
    model: AnyHooked,
    subject: Subject,
    batch: Batch,
    generator: torch.Generator,
    *,
    heads: Sequence[Head] | None = None,
    hops: Sequence[int] | None = None,
) -> Measurement:
    """The share of right answers that become wrong when one gold edge is cut: dims `answers`, `hop`, `example`.

    For every hop h and example one query with a chain that long is drawn, and the edge from its (h−1)-th ancestor to
    its h-th is cut. On the dim `answers`: `need the edge`, those that need it, of positions for which it is the h-th
    hop (others count in neither); `do not`, all that do not need it. Only answers that were right before count; NaN
    where an example has none.

    Args:
        model, subject, batch: the hooked model, its facts, and sequences of its task.
        generator: draws the queries.
        heads, hops: where to cut, (layer, head) of each or None for all; and which, by default the task's, at most 8.

    Raises:
        ValueError: as `cut_edges`, or if `hops` are not whole numbers from 1.
    """
    truth, hops = subject.task.truth(batch.tokens), hops_of(subject, hops)
    before = Answers.of(cut_edges(model, batch, None, []).cpu(), batch, truth)
    values = np.full((len(NEED), len(hops), len(batch)), np.nan)
    for h, hop in enumerate(hops):
        cut = Knockout.draw(truth, before, hop, generator)
        after = Answers.of(cut.run(model, batch, heads), batch, truth)
        values[:, h] = cut.shares_lost(before, after, hop).numpy()
    return Measurement(
        name="Knockout by hop",
        values=values,
        dims=("answers", "hop", "example"),
        coords={"answers": NEED, "hop": hops},
        units="share",
        settings={"model": subject.name, "edited": where_in_words(heads)},
        caption=CAPTION.format(where=where_in_words(heads)),
    )
