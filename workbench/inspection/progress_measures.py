"""Progress measures of grokking: restricted and excluded loss over a run's checkpoints (Nanda et al., 2023, §5.1).

Of all p² questions the logits are a function of both numbers, and its waves in a + b at a few key frequencies are what
a model that has grokked answers by. The restricted loss keeps of the logits only these waves and the mean: it falls as
the method is built, before test accuracy rises. The excluded loss, on the questions trained on, takes only these waves
away: it rises once the answers that were learned by heart give way to the method. Neither shows how the waves are made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.inspection.over_training import checkpoints
from workbench.instruments.weights.fourier import frequency_of_waves, key_frequencies, waves
from workbench.measurement import Measurement
from workbench.models import AnyModel
from workbench.runs import Run
from workbench.tasks.modular_addition import ModularAddition

CURVES = ("train loss", "test loss", "restricted loss", "excluded loss", "train accuracy", "test accuracy")
GROKKED = 0.9  # test accuracy


def sum_waves(logits: Float[Tensor, "a b answer"], frequencies: Sequence[int]) -> Float[Tensor, "a b answer"]:
    """The components of the logits along cos and sin of 2πk(a + b)/p for these frequencies, in float64.

    Raises:
        ValueError: if there is no such frequency.
    """
    p = len(logits)
    if wrong := [k for k in frequencies if not 1 <= k <= p // 2]:
        raise ValueError(f"modulo {p} there are the frequencies 1 to {p // 2}, not {wrong[0]}")
    x = torch.arange(p)
    of_frequency = torch.tensor(frequency_of_waves(p))
    chosen = waves(p)[torch.isin(of_frequency, torch.tensor(list(frequencies), dtype=torch.long))]
    # A wave in a + b, as a function of both: of length 1 once divided by sqrt(p)
    basis = (chosen[:, (x[:, None] + x) % p] / p**0.5).reshape(len(chosen), -1)
    flat = logits.double().cpu().reshape(p * p, -1)
    return (basis.T @ (basis @ flat)).reshape(logits.shape)


def losses(logits: Float[Tensor, "a b answer"], trained: Tensor, frequencies: Sequence[int]) -> dict[str, float]:
    """The `CURVES` from the logits of every pair, of which `trained` `[a, b]` says which were trained on."""
    p = len(logits)
    x, logits = torch.arange(p), logits.detach()[..., :p].double().cpu()
    answer = (x[:, None] + x) % p
    key = sum_waves(logits, frequencies)
    mean = logits.mean((0, 1), keepdim=True)

    def loss(some: Tensor, where: Tensor) -> float:
        return float(torch.nn.functional.cross_entropy(some[where], answer[where]))

    right = logits.argmax(-1) == answer
    everywhere = torch.ones_like(trained)
    values = (
        loss(logits, trained),
        loss(logits, ~trained),
        loss(key + mean, everywhere),
        loss(logits - key, trained),
        float(right[trained].double().mean()),
        float(right[~trained].double().mean()),
    )
    return dict(zip(CURVES, values, strict=True))


@torch.no_grad()
def progress_measures(
    run: Run, *, frequencies: Sequence[int] | None = None, progress: Callable[[float], None] | None = None
) -> Measurement:
    """Losses and accuracies over all p² questions at every checkpoint: dims `curve` (`CURVES`), `step`.

    Answers are among the p numbers. The training side is all that the run may train on.

    Args:
        run: a run of modular addition with checkpoints.
        frequencies: the key frequencies; by default those that the embedding names at the run's end.
        progress: is told the share that is done.

    Raises:
        ValueError: if the run's task is another, it kept no checkpoints, or its embedding names no frequency.
    """
    task = run.task()
    if not isinstance(task, ModularAddition):
        raise ValueError(f"progress measures are of modular addition; this run's task is {task.name}")
    if not (steps := [*checkpoints(run), run.step()])[:-1]:
        raise ValueError("the run kept no checkpoints: train one with checkpoint_every")
    named = key_frequencies(run.model().token_embedding.weight[: task.p]) if frequencies is None else list(frequencies)
    if not named:
        raise ValueError("the embedding names no key frequency at the run's end: it has not grokked; give frequencies")
    trained = ~task.is_test(task.every().tokens).view(task.p, task.p)
    values = []
    for number, step in enumerate([*steps[:-1], None], 1):
        values.append(losses(all_logits(run.model(step), task), trained, named))
        if progress is not None:
            progress(number / len(steps))
    return Measurement(
        name="Progress measures",
        values=np.array([[at[curve] for at in values] for curve in CURVES]),
        dims=("curve", "step"),
        coords={"curve": CURVES, "step": steps},
        units="nats or share",
        settings={"model": run.name, "frequencies": named, "p": task.p},
        caption=f"Over all {task.p**2:,} questions; the key frequencies are {', '.join(map(str, named))}. Restricted: "
        "their waves in a + b alone; excluded: all but these, on questions trained on. They do not say how waves are "
        "made.",
    )


def all_logits(model: AnyModel, task: ModularAddition) -> Float[Tensor, "a b answer"]:
    """The logits of every pair of numbers."""
    tokens = task.every().tokens
    parts = [model(part)[:, -1, : task.p] for part in tokens.split(1024)]
    return torch.cat(parts).view(task.p, task.p, task.p)


def first_step(curve: Sequence[float], steps: Sequence[int], above: float) -> int | None:
    """The first step at which a curve is above a value and stays so; None where it never is."""
    below = [i for i, value in enumerate(curve) if not value > above]
    start = below[-1] + 1 if below else 0
    return None if start == len(steps) else int(steps[start])


def other_frequencies(measured: Measurement) -> list[int]:
    """As many frequencies that are not the key ones, spread evenly over those there are: the control.

    Args:
        measured: `progress_measures(…)`.
    """
    key, p = measured.settings["frequencies"], measured.settings["p"]
    others = [k for k in range(1, p // 2 + 1) if k not in key]
    n = min(len(key), len(others))
    return [others[(2 * i + 1) * len(others) // (2 * n)] for i in range(n)]


@dataclass(frozen=True)
class EarlyRise:
    """How far the excluded loss rises while held-out answers are still missing.

    Attributes:
        start: the first checkpoint at which `GROKKED` of the questions trained on are right.
        end: the last one after it before half of the held-out ones are.
        nats: from the least excluded loss between the two to the greatest after that.
    """

    start: int
    end: int
    nats: float


def early_rise(measured: Measurement) -> EarlyRise | None:
    """The rise of the excluded loss before test accuracy rises; None if fewer than two checkpoints lie there.

    Args:
        measured: `progress_measures(…)`.
    """
    steps = [int(step) for step in measured.coords["step"]]
    seen, held_out, excluded = (
        measured.select(curve=curve).values for curve in ("train accuracy", "test accuracy", "excluded loss")
    )
    if not (seen >= GROKKED).any():
        return None
    start = int((seen >= GROKKED).argmax())
    end = int((held_out >= 0.5).argmax()) if (held_out >= 0.5).any() else len(steps)
    if end - start < 2:
        return None
    between = excluded[start:end]
    least = int(between.argmin())
    return EarlyRise(steps[start], steps[end - 1], float(between[least:].max() - between[least]))


@dataclass(frozen=True)
class HalfWay:
    """When the excluded loss and the test accuracy are half way to where they are once the model has grokked.

    Attributes:
        start: the step with the least excluded loss before `end`.
        end: the first step at which test accuracy is `GROKKED`.
        rise: of the excluded loss between the two, in nats.
        excluded: the first step from `start` on at which that loss is half way to its value at `end`; None if it is
            least at `end`, so that it does not rise.
        accuracy: the same of test accuracy.
    """

    start: int
    end: int
    rise: float
    excluded: int | None
    accuracy: int


def half_way(measured: Measurement) -> HalfWay | None:
    """When excluded loss and test accuracy are half way; None where test accuracy never is `GROKKED`, or always was.

    Args:
        measured: `progress_measures(…)`.
    """
    steps = [int(step) for step in measured.coords["step"]]
    right, excluded = (measured.select(curve=curve).values for curve in ("test accuracy", "excluded loss"))
    if not (right >= GROKKED).any() or right[0] >= GROKKED:
        return None
    end = int((right >= GROKKED).argmax())
    start = int(excluded[: end + 1].argmin())
    rise = float(excluded[end] - excluded[start])
    first = _half_way_between(excluded, start, end) if rise > 0 else None
    begin = start if right[start] < right[end] else 0
    return HalfWay(
        steps[start],
        steps[end],
        rise,
        None if first is None else steps[first],
        steps[_half_way_between(right, begin, end)],
    )


def _half_way_between(curve: np.ndarray, start: int, end: int) -> int:
    """The first index from `start` on at which a curve is half way from its value there to that at `end`."""
    gone = (curve[start : end + 1] - curve[start]) / (curve[end] - curve[start])
    return start + int((gone >= 0.5).argmax())
