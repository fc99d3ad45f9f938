"""Overlap of the bases: how nearly orthogonal encoder and decoder basis are, each to itself and to one another.

A property of the weights, not of an input. The task-hinting paper, §4, calls the rows of the embedding and
the columns of the unembedding bases because they are nearly orthogonal, within each and between the two. Shows: how far
an inner product with one token's vector is owed to another's. Does not show: whether the residual uses the directions.
Control: random directions, whose mean |cosine| in d dimensions is Γ(d/2) / (√π Γ((d+1)/2)) ≈ √(2 / (π d)).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.capture import Subject
from workbench.measurement import Measurement
from workbench.util.memory import check_memory

CONTROLS = ()  # random directions are beside it in every measurement
MOST_TOKENS = 4096  # of larger vocabularies pairs of tokens are not looked at
ROWS = 1024  # of a matrix of cosines at a time
PAIRS = ("within encoder", "within decoder", "across, same token", "across, other tokens", "random directions")


def why_not(subject: Subject) -> str | None:
    """Pairs of tokens are looked at, which of large vocabularies are too many."""
    n_tokens = len(subject.encoder)
    return None if n_tokens <= MOST_TOKENS else f"a vocabulary of {n_tokens:,} tokens has too many pairs of them"


def _directions(vectors: Float[Tensor, "token d_model"]) -> Float[Tensor, "token d_model"]:
    """Rows scaled to length 1, in float64; a row of zeros has no direction and becomes NaN."""
    rows = vectors.double()
    return rows / rows.norm(dim=-1, keepdim=True)


@torch.no_grad()
def measure(subject: Subject) -> Measurement:
    """Mean |cosine| between basis vectors of different tokens, within a basis and across; dim `pair`.

    The entries: within the encoder basis, within the decoder basis, across the two for the same token and for different
    ones, and what random directions of that width would have. Tokens whose vector is zero are left out; `n` is the
    number of ordered pairs (for random directions, 0).
    """
    encoder, decoder = _directions(subject.encoder), _directions(subject.decoder)
    same, d = (encoder * decoder).sum(-1).abs(), encoder.shape[1]
    overlaps = [
        _mean_of_others(encoder, encoder),
        _mean_of_others(decoder, decoder),
        (float(same.nanmean()), int((~same.isnan()).sum())),
        _mean_of_others(encoder, decoder),
        (math.exp(math.lgamma(d / 2) - math.lgamma((d + 1) / 2)) / math.sqrt(math.pi), 0),  # of random directions
    ]
    return Measurement(
        name="Overlap of the bases",
        values=np.array([mean for mean, _ in overlaps]),
        dims=("pair",),
        coords={"pair": PAIRS},
        units="mean |cosine|",
        settings={"model": subject.name, "d_vocab": len(encoder), "d_model": d},
        n=np.array([n for _, n in overlaps]),
        caption="Mean |cosine| between the vectors of two tokens, within a basis and across the two, beside that of "
        "random directions. It says nothing of what the residual holds.",
    )


def _mean_of_others(left: Tensor, right: Tensor) -> tuple[float, int]:
    """Mean |cosine| over pairs of different tokens, and the number of pairs; a few rows at a time."""
    total, n = 0.0, 0
    for start in range(0, len(left), ROWS):
        cosines = (left[start : start + ROWS] @ right.T).abs()
        cosines.diagonal(start).fill_(torch.nan)
        total += float(cosines.nansum())
        n += int((~cosines.isnan()).sum())
    return total / n if n else math.nan, n


@torch.no_grad()
def basis_cosines(subject: Subject, tokens: Sequence[int] | None = None) -> Measurement:
    """Every cosine between two basis vectors: dims `pair`, `first`, `second` (words).

    `pair` is `encoder`, `decoder` (each with itself) or `across` (rows from the encoder, columns from the decoder). A
    token whose vector is zero has NaN.

    Args:
        subject: the model's facts.
        tokens: ids of the tokens to show, by default all.

    Raises:
        ValueError: if the matrices are larger than this machine's memory.
    """
    ids = torch.arange(len(subject.encoder)) if tokens is None else torch.as_tensor(tokens)
    check_memory(3 * 8 * len(ids) ** 2, f"cosines between {len(ids):,} tokens")
    encoder, decoder = _directions(subject.encoder)[ids], _directions(subject.decoder)[ids]
    words = subject.task.words(ids)
    matrices = {"encoder": encoder @ encoder.T, "decoder": decoder @ decoder.T, "across": encoder @ decoder.T}
    return Measurement(
        name="Cosines of the bases",
        values=torch.stack(list(matrices.values())).cpu().numpy(),
        dims=("pair", "first", "second"),
        coords={"pair": list(matrices), "first": words, "second": words},
        units="cosine",
        settings={"model": subject.name, "d_model": encoder.shape[1]},
        caption="Cosine between the vectors of two tokens: encoder with encoder, decoder with decoder, and encoder "
        "(rows) with decoder (columns).",
    )
