"""What a model does to its logits behind the unembedding: nothing, a scale (Cohere, Granite), a soft cap (Gemma 2).

It cannot be known from the names of hook points, so it is found out by running the model on a few tokens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import linear

if TYPE_CHECKING:
    from workbench.models.hooked import AnyHooked

LOGITS = "unembed.hook_out"
FAR, NEAR = 1e4, 1e-3  # logits at which a cap is reached, and at which none is felt


@dataclass(frozen=True)
class LogitTransform:
    """What a model does to what its unembedding gives out: x ↦ c tanh(s x / c), and s x without a cap.

    Attributes:
        scale: s (Cohere's `logit_scale`, one over Granite's `logits_scaling`).
        cap: c (Gemma 2's `final_logit_softcapping`); infinite where there is none.
    """

    scale: float = 1.0
    cap: float = math.inf

    def __call__(self, unembedded: Float[Tensor, "*batch token"]) -> Float[Tensor, "*batch token"]:
        scaled = unembedded if self.scale == 1 else unembedded * self.scale
        return scaled if math.isinf(self.cap) else self.cap * torch.tanh(scaled / self.cap)


@torch.no_grad()
def logit_transform(model: AnyHooked, tokens: Int[Tensor, "batch pos"]) -> LogitTransform | None:
    """What the model does to its logits, found by giving it some at `unembed.hook_out`; None if it is no such map."""
    given: list[Tensor] = []

    def put(unembedded: Tensor, hook: Any) -> Tensor:
        chosen = torch.linspace(-50, 50, unembedded.numel())
        chosen[:2] = torch.tensor([FAR, NEAR])
        given.append(chosen.reshape(unembedded.shape).to(unembedded))
        return given[0].clone()

    with model.hooks(fwd_hooks=[(LOGITS, put)]):
        logits = model(tokens).double()
    unembedded = given[0].double()
    far, near = (logits.flatten()[:2] / unembedded.flatten()[:2]).tolist()
    rounding = torch.finfo(given[0].dtype).eps * 4
    scale = 1.0 if math.isclose(near, 1, rel_tol=rounding) else near
    found = LogitTransform(scale, math.inf if math.isclose(far, near, rel_tol=rounding) else far * FAR)
    return found if _same(found(unembedded), logits, given[0].dtype) else None


@torch.no_grad()
def why_not_decoded(
    model: AnyHooked,
    tokens: Int[Tensor, "batch pos"],
    final_norm: nn.Module,
    unembedding: nn.Linear,
    transform: LogitTransform,
) -> str | None:
    """Why a residual cannot be read as the model reads its last one; None where that gives the model's own logits.

    Args:
        model: the hooked model.
        tokens: a few tokens.
        final_norm, unembedding, transform: what is said to make its logits.
    """
    seen: list[Tensor] = []
    with model.hooks(fwd_hooks=[(f"blocks.{model.cfg.n_layers - 1}.hook_resid_post", lambda x, hook: seen.append(x))]):
        logits = model(tokens)
    decoded = transform(linear(final_norm(seen[0]), unembedding.weight, getattr(unembedding, "bias", None)))
    if _same(decoded, logits, logits.dtype):
        return None
    if not logits.isfinite().all():
        return "some of its logits are infinite, whatever it reads, so no residual can be read as it reads the last one"
    apart = float((decoded - logits).abs().max() / logits.abs().max())
    return (
        "its logits are not what its final norm and unembedding make of the last residual (off by "
        f"{apart:.2g} of the largest), so no residual can be read as it reads that one"
    )


def _same(one: Tensor, other: Tensor, dtype: torch.dtype) -> bool:
    """Whether two sets of logits differ by no more than rounding in this dtype."""
    apart = (one - other).abs().max()
    return bool(apart.isfinite() and apart <= other.abs().max() * torch.finfo(dtype).eps ** 0.5)
