"""Copy: before the delimiter, the residual points at the position's own token in the encoder basis.

Task hinting and tempered softmax, §4, for sorting. Scored after attention and after the MLP of every layer, and on what
each attention layer alone writes. Caveat: the embedding is itself part of the residual, so there an untrained model
scores high too; the finding is that training *keeps* the token while other things are written. What attention writes
holds no embedding: there an untrained model is at chance, but so is a model that leaves the copying to the residual
stream, as the compiled sorter does. The score does not show that later layers use the copy; the causal test does: with
an input's encoder coordinates exchanged for another token's, the outputs must follow the edited multiset. Control: the
tokens of another example (`mismatched`), and an untrained model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from workbench import interventions
from workbench.capture import Capture, Subject
from workbench.instruments.residual import projection
from workbench.interventions import Question, SpanEdit
from workbench.measurement import Measurement
from workbench.mechanisms.base import missing
from workbench.tasks import Batch, Truth
from workbench.util.ties import hit

if TYPE_CHECKING:
    from transformer_lens.model_bridge import TransformerBridge

CONTROLS = ("mismatched", "untrained")


def needs(subject: Subject) -> list[str]:
    """The residual after attention and after the MLP of every layer, and what every attention layer writes."""
    return [*projection.needs(subject), *(f"blocks.{layer}.hook_attn_out" for layer in range(subject.n_layers))]


def why_not(subject: Subject) -> str | None:
    """Why this claim cannot be tested on this model, in one line; None if it can."""
    return missing(subject, "minimum", "identity", "successor")


def inputs(truth: Truth) -> Bool[Tensor, "batch pos"]:
    """The positions before the delimiter."""
    delimiter = truth.labels["minimum"] >= 0
    return torch.arange(delimiter.shape[1]) < delimiter.long().argmax(-1, keepdim=True)


def score(capture: Capture) -> Measurement:
    """Share of the positions before the delimiter at which it holds: dims `point` (hook name), `example`."""
    tokens, before = capture.batch.tokens, inputs(capture.truth)
    points = needs(capture.subject)
    shares = []
    for point in points:
        found = projection.inner_products(capture.subject, capture[point], "encoder").cpu()
        shares.append(((hit(found, tokens) * before).sum(-1) / before.sum(-1)).double().numpy())
    return Measurement(
        name="Copy before the delimiter",
        values=np.stack(shares),
        dims=("point", "example"),
        coords={"point": points, "example": range(len(tokens))},
        units="share",
        settings={"model": capture.subject.name, "basis": "encoder"},
        caption="Share of input positions whose own token is the top one in the encoder basis. The embedding is in the "
        "residual from the start, so an untrained model scores high too, except on what attention alone writes "
        "(attn_out).",
    )


def causal(model: TransformerBridge, subject: Subject, batch: Batch, generator: torch.Generator) -> Measurement:
    """Whether outputs follow the input's multiset as it stands in the residual that the last layer reads.

    Of each example one output token a is tested that has no copies left and whose successor s is a single input.
    Edits at the last layer's `hook_resid_pre`: `claimed` exchanges the encoder coordinates of s and of another symbol b
    at the position of s; `residual` puts there the residual of a run with b for s; after either, the smallest symbol
    above a in the edited multiset must follow. `elsewhere` does as `residual` at an input below a, which becomes
    another one below a, so that the answer must stay.

    Returns dims `edit`, `outcome`, `example`; see `interventions.outcomes`.
    """
    point = f"blocks.{subject.n_layers - 1}.hook_resid_pre"
    tokens, truth = batch.tokens, subject.task.truth(batch.tokens)
    before, labels = inputs(truth), truth.labels
    position, there = interventions.choose_one(_single_successors(tokens, truth), generator)
    own, following = (
        interventions.at_position(labels[name], position).clamp(min=0) for name in ("identity", "successor")
    )
    symbols = interventions.token_mask(labels["identity"][labels["identity"] >= 0], len(subject.encoder))[None]

    source = (before & (tokens == following[:, None])).long().argmax(-1)
    other, has_other = interventions.choose_one(interventions.excluding(symbols, own, following), generator)
    replaced = tokens.scatter(1, source[:, None], other[:, None])
    larger = torch.where(before & (replaced > own[:, None]), replaced, len(subject.encoder)).amin(-1)
    residual = interventions.activation(model, tokens, point)
    here = interventions.single_position(source, tokens.shape[1], there & has_other & (larger < len(subject.encoder)))

    below, has_below = interventions.choose_one(before & (tokens < own[:, None]), generator)
    smaller = symbols & (torch.arange(symbols.shape[1]) < own[:, None])
    another, has_another = interventions.choose_one(
        interventions.excluding(smaller, interventions.at_position(tokens, below)), generator
    )
    unrelated = tokens.scatter(1, below[:, None], another[:, None])
    there_too = interventions.single_position(below, tokens.shape[1], there & has_below & has_another)
    edits = {
        "claimed": SpanEdit(point, here, interventions.exchanged(residual, subject.encoder, following, other), larger),
        "residual": SpanEdit(point, here, interventions.activation(model, replaced, point), larger),
        "elsewhere": SpanEdit(point, there_too, interventions.activation(model, unrelated, point), larger),
    }
    return interventions.outcomes(
        model,
        subject,
        tokens,
        Question(position, following),
        edits,
        name="Copy before the delimiter",
        caption="Whether an output follows the multiset once an input's encoder coordinate is exchanged for another "
        "token's (claimed) or its whole residual for that of the other token (residual), and whether replacing an "
        "input below it by another leaves it alone (elsewhere).",
    )


def _single_successors(tokens: Int[Tensor, "batch pos"], truth: Truth) -> Bool[Tensor, "batch pos"]:
    """Output positions whose next token is another than their own, and in the input once."""
    own, following = truth.labels["identity"], truth.labels["successor"]
    copies = ((tokens[:, None, :] == following[..., None]) & inputs(truth)[:, None, :]).sum(-1)
    return (following >= 0) & (following != own) & (copies == 1)
