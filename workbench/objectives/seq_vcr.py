"""Seq-VCR: a variance-covariance loss that keeps a sequence's representations from collapsing (Seq-VCR, §3.4).

The value is exact and costs no more than the smaller Gram matrix, since Σ_jk C_jk² = ‖X_c X_cᵀ‖² / (N−1)² for N
sequences: beside x and its gradient, at most 4 min(N, d)² numbers per position are in memory. The N×N form, which is
taken where d > 2N, subtracts the variances from a total, and so uses float64.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, Literal, NamedTuple, get_args

import torch
from jaxtyping import Bool, Float
from pydantic import Field, model_validator
from torch import Tensor, nn

from workbench.models import DecoderConfig
from workbench.objectives.base import Objective, across_processes
from workbench.tasks import Batch
from workbench.tasks.batch import before_padding
from workbench.util.lookup import lookup
from workbench.util.vmap import differentiable, transformed, under_vmap

Over = Literal["batch", "batch+length"]
Positions = Literal["all", "real", "scored"]
LOGITS = "logits"


def seq_vcr(
    x: Float[Tensor, "batch pos feature"],
    *,
    variance_weight: float,
    covariance_weight: float,
    eta: float = 1e-3,
    over: Over = "batch",
    mask: Bool[Tensor, "batch pos"] | None = None,
) -> Float[Tensor, ""]:
    """The Seq-VCR penalty on T positions of d features, with C_t the covariance over sequences at position t.

    It is 1/(T d) Σ_t Σ_k [λ1 max(0, 1 − sqrt(C_tkk + η)) + λ2 Σ_{j≠k} C_tkj²].

    It is computed in float32 or better, outside autocast. First derivatives work, also under `torch.func.grad` and
    `vmap`; second derivatives raise an error.

    Args:
        x: representations.
        variance_weight, covariance_weight: λ1, and λ2.
        eta: η, inside the square root.
        over: `"batch"`: a covariance for each position, over the sequences; `"batch+length"`: one over all vectors.
        mask: true where a vector counts; padding should not. Positions with fewer than two vectors are left out of the
            mean over positions.

    Raises:
        ValueError: if there are not two vectors to take a covariance of (elsewhere than on the CPU, where asking would
            make the caller wait for the device, the loss is then NaN), the shapes do not fit, η is not positive, or
            `over` is unknown.
    """
    _check_arguments(x, eta, over, mask)
    autocast = torch.is_autocast_enabled(x.device.type)  # leaving it costs time
    with torch.autocast(x.device.type, enabled=False) if autocast else nullcontext():
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        if over == "batch+length":
            x, mask = x.reshape(-1, 1, x.shape[-1]), None if mask is None else mask.reshape(-1, 1)
        enough = None if mask is None else mask.sum(0) >= 2
        _check_enough(x, enough)
        given = x.transpose(0, 1), None if mask is None else mask.T, (variance_weight, covariance_weight, eta)
        terms = _TransformedTerms.apply(*given)[0] if transformed() else _Terms.apply(*given)
        return terms.mean() if enough is None else (terms * enough).sum() / enough.sum()


def _check_arguments(x: Tensor, eta: float, over: str, mask: Tensor | None) -> None:
    """Raise ValueError, naming what was given, if the shapes do not fit or a setting is out of range."""
    if x.ndim != 3 or (mask is not None and mask.shape != x.shape[:2]):
        given = "" if mask is None else f" with a mask {list(mask.shape)}"
        raise ValueError(f"seq_vcr takes [batch, pos, feature] and a mask [batch, pos], not {list(x.shape)}{given}")
    if not eta > 0:
        raise ValueError(f"seq_vcr needs eta > 0 inside its square root, not {eta}")
    if over not in get_args(Over):
        raise ValueError(f"seq_vcr is over {' or '.join(map(repr, get_args(Over)))}, not {over!r}")


def _check_enough(x: Float[Tensor, "batch pos feature"], enough: Bool[Tensor, " pos"] | None) -> None:
    """Raise ValueError if no position has two vectors; on a device, or under vmap, it is not asked."""
    unseen = enough is not None and (enough.device.type != "cpu" or under_vmap(enough))
    if not (len(x) >= 2 if enough is None else unseen or bool(enough.any())):
        raise ValueError(f"seq_vcr needs at least 2 vectors, masked ones aside, at some position: {list(x.shape)}")


class _Parts(NamedTuple):
    """What the value is made of, and its gradient again.

    Attributes:
        gram: `[pos, feature, feature]`, the centred vectors' XᵀX without its diagonal, or `[pos, n, n]`, their XXᵀ.
        diagonal: `[pos, feature]`, the diagonal of their XᵀX.
        mean: `[pos, feature]`, what is still to be subtracted from x to centre it.
    """

    gram: Tensor
    diagonal: Tensor
    mean: Tensor


def _terms(
    x: Tensor, kept: Tensor | None, weights: tuple[float, float, float]
) -> tuple[Float[Tensor, " pos"], Tensor, Tensor, Tensor]:
    """The term of each position, and its `_Parts`; from x `[pos, n, feature]`, a mask `[pos, n]` or None, λ1, λ2, η."""
    variance_weight, covariance_weight, eta = weights
    less_one = _less_one(x, kept)
    # XᵀX in x's type, where it costs no more than XXᵀ, which has to be in float64.
    squares, parts = _tall(x, kept) if x.shape[2] <= 2 * x.shape[1] else _wide(x, kept)
    hinge = (1 - (parts.diagonal / less_one[:, None] + eta).sqrt()).clamp(min=0).sum(-1)
    covariance = squares / less_one**2
    return ((variance_weight * hinge + covariance_weight * covariance) / x.shape[-1]).to(x.dtype), *parts


def _gradient(grad: Tensor, x: Tensor, kept: Tensor | None, terms: Tensor, *given: Any) -> tuple[Tensor]:
    """The gradient for the centred vectors, written out by hand and computed part by part, as the value is.

    Autograd would keep every part. It already sums to zero, so that centring has no further derivative.
    """
    *of_value, (variance_weight, covariance_weight, eta) = given
    parts = _Parts(*of_value)
    less_one = _less_one(x, kept)[:, None]
    scale = grad[:, None] / x.shape[-1]
    push = scale * 4 * covariance_weight / less_one**2
    deviation = (parts.diagonal / less_one + eta).sqrt()
    pull = torch.where(deviation < 1, scale * variance_weight / (deviation * less_one), 0.0)
    result = torch.empty_like(x)
    if parts.gram.shape[2] == x.shape[2]:  # it is XᵀX; XXᵀ is smaller
        for some in _slices(len(x), x[0].numel(), TALL):
            centred = _kept(x[some] - parts.mean[some, None], None if kept is None else kept[some])
            coupled = (centred @ parts.gram[some]).mul_(push[some, :, None])
            result[some] = coupled.addcmul_(centred, pull[some, None], value=-1)
        return (result,)
    # XXᵀ is of centred vectors, so that it takes no notice of the mean; what is taken off for each feature does.
    coupling, off = parts.gram * push[..., None], (push * parts.diagonal + pull)[:, None]
    of_mean = off * parts.mean[:, None]
    for columns in _slices(x.shape[2], x[..., 0].numel(), WIDE):
        vectors, back = _kept(x[..., columns], kept).double(), of_mean[..., columns]
        back = back.expand_as(vectors) if kept is None else back * kept[..., None]
        result[..., columns] = torch.baddbmm(back, coupling, vectors).addcmul_(vectors, off[..., columns], value=-1)
    return (result,)


_Terms, _TransformedTerms = differentiable(_terms, _gradient, "seq_vcr has no second derivative")


def _tall(x: Tensor, kept: Tensor | None) -> tuple[Tensor, _Parts]:
    """Σ_{j≠k} (XᵀX)_jk² of the centred vectors, and the parts, of which the Gram matrix is XᵀX; some positions at a
    time.
    """
    pieces_of = []
    for some in _slices(len(x), x[0].numel(), TALL):
        mask = None if kept is None else kept[some]
        mean = _mean(x[some], mask)
        centred = _kept(x[some] - mean[:, None], mask)
        gram = centred.mT @ centred
        diagonal = gram.diagonal(dim1=1, dim2=2).clone()
        gram.diagonal(dim1=1, dim2=2).zero_()
        pieces_of.append((gram.square().sum((1, 2)), gram, diagonal, mean))
    squares, *parts = (torch.cat(pieces) for pieces in zip(*pieces_of, strict=True))
    return squares, _Parts(*parts)


def _wide(x: Tensor, kept: Tensor | None) -> tuple[Tensor, _Parts]:
    """The same, where the Gram matrix is XXᵀ; some features at a time, in float64.

    Here the diagonal has to be subtracted from the total, ‖XXᵀ‖² = ‖XᵀX‖². In float32 one large feature would leave
    nothing but rounding of the rest. Both are centred afterwards, for which float64 has room if x is in float32.
    """
    before: Tensor | float = 0.0
    if x.dtype == torch.float64:
        before = _mean(x, kept)
        x = _kept(x - before[:, None], kept)
    gram = x.new_zeros(len(x), x.shape[1], x.shape[1], dtype=torch.float64)
    total, square = (gram.new_empty(len(x), x.shape[2]) for _ in range(2))
    for columns in _slices(x.shape[2], x[..., 0].numel(), WIDE):
        vectors = _kept(x[..., columns], kept).double()
        gram.baddbmm_(vectors, vectors.mT)
        torch.sum(vectors, 1, out=total[:, columns])
        torch.sum(vectors.square_(), 1, out=square[:, columns])
    ones = gram.new_ones(gram.shape[:2]) if kept is None else kept.to(gram.dtype)
    n = ones.sum(1, keepdim=True).clamp(min=1)
    rows = (gram @ ones[..., None])[..., 0] / n
    rows -= ones * (rows * ones).sum(1, keepdim=True) / (2 * n)
    gram -= rows[:, :, None] * ones[:, None] + ones[:, :, None] * rows[:, None]
    mean = total / n
    diagonal = (square - total * mean).clamp(min=0)
    return gram.square().sum((1, 2)) - diagonal.square().sum(-1), _Parts(gram, diagonal, mean + before)


TALL, WIDE = 1 << 18, 1 << 16  # entries of x that are processed at a time: those in float64 shall stay in the cache


def _slices(n: int, numbers_each: int, held: int) -> list[slice]:
    """Slices of n positions or features that have about `held` entries each, so that memory does not grow with x."""
    step = max(1, held // max(1, numbers_each))
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def _kept(x: Float[Tensor, "pos n feature"], kept: Bool[Tensor, "pos n"] | None) -> Float[Tensor, "pos n feature"]:
    """The vectors, zero where they do not count."""
    return x if kept is None else x.masked_fill(~kept.unsqueeze(-1), 0.0)


def _mean(x: Float[Tensor, "pos n feature"], kept: Bool[Tensor, "pos n"] | None) -> Float[Tensor, "pos feature"]:
    """The mean of the vectors that count."""
    return x.mean(1) if kept is None else _kept(x, kept).sum(1) / kept.sum(1).clamp(min=1)[:, None]


def _less_one(x: Float[Tensor, "pos n feature"], kept: Bool[Tensor, "pos n"] | None) -> Float[Tensor, " pos"]:
    """N − 1 for each position, at least 1."""
    n = x.new_full((len(x),), x.shape[1]) if kept is None else kept.sum(1).to(x.dtype)
    return (n - 1).clamp(min=1)


def covariance_floor(n: int | Tensor, d: int, covariance_weight: float) -> float | Tensor:
    """The smallest covariance term possible at unit variance: λ2 (d/(N−1) − 1) where N−1 < d, else 0.

    The features of fewer vectors than features cannot be uncorrelated: their covariance has rank N−1 and trace d.

    Args:
        n: the number of vectors; or a tensor with one number for each position, and then the result is the mean over
            the positions that have at least two.
        d: the number of features.
        covariance_weight: λ2.
    """
    if isinstance(n, Tensor):
        enough = n >= 2
        floors = covariance_weight * (d / (n - 1).clamp(min=1) - 1).clamp(min=0)
        return (floors * enough).sum() / enough.sum()
    return covariance_weight * max(d / (n - 1) - 1, 0.0) if n > 1 else 0.0


class SeqVCR(Objective):
    """`seq_vcr` of the logits or of a residual, after a learned linear projection if `projection` is set.

    If several processes train together, it is computed over the sequences of all of them, and does not depend on how
    many share a batch. It is logged beside `seq_vcr_floor`, below which its covariance term cannot fall.
    """

    name = "seq_vcr"

    class Settings(Objective.Settings):
        """Settings of `seq_vcr`.

        The paper acts on the logits, or, where the vocabulary is large, on a projection to 2048 of the last residual
        (§3.4). It gives neither the λ nor η. The defaults of the λ are those of a later version of it, for
        multiplication; for arithmetic and LIS it has 0.1 and 0.5.
        """

        variance_weight: float = Field(1.0, ge=0, description="λ1")
        covariance_weight: float = Field(0.004, ge=0, description="λ2")
        eta: float = Field(1e-3, gt=0, description="η, inside the square root")
        at: str = Field(
            LOGITS,
            description="where it acts: logits, blocks.LAYER.hook_resid_pre, _mid or _post, or ln_final.hook_out",
        )
        layer: int | None = Field(None, description="in place of `at`: the layer whose resid_post, −1 for the last")
        projection: int | None = Field(
            None, ge=1, le=2**20, description="width of a learned projection; by default there is none"
        )
        over: Over = Field("batch", description="a covariance per position, or one over batch and length")
        positions: Positions = Field(
            "real", description="which vectors count: all, those of real tokens (no padding), or those the loss scores"
        )

        @model_validator(mode="before")
        @classmethod
        def _flag_became_positions(cls, data: Any) -> Any:
            """Take `scored_only`, as `positions` was called when there were two kinds of them."""
            if not isinstance(data, Mapping) or "scored_only" not in data:
                return data
            rest = {name: value for name, value in data.items() if name != "scored_only"}
            if not isinstance(data["scored_only"], bool) or "positions" in rest:
                raise ValueError(
                    f"scored_only={data['scored_only']!r} is the old form of positions; give positions alone, "
                    f"one of: {', '.join(get_args(Positions))}"
                )
            return {**rest, "positions": "scored" if data["scored_only"] else "all"}

        @classmethod
        def of_old_config(cls, settings: dict[str, Any]) -> dict[str, Any]:
            """Until there was `positions`, padding counted unless `scored_only` was set."""
            return settings if "positions" in settings else {"scored_only": False, **settings}

    def __init__(self, config: DecoderConfig, **settings: Any) -> None:
        super().__init__(config, **settings)
        at = self._place(config)
        self.needs = () if at == LOGITS else (at,)
        width = config.d_vocab if at == LOGITS else config.d_model
        projection = self.settings.projection
        self.least_batch = 2 if self.settings.over == "batch" else 1
        self.project = nn.Identity() if projection is None else nn.Linear(width, projection)

    def _place(self, config: DecoderConfig) -> str:
        """The name of the activation that it acts on. Raises ValueError if the model has none of this name."""
        at, layer = self.settings.at, self.settings.layer
        if layer is None:
            return lookup({name: name for name in (LOGITS, *config.activation_names)}, at, "place for seq_vcr")
        if at != LOGITS:
            raise ValueError(f"seq_vcr acts at one place, not at={at!r} and layer={layer}; leave out one of them")
        if not -config.n_layers <= layer < config.n_layers:
            raise ValueError(f"seq_vcr has layer={layer}, but the model has layers 0..{config.n_layers - 1}")
        return f"blocks.{layer % config.n_layers}.hook_resid_post"

    def forward(
        self, logits: Tensor, kept: Mapping[str, Tensor], batch: Batch
    ) -> tuple[Tensor, dict[str, float | Tensor]]:
        s = self.settings
        x = across_processes(self.project(kept[self.needs[0]] if self.needs else logits))
        mask = self._mask(batch)
        loss = seq_vcr(
            x,
            variance_weight=s.variance_weight,
            covariance_weight=s.covariance_weight,
            eta=s.eta,
            over=s.over,
            mask=mask,
        )
        counts = torch.full(x.shape[1:2], len(x), device=x.device) if mask is None else mask.sum(0)
        n = counts if s.over == "batch" else counts.sum(0, keepdim=True)
        return loss, {"seq_vcr": loss.detach(), "seq_vcr_floor": covariance_floor(n, x.shape[-1], s.covariance_weight)}

    def _mask(self, batch: Batch) -> Bool[Tensor, "batch pos"] | None:
        """True where a vector counts, for the sequences of all processes; None if all of them count.

        Of constant tokens, such as delimiters and pauses, the vectors count too: they are constant only before the
        first attention, and what a pause token holds is what the paper wants to spread.
        """
        if self.settings.positions == "scored":
            return across_processes(batch.loss_mask)
        if self.settings.positions == "all" or self.pad < 0:
            return None
        return across_processes(before_padding(batch.tokens, self.pad))
