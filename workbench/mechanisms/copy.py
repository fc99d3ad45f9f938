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

from dataclasses import dataclass
from functools import partial

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
    identity, next_token = labels["identity"], labels["successor"]
    copies = ((tokens[:, None, :] == next_token[..., None]) & _inputs(truth)[:, None, :]).sum(-1)
    single = (next_token >= 0) & (next_token != identity) & (copies == 1)
    position, testable = interventions.choose_one(single, generator)
    own, following = at_outputs(labels, position)
    symbols = interventions.token_mask(identity[identity >= 0], d_vocab)[None]
    successor = _replaced_successor(tokens, _inputs(truth), own, following, symbols, generator)
    below = _replaced_below(tokens, _inputs(truth), own, symbols, generator)

    # What must follow once the successor is another symbol; an example in which nothing larger is left is not tested.
    larger = torch.where(_inputs(truth) & (successor.tokens > own[:, None]), successor.tokens, d_vocab).amin(-1)
    here = interventions.single_position(successor.position, n_pos, testable & successor.testable & (larger < d_vocab))
    elsewhere = interventions.single_position(below.position, n_pos, testable & below.testable)

    point = f"blocks.{subject.n_layers - 1}.hook_resid_pre"
    residual = interventions.activation(model, tokens, point)
    exchanged = interventions.exchanged(residual, subject.encoder, following, successor.symbol)
    edits = {
        "claimed": SpanEdit(point, here, exchanged, larger),
        "residual": SpanEdit(point, here, interventions.activation(model, successor.tokens, point), larger),
        "elsewhere": SpanEdit(point, elsewhere, interventions.activation(model, below.tokens, point), larger),
    }
    question, name = Question(position, following), "Copy before the delimiter"
    return interventions.outcomes(model, subject, tokens, question, edits, name=name, caption=CAUSAL_CAPTION)


@dataclass(frozen=True)
class _Replaced:
    """One input symbol of each example replaced by another.

    Attributes:
        position: where; any place in an example without one to replace.
        symbol: what stands there instead.
        testable: whether the example has such an input and such a symbol.
        tokens: the sequences with the symbol replaced.
    """

    position: Int[Tensor, " batch"]
    symbol: Int[Tensor, " batch"]
    testable: Bool[Tensor, " batch"]
    tokens: Int[Tensor, "batch pos"]

    @staticmethod
    def of(tokens: Tensor, position: Tensor, symbol: Tensor, testable: Tensor) -> _Replaced:
        return _Replaced(position, symbol, testable, tokens.scatter(1, position[:, None], symbol[:, None]))


def _replaced_successor(
    tokens: Tensor, before: Tensor, own: Tensor, following: Tensor, symbols: Tensor, generator: torch.Generator
) -> _Replaced:
    """The single input that should follow becomes any other symbol but the output token itself."""
    position = (before & (tokens == following[:, None])).long().argmax(-1)
    symbol, testable = interventions.choose_one(interventions.excluding(symbols, own, following), generator)
    return _Replaced.of(tokens, position, symbol, testable)


def _replaced_below(
    tokens: Tensor, before: Tensor, own: Tensor, symbols: Tensor, generator: torch.Generator
) -> _Replaced:
    """An input smaller than the output token becomes another smaller symbol, which changes nothing that follows."""
    position, has_below = interventions.choose_one(before & (tokens < own[:, None]), generator)
    smaller = symbols & (torch.arange(symbols.shape[1]) < own[:, None])
    here = interventions.at_position(tokens, position)
    symbol, has_another = interventions.choose_one(interventions.excluding(smaller, here), generator)
    return _Replaced.of(tokens, position, symbol, has_below & has_another)
