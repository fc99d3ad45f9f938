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
from jaxtyping import Float
from torch import Tensor

from workbench.capture import Capture
from workbench.instruments.attention.attention_graph import needs, why_no_pattern
from workbench.instruments.residual.projection import real_positions
from workbench.measurement import Measurement

CONTROLS = ("untrained",)

why_not = why_no_pattern


def _evenness(pattern: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch query"]:
    """The entropy of every row over log of the keys up to its own, in float64; NaN for the first, which has one key.

    Rows are divided by their sum first, since a variant's need not be 1; a row of zeros is NaN.
    """
    rows = pattern.double()
    total = rows.sum(-1, keepdim=True)
    p = rows / torch.where(total > 0, total, torch.nan)
    n_keys = torch.arange(1, rows.shape[-2] + 1, dtype=torch.float64, device=rows.device)
    return -torch.xlogy(p, p).sum(-1) / torch.where(n_keys > 1, n_keys.log(), torch.nan)


def measure(capture: Capture) -> Measurement:
    """Mean evenness of each head's rows, by the number of keys: dims `layer`, `head`, `keys`, `example`.

    Rows of padding do not count; NaN where an example has no row with so many keys.
    """
    subject, real = capture.subject, real_positions(capture)
    starts = [2**i for i in range(1, subject.task.n_ctx.bit_length())]  # of bins that double: 2–3, 4–7, …
    labels = [f"{start}–{2 * start - 1}" for start in starts]
    n_keys = torch.arange(1, real.shape[1] + 1)  # of each query; the first has one, and so no dispersion
    inside = [real & (n_keys >= start) & (n_keys < 2 * start) for start in starts]  # [batch, query] of each bin
    values = []
    for name in needs(subject):
        even = _evenness(capture[name]).cpu()
        means = [even.masked_fill(~rows[:, None], torch.nan).nanmean(-1) for rows in inside]  # [batch, head] each
        values.append(torch.stack(means).permute(2, 0, 1).numpy())
    return Measurement(
        name="Dispersion of attention",
        values=np.stack(values),
        dims=("layer", "head", "keys", "example"),
        coords={"layer": subject.layers, "keys": labels},
        units="share of log n",
        settings={"model": subject.name},
        caption="Entropy of a row of the pattern over the log of its number of keys: 1 is even over all of them. It "
        "does not say whether the right keys keep the weight.",
    )
