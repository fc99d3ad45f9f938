"""Chain following: one head reads the true ancestor h hops away more than any other, for each h (ChaCAL, §4.1).

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
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from workbench.capture import Capture, Subject, sample_truth
from workbench.instruments.attention import attention_graph
from workbench.interventions import OUTCOMES, Head, cut_edges
from workbench.measurement import Measurement
from workbench.mechanisms.heads import where_in_words
from workbench.mechanisms.knockout import Answers, Knockout, hops_of, share
from workbench.tasks import Batch

if TYPE_CHECKING:
    from workbench.models.hooked import AnyHooked

CONTROLS = ("mismatched", "untrained", "random_graph")

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
    by_layer = []
    for layer in layers:
        mixing = attention_graph.resolvent(capture, layer).cpu()
        rivals = Rivals.of(mixing, others)
        by_layer.append(np.stack([rivals.beaten(mixing, hop) for hop in gold], axis=1))
    values = np.stack(by_layer)
    return Measurement(
        name="Chain following",
        values=values,
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
    gold: Bool[Tensor, "batch query key"],
) -> np.ndarray:
    """`[head, batch]`: share of queries with a gold key at which one has the largest entry, others beside it.

    Where g gold keys and r others share the largest, it counts g / (g + r); where that is 0, nothing is read: 0.
    A key that is both counts as gold.
    """
    return Rivals.of(mixing, others & ~gold).beaten(mixing, gold)


@dataclass(frozen=True)
class Rivals:
    """The largest entry of each row among the keys that are no ancestor, and how many of them have it."""

    largest: Float[Tensor, "batch head query"]
    number: Int[Tensor, "batch head query"]

    @classmethod
    def of(cls, mixing: Float[Tensor, "batch head query key"], others: Bool[Tensor, "batch query key"]) -> Self:
        among = mixing.masked_fill(~others[:, None], -torch.inf)
        largest = among.amax(-1)
        return cls(largest, (among == largest[..., None]).sum(-1))

    def beaten(
        self, mixing: Float[Tensor, "batch head query key"], gold: Bool[Tensor, "batch query key"]
    ) -> np.ndarray:
        """`[head, batch]`: share of queries with a gold key at which one has the largest entry (see `picked_out`).

        Gold keys are few, so that only their entries are looked at.
        """
        example, query, key = gold.nonzero(as_tuple=True)
        entry, row = mixing[example, :, query, key], example * gold.shape[1] + query
        flat = (gold.shape[0] * gold.shape[1], mixing.shape[1])
        largest = torch.full(flat, -torch.inf, dtype=mixing.dtype)
        largest = largest.scatter_reduce(0, row[:, None].expand_as(entry), entry, "amax")
        equal = torch.zeros(flat).index_add(0, row, (entry == largest[row]).float())
        rival, number = (part.transpose(1, 2).reshape(flat) for part in (self.largest, self.number))
        right = torch.where(largest > rival, 1.0, equal / (equal + number)) * ((largest >= rival) & (largest > 0))
        queries = gold.any(-1)[:, :, None]
        share = (right.nan_to_num().reshape(*gold.shape[:2], -1) * queries).sum(1) / queries.sum(1)
        return share.transpose(0, 1).double().numpy()


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
    truth, hops = subject.task.truth(batch.tokens), hops_of(subject, hops)
    before = Answers.of(cut_edges(model, batch, None, []).cpu(), batch, truth)
    values = np.full((len(EDITS), len(OUTCOMES), len(hops), len(batch)), np.nan)
    for h, hop in enumerate(hops):
        claimed = Knockout.draw(truth, before, hop, generator)
        for e, cut in enumerate((claimed, claimed.elsewhere(truth, generator))):
            after = Answers.of(cut.run(model, batch, heads), batch, truth)
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


def _outcomes(claimed: Knockout, cut: Knockout, before: Answers, after: Answers) -> Float[Tensor, "outcome batch"]:
    """What became of the answers that rest on the claimed edge once an edge was cut, in the order of `OUTCOMES`."""
    lost, needed = before.right & ~after.right, claimed.needed(before)
    of_query = torch.arange(before.right.shape[1]) == claimed.query[:, None]
    changed = share(lost, before.right & needed & of_query[..., None])
    spared = ~(lost & ~needed).flatten(1).any(-1)  # nothing else was lost
    return torch.where(cut.made, torch.stack([((changed == 1) & spared).double(), changed]), torch.nan)
