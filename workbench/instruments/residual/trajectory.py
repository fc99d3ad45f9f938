"""Trajectory: how strongly one position's residual points at chosen tokens, from the embedding to the last layer.

Shows: at which layer a token's direction arrives, grows or is taken away, on both bases, by value or by rank among the
whole vocabulary. Does not show: what wrote it (attention and MLP are told apart by the points only), or that the
output depends on it. Control: a re-initialised model, whose residual keeps its own token from the embedding on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.capture import Capture
from workbench.instruments.residual.projection import AS_READ, BASES, UNITS, How, components, from_embedding, sequence
from workbench.measurement import Measurement

WRITES = ("hook_attn_out", "hook_mlp_out")


def trajectory(
    capture: Capture,
    example: int,
    position: int,
    *,
    tokens: Sequence[int] | None = None,
    how: How = "raw",
    final_norm: bool = True,
    points: Sequence[str] | None = None,
) -> Measurement:
    """The components of one position's residual on chosen tokens: dims `basis`, `point` (hook name), `token` (words).

    Args:
        capture: with the activations at `points`.
        example, position: where to look.
        tokens: ids of the tokens to follow. By default the position's own, its target, those that the truth's labels
            name there, and every token that is on top at some point of either basis.
        how, final_norm: as in `projection.components`; the final norm is for residuals, and never for what is written
            to them: a part of a residual has no norm of its own.
        points: hook names of residuals, or of what is written to them: `blocks.0.hook_attn_out` is what one layer's
            attention adds. By default the embedding and the residual after each attention and MLP.

    Returns values whose settings hold the `input` and, under `roles`, which of the words is the `own` token, the
    `target` or a label's.

    Raises:
        ValueError: if there is no such example, position, token or point.
    """
    subject, words = capture.subject, sequence(capture, example)
    if not 0 <= position < len(words):
        raise ValueError(f"there is no position {position}; example {example} has {len(words)} tokens")
    points = from_embedding(subject) if points is None else list(points)
    every = _every_token(capture, example, position, points, how, final_norm)
    roles = _roles(capture, example, position)
    ids = list(dict.fromkeys([*roles.values(), *_on_top(every)] if tokens is None else map(int, tokens)))
    if unknown := [token for token in ids if not 0 <= token < every.shape[-1]]:
        raise ValueError(f"there is no token {unknown[0]}; the vocabulary has 0..{every.shape[-1] - 1}")
    role_words = dict(zip(roles, subject.task.words(torch.tensor(list(roles.values()))), strict=True))
    place: dict[str, Any] = {"example": example, "position": position, "input": words, "roles": role_words}
    return Measurement(
        name="Residual on chosen tokens",
        values=every[:, :, ids].cpu().double().numpy(),
        dims=("basis", "point", "token"),
        coords={"basis": BASES, "point": points, "token": subject.task.words(torch.tensor(ids))},
        units=UNITS[how],
        settings={"model": subject.name, **place, "how": how, "final_norm": final_norm},
        caption=f"The residual's {UNITS[how]} with the vectors of these tokens, read as input (encoder) and as output "
        f"(decoder){AS_READ if final_norm else ''}. A large one does not show that the model uses the token.",
    )


def _every_token(
    capture: Capture, example: int, position: int, points: Sequence[str], how: How, final_norm: bool
) -> Float[Tensor, "basis point token"]:
    """The components of one position's residual, or of what is written to it, on every token."""

    def at(point: str, basis: str) -> Tensor:
        normed = final_norm and not point.endswith(WRITES)
        return components(capture.subject, capture[point][example, position], basis, how=how, final_norm=normed)

    return torch.stack([torch.stack([at(point, basis) for point in points]) for basis in BASES])


def _on_top(every: Float[Tensor, "basis point token"]) -> list[int]:
    """The token with the largest component at each point, on each basis; none where several have it (a zero vector)."""
    first, second = every.topk(min(2, every.shape[-1])).values[..., [0, -1]].unbind(-1)
    return every.argmax(-1)[first > second].tolist()


def ranks(
    capture: Capture, example: int, position: int, *, tokens: Sequence[int] | None = None, **settings: Any
) -> Measurement:
    """The rank of each chosen token among the whole vocabulary, 1 for the largest: dims `basis`, `point`, `token`.

    Tokens of equal value share the mean of their ranks. Arguments and errors are those of `trajectory`.
    """
    chosen = trajectory(capture, example, position, tokens=tokens, **settings)
    every = trajectory(capture, example, position, tokens=range(len(capture.subject.encoder)), **settings)
    own = chosen.values[:, :, :, None]
    larger, equal = (compare(every.values[:, :, None, :], own).sum(-1) for compare in (np.greater, np.equal))
    return replace(
        chosen,
        name="Rank of chosen tokens",
        values=1.0 + larger + (equal - 1) / 2,
        units="rank",
        caption=f"Rank of these tokens' {chosen.units} with the residual among the whole vocabulary, 1 for the "
        "largest; equal ones share the mean of their ranks. A high rank does not mean used.",
    )


def _roles(capture: Capture, example: int, position: int) -> dict[str, int]:
    """Role -> token id: the position's own token, its target, and those that the truth's labels name there."""
    batch, truth = capture.batch, capture.truth
    roles = {"own": int(batch.tokens[example, position])}
    if batch.targets.ndim == 2 and batch.loss_mask[example, position]:
        roles["target"] = int(batch.targets[example, position])
    for label in capture.subject.task.token_labels:  # of fewer properties than there may be, not all are there
        if label in truth.labels and (token := int(truth.labels[label][example, position])) >= 0:
            roles[label] = token
    return roles
