"""Identity + successor at the outputs: after attention 1, each points at its own and the next sorted token.

The task-hinting paper, §4, for sorting: output positions but the last, at `blocks.1.hook_resid_mid`, in the
decoder basis. It holds where the two top tokens are the position's own and the next sorted one, or, where these are
equal, where that one is on top. (The second MLP then removes the identity peak: `identity_removed`.) The score does not
show that the output depends on it; the causal test does: with the decoder coordinates of the next token and of a third
one exchanged, the third must follow. Control: the tokens of another example of equal length (`mismatched`), and a
re-initialised model.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
from jaxtyping import Int
from torch import Tensor

from workbench import interventions
from workbench.capture import Capture, Subject
from workbench.interventions import Edit, Exchange, SpanEdit
from workbench.measurement import Measurement
from workbench.mechanisms.base import missing
from workbench.mechanisms.minimum import delimiter_and_symbols, on_symbols
from workbench.models import AnyHooked
from workbench.tasks import Batch, Truth
from workbench.util.ties import exactly

POINT = "blocks.1.hook_resid_mid"
CONTROLS = ("mismatched", "untrained")

why_not = partial(missing, labels=("identity", "successor"), layers=2)


def needs(subject: Subject) -> list[str]:
    return [POINT]


def score(capture: Capture) -> Measurement:
    """Share of output positions but the last at which it holds (NaN where there is none): dim `example`."""
    own, following = capture.truth.labels["identity"], capture.truth.labels["successor"]
    on_basis = on_symbols(capture, POINT, "decoder")
    pair = torch.zeros_like(on_basis, dtype=torch.bool)  # one token where the two are equal
    for token in (own, following):
        pair.scatter_(-1, token.clamp(min=0)[..., None], True)
    scored = following >= 0
    share = ((exactly(on_basis, pair) * scored).sum(-1) / scored.sum(-1)).double()
    return Measurement(
        name="Identity + successor at the outputs",
        values=share.numpy(),
        dims=("example",),
        coords={},
        units="share",
        settings={"model": capture.subject.name, "basis": "decoder", "point": POINT},
        caption="Share of output positions but the last whose two top tokens in the decoder basis, after the second "
        "attention layer, are their own and the next sorted one. It does not show that the output depends on it.",
    )


def causal(model: AnyHooked, subject: Subject, batch: Batch, generator: torch.Generator) -> Measurement:
    """Whether a third token follows when the residual is made to point at it in place of the next one.

    Edits at `blocks.1.hook_resid_mid`, at one random output position of each example but the last: `claimed` exchanges
    the decoder coordinates of the next token and of a third; `elsewhere` those of the third and of a fourth.

    Returns dims `edit`, `outcome`, `example`; see `interventions.outcomes`.
    """
    labels, n_pos = subject.task.truth(batch.tokens).labels, batch.tokens.shape[1]
    position, testable = interventions.choose_one(labels["successor"] >= 0, generator)
    own, following = at_outputs(labels, position)
    (third, has_third), (fourth, has_fourth) = interventions.two_other_tokens(
        labels["identity"], len(subject.decoder), (own, following), generator
    )
    residual = interventions.activation(model, batch.tokens, POINT)
    claimed = interventions.exchanged(residual, subject.decoder, following, third)
    elsewhere = interventions.exchanged(residual, subject.decoder, third, fourth)
    edits = {
        "claimed": SpanEdit(
            POINT, interventions.single_position(position, n_pos, testable & has_third), claimed, third
        ),
        "elsewhere": SpanEdit(
            POINT, interventions.single_position(position, n_pos, testable & has_fourth), elsewhere, third
        ),
    }
    return interventions.outcomes(
        model,
        subject,
        batch.tokens,
        position,
        following,
        edits,
        name="Identity + successor at the outputs",
        caption="Whether a third token follows once its decoder coordinate and that of the next one are exchanged "
        "(claimed), and whether exchanging two that are neither leaves the answer alone (elsewhere).",
    )


def at_outputs(
    labels: Mapping[str, Int[Tensor, "batch pos"]], position: Int[Tensor, " batch"]
) -> tuple[Int[Tensor, " batch"], Int[Tensor, " batch"]]:
    """The token at one output position of each example, and the next sorted one; 0 where there is none."""
    own, following = (interventions.at_position(labels[name], position) for name in ("identity", "successor"))
    return own.clamp(min=0), following.clamp(min=0)


def suggested_edits(seen: Capture) -> dict[str, Edit]:
    """The causal test's exchange on one input: of the next token and the largest symbol that takes no part."""
    place, position = delimiter_and_symbols(seen), first_with_another_next(seen.truth)
    if place is None or position is None:
        return {}
    own, following = (int(seen.truth.labels[name][0, position]) for name in ("identity", "successor"))
    others = [symbol for symbol in place[1] if symbol not in (own, following)]
    if not others:
        return {}
    return {"exchange the next token and another": Exchange(POINT, following, others[-1], position)}


def first_with_another_next(truth: Truth) -> int | None:
    """The first position of a single sequence whose next sorted token is another than its own; None without one."""
    own, following = truth.labels["identity"][0], truth.labels["successor"][0]
    positions = ((following >= 0) & (following != own)).nonzero()[:, 0].tolist()
    return positions[0] if positions else None
