"""Copy before the delimiter: of the symbols, the residual points at the position's own, in the encoder basis.

The task-hinting paper, §4, for sorting. Scored after attention and after the MLP of every layer, and on what
each attention layer alone writes. Caveat: the embedding is itself part of the residual, so there a re-initialised model
scores high too; the finding is that training *keeps* the token while other things are written. What attention writes
holds no embedding: there a re-initialised model is at chance, but so is a model that leaves the copying to the residual
stream, as the compiled sorter does. The score does not show that later layers use the copy; the causal test does: with
an input's encoder coordinates exchanged for another token's, the outputs must follow the edited multiset. Control: the
tokens of another example (`mismatched`), and a re-initialised model.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from workbench import interventions
from workbench.capture import Capture, Subject
from workbench.instruments.residual import projection
from workbench.interventions import SpanEdit, activation, choose_one, excluding, with_other_token
from workbench.measurement import Measurement
from workbench.mechanisms.base import missing
from workbench.mechanisms.minimum import on_symbols
from workbench.mechanisms.successor import at_outputs
from workbench.models import AnyHooked
from workbench.tasks import Batch, Truth
from workbench.util.ties import hit

CONTROLS = ("mismatched", "untrained")
CAUSAL_CAPTION = (
    "Whether an output follows the multiset once an input's encoder coordinate is exchanged for another token's "
    "(claimed) or its whole residual for that of the other token (residual), and whether replacing an input below it "
    "by another leaves it alone (elsewhere)."
)

why_not = partial(missing, labels=("minimum", "identity", "successor"))


def needs(subject: Subject) -> list[str]:
    """The residual after attention and after the MLP of every layer, and what every attention layer writes."""
    return [*projection.needs(subject), *(f"blocks.{layer}.hook_attn_out" for layer in range(subject.n_layers))]


def _inputs(truth: Truth) -> Bool[Tensor, "batch pos"]:
    """The positions before the delimiter."""
    delimiter = truth.labels["minimum"] >= 0
    return torch.arange(delimiter.shape[1]) < delimiter.long().argmax(-1, keepdim=True)


def score(capture: Capture) -> Measurement:
    """Share of the positions before the delimiter at which the claim holds: dims `point` (hook name), `example`."""
    tokens, before = capture.batch.tokens, _inputs(capture.truth)
    points = needs(capture.subject)
    shares = []
    for point in points:
        on_basis = on_symbols(capture, point, "encoder")
        shares.append(((hit(on_basis, tokens) * before).sum(-1) / before.sum(-1)).double().numpy())
    return Measurement(
        name="Copy before the delimiter",
        values=np.stack(shares),
        dims=("point", "example"),
        coords={"point": points},
        units="share",
        settings={"model": capture.subject.name, "basis": "encoder"},
        caption="Share of input positions whose own token is the top one in the encoder basis. The embedding is in the "
        "residual from the start, so a re-initialised model scores high too, except on what attention alone writes "
        "(attn_out).",
    )


def causal(model: AnyHooked, subject: Subject, batch: Batch, generator: torch.Generator) -> Measurement:
    """Whether outputs follow the multiset of inputs that is held in the residual before the last layer.

    One output token a of each example is tested: the last copy of a, with a successor s that occurs once in the input.
    Edits at the last layer's `hook_resid_pre`: `claimed` exchanges the encoder coordinates of s and of another symbol b
    at the position of s; `residual` replaces the residual there by that of a run with b in place of s. After either
    edit, the next output must be the smallest symbol above a in the edited multiset. `elsewhere` is the `residual` edit
    at an input below a, which becomes another symbol below a; the answer must not change.

    Returns dims `edit`, `outcome`, `example`; see `interventions.outcomes`.
    """
    tokens, truth = batch.tokens, subject.task.truth(batch.tokens)
    n_pos, d_vocab, labels = tokens.shape[1], len(subject.encoder), truth.labels
    # outputs whose next token is another than their own, and in the input once
    identity, next_token, before = labels["identity"], labels["successor"], _inputs(truth)
    copies = ((tokens[:, None, :] == next_token[..., None]) & before[:, None, :]).sum(-1)
    single = (next_token >= 0) & (next_token != identity) & (copies == 1)
    position, testable = choose_one(single, generator)
    own, following = at_outputs(labels, position)
    symbols = torch.isin(torch.arange(d_vocab), identity)[None]
    # The single input that should follow becomes any other symbol but the output token itself.
    place = (before & (tokens == following[:, None])).long().argmax(-1)
    edited, symbol, has_symbol = with_other_token(tokens, place, excluding(symbols, own), generator)
    # An input smaller than the output token becomes another smaller symbol, which changes nothing that follows.
    below, has_below = choose_one(before & (tokens < own[:, None]), generator)
    smaller = torch.arange(d_vocab) < own[:, None]
    unrelated, _, has_another = with_other_token(tokens, below, symbols & smaller, generator)
    # What must follow once the successor is another symbol; an example in which nothing larger is left is not tested.
    larger = torch.where(before & (edited > own[:, None]), edited, d_vocab).amin(-1)
    here = interventions.single_position(place, n_pos, testable & has_symbol & (larger < d_vocab))
    elsewhere = interventions.single_position(below, n_pos, testable & has_below & has_another)
    point = f"blocks.{subject.n_layers - 1}.hook_resid_pre"
    exchanged = interventions.exchanged(activation(model, tokens, point), subject.encoder, following, symbol)
    edits = {
        "claimed": SpanEdit(point, here, exchanged, larger),
        "residual": SpanEdit(point, here, activation(model, edited, point), larger),
        "elsewhere": SpanEdit(point, elsewhere, activation(model, unrelated, point), larger),
    }
    name = "Copy before the delimiter"
    return interventions.outcomes(model, subject, tokens, position, following, edits, name=name, caption=CAUSAL_CAPTION)
