"""The local learning coefficient by stochastic gradient Langevin dynamics, with its spread and when not to trust it.

λ̂ = nβ (E[L_n(w)] − L_n(w*)), the mean over draws from exp(−nβ L_n(w) − γ/2 ‖w − w*‖²) near a minimum w* (Lau et al.,
2023, arXiv 2308.12108, Eq. 8), with nβ = n / log n. It is half the number of parameters at a regular minimum, less at a
degenerate one. Does not show: directions so flat that no chain has moved along them.

An estimate that is right does not depend on how it was drawn. Too large a step makes the draws hotter than they should
be, too small a one (or too few draws) leaves them where they began, and too strong a localisation holds them there. So
several chains are drawn, and all of it is drawn again with `FACTOR` times the step, which also makes the chains as much
longer, and with as much more localisation. At a quadratic minimum each then moves by about three times what it is off:
`MOST_MOVED` allows 8 %. An estimate is refused where they disagree, leave the minimum, or find lower loss than it has.

Promoted into `inspection` (its judgement into `judgement`) when a study or page reads it of a trained model, with
settings under which it is trusted there; removed when none has asked for it by the next release.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import StrEnum

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.judgement.against_controls import Stored
from workbench.measurement.numbers import number
from workbench.util.seeds import generator

FACTOR = 4.0  # of the step, and of the localisation, with which an estimate is repeated
MOST_MOVED = 0.2  # of an estimate, by which a repeated one may lie elsewhere
LARGEST_SPREAD = 0.3  # of the chains' means over their mean
LOWER, OFTEN = 0.05, 0.01  # of the mean excess loss, by which so many draws may lie below the minimum


class Doubt(StrEnum):
    """What speaks against an estimate."""

    LEFT = "a chain left for infinity"
    NO_MINIMUM = "draws have lower loss than the minimum given"
    APART = "chains disagree"
    DRIFTS = "the loss drifts from the first half of the draws to the second"
    STEP = "the estimate moves with the step"
    LOCALISATION = "the estimate moves with the localisation"


class Drawn(Stored):
    """An estimate λ̂ with what it was drawn with.

    Attributes:
        step_size, localisation: ε of the dynamics and γ, which holds draws near the minimum.
        value: the mean over chains; NaN where one left for infinity.
    """

    step_size: float
    localisation: float
    value: float

    @classmethod
    def of(cls, step_size: float, localisation: float, value: float) -> Drawn:
        """The estimate of these settings; of chains that left for infinity NaN."""
        return cls(step_size=step_size, localisation=localisation, value=value if np.isfinite(value) else np.nan)


class LearningCoefficient(Drawn):
    """An estimate with what speaks against it.

    Attributes:
        spread: the standard deviation of the chains' means.
        chains: λ̂ of each chain.
        repeated: the same with another step, and with another localisation.
        doubts: why it is not to be trusted; empty where nothing was found.
        n, draws, burn_in: examples behind the loss, and steps of each chain that are averaged and that go before.
    """

    spread: float
    chains: tuple[float, ...]
    repeated: tuple[Drawn, ...]
    doubts: tuple[Doubt, ...]
    n: int
    draws: int
    burn_in: int

    @property
    def trusted(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.doubts

    def moved(self, other: Drawn) -> float:
        """How far a repeated estimate lies from this one, as a share of it; infinite where a chain left."""
        share = abs(other.value - self.value) / abs(self.value) if self.value else np.inf
        return float(np.inf if np.isnan(share) else share)


def _judge(
    excess: Float[np.ndarray, "chain draw"],
    means: Float[np.ndarray, " chain"],
    drawn: Drawn,
    repeated: Sequence[Drawn],
    **how: int,
) -> LearningCoefficient:
    """Judge an estimate by its draws and by the same drawn otherwise.

    Args:
        excess: the loss at every draw less that at the minimum.
        means: λ̂ of each chain.
        drawn: the estimate.
        repeated: with another step, and with another localisation.
        how: `n`, `draws` and `burn_in`.
    """
    spread = float(means.std(ddof=1))
    found = LearningCoefficient(
        **dict(drawn), spread=spread, chains=tuple(means.tolist()), repeated=tuple(repeated), doubts=(), **how
    )
    doubts = _of_draws(excess, drawn.value, spread)
    if Doubt.LEFT not in doubts:
        moved = [one for one in repeated if found.moved(one) > MOST_MOVED]
        doubts += [Doubt.STEP for one in moved if one.step_size != drawn.step_size]
        doubts += [Doubt.LOCALISATION for one in moved if one.localisation != drawn.localisation]
    return found.model_copy(update={"doubts": tuple(doubts)})


def _of_draws(excess: Float[np.ndarray, "chain draw"], value: float, spread: float) -> list[Doubt]:
    """What the draws themselves say against an estimate."""
    if not np.isfinite(excess).all():
        return [Doubt.LEFT]
    mean, doubts = float(excess.mean()), []
    if value <= 0 or float((excess < -LOWER * abs(mean)).mean()) > OFTEN:
        doubts.append(Doubt.NO_MINIMUM)
    if spread > LARGEST_SPREAD * abs(value):
        doubts.append(Doubt.APART)
    first, second = (half.mean() for half in np.array_split(excess, 2, axis=1))
    if abs(float(second - first)) > LARGEST_SPREAD * abs(mean):
        doubts.append(Doubt.DRIFTS)
    return doubts


ADVICE: dict[Doubt, str] = {
    Doubt.LEFT: "take a smaller step_size or a larger localisation",
    Doubt.NO_MINIMUM: "it is none, so train on before measuring",
    Doubt.APART: "take more draws",
    Doubt.DRIFTS: "take a longer burn_in",
    Doubt.STEP: "take more draws, or a smaller step_size if the estimate rises",
    Doubt.LOCALISATION: "take a smaller localisation",
}


def in_words(found: LearningCoefficient) -> str:
    """`Learning coefficient 10.2 (step 0.0001, γ = 1), over 4 chains within 0.3; 10.7 at step 0.0004; …`."""
    own = f"{_value(found)} (step {found.step_size:g}, γ = {found.localisation:g})"
    others = "; ".join(  # with the setting in which each differs
        f"{_value(drawn)} at "
        + (f"step {drawn.step_size:g}" if drawn.step_size != found.step_size else f"γ = {drawn.localisation:g}")
        for drawn in found.repeated
    )
    if found.trusted:
        chains = f"{len(found.chains)} chains with a spread of {number(found.spread)}"
        return f"Learning coefficient {own}, {chains}; {others}."
    why = "; ".join(f"{doubt}: {ADVICE[doubt]}" for doubt in found.doubts)
    return f"Learning coefficient not trusted: {own}; {others}. {why[0].upper()}{why[1:]}."


def _value(one: Drawn) -> str:
    return number(one.value) if math.isfinite(one.value) else "left for infinity"


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
    if chains < 2 or n < 2 or draws < 1:
        raise ValueError(f"it takes 2 chains, 2 examples and a draw or more, not {chains}, {n} and {draws}")
    if not (step_size > 0 and localisation >= 0):
        raise ValueError(f"step_size is above 0 and localisation not below, not {step_size} and {localisation}")
    strength, start = n / math.log(n), minimum.detach()
    settings = [(step_size, localisation), (FACTOR * step_size, localisation)]
    settings.append((step_size, FACTOR * localisation or LOCALISED))
    noises = [generator(seed, "llc", chain) for chain in range(chains)]
    losses = _draw(loss, start, strength, settings, noises, (burn_in, draws))
    excess = losses - float(loss(start))
    means = strength * excess.mean(-1)
    own, *others = (Drawn.of(*one, value) for one, value in zip(settings, means.mean(1).tolist(), strict=True))
    return _judge(excess[0].numpy(), means[0].numpy(), own, others, n=n, draws=draws, burn_in=burn_in)


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
    for step_number in range(burn_in + draws):
        w = w.detach().requires_grad_()
        here = each(w)
        (slope,) = torch.autograd.grad(here.sum(), w)
        if step_number >= burn_in:
            losses[:, step_number - burn_in] = here.detach()
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
