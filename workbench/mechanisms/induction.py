"""Induction: where a token comes again, one head reads the token that followed it before, and the answer is that one.

Olsson et al., 2022 (arXiv 2209.11895), for in-context induction and associative recall. Scored per head: what followed
the token before gets more of the row of the matrix that the layer applies (the pattern; for ChaCAL the resolvent) than
every other position but the query's own. The score does not show that the answer comes over that edge, nor that the key
was found by the token before it. The causal test does: without the edge the answer is lost (`claimed`); without the
edge from what followed to the token before it, in every layer below, by which it could be found, it is too
(`previous token`; NaN in models of one layer); and without another edge of the same query it stays (`elsewhere`).
Control: the sequences of another example (`mismatched`), a re-initialised model and attention drawn at random
(`random_graph`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.capture import Capture, Subject
from workbench.instruments.attention import attention_graph
from workbench.interventions import OUTCOMES, Head, choose_one, cut_edges
from workbench.measurement import Measurement
from workbench.mechanisms.chain_following import picked_out
from workbench.mechanisms.heads import where_in_words
from workbench.models import AnyHooked
from workbench.tasks import Batch, correct
from workbench.tasks.associative_recall import AssociativeRecall
from workbench.tasks.induction import Induction

CONTROLS = ("mismatched", "untrained", "random_graph")
EDITS = ("claimed", "previous token", "elsewhere")
CAUSAL_CAPTION = (
    "Whether the answer is lost in {where} without the edge to what followed the token before (claimed), without the "
    "edge by which that is found, below (previous token), and without another edge of the same query (elsewhere)."
)

needs = attention_graph.needs


def why_not(subject: Subject) -> str | None:
    """Why this claim cannot be tested on this model, in one line; None if it can."""
    if not isinstance(subject.task, Induction | AssociativeRecall):
        return f"the task {subject.task.name} asks for nothing that followed before"
    return attention_graph.why_not(subject)


def score(capture: Capture) -> Measurement:
    """Share of the answers whose head reads what followed before: dims `layer`, `head`, `example`."""
    n, n_pos = capture.batch.tokens.shape
    gold = capture.truth.adjacency(n, n_pos, hop=1)
    others = ~gold & ~torch.eye(n_pos, dtype=torch.bool)
    return attention_graph.by_head(
        capture,
        lambda mixing: torch.from_numpy(picked_out(mixing, others, gold)[:, 0]).T,
        matrix="resolvent",
        name="Induction",
        units="share",
        caption="Share of the answers at which what followed the same token before gets more of the head's row than "
        "any other position but its own. It does not show that the answer comes from there.",
    )


@torch.no_grad()
def causal(
    model: AnyHooked, subject: Subject, batch: Batch, generator: torch.Generator, *, heads: Sequence[Head] | None = None
) -> Measurement:
    """What becomes of one right answer of each example when an edge is cut: dims `edit`, `outcome`, `example`.

    Args:
        model, subject, batch: the hooked model, its facts, and sequences of its task.
        generator: draws the answers, and the edges elsewhere.
        heads: (layer, head) of those that the edges of the query are cut in; None for every head. The edge of the
            previous token is cut in every head of the layers below the highest of them.
    """
    (n, n_pos), rows = batch.tokens.shape, torch.arange(len(batch))
    gold = subject.task.truth(batch.tokens).adjacency(n, n_pos, hop=1)
    before = correct(cut_edges(model, batch, None, []).cpu(), batch) == 1
    query, tested = choose_one(before & gold.any(-1), generator)
    key = gold[rows, query].long().argmax(-1)
    other, has_other = choose_one((torch.arange(n_pos) < query[:, None]) & ~gold[rows, query], generator)
    highest = subject.n_layers - 1 if heads is None else max(layer for layer, _ in heads)
    below = [(layer, head) for layer in range(highest) for head in range(model.cfg.n_heads)]

    def lost(start: Tensor, end: Tensor, made: Tensor, where: Sequence[Head] | None) -> Float[Tensor, " batch"]:
        """1 where the answer is wrong without the edge from `start` to `end`, else 0; NaN where none is cut."""
        cut = torch.stack([rows, start, end], dim=1)[made]
        right = correct(cut_edges(model, batch, None, cut, heads=where).cpu(), batch) == 1
        return torch.where(made, (~right[rows, query]).double(), torch.nan)

    of_previous_token = lost(key, key - 1, tested & bool(below), below)
    values = [lost(query, key, tested, heads), of_previous_token, lost(query, other, tested & has_other, heads)]
    return Measurement(
        name="Induction",
        values=np.repeat(torch.stack(values)[:, None].numpy(), len(OUTCOMES), axis=1),
        dims=("edit", "outcome", "example"),
        coords={"edit": EDITS, "outcome": OUTCOMES},
        units="share",
        settings={"model": subject.name, "edited": where_in_words(heads)},
        caption=f"{CAUSAL_CAPTION.format(where=where_in_words(heads))} Over answers that are right before the edit, "
        "one an example.",
    )
