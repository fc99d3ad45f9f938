"""Logit lens: how far the output is decided at each layer, read by the model's own final norm and unembedding.

Every residual is decoded as if it were the last one (nostalgebraist, 2020), the unembedding's bias included, and
compared with the model's final output: KL(final ‖ lens) at the scored positions. Shows: at which layer the residual
already says what the model will say, in the basis of the output. Does not show: what is there in another basis (see
`tuned_lens`), or that later layers use it; a small KL can also mean that the final output is itself vague. Control: a
re-initialised model, whose layers change next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.capture import LOGITS, Capture, Subject
from workbench.instruments.lens.affine import AffineLens
from workbench.instruments.residual.projection import from_embedding, position_names
from workbench.instruments.shared import AT_ONCE, by_rows, positions_read, said_of_sample
from workbench.measurement import Measurement
from workbench.tasks import Batch, correct
from workbench.util.ties import agreement, top

CONTROLS = ("untrained",)
IN_CACHE = 2**20  # numbers of one kind that are compared at once


def needs(subject: Subject) -> list[str]:
    """The embedding, the residual after attention and after the MLP of every layer, and the logits."""
    return [*from_embedding(subject), LOGITS]


def why_not(subject: Subject) -> str | None:
    """Why the model's last residual is not decoded as it decodes it; None where it is."""
    return subject.no_decoding


def decode(subject: Subject, residual: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch token"]:
    """The logits that the model makes of its last residual, made of any: final norm, unembedding, cap."""
    normed = subject.final_norm(residual)
    return subject.logits(torch.nn.functional.linear(normed, subject.decoder.to(normed), subject.unembed_bias))


def divergence(final: Float[Tensor, "*batch token"], lens: Float[Tensor, "*batch token"]) -> Float[Tensor, "*batch"]:
    """KL(final ‖ lens) in nats between the distributions that two sets of logits stand for."""
    log_final, log_lens = final.log_softmax(-1), lens.log_softmax(-1)
    return (log_final.exp() * (log_final - log_lens)).sum(-1)


@torch.no_grad()
def readings(
    capture: Capture, points: Sequence[str], lens: AffineLens | None = None
) -> Float[Tensor, "point batch pos 3"]:
    """What each residual decodes to, beside the output: KL(final ‖ lens) in nats, the same top token, the right one.

    In float64, at the positions of `positions_read`, NaN at others. Of the logit lens they are computed once for a
    capture: to decode is what takes the time.
    """
    kept, keys = {} if lens is not None else capture.computed, {point: ("lens", point) for point in points}
    missing = [point for point in points if keys[point] not in kept]
    read = positions_read(capture, capture.batch.loss_mask)
    found = torch.full((len(missing), *read.shape, 3), torch.nan, dtype=torch.float64)
    n_tokens = len(capture.subject.decoder)
    for rows in read.nonzero().split(max(1, IN_CACHE // n_tokens)) if missing and read.any() else ():
        at = tuple(rows.T)
        compare = _comparison(capture, at)
        several = max(1, AT_ONCE // (n_tokens * max(1, len(rows))))  # points, for which the matrix is read once
        for start in range(0, len(missing), several):
            some = {point: capture[point][at] for point in missing[start : start + several]}
            carried = [x if lens is None else lens.translate(point, x) for point, x in some.items()]
            for number, logits in enumerate(decode(capture.subject, torch.stack(carried)), start):
                found[(number, *at)] = compare(logits)
    kept.update(zip((keys[point] for point in missing), found, strict=True))
    return torch.stack([kept[keys[point]] for point in points])


def _comparison(capture: Capture, at: tuple[Tensor, Tensor]) -> Callable[[Tensor], Float[Tensor, "row 3"]]:
    """The function that makes the numbers of `readings` of logits at some rows and positions."""
    final, batch = capture.logits[at], capture.batch
    targets = batch.targets[at]
    log_final = final.double().log_softmax(-1)
    share = log_final.exp()
    first, n_first = top(final)

    def compared(logits: Float[Tensor, "row token"]) -> Float[Tensor, "row 3"]:
        nats = (share * (log_final - logits.double().log_softmax(-1))).sum(-1)
        likeliest, n_likeliest = top(logits)
        if targets.ndim == 1 and bool((n_likeliest == 1).all() & (n_first == 1).all()):
            same, right = likeliest == first, likeliest.cpu() == targets.cpu()
        else:
            tokens, asked = (x[at][:, None].cpu() for x in (batch.tokens, batch.loss_mask))
            few = Batch(tokens, targets[:, None].cpu(), asked)
            same, right = agreement(logits, final), correct(logits.cpu()[:, None], few)[:, 0]
        return torch.stack([each.double().cpu() for each in (nats, same, right)], dim=-1)

    return compared


def measure(capture: Capture, *, points: Sequence[str] | None = None) -> Measurement:
    """KL from the final output to what each point's residual decodes to: dims `point` (hook name), `example`.

    Averaged over scored positions (NaN where an example has none). Points are hook names of residuals, by default those
    of `needs`; at the last one it is 0.
    """
    points = from_embedding(capture.subject) if points is None else list(points)
    measured = Measurement(
        name="Logit lens",
        values=readings(capture, points)[..., 0].nanmean(-1).numpy(),
        dims=("point", "example"),
        coords={"point": points},
        units="nats",
        settings={"model": capture.subject.name, "lens": "logit"},
        caption="KL(final ‖ lens) at scored positions, the residual decoded by the final norm and the unembedding. "
        "What a layer holds in another basis it does not see.",
    )
    return said_of_sample(measured, capture)


def beside_logit_lens(
    capture: Capture, lens: AffineLens, points: Sequence[str] | None, name: str, caption: str
) -> Measurement:
    """KL from the output to what each point decodes to, by this and another lens: dims `lens`, `point`, `example`.

    Args:
        capture: with the activations of `needs`.
        lens: the other.
        points: hook names of residuals, by default those of `needs`.
        name, caption: of the measurement.
    """
    points = from_embedding(capture.subject) if points is None else list(points)
    nats = torch.stack([readings(capture, points, each)[..., 0].nanmean(-1) for each in (None, lens)])
    measured = Measurement(
        name=name,
        values=nats.numpy(),
        dims=("lens", "point", "example"),
        coords={"lens": ("logit", lens.NAME), "point": points},
        units="nats",
        settings={"model": capture.subject.name, "training": dict(lens.settings)},
        caption=caption,
    )
    return said_of_sample(measured, capture)


@torch.no_grad()
def lens_tokens(capture: Capture, example: int, *, lens: AffineLens | None = None) -> Measurement:
    """The top token and its probability at every point and position of one example: dims `point`, `position`.

    `values` are probabilities, `labels` the words; positions are labelled `position:word`. The last row is the model's
    own output.

    Args:
        capture: with the activations of `needs`.
        example: which.
        lens: a tuned or a Jacobian lens; by default the logit lens.

    Raises:
        ValueError: if there is no such example.
    """
    subject, positions = capture.subject, position_names(capture, example)
    points = from_embedding(subject)
    each = []
    for point in points:

        def best(x: Tensor, point: str = point) -> Tensor:
            logits = decode(subject, x if lens is None else lens.translate(point, x))
            top = logits.double().softmax(-1).max(-1)
            return torch.stack([top.values, top.indices.double()], dim=-1)

        each.append(by_rows(best, capture[point][example, : len(positions)], width=len(subject.decoder)))
    probabilities, tokens = torch.stack(each).cpu().unbind(-1)
    return Measurement(
        name="Tokens seen through the lens",
        values=probabilities.numpy(),
        dims=("point", "position"),
        coords={"point": points, "position": positions},
        units="probability",
        settings={"model": subject.name, "example": example, "lens": "logit" if lens is None else lens.NAME},
        labels=np.array(subject.task.words(tokens.long().flatten())).reshape(tokens.shape),
        caption="The token that each residual decodes to, and its probability; the last point is the model's output. "
        "Unscored positions were not trained to say anything.",
    )
