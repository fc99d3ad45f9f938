"""Identity removed by the last MLP: in the decoder basis it takes the position's own token away; the next is on top.

The task-hinting paper, §4, for sorting: after the last attention layer an output points at its own and at
the next sorted token (`successor`), and the last MLP, as a denoiser, removes the first. Read at the last layer's
`hook_resid_mid` and `hook_resid_post`, at output positions but the last whose next token is another than their own.
The score does not show that the MLP did it by what it wrote along the own token's direction; the causal test does.
Control: the tokens of another example of equal length (`mismatched`), and a re-initialised model.
"""

from __future__ import annotations

import torch

from workbench import interventions
from workbench.capture import Capture, Subject
from workbench.interventions import Edit, Exchange, SpanEdit
from workbench.measurement import Measurement
from workbench.mechanisms.base import missing
from workbench.mechanisms.minimum import on_symbols
from workbench.mechanisms.successor import at_outputs, first_with_another_next
from workbench.models import AnyHooked
from workbench.tasks import Batch
from workbench.util.ties import hit, on_top

CONTROLS = ("mismatched", "untrained")


def needs(subject: Subject) -> list[str]:
    """The residual before and after the last MLP."""
    return [f"blocks.{subject.n_layers - 1}.hook_resid_{point}" for point in ("mid", "post")]


def why_not(subject: Subject) -> str | None:
    """Why this claim cannot be tested on this model, in one line; None if it can."""
    if subject.attention_only:
        return "the model has no MLP, of which this claim is (d_mlp = 0)"
    return missing(subject, ("identity", "successor"))


def score(capture: Capture) -> Measurement:
    """Share of positions whose own token the MLP takes out: dim `example` (NaN where there is none to score).

    It holds where the own token is one of the two top ones before the MLP, and the next token is the top one after it.
    """
    own, following = capture.truth.labels["identity"], capture.truth.labels["successor"]
    before, after = (on_symbols(capture, point, "decoder") for point in needs(capture.subject))
    holds = on_top(before, 2).gather(-1, own.clamp(min=0)[..., None])[..., 0] * hit(after, following)
    scored = (following >= 0) & (following != own)
    return Measurement(
        name="Identity removed by the last MLP",
        values=((holds * scored).sum(-1) / scored.sum(-1)).double().numpy(),
        dims=("example",),
        coords={},
        units="share",
        settings={"model": capture.subject.name, "basis": "decoder", "points": needs(capture.subject)},
        caption="Share of output positions, their next token being another, whose own token is one of the two top ones "
        "in the decoder basis before the last MLP, and the next one on top after it.",
    )


def causal(model: AnyHooked, subject: Subject, batch: Batch, generator: torch.Generator) -> Measurement:
    """Whether the answer falls back to the own token when the last MLP does not take that one out.

    Edits at the last layer's `hook_mlp_out`, at one random output position of each example whose next token is another:
    `claimed` exchanges the decoder coordinates of the own and the next token in what the MLP writes, so that it takes
    out the wrong one; `ablated` writes nothing; `elsewhere` exchanges those of two tokens that are neither. Ablation
    alone decides less: without the MLP the two peaks may be as good as equal, and then anything decides between them.

    Returns dims `edit`, `outcome`, `example`; see `interventions.outcomes`.
    """
    point = f"blocks.{subject.n_layers - 1}.hook_mlp_out"
    labels, n_pos = subject.task.truth(batch.tokens).labels, batch.tokens.shape[1]
    differs = (labels["successor"] >= 0) & (labels["successor"] != labels["identity"])
    position, testable = interventions.choose_one(differs, generator)
    own, following = at_outputs(labels, position)
    (third, _), (fourth, has_fourth) = interventions.two_other_tokens(
        labels["identity"], len(subject.decoder), (own, following), generator
    )
    written = interventions.activation(model, batch.tokens, point)
    here = interventions.single_position(position, n_pos, testable)
    elsewhere = interventions.exchanged(written, subject.decoder, third, fourth)
    edits = {
        "claimed": SpanEdit(point, here, interventions.exchanged(written, subject.decoder, own, following), own),
        "ablated": SpanEdit(point, here, torch.zeros_like(written), own),
        "elsewhere": SpanEdit(point, here & has_fourth[:, None], elsewhere, own),
    }
    return interventions.outcomes(
        model,
        subject,
        batch.tokens,
        position,
        following,
        edits,
        name="Identity removed by the last MLP",
        caption="Whether the answer falls back to the own token once the last MLP takes out the next one in its place "
        "(claimed) or writes nothing (ablated), and whether exchanging two that are neither leaves it alone "
        "(elsewhere).",
    )


def suggested_edits(seen: Capture) -> dict[str, Edit]:
    """The causal test's exchange on one input: what the last MLP writes takes out the next token, not the own one."""
    position = first_with_another_next(seen.truth)
    if position is None:
        return {}
    own, following = (int(seen.truth.labels[name][0, position]) for name in ("identity", "successor"))
    write = f"blocks.{seen.subject.n_layers - 1}.hook_mlp_out"
    return {"let the last MLP remove the wrong token": Exchange(write, own, following, position)}
