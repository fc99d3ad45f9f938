"""Seq-VCR: a variance-covariance loss that keeps a sequence's representations from collapsing (Seq-VCR, §3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor, nn

from workbench.models import DecoderConfig
from workbench.objectives import base
from workbench.tasks import Batch

Over = Literal["batch", "batch+length"]


def seq_vcr(
    x: Float[Tensor, "batch pos feature"],
    *,
    variance_weight: float,
    covariance_weight: float,
    eta: float = 1e-3,
    over: Over = "batch",
    mask: Bool[Tensor, "batch pos"] | None = None,
) -> Float[Tensor, ""]:
    """1/(T d) Σ_t Σ_k [λ1 max(0, 1 − sqrt(C_tkk + η)) + λ2 Σ_{j≠k} C_tkj²], with C_t the covariance over sequences.

    Exact at the cost of the smaller Gram matrix: Σ_jk C_jk² = ‖X_c X_cᵀ‖² / (N−1)² with N sequences and d features,
    so neither form ever holds more than min(N, d)² numbers a position. Computed in float32 or better; in the N×N form,
    which takes the variances off a total, in float64.

    Args:
        x: representations.
        variance_weight: λ1.
        covariance_weight: λ2.
        eta: η, inside the square root.
        over: `"batch"` has a covariance per position, over the sequences; `"batch+length"` has one over all vectors.
        mask: true where a vector counts; padding and constant tokens have no variance and should not. Positions with
            fewer than two vectors are left out of the mean over positions.

    Raises:
        ValueError: if there are not two vectors to take a covariance of, the shapes do not fit, η is not positive, or
            `over` is unknown.
    """
    if x.ndim != 3 or (mask is not None and mask.shape != x.shape[:2]):
        given = "" if mask is None else f" with a mask {list(mask.shape)}"
        raise ValueError(f"seq_vcr takes [batch, pos, feature] and a mask [batch, pos], not {list(x.shape)}{given}")
    if not eta > 0:
        raise ValueError(f"seq_vcr needs eta > 0 inside its square root, not {eta}")
    if over not in get_args(Over):
        raise ValueError(f"seq_vcr is over {' or '.join(map(repr, get_args(Over)))}, not {over!r}")
    with torch.autocast(x.device.type, enabled=False):
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        kept = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if mask is None else mask
        if over == "batch+length":
            x, kept = x.reshape(-1, 1, x.shape[-1]), kept.reshape(-1, 1)
        enough = kept.sum(0) >= 2
        if not bool(enough.any()):
            masked = "" if mask is None else " with this mask"
            raise ValueError(f"seq_vcr needs at least 2 vectors at some position; {list(x.shape)}{masked} has not")
        centred, n = _centre(x[:, enough].transpose(0, 1), kept[:, enough].T)
        variance = centred.square().sum(1) / (n - 1)
        hinge = (1 - (variance + eta).sqrt()).clamp(min=0)
        covariance = _off_diagonal(centred) / (n.squeeze(-1) - 1) ** 2
        return (variance_weight * hinge.sum(-1) + covariance_weight * covariance).mean() / x.shape[-1]


def _centre(
    x: Float[Tensor, "pos n feature"], kept: Bool[Tensor, "pos n"]
) -> tuple[Float[Tensor, "pos n feature"], Float[Tensor, "pos 1"]]:
    """Vectors less the mean of those that are kept, zero where they are not; and how many are kept."""
    weight = kept.unsqueeze(-1).to(x.dtype)
    n = weight.sum(1)
    mean = (x * weight).sum(1) / n
    return (x - mean.unsqueeze(1)) * weight, n


def _off_diagonal(x: Float[Tensor, "pos n feature"]) -> Float[Tensor, " pos"]:
    """Σ_{j≠k} (XᵀX)_jk², through whichever of XᵀX and XXᵀ is smaller."""
    if x.shape[1] >= x.shape[2]:
        gram = x.transpose(1, 2) @ x
        return (gram - torch.diag_embed(gram.diagonal(dim1=1, dim2=2))).square().sum((1, 2))
    # Here the diagonal can only be taken off the total, ‖XXᵀ‖² = ‖XᵀX‖², and one large feature would drown the rest.
    wide = x.double()
    total = (wide @ wide.transpose(1, 2)).square().sum((1, 2))
    return (total - wide.square().sum(1).square().sum(-1)).to(x.dtype)


def covariance_floor(n: int, d: int, covariance_weight: float) -> float:
    """The least covariance term at unit variance: λ2 (d/(N−1) − 1) where N−1 < d, else 0.

    Fewer vectors than features cannot be uncorrelated: their covariance has rank N−1 and trace d.
    """
    return covariance_weight * max(d / (n - 1) - 1, 0.0) if n > 1 else 0.0


class SeqVCR(base.Objective):
    """`seq_vcr` of the logits, or of a layer's residual, through a learned linear projection if one is asked for."""

    name = "seq_vcr"

    class Settings(base.Settings):
        """Settings of `seq_vcr`; the defaults are the paper's for multiplication."""

        variance_weight: float = Field(1.0, ge=0, description="λ1")
        covariance_weight: float = Field(0.004, ge=0, description="λ2")
        eta: float = Field(1e-3, gt=0, description="η, inside the square root")
        layer: int | None = Field(None, description="whose resid_post (−1 is the last); by default the logits")
        projection: int | None = Field(
            None, ge=1, description="width of a learned projection; by default there is none"
        )
        over: Over = Field("batch", description="a covariance per position, or one over batch and length")
        scored_only: bool = Field(False, description="leave out the positions that the loss mask leaves out")

    def __init__(self, config: DecoderConfig, **settings: Any) -> None:
        super().__init__(config, **settings)
        layer = self.settings.layer
        if layer is not None and not -config.n_layers <= layer < config.n_layers:
            raise ValueError(f"seq_vcr has layer={layer}, but the model has layers 0..{config.n_layers - 1}")
        self.needs = () if layer is None else (f"blocks.{layer % config.n_layers}.hook_resid_post",)
        width = config.d_vocab if layer is None else config.d_model
        projection = self.settings.projection
        self.least_batch = 2 if self.settings.over == "batch" else 1
        self.project = nn.Identity() if projection is None else nn.Linear(width, projection)

    def forward(
        self, logits: Tensor, kept: Mapping[str, Tensor], batch: Batch
    ) -> tuple[Tensor, dict[str, float | Tensor]]:
        s = self.settings
        x = self.project(kept[self.needs[0]] if self.needs else logits)
        loss = seq_vcr(
            x,
            variance_weight=s.variance_weight,
            covariance_weight=s.covariance_weight,
            eta=s.eta,
            over=s.over,
            mask=batch.loss_mask if s.scored_only else None,
        )
        n = len(batch) if s.over == "batch" else batch.tokens.numel()
        return loss, {"seq_vcr": loss.detach(), "seq_vcr_floor": covariance_floor(n, x.shape[-1], s.covariance_weight)}
