"""Progress measures of grokking: restricted and excluded loss over a run's checkpoints (Nanda et al., 2023, §5.1).

Of all p² questions the logits are a function of both numbers, and its waves in a + b at a few key frequencies are what
a model that has grokked answers by. The restricted loss keeps of the logits only these waves and the mean: it falls as
the method is built, before test accuracy rises. The excluded loss, on the questions trained on, takes only these waves
away: it rises once the answers that were learned by heart give way to the method. Neither shows how the waves are made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.inspection.over_training import checkpoints
from workbench.instruments.weights.fourier import key_frequencies, waves_at
from workbench.measurement import Measurement
from workbench.models import AnyModel
from workbench.runs import Run
from workbench.tasks.modular_addition import ModularAddition

CURVES = ("train loss", "test loss", "restricted loss", "excluded loss", "train accuracy", "test accuracy")


def _sum_waves(logits: Float[Tensor, "a b answer"], frequencies: Sequence[int]) -> Float[Tensor, "a b answer"]:
    """The components of the logits along cos and sin of 2πk(a + b)/p for these frequencies, in float64.

    Raises:
        ValueError: if there is no such frequency.
    """
    p = len(logits)
    x, chosen = torch.arange(p), waves_at(p, frequencies)
    # A wave in a + b, as a function of both: of length 1 once divided by sqrt(p)
    basis = (chosen[:, (x[:, None] + x) % p] / p**0.5).reshape(len(chosen), -1)
    flat = logits.double().cpu().reshape(p * p, -1)
    return (basis.T @ (basis @ flat)).reshape(logits.shape)


def _losses(logits: Float[Tensor, "a b answer"], trained: Tensor, frequencies: Sequence[int]) -> dict[str, float]:
    """The `CURVES` from the logits of every pair, of which `trained` `[a, b]` says which were trained on."""
    p = len(logits)
    x, logits = torch.arange(p), logits.detach()[..., :p].double().cpu()
    answer = (x[:, None] + x) % p
    key = _sum_waves(logits, frequencies)
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
        values.append(_losses(_all_logits(run.model(step), task), trained, named))
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


def _all_logits(model: AnyModel, task: ModularAddition) -> Float[Tensor, "a b answer"]:
    """The logits of every pair of numbers."""
    tokens = task.every().tokens
    parts = [model(part)[:, -1, : task.p] for part in tokens.split(1024)]
    return torch.cat(parts).view(task.p, task.p, task.p)


def other_frequencies(measured: Measurement) -> list[int]:
    """As many frequencies that are not the key ones, spread evenly over those there are: the control.

    Args:
        measured: `progress_measures(…)`.
    """
    key, p = measured.settings["frequencies"], measured.settings["p"]
    others = [k for k in range(1, p // 2 + 1) if k not in key]
    n = min(len(key), len(others))
    return [others[(2 * i + 1) * len(others) // (2 * n)] for i in range(n)]
