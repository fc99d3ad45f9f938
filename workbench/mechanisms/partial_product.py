"""Partial product: where a digit of the product is predicted, the operand digits that its column multiplies are read.

For multiplication (Seq-VCR, §4). Scored per head, at each place of the product: the operand digits i, j with i + j
equal to the place get more of the row, on average, than the operands' other digits; attention that knows nothing of
places does so in about half of them. The score does not show what is made of the digits. The causal test does: with an
operand digit replaced in what the head reads, or all of the last layer, the product's digit must change by what that
digit adds to its column.
Control: an untrained model. (Other examples have the same columns, so that `mismatched` would change nothing.)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from workbench import interventions
from workbench.capture import Capture, Subject
from workbench.instruments.attention import attention_graph
from workbench.interventions import Head, Question, SpanEdit
from workbench.measurement import Measurement
from workbench.mechanisms.heads import where_in_words
from workbench.tasks import Batch
from workbench.tasks.multiplication import Multiplication
from workbench.util.ties import hit

if TYPE_CHECKING:
    from transformer_lens.model_bridge import TransformerBridge

CONTROLS = ("untrained",)

needs = attention_graph.needs


def why_not(subject: Subject) -> str | None:
    """Why this claim cannot be tested on this model, in one line; None if it can."""
    if not isinstance(subject.task, Multiplication):
        return f"the task {subject.task.name} is not multiplication"
    return None if subject.task.digits > 1 else "operands of one digit have one column"


def score(capture: Capture) -> Measurement:
    """Share of the product's places at which a head reads the column's digits: dims `layer`, `head`, `example`.

    The highest place, whose column has none, and places whose column takes every digit are left out.
    """
    n, n_pos = capture.batch.tokens.shape
    gold = capture.truth.adjacency(n, n_pos, hop=1)
    others = gold.any(1, keepdim=True) & ~gold
    scored = (gold.any(-1) & others.any(-1))[:, None]
    layers = range(capture.subject.n_layers)
    shares = []
    for layer in layers:
        mixing = attention_graph.resolvent(capture, layer).cpu().double()  # in float64 equal rows have equal means
        means = torch.stack([(mixing * keys[:, None]).sum(-1) / keys.sum(-1)[:, None] for keys in (gold, others)], -1)
        more = hit(means, torch.zeros_like(means[..., 0], dtype=torch.long))
        shares.append(((more * scored).sum(-1) / scored.sum(-1)).T.double().numpy())
    return Measurement(
        name="Partial products",
        values=np.stack(shares),
        dims=("layer", "head", "example"),
        coords={"layer": layers, "head": range(shares[0].shape[0]), "example": range(n)},
        units="share",
        settings={"model": capture.subject.name},
        caption="Share of the product's places whose own operand digits get more of the head's row, on average, than "
        "the other operand digits. About half by chance; it does not show what is made of them.",
    )


def causal(
    model: TransformerBridge,
    subject: Subject,
    batch: Batch,
    generator: torch.Generator,
    *,
    heads: Sequence[Head] | None = None,
) -> Measurement:
    """Whether a product's digit changes by what a replaced operand digit adds to its column.

    Of each example one place k below the number of digits is tested, which is the lowest that digit k of an operand
    enters, so that no carry changes before it. Edits of what some heads read of their layer's `hook_resid_pre`, or of
    that of the last layer: `claimed` takes the position of digit k from a run with another digit there; `elsewhere`
    that of a higher digit, which must not matter.

    Args:
        model: the hooked model.
        subject: its facts.
        batch: sequences of its task.
        generator: draws the places that are tested, and the other digits.
        heads: (layer, head) of those that read the edit; None for all that reads the last layer's input.

    Returns dims `edit`, `outcome`, `example`; see `interventions.outcomes`.
    """
    assert isinstance(subject.task, Multiplication)
    tokens, d = batch.tokens, subject.task.digits
    digit = subject.task.truth(tokens).labels["digit"]
    position, there = interventions.choose_one((digit >= 0) & (digit < d), generator)
    place = interventions.at_position(digit, position).clamp(min=0)
    operand = torch.randint(0, 2, place.shape, generator=generator)
    source, partner = operand * (d + 1) + place, (1 - operand) * (d + 1)
    replaced = _with_another_digit(tokens, source, generator)
    right = interventions.at_position(tokens.roll(-1, dims=1), position)
    added = interventions.at_position(replaced, source) - interventions.at_position(tokens, source)
    predicted = (right + added * interventions.at_position(tokens, partner)) % 10
    higher, has_higher = interventions.choose_one(torch.arange(d) > place[:, None], generator)
    unrelated = operand * (d + 1) + higher
    n_pos = tokens.shape[1]
    runs = {"claimed": replaced, "elsewhere": _with_another_digit(tokens, unrelated, generator)}
    spans = {
        "claimed": interventions.single_position(source, n_pos, there),
        "elsewhere": interventions.single_position(unrelated, n_pos, there & has_higher),
    }

    @cache
    def taken(name: str, layer: int) -> SpanEdit:
        point = f"blocks.{layer}.hook_resid_pre"
        return SpanEdit(point, spans[name], interventions.activation(model, runs[name], point), predicted)

    reader = "the last layer" if heads is None else where_in_words(heads)
    return interventions.outcomes(
        model,
        subject,
        tokens,
        Question(position, right),
        {name: interventions.read_by(partial(taken, name), heads, subject.n_layers) for name in runs},
        name="Partial products",
        caption=f"Whether a digit of the product changes by what an operand digit adds to its column that {reader} "
        "finds replaced (claimed), and whether replacing a digit that enters only higher columns leaves it alone "
        "(elsewhere).",
        edited=reader,
    )


def _with_another_digit(
    tokens: Int[Tensor, "batch pos"], position: Int[Tensor, " batch"], generator: torch.Generator
) -> Int[Tensor, "batch pos"]:
    """The sequences with another digit at one position, drawn from 1 to 9, as any place of an operand may have."""
    digits = interventions.token_mask(torch.arange(1, 10), 10)[None]
    drawn, _ = interventions.choose_one(
        interventions.excluding(digits, interventions.at_position(tokens, position)), generator
    )
    return tokens.scatter(1, position[:, None], drawn[:, None])
