"""Matrix entropy: over how many directions a sequence's representations spread, layer by layer (Seq-VCR, §3).

Shows: the effective number of directions (its logarithm) that the tokens of one sequence occupy. Low entropy in the
middle layers is the collapse that Seq-VCR works against. Does not show: what the directions mean, or whether later
layers use them; a direction shared by all tokens (a large mean) lowers the number a lot unless it is centred away, and
longer sequences have higher entropy. Compare only figures of the same hook point, α, centring and normaliser.
Control: an untrained model of the same shape on the same sequences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Float
from scipy.linalg import blas, lapack
from torch import Tensor

from workbench.capture import Capture, Subject
from workbench.instruments.measurement import Measurement

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
) -> Float[Tensor, "*batch"]:
    """Rényi entropy of the spectrum of K = Z Zᵀ, in nats: S_α = 1/(1−α) log Σ_i (λ_i / tr K)^α (Seq-VCR, §3).

    Means, sums and spectra are in float64 whatever the input; so are the inner products in K, but for integer α from 2
    to 8: those need no spectrum, and K keeps the input's precision (at least float32). Returned in the input's
    precision (at least float32); differentiable. The result does not change with the scale of z. A zero matrix, or what
    centring leaves of equal rows, has entropy 0.

    Args:
        z: representations, `[..., pos, d]`, one row per token.
        alpha: order α > 0; 1 is the von Neumann entropy −Σ p log p, `math.inf` is −log max p.
        centre: subtract the mean row first.
        unit_rows: then scale each row to length 1 (a zero row stays zero).
        normalise: divide by the logarithm of pos (`"log_t"`), of d (`"log_d"`) or of the smaller (`"log_min"`, whose
            result lies in [0, 1]). None leaves nats.

    Raises:
        ValueError: if α ≤ 0, z has fewer than two axes or values that are not finite, or the normaliser is unknown.
    """
    _check_settings(alpha, normalise)
    if z.ndim < 2:
        raise ValueError(f"matrix entropy needs [..., pos, d], not the shape {list(z.shape)}")
    if not z.is_floating_point() or 0 in z.shape[-2:]:
        raise ValueError(f"matrix entropy needs real numbers and at least one row, not {z.dtype} {list(z.shape)}")
    single = torch.promote_types(z.dtype, torch.float32)
    by_products = alpha in range(2, LARGEST_POWER + 1)
    found = []
    for part in _parts(z.reshape(-1, *z.shape[-2:])):
        lower = gram(part, centre, unit_rows, single if by_products else torch.float64)
        found.append(power_entropy(lower, int(alpha)) if by_products else gram_entropy(lower, alpha))
    entropy = torch.cat(found) / _log_size(normalise, *z.shape[-2:])
    return entropy.view(z.shape[:-2]).to(single)


def _parts(z: Float[Tensor, "n pos d"]) -> tuple[Tensor, ...]:
    """On a CPU, as many sequences at a time as its cache holds; each operation then finds its input there."""
    return z.split(max(1, CACHED // z[0].numel())) if z.device.type == "cpu" and len(z) else (z,)


def _check_settings(alpha: float, normalise: str | None) -> None:
    if not alpha > 0:
        raise ValueError(f"matrix entropy needs alpha > 0 (math.inf is allowed), not {alpha}")
    if normalise is not None and normalise not in get_args(Normaliser):
        raise ValueError(f"unknown normaliser {normalise!r}; there is: {', '.join(get_args(Normaliser))}, None")


def _log_size(normalise: str | None, n_pos: int, d: int) -> float:
    """What the entropy is divided by; of one direction, whose entropy is 0, by 1."""
    size = {None: math.e, "log_t": n_pos, "log_d": d, "log_min": min(n_pos, d)}[normalise]
    return math.log(size) if size > 1 else 1.0


def prepare(
    z: Float[Tensor, "*batch pos d"], centre: bool, unit_rows: bool, dtype: torch.dtype
) -> Float[Tensor, "*batch pos d"]:
    """Rows centred, then scaled to length 1, as asked; of a size whose squares neither over- nor underflow in `dtype`.

    Raises:
        ValueError: if z holds NaN or infinity.
    """
    values = z.detach()
    largest = torch.maximum(values.amax((-2, -1)), -values.amin((-2, -1))).double()[..., None, None]
    if not torch.isfinite(largest).all():
        raise ValueError("matrix entropy needs finite representations; these hold NaN or infinity")
    room = torch.finfo(dtype).max ** 0.25
    if bool(((largest > room) | ((largest < 1 / room) & (largest > 0))).any()):
        z = z.double() / torch.where(largest > 0, largest, 1.0)
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
    rows, (n_pos, d) = prepare(z, centre, unit_rows, dtype), z.shape[-2:]
    size = min(n_pos, d)
    if rows.requires_grad or rows.device.type != "cpu" or size * n_pos * d < 1 << 18:
        rows = rows.to(dtype)
        return rows @ rows.mT if n_pos <= d else rows.mT @ rows
    result = rows.new_zeros(len(rows), size, size, dtype=dtype)
    syrk = blas.dsyrk if dtype == torch.float64 else blas.ssyrk
    one, rows = torch.empty(n_pos, d, dtype=dtype), rows.contiguous()
    for matrix, half in zip(rows, result.numpy(), strict=True):
        # BLAS sees rows as columns
        syrk(1.0, one.copy_(matrix).numpy().T, trans=n_pos <= d, c=half.T, overwrite_c=True)
    return result


def power_entropy(lower: Float[Tensor, "*batch n n"], order: int) -> Float[Tensor, "*batch"]:
    """Rényi entropy of integer order α ≥ 2 of a Gram matrix, given its lower half: from tr K^α, without a spectrum."""
    trace = lower.diagonal(dim1=-2, dim2=-1).sum(-1, dtype=torch.float64)
    empty = trace == 0
    scale = torch.where(empty, 1.0, trace)
    factor = lower
    if order > 2:
        scaled = lower.tril() / scale[..., None, None].to(lower.dtype)
        scaled = scaled + scaled.tril(-1).mT
        factor, scale = torch.linalg.matrix_power(scaled, order // 2), torch.ones_like(scale)
        if order % 2:  # tr K^α = Σ of the products of two symmetric factors
            power_sum = (factor * (factor @ scaled)).sum(dim=(-2, -1), dtype=torch.float64)
            return torch.where(empty, 1.0, power_sum).log() / (1 - order)
    diagonal = _squares(factor.diagonal(dim1=-2, dim2=-1), dim=-1)
    power_sum = (2 * _squares(factor.tril(), dim=(-2, -1)) - diagonal) / scale**2
    return torch.where(empty, 1.0, power_sum).log() / (1 - order)


def _squares(x: Tensor, dim: int | tuple[int, ...]) -> Tensor:
    """Sum of squares in float64."""
    return torch.linalg.vector_norm(x, dim=dim, dtype=torch.float64).square()


def gram_entropy(lower: Float[Tensor, "*batch n n"], alpha: float) -> Float[Tensor, "*batch"]:
    """Rényi entropy of order α of a Gram matrix's spectrum, given its lower half in float64."""
    trace = lower.diagonal(dim1=-2, dim2=-1).sum(-1)
    empty = trace == 0
    p = eigenvalues(lower) / torch.where(empty, 1.0, trace)[..., None]
    p = torch.where(p > ZERO, p, 0.0)
    point = torch.zeros_like(p)
    point[..., -1] = 1.0
    return spectrum_entropy(torch.where(empty[..., None], point, p), alpha)


def eigenvalues(lower: Float[Tensor, "n size size"]) -> Float[Tensor, "n size"]:
    """Eigenvalues of symmetric float64 matrices given by their lower half, in any order. May overwrite them.

    Without gradients large ones go through LAPACK's tridiagonal form and its square-root-free QR (sytrd, sterf): the
    same figures as PyTorch's routine, a tenth to a quarter faster.
    """
    if lower.requires_grad or lower.device.type != "cpu" or lower.shape[-1] < 96:
        return torch.linalg.eigvalsh(lower, UPLO="L")
    found = lower.new_empty(lower.shape[:-1])
    for matrix, into in zip(lower.numpy(), found, strict=True):  # LAPACK sees rows as columns, so the upper half
        _, diagonal, beside, _, failed = lapack.dsytrd(matrix.T, lower=0, overwrite_a=True)
        values, failed_too = lapack.dsterf(diagonal, beside, overwrite_d=True, overwrite_e=True)
        assert not failed and not failed_too, "the tridiagonal QR did not converge"
        into.copy_(torch.from_numpy(values))
    return found


def spectrum_entropy(p: Float[Tensor, "*batch n"], alpha: float) -> Float[Tensor, "*batch"]:
    """Rényi entropy of order α of shares that sum to 1."""
    present = p > 0
    log_p = torch.where(present, p, 1.0).log()
    if alpha == 1:
        return -(p * log_p).sum(-1)
    if math.isinf(alpha):
        return -log_p.masked_fill(~present, -math.inf).amax(-1)
    if alpha < 2:
        # Σ p^α − 1 = Σ p (p^(α−1) − 1): exact near α = 1, where log Σ p^α would cancel.
        return (p * ((alpha - 1) * log_p).expm1()).sum(-1).log1p() / (1 - alpha)
    return (alpha * log_p).masked_fill(~present, -math.inf).logsumexp(-1) / (1 - alpha)


class EntropyStream:
    """Matrix entropy of all the vectors of a data set, more of them than fit in memory, batch by batch.

    K = Z Zᵀ over n vectors has the eigenvalues of ZᵀZ, whose d² numbers add up over batches: exact for any n, in
    float64. Beside `matrix_entropy`, which is over the tokens of one sequence, this is over everything it was given.

    Args:
        centre: subtract the mean of all vectors; or a mean `[d]` known from elsewhere.
        unit_rows: then scale each to length 1.

    Raises:
        ValueError: if asked to scale rows less their own mean, which is not known before the last batch.
    """

    def __init__(self, *, centre: bool | Float[Tensor, " d"] = False, unit_rows: bool = False) -> None:
        if centre is True and unit_rows:
            raise ValueError(
                "unit_rows after centring needs the mean before the first batch: stream once, "
                "then again with centre=stream.mean"
            )
        self.centre, self.unit_rows = centre, unit_rows
        self.n = 0
        self.mean: Tensor = torch.zeros(())
        self._scatter: Tensor = torch.zeros(())  # of vectors less their mean, so that a large mean cancels nothing

    @torch.no_grad()
    def add(self, z: Float[Tensor, "*batch d"]) -> EntropyStream:
        """Take in more vectors.

        Raises:
            ValueError: if they are not finite, or not as wide as those before.
        """
        rows = z.reshape(-1, z.shape[-1]).double()
        if self.n and rows.shape[-1] != len(self.mean):
            raise ValueError(f"the vectors so far had {len(self.mean)} features, not {rows.shape[-1]}")
        if not torch.isfinite(rows).all():
            raise ValueError("matrix entropy needs finite representations; these hold NaN or infinity")
        if isinstance(self.centre, Tensor):
            rows = rows - self.centre.to(rows)
        if self.unit_rows:
            length = rows.norm(dim=-1, keepdim=True)
            rows = rows / torch.where(length > 0, length, 1.0)
        if len(rows):
            mean = rows.mean(0)
            rows = rows - mean
            self._merge(len(rows), mean, rows.T @ rows)
        return self

    def merge(self, other: EntropyStream) -> EntropyStream:
        """Take in what another stream, of another process for example, has seen."""
        if other.n:
            self._merge(other.n, other.mean, other._scatter)
        return self

    def _merge(self, n: int, mean: Tensor, scatter: Tensor) -> None:
        if not self.n:
            self.n, self.mean, self._scatter = n, mean, scatter
            return
        total, apart = self.n + n, mean - self.mean
        self._scatter = self._scatter + scatter + torch.outer(apart, apart) * (self.n * n / total)
        self.mean = self.mean + apart * (n / total)
        self.n = total

    def entropy(self, *, alpha: float = 1.0, normalise: Normaliser | None = None) -> float:
        """Rényi entropy of order α of everything seen so far, the number of vectors seen standing for `pos`.

        Raises:
            ValueError: if nothing was seen, or a setting is wrong.
        """
        _check_settings(alpha, normalise)
        if not self.n:
            raise ValueError("there is no entropy of nothing: add vectors first")
        moments = self._scatter
        if self.centre is not True:
            moments = moments + self.n * torch.outer(self.mean, self.mean)
        largest = moments.diagonal().max()
        lower = (moments / largest if largest > 0 else moments.clone())[None]
        return float(gram_entropy(lower, alpha)) / _log_size(normalise, self.n, len(self.mean))


CONTROLS = ("untrained",)


def why_not(subject: Subject) -> str | None:
    """It can be measured on every model and task."""
    return None


def needs(subject: Subject) -> list[str]:
    """The embedding, then the residual after attention (`resid_mid`) and after the MLP (`resid_post`), per layer."""
    layers = range(subject.n_layers)
    points = [f"blocks.{layer}.{point}" for layer in layers for point in ("hook_resid_mid", "hook_resid_post")]
    return ["blocks.0.hook_resid_pre", *points]


def measure(
    capture: Capture,
    *,
    alpha: float = 1.0,
    centre: bool = False,
    unit_rows: bool = False,
    normalise: Normaliser | None = None,
    points: Sequence[str] | None = None,
) -> Measurement:
    """Matrix entropy of every example at every residual point, before the final norm: dims `layer`, `example`.

    Over the real tokens of a sequence only; padding is left out. Settings are those of `matrix_entropy`; points are
    hook names of activations `[batch, pos, d]`, by default those of `needs`.
    """
    points = needs(capture.subject) if points is None else list(points)
    lengths = capture.subject.task.lengths(capture.batch.tokens)
    values = np.full((len(points), len(lengths)), np.nan)
    for i, point in enumerate(points):
        for length in lengths.unique().tolist():  # sequences of one length at a time stay batched
            rows = lengths == length
            whole = capture[point][:, :length]
            z = whole if bool(rows.all()) else whole[rows.to(whole.device)]
            entropy = matrix_entropy(z, alpha=alpha, centre=centre, unit_rows=unit_rows, normalise=normalise)
            values[i, rows.numpy()] = entropy.cpu().numpy()
    return Measurement(
        name="Matrix entropy",
        values=values,
        dims=("layer", "example"),
        coords={"layer": points, "example": range(len(lengths))},
        units="nats" if normalise is None else f"share of {normalise.replace('_', ' ')}",
        settings={
            "model": capture.subject.name,
            "alpha": alpha,
            "centre": centre,
            "unit_rows": unit_rows,
            "normalise": normalise,
        },
        caption="Entropy of the spectrum of Z Zᵀ over one sequence's tokens, before the final norm. It counts "
        "directions, not what they mean; a large mean or a longer sequence moves it too.",
    )
