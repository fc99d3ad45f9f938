"""Rényi entropy of a matrix's spectrum: the formula, by matrix products where these suffice, else by eigenvalues."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float
from scipy.linalg import lapack
from torch import Tensor

from workbench.instruments.residual.gram_matrix import Bandwidth, Kernel, check_kernel, gram, kernel_matrix

Normaliser = Literal["log_t", "log_d", "log_min"]

ZERO = 1e-15  # eigenvalues below this share of the trace count as zero: they are rounding
LARGEST_POWER = 8  # integer α up to this one by matrix products; beyond, the spectrum is cheaper and cannot underflow

CACHED = 1 << 18  # numbers


def matrix_entropy(
    z: Float[Tensor, "*batch pos d"],
    *,
    alpha: float = 1.0,
    centre: bool = False,
    unit_rows: bool = False,
    normalise: Normaliser | None = None,
    kernel: Kernel = "linear",
    bandwidth: Bandwidth = "median",
    as_published: bool = False,
) -> Float[Tensor, "*batch"]:
    """Rényi entropy of the spectrum of K, in nats: S_α = 1/(1−α) log Σ_i (λ_i / tr K)^α (Seq-VCR, Eq. 2).

    Means, sums and spectra are in float64 whatever the input; so are the inner products in K = Z Zᵀ, but for integer α
    from 2 to 8: those need no spectrum, and K keeps the input's precision (at least float32). Returned in the input's
    precision (at least float32); differentiable. A zero matrix, or what centring leaves of equal rows, has entropy 0.

    Args:
        z: representations, `[..., pos, d]`, one row per token.
        alpha: order α > 0; 1 is the von Neumann entropy −Σ p log p, `math.inf` is −log max p.
        centre, unit_rows: subtract the mean row first; then scale each row to length 1 (a zero row stays zero).
        normalise: divide by the logarithm of pos (`"log_t"`), of d (`"log_d"`) or of the smaller (`"log_min"`, whose
            result lies in [0, 1]). None leaves nats. Only `"log_t"` goes with a kernel that is not linear.
        kernel: `"linear"`, K = Z Zᵀ; or `"gaussian"`, `"laplacian"`, `"laplacian_l1"`; see `kernel_matrix`.
        bandwidth: σ of a kernel that is not linear, in units of z; or the median distance between the sequence's rows.
        as_published: set negative entries of K to 0 first, as the code of "Layer by Layer"; see `_clamped_entropy`.

    Raises:
        ValueError: if z or α is out of range, or a setting is unknown or does not go with the kernel.
    """
    _check(z, alpha, normalise, kernel, bandwidth, as_published)
    single = torch.promote_types(z.dtype, torch.float32)
    by_products = alpha in range(2, LARGEST_POWER + 1) and not as_published
    by_spectrum = _clamped_entropy if as_published else gram_entropy
    matrix: Any = partial(gram, dtype=single if by_products else torch.float64)
    if kernel != "linear":
        matrix = partial(kernel_matrix, kernel=kernel, bandwidth=bandwidth)
    matrices = (matrix(part, centre, unit_rows) for part in _parts(z.reshape(-1, *z.shape[-2:])))
    entropy = [_power_entropy(k, int(alpha)) if by_products else by_spectrum(k, alpha) for k in matrices]
    return (torch.cat(entropy) / _log_size(normalise, *z.shape[-2:])).view(z.shape[:-2]).to(single)


def _check(
    z: Tensor, alpha: float, normalise: str | None, kernel: str, bandwidth: float | str, as_published: bool
) -> None:
    """Raise ValueError unless z and the settings can be used together, as `matrix_entropy` describes."""
    check_order(alpha, normalise)
    check_kernel(kernel, bandwidth)
    if as_published and kernel != "linear":
        raise ValueError(f"as_published is about inner products: the {kernel} kernel has nothing below 0")
    if kernel != "linear" and normalise in ("log_d", "log_min"):
        raise ValueError(f"the {kernel} kernel's entropy is at most log pos, whatever d: 'log_t' goes with it, or None")
    if z.ndim < 2:
        raise ValueError(f"matrix entropy needs [..., pos, d], not the shape {list(z.shape)}")
    if not z.is_floating_point() or 0 in z.shape[-2:]:
        raise ValueError(f"matrix entropy needs real numbers and at least one row, not {z.dtype} {list(z.shape)}")


def _parts(z: Float[Tensor, "n pos d"]) -> tuple[Tensor, ...]:
    """The sequences in parts that fit a CPU's cache, where each operation then finds its input; else all at once."""
    return z.split(max(1, CACHED // z[0].numel())) if z.device.type == "cpu" and len(z) else (z,)


def check_order(alpha: float, normalise: str | None) -> None:
    """Raises ValueError for an order or normaliser that does not exist."""
    if not alpha > 0:
        raise ValueError(f"matrix entropy needs alpha > 0 (math.inf is allowed), not {alpha}")
    if normalise is not None and normalise not in get_args(Normaliser):
        raise ValueError(f"unknown normaliser {normalise!r}; there is: {', '.join(get_args(Normaliser))}, None")


def _log_size(normalise: str | None, n_pos: int, d: int) -> float:
    """The number that the entropy is divided by; 1 where there is one direction only, whose entropy is 0."""
    size = {None: math.e, "log_t": n_pos, "log_d": d, "log_min": min(n_pos, d)}[normalise]
    return math.log(size) if size > 1 else 1.0


def _power_entropy(lower: Float[Tensor, "*batch n n"], order: int) -> Float[Tensor, "*batch"]:
    """Rényi entropy of integer order α ≥ 2 of a Gram matrix, given its lower half: from tr K^α, without a spectrum.

    S_α = log(tr K^α / (tr K)^α) / (1 − α). For a symmetric F, tr F² is the sum of the squares of F's entries; so
    K^(α/2) suffices for an even α, and for an odd one K^((α−1)/2) and one more product.
    """
    trace = lower.diagonal(dim1=-2, dim2=-1).sum(-1, dtype=torch.float64)
    empty = trace == 0
    scale = torch.where(empty, 1.0, trace)
    factor = lower
    if order > 2:
        # The power of K / tr K, both halves filled in: the trace is then scaled out already.
        scaled = lower.tril() / scale[..., None, None].to(lower.dtype)
        scaled = scaled + scaled.tril(-1).mT
        factor, scale = torch.linalg.matrix_power(scaled, order // 2), torch.ones_like(scale)
        if order % 2:  # tr K^α = Σ of the products of two symmetric factors
            power_sum = (factor * (factor @ scaled)).sum(dim=(-2, -1), dtype=torch.float64)
            return torch.where(empty, 1.0, power_sum).log() / (1 - order)
    # tr F² from the lower half alone: every entry twice, but the diagonal once.
    diagonal = _squares(factor.diagonal(dim1=-2, dim2=-1), dim=-1)
    power_sum = (2 * _squares(factor.tril(), dim=(-2, -1)) - diagonal) / scale**2
    return torch.where(empty, 1.0, power_sum).log() / (1 - order)


def _squares(x: Tensor, dim: int | tuple[int, ...]) -> Tensor:
    """Sum of squares in float64."""
    return torch.linalg.vector_norm(x, dim=dim, dtype=torch.float64).square()


def gram_entropy(lower: Float[Tensor, "*batch n n"], alpha: float) -> Float[Tensor, "*batch"]:
    """Rényi entropy of order α of a matrix's spectrum, given its lower half in float64."""
    return spectrum_entropy(spectrum_shares(lower), alpha)


def spectrum_shares(lower: Float[Tensor, "*batch n n"]) -> Float[Tensor, "*batch n"]:
    """λ_i / tr K in any order, given K's lower half in float64; a zero matrix counts as a single direction."""
    trace = lower.diagonal(dim1=-2, dim2=-1).sum(-1)
    empty = trace == 0
    p = _eigenvalues(lower) / torch.where(empty, 1.0, trace)[..., None]
    p = torch.where(p > ZERO, p, 0.0)  # rounding, which may be negative
    point = torch.zeros_like(p)
    point[..., -1] = 1.0
    return torch.where(empty[..., None], point, p)


def _clamped_entropy(lower: Float[Tensor, "*batch n n"], alpha: float) -> Float[Tensor, "*batch"]:
    """Rényi entropy of a matrix whose negative entries are set to 0 (`as_published`), given its lower half.

    The code published with "Layer by Layer" (Skean et al., 2025) does so, with centred rows of length 1, to Z Zᵀ or to
    the smaller ZᵀZ; the paper's formula has no such step. It may leave negative eigenvalues: these are left out, and
    the others divided by their own sum.
    """
    values = _eigenvalues(lower.clamp(min=0))
    values = torch.where(values > ZERO * values.abs().sum(-1, keepdim=True), values, 0.0)
    values[..., -1] = torch.where((values == 0).all(-1), 1.0, values[..., -1])  # as a single direction
    return spectrum_entropy(values / values.sum(-1, keepdim=True), alpha)


def _eigenvalues(lower: Float[Tensor, "n size size"]) -> Float[Tensor, "n size"]:
    """Eigenvalues of symmetric float64 matrices given by their lower half, in any order. May overwrite them.

    Without gradients large ones go through LAPACK's tridiagonal form and its square-root-free QR (sytrd, sterf): the
    same figures as PyTorch's routine, a tenth to a quarter faster.
    """
    if lower.requires_grad or lower.device.type != "cpu" or lower.shape[-1] < 96:
        return torch.linalg.eigvalsh(lower, UPLO="L")
    every = lower.new_empty(lower.shape[:-1])
    for matrix, into in zip(lower.numpy(), every, strict=True):  # LAPACK sees rows as columns, so the upper half
        _, diagonal, beside, _, failed = lapack.dsytrd(matrix.T, lower=0, overwrite_a=True)
        values, failed_too = lapack.dsterf(diagonal, beside, overwrite_d=True, overwrite_e=True)
        assert not failed and not failed_too, "the tridiagonal QR did not converge"
        into.copy_(torch.from_numpy(values))
    return every


def spectrum_entropy(p: Float[Tensor, "*batch n"], alpha: float) -> Float[Tensor, "*batch"]:
    """Rényi entropy of order α of shares that sum to 1."""
    present = p > 0
    log_p = torch.where(present, p, 1.0).log()
    if alpha == 1:
        return -(p * log_p).sum(-1)
    largest = log_p.masked_fill(~present, -math.inf).amax(-1, keepdim=True)
    if math.isinf(alpha):
        return -largest.squeeze(-1)
    if alpha < 2:
        # Σ p^α − 1 = Σ p (p^(α−1) − 1): exact near α = 1, where log Σ p^α would cancel.
        return (p * ((alpha - 1) * log_p).expm1()).sum(-1).log1p() / (1 - alpha)
    # With the largest share apart, which alone counts for α → ∞: α log p would overflow.
    rest = (alpha * (log_p - largest)).masked_fill(~present, -math.inf).logsumexp(-1)
    return (alpha / (1 - alpha)) * largest.squeeze(-1) + rest / (1 - alpha)
