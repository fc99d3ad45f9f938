"""Projections of the residual on both bases: which tokens it points at, read as input and as output.

The rows of the embedding are the *encoder basis*, the columns of the unembedding the *decoder basis*; the residual
before the MLP (`resid_mid`) and after it (`resid_post`) is projected on both (Task hinting and tempered softmax, §5).
Shows: which token's direction is largest at a position. Does not show: that later layers use it. A basis vector
longer than the rest wins more often, biases of the unembedding are left out, and since the embedding itself is part of
the residual, an untrained model too points at its own token in the encoder basis: compare with one, and with
`mismatched`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.capture import Capture, Subject
from workbench.instruments.measurement import Measurement
from workbench.lookup import lookup

BASES = ("encoder", "decoder")


CONTROLS = ("mismatched", "untrained")


def why_not(subject: Subject) -> str | None:
    """It can be measured on every model and task."""
    return None


def needs(subject: Subject) -> list[str]:
    """The residual after attention (`resid_mid`) and after the MLP (`resid_post`) of every layer."""
    layers = range(subject.n_layers)
    return [f"blocks.{layer}.{point}" for layer in layers for point in ("hook_resid_mid", "hook_resid_post")]


def basis(subject: Subject, name: str) -> Float[Tensor, "token d_model"]:
    """The `encoder` or `decoder` basis. Raises ValueError for any other name."""
    return lookup({"encoder": subject.encoder, "decoder": subject.decoder}, name, "basis")


def project(
    residual: Float[Tensor, "*batch d_model"], basis: Float[Tensor, "token d_model"]
) -> Float[Tensor, "*batch token"]:
    """Inner product of each residual with each basis vector."""
    return residual @ basis.to(residual).T


@torch.no_grad()
def inner_products(
    subject: Subject, residual: Float[Tensor, "*batch d_model"], basis_name: str, final_norm: bool = False
) -> Float[Tensor, "*batch token"]:
    """A residual of this model on one of its bases, through its final norm first if asked."""
    return project(subject.final_norm(residual) if final_norm else residual, basis(subject, basis_name))


def measure(capture: Capture, *, final_norm: bool = False, points: Sequence[str] | None = None) -> Measurement:
    """How often the residual's top token is the position's own token, or its target.

    Dims `token` (`own`: over all real positions; `target`: over scored positions whose target is one class), `basis`,
    `point` (hook name), `example`. With `final_norm` the residual passes through the model's final norm first; then
    the decoder basis at the last point gives the model's own logits, but for the unembedding's bias. Points are hook
    names of residuals, by default those of `needs`.
    """
    tokens, batch = capture.batch.tokens, capture.batch
    lengths = capture.subject.task.lengths(tokens)
    real = torch.arange(tokens.shape[1]) < lengths[:, None]
    wanted = {"own": (tokens, real)}
    if batch.targets.ndim == 2:
        wanted["target"] = (batch.targets, batch.loss_mask)
    points = needs(capture.subject) if points is None else list(points)
    values = np.empty((len(wanted), len(BASES), len(points), len(tokens)))
    for b, name in enumerate(BASES):
        for p, point in enumerate(points):
            top = inner_products(capture.subject, capture[point], name, final_norm).argmax(-1).cpu()
            for w, (expected, scored) in enumerate(wanted.values()):
                values[w, b, p] = (((top == expected) & scored).sum(-1) / scored.sum(-1)).numpy()
    return Measurement(
        name="Top token of the residual",
        values=values,
        dims=("token", "basis", "point", "example"),
        coords={"token": list(wanted), "basis": BASES, "point": points, "example": range(len(tokens))},
        units="share",
        settings={"model": capture.subject.name, "final_norm": final_norm},
        caption="Share of positions at which the largest inner product is with the position's own token, or with its "
        "target. An untrained model scores high on its own token, which its residual contains.",
    )


def top_tokens(capture: Capture, *, example: int = 0, top: int = 5, final_norm: bool = False) -> Measurement:
    """One example's largest inner products at every point and position, on both bases, best first.

    Dims `basis`, `point` (hook name), `position` (labelled `position:word`), `rank` (from 1); `labels` hold the words
    of the tokens. Covers the example's real tokens.

    Raises:
        ValueError: if there is no such example, or `top` is not within the vocabulary.
    """
    subject, tokens = capture.subject, capture.batch.tokens
    if not 0 <= example < len(tokens):
        raise ValueError(f"there is no example {example}; the batch has {len(tokens)}")
    if not 1 <= top <= len(subject.encoder):
        raise ValueError(f"top must be between 1 and the vocabulary's {len(subject.encoder)}, not {top}")
    length = int(subject.task.lengths(tokens[example : example + 1])[0])
    points = needs(subject)
    best = [
        [inner_products(subject, capture[point][example, :length], name, final_norm).topk(top) for point in points]
        for name in BASES
    ]
    ids = torch.stack([torch.stack([found.indices for found in row]) for row in best]).cpu()
    values = torch.stack([torch.stack([found.values for found in row]) for row in best])
    words = np.array(subject.task.words(ids.flatten())).reshape(ids.shape)
    names = [f"{i}:{word}" for i, word in enumerate(subject.task.words(tokens[example, :length]))]
    return Measurement(
        name="Residual on both bases",
        values=values.cpu().double().numpy(),
        dims=("basis", "point", "position", "rank"),
        coords={"basis": BASES, "point": points, "position": names, "rank": range(1, top + 1)},
        units="inner product",
        settings={"model": subject.name, "example": example, "final_norm": final_norm},
        labels=words,
        caption="The tokens whose embedding row (encoder) or unembedding column (decoder) has the largest inner "
        "product with the residual. Large does not mean used.",
    )
