"""The local learning coefficient by stochastic gradient Langevin dynamics, with its spread and when not to trust it.

λ̂ = nβ (E[L_n(w)] − L_n(w*)), the mean over draws from exp(−nβ L_n(w) − γ/2 ‖w − w*‖²) near a minimum w* (Lau et al.,
2023, arXiv 2308.12108, Eq. 8), with nβ = n / log n. It is half the number of parameters at a regular minimum, less at a
degenerate one. Several chains are drawn; an estimate is refused where they disagree, leave the minimum, or find lower
loss than it has: then w* is no minimum, or the step is too large.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.util.seeds import generator

LARGEST_SPREAD = 0.3  # of the chains' means over their mean
LOWER = 0.05  # of the draws' mean excess loss by which a draw may lie below the minimum


@dataclass(frozen=True)
class LearningCoefficient:
    """An estimate with what speaks against it.

    Attributes:
        value: λ̂, the mean over chains.
        spread: the standard deviation of the chains' means.
        chains: λ̂ of each chain.
        refused: why it is not to be trusted, each in one line; empty where nothing was found.
        settings: what it was drawn with.
    """

    value: float
    spread: float
    chains: tuple[float, ...]
    refused: tuple[str, ...]
    settings: dict[str, float]

    @property
    def trusted(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.refused


def learning_coefficient(
    loss: Callable[[Float[Tensor, " parameter"]], Float[Tensor, ""]],
    minimum: Float[Tensor, " parameter"],
    *,
    n: int,
    step_size: float = 1e-4,
    localisation: float = 1.0,
    chains: int = 4,
    draws: int = 2000,
    burn_in: int = 500,
    seed: int = 0,
) -> LearningCoefficient:
    """Estimate the local learning coefficient of a loss at a minimum.

    Args:
        loss: of the parameters as one vector; a mean over n examples, or over a random part of them.
        minimum: w*.
        n: examples that the loss is a mean of.
        step_size: ε of the dynamics.
        localisation: γ, how strongly draws are held near w*.
        chains, draws, burn_in: chains, and steps of each that are averaged and that go before.
        seed: of the noise.

    Raises:
        ValueError: if there are fewer than two chains or examples, or no draws, or a step is not positive.
    """
    _check(n, chains, draws, step_size, localisation)
    strength, start = n / math.log(n), minimum.detach()
    lowest = float(loss(start))
    one = partial(_chain, loss, start, strength, step_size, localisation, draws, burn_in)
    excess = torch.stack([one(generator(seed, "llc", chain)) for chain in range(chains)]) - lowest
    means = strength * excess.mean(1)
    value, spread = float(means.mean()), float(means.std())
    settings = {"n": n, "step_size": step_size, "localisation": localisation, "draws": draws, "burn_in": burn_in}
    return LearningCoefficient(value, spread, tuple(means.tolist()), tuple(_doubts(excess, value, spread)), settings)


def _check(n: int, chains: int, draws: int, step_size: float, localisation: float) -> None:
    """Raise ValueError for settings that draw nothing."""
    if chains < 2 or n < 2 or draws < 1:
        raise ValueError(f"it takes 2 chains, 2 examples and a draw or more, not {chains}, {n} and {draws}")
    if not (step_size > 0 and localisation >= 0):
        raise ValueError(f"step_size is above 0 and localisation not below, not {step_size} and {localisation}")


def _chain(
    loss: Callable[[Tensor], Tensor],
    start: Tensor,
    strength: float,
    step_size: float,
    localisation: float,
    draws: int,
    burn_in: int,
    noise: torch.Generator,
) -> Float[Tensor, " draw"]:
    """The loss at every draw of one chain: w ← w − ε/2 (nβ ∇L + γ (w − w*)) + N(0, ε)."""
    w, losses = start.clone(), []
    for step in range(burn_in + draws):
        w = w.detach().requires_grad_()
        here = loss(w)
        (slope,) = torch.autograd.grad(here, w)
        if step >= burn_in:
            losses.append(here.detach().double())
        with torch.no_grad():
            drift = strength * slope + localisation * (w - start)
            w = w - step_size / 2 * drift + step_size**0.5 * torch.randn(w.shape, generator=noise, dtype=w.dtype)
    return torch.stack(losses)


def _doubts(excess: Float[Tensor, "chain draw"], value: float, spread: float) -> list[str]:
    """What speaks against an estimate, each in one line."""
    if not bool(torch.isfinite(excess).all()):
        return ["a chain left for infinity: take a smaller step_size or a larger localisation"]
    doubts = []
    mean = float(excess.mean())
    if value <= 0 or float((excess < -LOWER * abs(mean)).double().mean()) > 0.01:
        doubts.append("draws have lower loss than the minimum given: it is none, so train on before measuring")
    if spread > LARGEST_SPREAD * abs(value):
        doubts.append(f"chains disagree ({spread:.2g} beside {value:.2g}): take more draws")
    first, second = (half.mean() for half in excess.chunk(2, dim=1))
    if abs(float(second - first)) > LARGEST_SPREAD * abs(mean):
        doubts.append("the loss still drifts from the first half of the draws to the second: take a longer burn_in")
    return doubts
