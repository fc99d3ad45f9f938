"""The norms of a decoder. A new one is one entry in `NORMS`, and its name in the type of `DecoderConfig.norm`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True)
class Norm:
    """A norm of the residual.

    Attributes:
        make: makes the module for a width.
        learned: how many numbers it learns for each dim of the residual.
        lens_name: TransformerLens's name for it; None for what does nothing.
        centres: whether it takes the mean over the dims out, so that nobody sees what is written to it.
        eps: what is added to the variance, or to the mean square.
    """

    make: Callable[[int], nn.Module]
    learned: int
    lens_name: str | None
    centres: bool
    eps: float


NORMS: dict[str, Norm] = {
    "layernorm": Norm(nn.LayerNorm, 2, "LN", True, 1e-5),
    "rmsnorm": Norm(lambda width: nn.RMSNorm(width, eps=1e-6), 1, "RMS", False, 1e-6),  # as Llama's
    "none": Norm(lambda width: nn.Identity(), 0, None, False, 0.0),
}
