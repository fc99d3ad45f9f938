"""Chain following: one head reads the true ancestor h hops away more than any that is none, for each h (ChaCAL, §4.1).

Scored per head and hop: at a query with an ancestor h hops up, that ancestor gets more of the row than every position
that is no ancestor. The row is that of the matrix which the layer applies to the values (the pattern; for ChaCAL the
resolvent), and the query's own position is left aside, since the residual stream carries it anyway. It does not show
hops that several layers make together, nor what is read: a token that names the next position lets a model stop one
position short of the root. Control: the chains of another example (`mismatched`), re-initialised models (`untrained`)
and attention drawn at random (`random_graph`). Causal test: without the edge of hop h in that head, exactly the answers
that rest on it are lost. In the pointer chain's reading `chain` every ancestor's token names the next one, so a trained
model can do with one edge less than the hops it answers: the first ancestor beyond the cut is then kept, and nothing is
as claimed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from workbench.capture import Capture, Subject, sample_truth
from workbench.instruments.attention import attention_graph
from workbench.interventions import OUTCOMES, Head, choose_one, cut_edges
from workbench.measurement import Measurement
from workbench.mechanisms.heads import where_in_words
from workbench.models import AnyHooked
from workbench.tasks import Batch, Truth, correct

CONTROLS = ("mismatched", "untrained", "random_graph")
MOST_HOPS = 8
LEAD = 1e-3  # in nats; what leads by less is not told apart
NOWHERE = torch.iinfo(torch.long).max

needs = attention_graph.needs


def why_not(subject: Subject) -> str | None:
    """Why this claim cannot be tested on this model, in one line; None if it can."""
    if sample_truth(subject).n_hops < 2:
        return f"the task {subject.task.name} has no chains of two hops or more"
    return None


def score(capture: Capture, *, n_hops: int | None = None) -> Measurement:
    """Share of queries with an ancestor h hops up whose row picks it out: dims `layer`, `head`, `hop`, `example`.

    As many hops as asked for, or as this batch's truth has; NaN where an example has no ancestor that far.

    Raises:
        ValueError: if n_hops is below 1.
    """
    n, n_pos = capture.batch.tokens.shape
    ancestors = capture.truth.adjacency(n, n_pos)
    others = ~ancestors & ~torch.eye(n_pos, dtype=torch.bool)
    hops = range(1, max(attention_graph.n_hops_of(capture, n_hops), 1) + 1)
    layers = range(capture.subject.n_layers)
    gold = [capture.truth.adjacency(n, n_pos, hop) for hop in hops]
    return Measurement(
        name="Chain following",
        values=np.stack(
            [picked_out(attention_graph.resolvent(capture, layer).cpu(), others, *gold) for layer in layers]
        ),
        dims=("layer", "head", "hop", "example"),
        coords={"layer": layers, "hop": hops},
        units="share",
        settings={"model": capture.subject.name},
        caption="Share of queries whose true ancestor h hops up gets more of the head's row than any position that is "
        "no ancestor. Hops that several layers make together do not count.",
    )


def picked_out(
    mixing: Float[Tensor, "batch head query key"],
    others: Bool[Tensor, "batch query key"],
    *gold: Bool[Tensor, "batch query key"],
) -> Float[np.ndarray, "head gold batch"]:
    """Of each mask of gold keys: the share of queries with one at which one has the largest entry, others beside it.

    Where g gold keys and r others share the largest, it counts g / (g + r); where that is 0, nothing is read: 0.
    A key that is both counts as gold. Gold keys are few, so that only their entries are looked at.
    """
    among = mixing.masked_fill(~others[:, None] | torch.stack(gold).any(0)[:, None], -torch.inf)
    # [batch · query, head]: the largest entry of the other keys, and how many of them have it
    rival = among.amax(-1).transpose(1, 2).flatten(0, 1)
    number = (among == among.amax(-1, keepdim=True)).sum(-1).transpose(1, 2).flatten(0, 1)
    shares = []
    for keys in gold:
        example, query, key = keys.nonzero(as_tuple=True)
        entry, row = mixing[example, :, query, key], example * keys.shape[1] + query
        largest = torch.full_like(rival, -torch.inf)
        largest = largest.scatter_reduce(0, row[:, None].expand_as(entry), entry, "amax")
        equal = torch.zeros(rival.shape).index_add(0, row, (entry == largest[row]).float())
        right = torch.where(largest > rival, 1.0, equal / (equal + number)) * ((largest >= rival) & (largest > 0))
        queries = keys.any(-1)[:, :, None]
        share = (right.nan_to_num().unflatten(0, keys.shape[:2]) * queries).sum(1) / queries.sum(1)
        shares.append(share.T)
    return torch.stack(shares, dim=1).double().numpy()


EDITS = ("claimed", "elsewhere")
CAUSAL_CAPTION = (
    "Claimed: the edge of hop h on a query's chain is cut; elsewhere: a gold edge of another chain. As claimed: "
    "exactly the answers that rest on the edge are lost; changed: the share of the query's that are. It shows that the "
    "edge is needed, not what is read over it."
)


def causal(
    model: AnyHooked,
    subject: Subject,
    batch: Batch,
    generator: torch.Generator,
    *,
    heads: Sequence[Head] | None = None,
    hops: Sequence[int] | None = None,
) -> Measurement:
    """What becomes of one query's answers when a gold edge is cut: dims `edit`, `outcome`, `hop`, `example`.

    Edits: `claimed`, the edge of hop h on the query's chain, from its (h−1)-th ancestor to its h-th; `elsewhere`, a
    gold edge between two earlier positions off its chain. Outcomes: `as claimed`, 1 where all the query's answers that
    need the edge are lost, and no other answer; `changed`, the share of them that are lost. Only right answers count.

    Args:
        model, subject, batch: the hooked model, its facts, and sequences of its task.
        generator: draws a query for each hop and example, and the edge elsewhere.
        heads, hops: where to cut, (layer, head) of each or None for all; and which, by default the task's, at most 8.

    Raises:
        ValueError: as `cut_edges`, or if `hops` are not whole numbers from 1.
    """
    truth, hops = subject.task.truth(batch.tokens), _hops_of(subject, hops)
    before = _ChainAnswers.of(cut_edges(model, batch, None, []).cpu(), batch, truth)
    values = np.full((len(EDITS), len(OUTCOMES), len(hops), len(batch)), np.nan)
    for h, hop in enumerate(hops):
        claimed = _Knockout.draw(truth, before, hop, generator)
        for e, cut in enumerate((claimed, claimed.elsewhere(truth, generator))):
            after = _ChainAnswers.of(cut.run(model, batch, heads), batch, truth)
            values[e, :, h] = _outcomes(claimed, cut, before, after).numpy()
    return Measurement(
        name="Chain following: knockout by hop",
        values=values,
        dims=("edit", "outcome", "hop", "example"),
        coords={"edit": EDITS, "outcome": OUTCOMES, "hop": hops},
        units="share",
        settings={"model": subject.name, "edited": where_in_words(heads)},
        caption=f"Cut in {where_in_words(heads)}. {CAUSAL_CAPTION}",
    )


def _outcomes(
    claimed: _Knockout, cut: _Knockout, before: _ChainAnswers, after: _ChainAnswers
) -> Float[Tensor, "outcome batch"]:
    """What became of the answers that rest on the claimed edge once an edge was cut, in the order of `OUTCOMES`."""
    lost, needed = before.right & ~after.right, claimed.needed(before)
    of_query = torch.arange(before.right.shape[1]) == claimed.query[:, None]
    tested = before.right & needed & of_query[..., None]  # [batch, pos, answer]
    changed = (lost & tested).flatten(1).sum(-1).double() / tested.flatten(1).sum(-1)
    spared = ~(lost & ~needed).flatten(1).any(-1)  # nothing else was lost
    return torch.where(cut.made, torch.stack([((changed == 1) & spared).double(), changed]), torch.nan)


@dataclass(frozen=True)
class _ChainAnswers:
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
    def of(logits: Float[Tensor, "batch pos class"], batch: Batch, truth: Truth) -> _ChainAnswers:
        """The answers that these logits give.

        Of a set, an ancestor is right where its logit is larger, by `LEAD` or more, than that of every class outside
        the set.
        """
        if batch.targets.ndim == 2 or "ancestors" not in truth.arrays:
            right = (correct(logits, batch) == 1)[..., None]
            return _ChainAnswers(right, torch.where(batch.loss_mask, NOWHERE, 0)[..., None])
        ancestors = truth.arrays["ancestors"]
        rival = logits.masked_fill(batch.targets, -torch.inf).amax(-1, keepdim=True)
        answered = (ancestors >= 0) & batch.loss_mask[..., None]
        hop = torch.arange(1, ancestors.shape[-1] + 1)
        leads = logits.gather(2, ancestors.clamp(min=0)) >= rival + LEAD
        return _ChainAnswers(leads & answered, torch.where(answered, hop, 0))


@dataclass(frozen=True)
class _Knockout:
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
    def draw(truth: Truth, answers: _ChainAnswers, hop: int, generator: torch.Generator) -> _Knockout:
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
        query, made = choose_one(able, generator)
        to, _ = choose_one(over[every, query], generator)
        start, _ = choose_one(near[every, query] & step[every, :, to], generator)
        # Every position with the edge's beginning among its ancestors has the edge on its chain, at that many hops.
        edges = truth.edges[truth.edges[:, 3] == start[truth.edges[:, 0]]]
        place = torch.full((n, n_pos), NOWHERE)
        place.view(-1).scatter_reduce_(0, edges[:, 0] * n_pos + edges[:, 2], edges[:, 1], "amin")
        place[every, start] = 0
        return _Knockout(made, query, torch.stack([start, to], dim=-1), place)

    def needed(self, answers: _ChainAnswers) -> Bool[Tensor, "batch pos answer"]:
        """Whether an answer needs the edge."""
        return self.place[..., None] < answers.needs

    def elsewhere(self, truth: Truth, generator: torch.Generator) -> _Knockout:
        """Other cuts beside these: a gold edge that is not on the query's chain, from a position before the query."""
        n, n_pos = self.place.shape
        every, step = torch.arange(n), truth.adjacency(n, n_pos, 1)
        on_chain = truth.adjacency(n, n_pos)[every, self.query]
        able = step.any(-1) & ~on_chain & (torch.arange(n_pos) < self.query[:, None])
        start, exists = choose_one(able, generator)
        edge = torch.stack([start, choose_one(step[every, start], generator)[0]], dim=-1)
        return _Knockout(self.made & exists, self.query, edge, self.place)

    def run(self, model: AnyHooked, batch: Batch, heads: Sequence[Head] | None) -> Float[Tensor, "batch pos class"]:
        """The model's logits with these edges cut in these heads; None for every one."""
        edges = torch.cat([torch.arange(len(self.made))[:, None], self.edge], dim=1)[self.made]
        return cut_edges(model, batch, None, edges, heads=heads).cpu()


def _hops_of(subject: Subject, hops: Sequence[int] | None) -> list[int]:
    """The hops to cut, by default those that the task's chains have, at most `MOST_HOPS`.

    Raises:
        ValueError: if there is none, or one is below 1.
    """
    hops = list(range(1, min(sample_truth(subject).n_hops, MOST_HOPS) + 1) if hops is None else hops)
    if not hops or min(hops) < 1:
        raise ValueError(f"hops to cut are whole numbers from 1, at least one of them, not {hops}")
    return hops
