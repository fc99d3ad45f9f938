"""Entity state: the answer about a box reads the clause that last changed it, which holds the box's state.

For the boxes of the ChaCAL paper, §5.2. Scored per head, at the answer's words about a box: the gold clause gets more
of the row of the matrix that the layer applies (the pattern; for ChaCAL the resolvent) than every other clause. The
score does not show that the state is there to be read: a model may look up each object where it was last named. The
causal test does: in what the head (or all of the last layer) reads from the gold clause alone, an object is replaced by
another one, whether the clause names it or not. If the last layer is a ChaCAL layer, it can follow paths within itself
and so read earlier clauses through the gold one; for it the claim is stronger than what the task needs. Control: the
answers of another example of equal length (`mismatched`; there are few of them in one batch), and a re-initialised
model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from workbench import interventions
from workbench.capture import Capture, Subject
from workbench.instruments.attention import attention_graph
from workbench.interventions import Head, SpanEdit
from workbench.measurement import Measurement
from workbench.mechanisms.base import missing
from workbench.mechanisms.heads import where_in_words
from workbench.models import AnyHooked
from workbench.tasks import Batch, Truth
from workbench.tasks.boxes_world import OBJECTS
from workbench.util.ties import hit

CONTROLS = ("mismatched", "untrained")
CAUSAL_CAPTION = (
    "Whether an object in the answer becomes another one if {reader} finds that one in the clause that last changed "
    "the box (claimed), in the whole text, or in every other clause (elsewhere)."
)

needs = attention_graph.needs

why_not = partial(missing, labels=("clause",))


def _gold_clauses(truth: Truth) -> Int[Tensor, "batch pos"]:
    """At the answer's words about a box the number of the clause that last changed it, −1 elsewhere."""
    clause = truth.labels["clause"]
    example, _, query, key = truth.edges.unbind(1)
    in_answer = clause[example, query] < 0
    gold = torch.full_like(clause, -1)
    gold[example[in_answer], query[in_answer]] = clause[example[in_answer], key[in_answer]]
    return gold


def score(capture: Capture) -> Measurement:
    """Share of an answer's words about boxes at which a head reads the gold clause: dims `layer`, `head`, `example`.

    NaN where an example's answer is about no box that a clause has changed.
    """
    clause, gold = capture.truth.labels["clause"], _gold_clauses(capture.truth)
    return attention_graph.by_head(
        capture,
        lambda mixing: _read(mixing, clause, gold),
        matrix="resolvent",
        name="Entity state",
        units="share",
        caption="Share of the answer's words about a box at which the clause that last changed it gets more of the "
        "head's row than every other clause. It does not show what is read there.",
    )


def _read(
    mixing: Float[Tensor, "batch head query key"], clause: Int[Tensor, "batch pos"], gold: Int[Tensor, "batch pos"]
) -> Float[Tensor, "batch head"]:
    """The share of the queries with a gold clause at which it has more mass than every other."""
    example, query = (gold >= 0).nonzero(as_tuple=True)
    rows = mixing[example, :, query].double()  # in which clauses of equal length get equal shares of a uniform row
    n_clauses = int(clause.max()) + 1
    place = torch.where(clause >= 0, clause, n_clauses)[example, None].expand_as(rows)
    mass = rows.new_zeros(*rows.shape[:2], n_clauses + 1).scatter_add(2, place, rows)[..., :n_clauses]
    exists = torch.zeros_like(mass[:, 0]).scatter(1, clause[example].clamp(min=0), 1.0) > 0
    mass = mass.masked_fill(~exists[:, None], -1.0)
    holds = hit(mass, gold[example, query, None].expand(mass.shape[:-1])) * (mass.amax(-1) > 0)  # else nothing is read
    count = torch.zeros(len(gold), rows.shape[1], dtype=torch.double).index_add(0, example, holds.double())
    return count / (gold >= 0).sum(-1, keepdim=True)


def causal(
    model: AnyHooked, subject: Subject, batch: Batch, generator: torch.Generator, *, heads: Sequence[Head] | None = None
) -> Measurement:
    """Whether an object in the answer becomes another one where the state of its box is made to hold that one.

    The text is told once more with another object in the place of one object of the answer. Edits of what some heads
    read of their layer's `hook_resid_pre`, or of that of the last layer: `claimed` takes the gold clause from that run;
    `whole text` takes all of it, which is the most that they could read; `elsewhere` every clause but the gold one.

    Args:
        model, subject, batch: the hooked model, its facts, and sequences of its task.
        generator: draws the answers that are tested, and the other objects.
        heads: (layer, head) of those that read the edit; None for all that reads the last layer's input.

    Returns dims `edit`, `outcome`, `example`; see `interventions.outcomes`.
    """
    tokens = batch.tokens
    retold = _Retold.of(subject, tokens, generator)
    residual = cache(lambda layer: interventions.activation(model, retold.tokens, f"blocks.{layer}.hook_resid_pre"))

    def of_layer(layer: int, where: Bool[Tensor, "batch pos"]) -> SpanEdit:
        """The residual of the other telling at these positions."""
        return SpanEdit(f"blocks.{layer}.hook_resid_pre", where, residual(layer), retold.other)

    spans = {"claimed": retold.text & retold.gold, "whole text": retold.text, "elsewhere": retold.text & ~retold.gold}
    read = partial(interventions.read_by, heads=heads, n_layers=subject.n_layers)
    edits = {name: read(partial(of_layer, where=span)) for name, span in spans.items()}
    position, named = retold.position, retold.named
    reader = "the last layer" if heads is None else where_in_words(heads)
    caption = CAUSAL_CAPTION.format(reader=reader)
    return interventions.outcomes(
        model, subject, tokens, position, named, edits, name="Entity state", caption=caption, edited=reader
    )


@dataclass(frozen=True)
class _Retold:
    """Each text told once more with another object in the place of one object of the answer, throughout.

    It is the next or the previous object in the alphabet, and nowhere in the text, so that all else stays in its place.

    Attributes:
        position: the answer's position that predicts the object.
        named, other: the object, and what it becomes.
        tokens: the retold text.
        text: the positions of all clauses; none in an example that allows no other object.
        gold: the positions of the clause that last changed the box.
    """

    position: Int[Tensor, " batch"]
    named: Int[Tensor, " batch"]
    other: Int[Tensor, " batch"]
    tokens: Int[Tensor, "batch pos"]
    text: Bool[Tensor, "batch pos"]
    gold: Bool[Tensor, "batch pos"]

    @staticmethod
    def of(subject: Subject, tokens: Int[Tensor, "batch pos"], generator: torch.Generator) -> _Retold:
        """Draw an object of each answer and the one that takes its place."""
        truth = subject.task.truth(tokens)
        clause, gold = truth.labels["clause"], _gold_clauses(truth)
        following, rows = tokens.roll(-1, dims=1), torch.arange(len(tokens))[:, None]
        is_object = torch.tensor([word in OBJECTS for word in subject.task.vocabulary.words])
        used = torch.zeros(len(tokens), len(is_object), dtype=torch.bool).scatter(1, tokens, True)
        unused = torch.nn.functional.pad(is_object & ~used, (1, 1))
        # [batch, token, side]: whether the object before, and the one after, is in no place of the sequence
        free = torch.stack([unused[:, :-2], unused[:, 2:]], dim=-1) & is_object[:, None]
        position, testable = interventions.choose_one((gold >= 0) & free[rows, following].any(-1), generator)
        named = interventions.at_position(following, position)
        side, has_side = interventions.choose_one(interventions.at_position(free, named), generator)
        other = named + 2 * side - 1  # the object before it in the alphabet, or the one after
        text = (clause >= 0) & (testable & has_side)[:, None]
        retold = torch.where(text & (tokens == named[:, None]), other[:, None], tokens)
        of_gold = clause == interventions.at_position(gold, position)[:, None]
        return _Retold(position, named, other, retold, text, of_gold)
