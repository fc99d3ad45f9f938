"""Rows that dominate a sequence: a few tokens, such as attention sinks, that hold most of its squared norm.

The trace of Z Zᵀ is the sum of the rows' squared norms. Where a few rows hold most of it, the spectrum is that of these
rows, and its entropy is near 0 whatever the others do: in GPT-2's middle layers the first token has over 99 % ("massive
activations", Sun et al., 2024, arXiv 2402.17762). So a spectral measure is taken without them too.

A row stands out if its squared norm is more than `TIMES` that of the sequence's median row, a norm of over three times:
the norms of other tokens differ by less than two. Such rows, however many and wherever, dominate if together they hold
more than `MOST` of the trace. They are looked for as the measure sees them: of centred rows after centring, where one
long row also turns all others towards its opposite; of rows scaled to length 1 without centring, and of kernels, none
can dominate. Does not show: why they are long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from workbench.instruments.residual.gram_matrix import Kernel, in_range, prepare
from workbench.measurement import Measurement

TIMES = 10.0  # the squared norm of the median row, above which a row stands out
MOST = 0.5  # of the trace, above which rows that stand out dominate
WITHOUT, ROWS, SHARE, POSITION = ASIDE = (
    "without dominant rows",
    "dominant rows",
    "share of dominant rows",
    "longest dominant row",
)
"""What is put beside a measure where rows dominate: the measure of the other rows, how many dominate, the share of the
trace that they hold, and the place of the longest within the tokens that are measured."""


def _dominant(
    z: Float[Tensor, "n pos d"], *, centre: bool, unit_rows: bool
) -> tuple[Bool[Tensor, "n pos"], Float[Tensor, "n pos"]]:
    """Which rows dominate their sequence, and each row's share of the squared norm.

    Args:
        z: the rows.
        centre, unit_rows: what the measure does to them.
    """
    rows = prepare(in_range(z, torch.float64), centre, False, torch.float64).double()
    squares = rows.square().sum(-1)
    total = squares.sum(-1, keepdim=True)
    shares = squares / torch.where(total > 0, total, 1.0)
    out = shares > TIMES * shares.quantile(0.5, dim=-1, keepdim=True)
    few = (shares * out).sum(-1, keepdim=True) > MOST
    return out & few & (centre or not unit_rows), shares


def with_others(
    z: Float[Tensor, "n pos d"],
    measure: Callable[..., Float[Tensor, " n"]],
    *,
    centre: bool,
    unit_rows: bool,
    kernel: Kernel = "linear",
    **how: Any,
) -> Float[Tensor, "n 5"]:
    """A measure of sequences, then `ASIDE`: NaN where no row dominates.

    Args:
        z: the sequences.
        measure: `measure(z, centre=…, unit_rows=…, **how)`.
        centre, unit_rows: what it does to the rows.
        kernel: of which matrix it is: but for a linear one, the diagonal is 1 whatever the rows.
        how: its other settings.
    """
    how |= {"centre": centre, "unit_rows": unit_rows} | ({} if kernel == "linear" else {"kernel": kernel})
    linear = kernel == "linear"
    dominant, shares = _dominant(z, centre=centre and linear, unit_rows=unit_rows or not linear)
    counts = dominant.sum(-1)
    every = torch.full((len(z), 1 + len(ASIDE)), torch.nan, dtype=torch.float64, device=z.device)
    every[:, 0] = measure(z, **how)
    for count in counts[counts > 0].unique().tolist():
        which = counts == count
        others = z[which][~dominant[which]].view(int(which.sum()), z.shape[1] - count, z.shape[2])
        share, place = (shares * dominant)[which].sum(-1), (shares * dominant)[which].argmax(-1)
        every[which, 1:] = torch.stack(
            [measure(others, **how).double(), torch.full_like(share, count), share, place.double()], 1
        )
    return every


def has_dominant(m: Measurement) -> bool:
    """Whether rows dominate any example."""
    return WITHOUT in m.aside and not bool(np.isnan(m.aside[WITHOUT]).all())


def without_dominant(m: Measurement) -> Measurement:
    """A measure per example, in which sequences that rows dominate have its value without these."""
    if WITHOUT not in m.aside:
        return m
    other = m.aside[WITHOUT]
    return replace(m, values=np.where(np.isnan(other), m.values, other), aside={})
