"""Dispersion: how evenly a head spreads over the keys that it may read, by how many there are.

The entropy of a row of the pattern over log n for its n keys: 1 is even, 0 a single key. With bounded scores softmax
cannot stay sharp as n grows ("softmax is not enough", Veličković et al., 2024, arXiv 2410.01104), which tempered and
scalable softmax answer. Shows: whether a head's rows flatten with length, measured or beyond it. Does not show: whether
the keys that keep the weight are the right ones (see `attention_graph`); through a ChaCAL layer values come by the
resolvent, which spreads further than the pattern does. Control: a re-initialised model, whose rows are near even at any
length.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from workbench.capture import Capture, Subject
from workbench.measurement import Measurement

CONTROLS = ("untrained",)


def why_not(subject: Subject) -> str | None:
    """Why the pattern cannot be looked at, in one line; None if it can."""
    return subject.no_pattern


def needs(subject: Subject) -> list[str]:
    """The pattern of every layer."""
    return [f"blocks.{layer}.attn.hook_pattern" for layer in subject.layers]


def evenness(pattern: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch query"]:
    """The entropy of every row over log of the keys up to its own, in float64; NaN for the first, which has one key.

    Rows are divided by their sum first, since a variant's need not be 1; a row of zeros is NaN.
    """
    rows = pattern.double()
    total = rows.sum(-1, keepdim=True)
    p = rows / torch.where(total > 0, total, torch.nan)
    n_keys = torch.arange(1, rows.shape[-2] + 1, dtype=torch.float64, device=rows.device)
    return -torch.xlogy(p, p).sum(-1) / torch.where(n_keys > 1, n_keys.log(), torch.nan)


def bins(n_pos: int) -> list[str]:
    """Numbers of keys in groups that double: `2–3`, `4–7`, …, as far as sequences of this length go."""
    starts = [2**i for i in range(1, n_pos.bit_length()) if 2**i <= n_pos]
    return [f"{start}–{2 * start - 1}" for start in starts]


def measure(capture: Capture) -> Measurement:
    """Mean evenness of each head's rows, by the number of keys: dims `layer`, `head`, `keys`, `example`.

    Rows of padding do not count; NaN where an example has no row with so many keys.
    """
    tokens, subject = capture.batch.tokens, capture.subject
    real = torch.arange(tokens.shape[1]) < subject.task.lengths(tokens).cpu()[:, None]
    labels = bins(subject.task.n_ctx)
    values = [
        _by_keys(evenness(capture[name]).cpu(), real, len(labels)).transpose(0, 1).transpose(1, 2).numpy()
        for name in needs(subject)
    ]
    return Measurement(
        name="Dispersion of attention",
        values=np.stack(values),
        dims=("layer", "head", "keys", "example"),
        coords={
            "layer": subject.layers,
            "head": range(values[0].shape[0]),
            "keys": labels,
            "example": range(len(tokens)),
        },
        units="share of log n",
        settings={"model": subject.name},
        caption="Entropy of a row of the pattern over the log of its number of keys: 1 is even over all of them. It "
        "does not say whether the right keys keep the weight.",
    )


def _by_keys(
    even: Float[Tensor, "batch head query"], real: Int[Tensor, "batch query"], n_bins: int
) -> Float[Tensor, "batch head bin"]:
    """The mean over the rows of each bin of numbers of keys; the first row has no dispersion."""
    number = torch.arange(1, even.shape[-1] + 1).double().log2().floor().long() - 1
    means = []
    for place in range(n_bins):
        inside = real & (number == place)
        kept = even.masked_fill(~inside[:, None], torch.nan)
        means.append(kept.nanmean(-1))
    return torch.stack(means, dim=-1)
