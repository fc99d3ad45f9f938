"""How a check says what is broken."""

from __future__ import annotations

import torch
from torch import Tensor


class ContractError(AssertionError):
    """A part does not keep its contract; the message says what was found and what was expected."""


class NotTested(Exception):  # noqa: N818 (nothing is wrong)
    """A check does not apply to a part, or cannot be made here; the message says why."""


def require(condition: object, words: str) -> None:
    """Raise `ContractError` with these words unless the condition is true."""
    if not condition:
        raise ContractError(words)


def require_close(found: Tensor, expected: Tensor, words: str, tolerance: float, relative: float = 0.0) -> None:
    """Raise `ContractError` unless two tensors agree: up to `tolerance`, and `relative` times what is expected."""
    if found.shape != expected.shape:
        raise ContractError(f"{words}: their shapes are {list(found.shape)} and {list(expected.shape)}")
    if not found.numel() or torch.allclose(found, expected, rtol=relative, atol=tolerance, equal_nan=False):
        return
    apart = (found - expected).abs().max().item()
    raise ContractError(f"{words}: they differ by up to {apart:.3g}, where {tolerance:g} is rounding")
