"""Spectrum: what share of a sequence's representations each principal direction holds, largest first (Seq-VCR, §3.3).

The eigenvalues of K = Z Zᵀ, or of a kernel's matrix, over its trace: the distribution whose entropy `entropy` measures.
Shows: whether a low entropy comes of one dominant direction or of few equal ones, which the entropy alone cannot tell.
Does not show: which directions they are, or whether later layers use them; uncentred, the first is mostly the mean row.
Control: a re-initialised model of the same shape on the same sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.capture import Capture
from workbench.instruments.residual.gram_matrix import Bandwidth, Kernel, check_kernel, gram, kernel_matrix
from workbench.instruments.residual.per_sequence import Positions, per_sequence
from workbench.instruments.residual.projection import from_embedding
from workbench.instruments.residual.renyi import spectrum_shares
from workbench.instruments.shared import no_reason
from workbench.measurement import Measurement

CONTROLS = ("untrained",)

needs, why_not = from_embedding, no_reason


def spectrum(
    z: Float[Tensor, "n pos d"],
    top: int,
    *,
    centre: bool = False,
    unit_rows: bool = False,
    kernel: Kernel = "linear",
    bandwidth: Bandwidth = "median",
) -> Float[Tensor, "n top"]:
    """The `top` largest λ_i / tr K, in float64, largest first; NaN after the last, since K has one for each row.

    Settings are those of `matrix_entropy`. A zero matrix counts as a single direction.

    Raises:
        ValueError: if the kernel or bandwidth is unknown, or z holds NaN or infinity.
    """
    check_kernel(kernel, bandwidth)
    if kernel == "linear":
        lower = gram(z, centre, unit_rows, torch.float64)
    else:
        lower = kernel_matrix(z, centre, unit_rows, kernel, bandwidth)
    shares = spectrum_shares(lower).sort(-1, descending=True).values[:, :top]
    padded = shares.new_full((len(z), top), torch.nan)
    padded[:, : z.shape[-2]] = 0.0  # eigenvalues of K = Z Zᵀ that the smaller ZᵀZ does not have
    padded[:, : shares.shape[-1]] = shares
    return padded


def measure(
    capture: Capture,
    *,
    top: int = 16,
    centre: bool = False,
    unit_rows: bool = False,
    kernel: Kernel = "linear",
    bandwidth: Bandwidth = "median",
    positions: Positions = "all",
    points: Sequence[str] | None = None,
) -> Measurement:
    """The largest eigenvalues over the trace: dims `layer`, `rank` (from 1, largest first), `example`.

    Over the real tokens of a sequence, before the final norm; NaN beyond their number.

    Args:
        top: how many eigenvalues.
        centre, unit_rows, kernel, bandwidth: as for `matrix_entropy`.
        positions: `"all"`, `"input"`, `"output"` or a slice `(start, stop)`, as for `entropy.measure`.
        points: hook names, by default those of `needs`.

    Raises:
        ValueError: if top is below 1, a setting is unknown, or a point was not captured.
    """
    if top < 1:
        raise ValueError(f"the spectrum needs top of at least 1, not {top}")
    points = needs(capture.subject) if points is None else list(points)
    how: dict[str, Any] = {"centre": centre, "unit_rows": unit_rows, "kernel": kernel, "bandwidth": bandwidth}
    values = per_sequence(capture, points, positions, lambda z: spectrum(z, top, **how), each=(top,))
    how["bandwidth"] = None if kernel == "linear" else bandwidth
    return Measurement(
        name="Spectrum",
        values=values,
        dims=("layer", "rank", "example"),
        coords={"layer": points, "rank": range(1, top + 1)},
        units="share of the trace",
        settings={"model": capture.subject.name, **how, "positions": positions},
        caption="Eigenvalues over their sum, largest first, of one sequence's tokens, before the final norm. They say "
        "how the tokens spread, not along which directions; uncentred, the first is mostly the mean.",
    )
