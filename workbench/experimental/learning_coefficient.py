"""The local learning coefficient by stochastic gradient Langevin dynamics, with its spread and when not to trust it.

λ̂ = nβ (E[L_n(w)] − L_n(w*)), the mean over draws from exp(−nβ L_n(w) − γ/2 ‖w − w*‖²) near a minimum w* (Lau et al.,
2023, arXiv 2308.12108, Eq. 8), with nβ = n / log n. It is half the number of parameters at a regular minimum, less at a
degenerate one. Several chains are drawn, and all of it is drawn again with another step and another localisation; an
estimate is refused where they disagree, leave the minimum, or find lower loss than it has
(`learning_coefficient_judged`). Does not show: directions so flat that no chain has moved along them.

Promoted into `inspection` when a study or page reads it of a trained model, with settings under which it is trusted
there; removed when none has asked for it by the next release.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.experimental.learning_coefficient_judged import FACTOR, Drawn, LearningCoefficient, judge
from workbench.util.seeds import generator

LOCALISED = 1.0  # the localisation with which an estimate without any is repeated


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

    It takes 3 · chains · (burn_in + draws) gradients, 30,000 by default, of all chains at once: 2 to 3 seconds of one
    core for a small loss.

    Args:
        loss: of the parameters as one vector; a mean over n examples, or over a random part of them.
        minimum, n: w*, and the examples that the loss is a mean of.
        step_size, localisation: ε of the dynamics, and γ, how strongly draws are held near w*.
        chains, draws, burn_in: chains, and steps of each that are averaged and that go before.
        seed: of the noise.

    Raises:
        ValueError: if there are fewer than two chains or examples, or no draws, or a step is not positive.
    """
    _check(n, chains, draws, step_size, localisation)
    strength, start = n / math.log(n), minimum.detach()
    settings = [(step_size, localisation), (FACTOR * step_size, localisation)]
    settings.append((step_size, FACTOR * localisation or LOCALISED))
    noises = [generator(seed, "llc", chain) for chain in range(chains)]
    losses = _draw(loss, start, strength, settings, noises, (burn_in, draws))
    excess = losses - float(loss(start))
    means = strength * excess.mean(-1)
    own, *others = (Drawn.of(*one, value) for one, value in zip(settings, means.mean(1).tolist(), strict=True))
    return judge(excess[0].numpy(), means[0].numpy(), own, others, n=n, draws=draws, burn_in=burn_in)


def _check(n: int, chains: int, draws: int, step_size: float, localisation: float) -> None:
    """Raise ValueError for settings that draw nothing."""
    if chains < 2 or n < 2 or draws < 1:
        raise ValueError(f"it takes 2 chains, 2 examples and a draw or more, not {chains}, {n} and {draws}")
    if not (step_size > 0 and localisation >= 0):
        raise ValueError(f"step_size is above 0 and localisation not below, not {step_size} and {localisation}")


def _draw(
    loss: Callable[[Tensor], Tensor],
    start: Float[Tensor, " parameter"],
    strength: float,
    settings: Sequence[tuple[float, float]],
    noises: Sequence[torch.Generator],
    lengths: tuple[int, int],
) -> Float[Tensor, "setting chain draw"]:
    """The loss at every draw: w ← w − ε/2 (nβ ∇L + γ (w − w*)) + N(0, ε), with the same noise for every setting.

    Args:
        loss, start, strength: the loss, w* and nβ.
        settings: each ε with its γ.
        noises: of each chain.
        lengths: steps that go before, and that are drawn.
    """
    n_settings, n_chains, (burn_in, draws) = len(settings), len(noises), lengths
    each = _each(loss, start)
    step, held = (
        torch.tensor(one, dtype=start.dtype).repeat_interleave(n_chains)[:, None] for one in zip(*settings, strict=True)
    )
    w = start.repeat(n_settings * n_chains, 1)
    losses = torch.empty(n_settings * n_chains, draws, dtype=torch.float64)
    for number in range(burn_in + draws):
        w = w.detach().requires_grad_()
        here = each(w)
        (slope,) = torch.autograd.grad(here.sum(), w)
        if number >= burn_in:
            losses[:, number - burn_in] = here.detach()
        with torch.no_grad():
            noise = torch.stack([torch.randn(start.shape, generator=noise, dtype=start.dtype) for noise in noises])
            w = w - step / 2 * (strength * slope + held * (w - start)) + step.sqrt() * noise.repeat(n_settings, 1)
    return losses.view(n_settings, n_chains, draws)


def _each(loss: Callable[[Tensor], Tensor], start: Tensor) -> Callable[[Tensor], Tensor]:
    """The loss of many parameters at once `[row, parameter]`: in one call where it allows that."""
    batched = torch.func.vmap(loss, randomness="different")
    try:
        batched(start.repeat(2, 1))
    except (RuntimeError, ValueError, TypeError):  # it looks at its numbers, or leaves torch
        return lambda w: torch.stack([loss(row) for row in w])
    return batched
