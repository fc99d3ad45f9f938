"""Matrix entropy: over how many directions a sequence's representations spread, layer by layer (Seq-VCR, §3).

Shows: the effective number of directions (its logarithm) that the tokens of one sequence occupy. Low entropy in the
middle layers is the collapse that Seq-VCR works against. Does not show: what the directions mean, or whether later
layers use them; a direction shared by all tokens (a large mean) lowers the number a lot unless it is centred away, and
longer sequences have higher entropy. Compare only figures of the same hook point, α, centring and normaliser.
Control: an untrained model of the same shape on the same sequences.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.capture import Capture, Subject
from workbench.instruments.measurement import Measurement

Normaliser = Literal["log_t", "log_d", "log_min"]

ZERO = 1e-15  # eigenvalues below this share of the trace count as zero: they are rounding
LARGEST_POWER = 8  # integer α up to this one by matrix products; beyond, the spectrum is cheaper and cannot underflow


def matrix_entropy(
    z: Float[Tensor, "*batch pos d"],
    *,
    alpha: float = 1.0,
    centre: bool = False,
    unit_rows: bool = False,
    normalise: Normaliser | None = None,
) -> Float[Tensor, "*batch"]:
    """Rényi entropy of the spectrum of K = Z Zᵀ, in nats: S_α = 1/(1−α) log Σ_i (λ_i / tr K)^α (Seq-VCR, §3).

    Computed in float64 whatever the input, returned in the input's precision (at least float32); differentiable. The
    result does not change with the scale of z. A zero matrix, or what centring leaves of equal rows, has entropy 0.

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
    if not alpha > 0:
        raise ValueError(f"matrix entropy needs alpha > 0 (math.inf is allowed), not {alpha}")
    if normalise is not None and normalise not in get_args(Normaliser):
        raise ValueError(f"unknown normaliser {normalise!r}; there is: {', '.join(get_args(Normaliser))}, None")
    if z.ndim < 2:
        raise ValueError(f"matrix entropy needs [..., pos, d], not the shape {list(z.shape)}")
    if not z.is_floating_point() or 0 in z.shape[-2:]:
        raise ValueError(f"matrix entropy needs real numbers and at least one row, not {z.dtype} {list(z.shape)}")
    if not torch.isfinite(z).all():
        raise ValueError("matrix entropy needs finite representations; these hold NaN or infinity")
    n_pos, d = z.shape[-2:]
    rows = prepare(z.double(), centre, unit_rows)
    # Z Zᵀ and Zᵀ Z have the same eigenvalues but for zeros, so the smaller one will do.
    gram = rows @ rows.mT if n_pos <= d else rows.mT @ rows
    entropy = gram_entropy(gram, alpha)
    if normalise is not None:
        size = {"log_t": n_pos, "log_d": d, "log_min": min(n_pos, d)}[normalise]
        entropy = entropy / (math.log(size) if size > 1 else 1.0)  # one direction: entropy 0, not 0/0
    return entropy.to(torch.promote_types(z.dtype, torch.float32))


def prepare(z: Float[Tensor, "*batch pos d"], centre: bool, unit_rows: bool) -> Float[Tensor, "*batch pos d"]:
    """Rows centred, then scaled to length 1, as asked; of a size whose squares float64 can hold."""
    largest = z.detach().abs().amax(dim=(-2, -1), keepdim=True)
    z = z / torch.where(largest > 0, largest, 1.0)
    if centre:
        total = z.detach().square().sum(dim=(-2, -1), keepdim=True)
        z = z - z.mean(dim=-2, keepdim=True)
        rounding = z.detach().square().sum(dim=-1, keepdim=True) <= 1e-28 * total
        z = torch.where(rounding, 0.0, z)
    if unit_rows:
        squares = z.square().sum(dim=-1, keepdim=True)
        z = z / torch.where(squares > 0, squares, 1.0).sqrt()
    return z


def gram_entropy(gram: Float[Tensor, "*batch n n"], alpha: float) -> Float[Tensor, "*batch"]:
    """Rényi entropy of order α of a Gram matrix's spectrum."""
    trace = gram.diagonal(dim1=-2, dim2=-1).sum(-1)
    empty = trace == 0
    scale = torch.where(empty, 1.0, trace)[..., None]
    if alpha in range(2, LARGEST_POWER + 1):
        scaled, order = gram / scale[..., None], int(alpha)
        half = torch.linalg.matrix_power(scaled, order // 2)
        other = half @ scaled if order % 2 else half
        power_sum = (half * other).sum(dim=(-2, -1))  # tr K^α, both factors symmetric
        return torch.where(empty, 1.0, power_sum).log() / (1 - alpha)
    p = torch.linalg.eigvalsh(gram) / scale
    p = torch.where(p > ZERO, p, 0.0)
    point = torch.zeros_like(p)
    point[..., -1] = 1.0
    return spectrum_entropy(torch.where(empty[..., None], point, p), alpha)


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
) -> Measurement:
    """Matrix entropy of every example at every residual point, before the final norm: dims `layer`, `example`.

    Over the real tokens of a sequence only; padding is left out. Settings are those of `matrix_entropy`.
    """
    points = needs(capture.subject)
    lengths = capture.subject.task.lengths(capture.batch.tokens)
    values = np.full((len(points), len(lengths)), np.nan)
    for i, point in enumerate(points):
        for length in lengths.unique().tolist():  # sequences of one length at a time stay batched
            rows = lengths == length
            z = capture[point][rows.to(capture[point].device), :length]
            entropy = matrix_entropy(z.double(), alpha=alpha, centre=centre, unit_rows=unit_rows, normalise=normalise)
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
