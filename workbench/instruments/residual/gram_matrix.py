"""Gram matrices Z Zᵀ of a sequence's representations, and kernel matrices: the matrices whose spectrum is read."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from jaxtyping import Float
from scipy.linalg import blas
from torch import Tensor

Kernel = Literal["linear", "gaussian", "laplacian", "laplacian_l1"]
Bandwidth = float | Literal["median"]


def check_kernel(kernel: str, bandwidth: float | str) -> None:
    """Raises ValueError for a kernel or bandwidth that does not exist."""
    if kernel not in get_args(Kernel):
        raise ValueError(f"unknown kernel {kernel!r}; there is: {', '.join(get_args(Kernel))}")
    if bandwidth != "median" and (isinstance(bandwidth, str) or not 0 < bandwidth < float("inf")):
        raise ValueError(f"the bandwidth must be 'median' or a positive number, not {bandwidth!r}")


def in_range(z: Float[Tensor, "n pos d"], dtype: torch.dtype) -> Float[Tensor, "n pos d"]:
    """The representations, scaled by a factor where their squares would over- or underflow in `dtype`.

    Raises:
        ValueError: if z holds NaN or infinity.
    """
    values = z.detach()
    largest = torch.maximum(values.amax((-2, -1)), -values.amin((-2, -1))).double()[..., None, None]
    if not torch.isfinite(largest).all():
        raise ValueError("representations must be finite; these hold NaN or infinity")
    room = torch.finfo(dtype).max ** 0.25
    if bool(((largest > room) | ((largest < 1 / room) & (largest > 0))).any()):
        z = z.double() / torch.where(largest > 0, largest, 1.0)
    return z


def prepare(z: Float[Tensor, "n pos d"], centre: bool, unit_rows: bool, dtype: torch.dtype) -> Float[Tensor, "n pos d"]:
    """Rows centred if `centre`, then scaled to length 1 if `unit_rows`."""
    if centre:
        z = z.double()
        total = z.detach().square().sum(dim=(-2, -1), keepdim=True)
        z = z - z.mean(dim=-2, keepdim=True)
        rounding = z.detach().square().sum(dim=-1, keepdim=True) <= 1e-28 * total
        z = torch.where(rounding, 0.0, z)
    if unit_rows:
        squares = z.to(dtype).square().sum(dim=-1, keepdim=True)
        z = z / torch.where(squares > 0, squares, 1.0).sqrt()
    return z


def gram(
    z: Float[Tensor, "n pos d"], centre: bool, unit_rows: bool, dtype: torch.dtype
) -> Float[Tensor, "n size size"]:
    """Z Zᵀ or ZᵀZ of the prepared rows, whichever is smaller: they have the same eigenvalues but for zeros.

    Only the lower half counts. Without gradients, and where it pays, that half alone is computed, by BLAS's own product
    for this (syrk), which PyTorch does not offer.
    """
    rows, (n_pos, d) = prepare(in_range(z, dtype), centre, unit_rows, dtype), z.shape[-2:]
    size = min(n_pos, d)
    if rows.requires_grad or rows.device.type != "cpu" or size * n_pos * d < 1 << 18:
        rows = rows.to(dtype)
        return rows @ rows.mT if n_pos <= d else rows.mT @ rows
    result = rows.new_zeros(len(rows), size, size, dtype=dtype)
    syrk = blas.dsyrk if dtype == torch.float64 else blas.ssyrk
    buffer, rows = torch.empty(n_pos, d, dtype=dtype), rows.contiguous()
    for matrix, half in zip(rows, result.numpy(), strict=True):
        # BLAS sees rows as columns
        syrk(1.0, buffer.copy_(matrix).numpy().T, trans=n_pos <= d, c=half.T, overwrite_c=True)
    return result


def kernel_matrix(
    z: Float[Tensor, "n pos d"], centre: bool, unit_rows: bool, kernel: Kernel, bandwidth: Bandwidth
) -> Float[Tensor, "n pos pos"]:
    """K_ij = κ(z_i, z_j) of the prepared rows in float64, for a kernel of distances; its diagonal is 1.

    `gaussian` is exp(−‖x−y‖₂² / 2σ²), `laplacian` exp(−‖x−y‖₂ / σ), which like the Gaussian does not depend on the
    residual's basis, and `laplacian_l1` exp(−‖x−y‖₁ / σ), which does. Both are called Laplacian: scikit-learn's is the
    latter with γ = 1/σ; representation-itl has them as elliptical and factorised, with √2 σ for our σ.

    Unlike Z Zᵀ, it depends only on the differences between rows: centring changes nothing unless unit rows follow, and
    with the median as bandwidth the scale of the differences changes nothing either, so that tokens drawn together
    around a common vector do not count as collapsed.
    """
    if bandwidth == "median" or unit_rows:  # else a factor would change the result
        z = in_range(z, torch.float64)
    elif not torch.isfinite(z).all():
        raise ValueError("representations must be finite; these hold NaN or infinity")
    rows = prepare(z.double(), centre, unit_rows, torch.float64)
    order = 1.0 if kernel == "laplacian_l1" else 2.0
    # Not by products of rows: those would leave rounding, not 0, between equal rows
    distance = torch.cdist(rows, rows, p=order, compute_mode="donot_use_mm_for_euclid_dist")
    ratio = distance / (_median_distance(distance) if bandwidth == "median" else bandwidth)
    return (-ratio.square() / 2 if kernel == "gaussian" else -ratio).exp()


def _median_distance(distance: Float[Tensor, "n pos pos"]) -> Float[Tensor, "n 1 1"]:
    """The median over the pairs of rows that differ, as in the two-sample test of Gretton et al. (2012); 1 if none."""
    n_pos = distance.shape[-1]
    i, j = torch.tril_indices(n_pos, n_pos, -1, device=distance.device)
    pairs = distance[:, i, j].sort(-1).values
    if not pairs.shape[-1]:
        return torch.ones_like(distance[:, :1, :1])
    n_equal = (pairs == 0).sum(-1, keepdim=True)
    n_apart = pairs.shape[-1] - n_equal
    middle = torch.cat([n_equal + (n_apart - 1) // 2, n_equal + n_apart // 2], dim=-1).clamp(max=pairs.shape[-1] - 1)
    median = pairs.gather(-1, middle).mean(-1)[:, None, None]
    return torch.where(median > 0, median, 1.0)
