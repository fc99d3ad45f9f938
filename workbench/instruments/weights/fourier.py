"""Fourier spectrum: over which frequencies the vectors of the numbers 0 … p−1 vary, in the weights alone.

For tasks modulo p ("Progress measures for grokking via mechanistic interpretability", Nanda et al., 2023): the rows of
the embedding, the columns of the unembedding, and what each neuron of the last MLP writes to the logits, each as a
function of the number. Shows: whether a few frequencies hold the variance, and names them. Does not show: that the
answer uses them (the claim `fourier_addition` tests that). Control: the numbers in random order, which keeps the
vectors and loses what is periodic; a frequency is named if it holds more than the largest share that any has there.
Beside it, `untrained` weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from workbench.capture import Subject
from workbench.measurement import Measurement
from workbench.models import Decoder
from workbench.models.layers import Layer
from workbench.tasks.arithmetic import Arithmetic
from workbench.tasks.modular_addition import ModularAddition
from workbench.util.seeds import generator

CONTROLS = ("untrained",)
ORDERS = 200  # random orders of the numbers
LEVEL = 0.99  # of them, whose largest share a named frequency exceeds


def why_not(subject: Subject) -> str | None:
    """Only numbers modulo p lie on a circle."""
    if not isinstance(subject.task, ModularAddition | Arithmetic):
        return f"the task {subject.task.name} is not about numbers modulo p"
    return None


def _waves(p: int) -> tuple[Float[Tensor, "wave p"], Int[Tensor, " wave"]]:
    """An orthonormal basis of functions of 0 … p−1, in float64, and the frequency of each; the constant first, with 0.

    Frequencies are k = 1 … ⌊p/2⌋, waves 2πkx/p; of an even p the last has a cosine only.
    """
    x = torch.arange(p, dtype=torch.float64)
    rows, frequencies = [torch.ones(p, dtype=torch.float64)], [0]
    for k in range(1, p // 2 + 1):
        angle = 2 * torch.pi * k * x / p
        waves = [angle.cos()] if 2 * k == p else [angle.cos(), angle.sin()]
        rows += waves
        frequencies += [k] * len(waves)
    basis = torch.stack(rows)
    return basis / basis.norm(dim=1, keepdim=True), torch.tensor(frequencies)


def waves_at(p: int, frequencies: Sequence[int]) -> Float[Tensor, "wave p"]:
    """The rows of `_waves` of these frequencies.

    Raises:
        ValueError: if there is no such frequency.
    """
    if wrong := [k for k in frequencies if not 1 <= k <= p // 2]:
        raise ValueError(f"modulo {p} there are the frequencies 1 to {p // 2}, not {wrong[0]}")
    waves, of_wave = _waves(p)
    return waves[torch.isin(of_wave, torch.tensor(list(frequencies), dtype=torch.long))]


def _shares(rows: Float[Tensor, "p d"]) -> Float[Tensor, " frequency"]:
    """The share of the rows' variance over the numbers that each frequency 1 … ⌊p/2⌋ holds; they sum to 1.

    Zero where all rows are equal.
    """
    waves, of_wave = _waves(len(rows))
    power = (waves @ rows.double().cpu()).square().sum(1)
    by_frequency = torch.zeros(len(rows) // 2, dtype=torch.float64).index_add_(0, of_wave[1:] - 1, power[1:])
    total = by_frequency.sum()
    rounding = 1e-20 * rows.double().square().sum().cpu()
    return by_frequency / total if total > rounding else torch.zeros_like(by_frequency)


def _threshold(rows: Float[Tensor, "p d"], seed: int = 0) -> float:
    """The largest share of any frequency once the numbers are in random order: its 99 % quantile over 200 orders."""
    draws = generator(seed, "fourier")
    largest = [_shares(rows[torch.randperm(len(rows), generator=draws)]).max() for _ in range(ORDERS)]
    return float(torch.stack(largest).quantile(LEVEL))


def key_frequencies(rows: Float[Tensor, "p d"], seed: int = 0) -> list[int]:
    """The frequencies whose share is above the `_threshold`, largest first; none where nothing is periodic."""
    share = _shares(rows)
    above = (share > _threshold(rows, seed)).nonzero()[:, 0]
    return [int(i) + 1 for i in above[share[above].argsort(descending=True)]]


def without(rows: Float[Tensor, "number ..."], frequencies: Sequence[int]) -> Float[Tensor, "number ..."]:
    """The rows less their components at these frequencies, in float64.

    Raises:
        ValueError: if there is no such frequency.
    """
    chosen, flat = waves_at(len(rows), frequencies), rows.double().cpu().reshape(len(rows), -1)
    return (flat - chosen.T @ (chosen @ flat)).reshape(rows.shape)


@torch.no_grad()
def measure(subject: Subject, *, seed: int = 0) -> Measurement:
    """The share of variance at each frequency: dims `matrix`, `frequency` (1 … ⌊p/2⌋).

    Matrices are `embedding`, `unembedding`, and `neurons` (number by neuron) where there is a last MLP. The settings
    hold, under `key`, the frequencies that each matrix names, and under `threshold` what they exceed.

    Args:
        subject: the model's facts.
        seed: of the random orders.
    """
    p = subject.task.p  # type: ignore[attr-defined]
    own = {"embedding": subject.encoder[:p], "unembedding": subject.decoder[:p]}
    if isinstance(subject.model, Decoder) and (mlp := cast(Layer, subject.model.layers[-1]).mlp) is not None:
        own["neurons"] = subject.decoder[:p] @ mlp.fc_out.weight.detach()
    values = torch.stack([_shares(rows) for rows in own.values()])
    return Measurement(
        name="Fourier spectrum",
        values=values.numpy(),
        dims=("matrix", "frequency"),
        coords={"matrix": list(own), "frequency": range(1, values.shape[1] + 1)},
        units="share of the variance",
        settings={
            "model": subject.name,
            "key": {name: key_frequencies(rows, seed) for name, rows in own.items()},
            "threshold": {name: _threshold(rows, seed) for name, rows in own.items()},
            "seed": seed,
        },
        n=np.full(values.shape, values.shape[1]),
        caption="Share of the variance over the numbers that waves of each frequency hold. It does not say that the "
        "answer is computed from them.",
    )
