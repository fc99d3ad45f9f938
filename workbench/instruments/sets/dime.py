"""DiME: how much two views of the same answers share, as a difference of matrix entropies (Skean et al., 2023).

E_Π S_α(K_x ∘ Π K_y Πᵀ) − S_α(K_x ∘ K_y) of arXiv 2301.08164: the joint entropy of pairs that are shuffled less
that of the pairs themselves, each matrix over its trace. A pair is two questions with one answer, which the task's
truth knows. Shows: whether the two vectors of a pair vary together over answers. Does not show: whether the model reads
that; with groups of N pairs it cannot pass log N, so figures of one N alone can be compared. Controls: an untrained
model of the same shape on the same sequences; and the answers shuffled (`shuffled=True`), which is 0 on average.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.capture import Subject
from workbench.instruments.residual.gram_matrix import Bandwidth, Kernel, check_kernel, kernel_matrix
from workbench.instruments.residual.renyi import check_order, gram_entropy
from workbench.instruments.sets.over_sequences import (
    PairGroups,
    over_groups,
    over_sequences,
    unit_pairs,
    where_settings,
)
from workbench.instruments.shared import no_reason
from workbench.measurement import Measurement
from workbench.models import AnyHooked, AnyModel
from workbench.tasks import Batch
from workbench.util.seeds import generator

CONTROLS = ("untrained",)
NEEDS_ANSWERS = True
PERMUTATIONS = 10  # as the authors' code

why_not = no_reason


def dime(kx: Float[Tensor, "n n"], ky: Float[Tensor, "n n"], orders: Sequence[Tensor], *, alpha: float = 1.0) -> float:
    """DiME of two kernel matrices over the same n items, in nats.

    Args:
        kx, ky: positive semi-definite.
        orders: permutations of the items, over which the expectation is taken.
        alpha: order of the entropies.
    """
    kx, ky = kx.double(), ky.double()
    shuffled = gram_entropy(kx * torch.stack([ky[order][:, order] for order in orders]), alpha)  # [order]
    return float(shuffled.mean() - gram_entropy((kx * ky)[None], alpha)[0])


def _of_groups(
    kernel: Kernel, bandwidth: Bandwidth, centre: bool, alpha: float, seed: int
) -> Callable[[Float[Tensor, "pair d"], Float[Tensor, "pair d"]], float]:
    """What gives DiME of one group of pairs after another, each with permutations of its own."""
    draws = generator(seed, "dime")

    def matrix(unit: Float[Tensor, "pair d"]) -> Float[Tensor, "pair pair"]:
        return unit @ unit.T if kernel == "linear" else kernel_matrix(unit[None], False, False, kernel, bandwidth)[0]

    def of_group(a: Float[Tensor, "pair d"], b: Float[Tensor, "pair d"]) -> float:
        kx, ky = map(matrix, unit_pairs(a, b, centre))
        return dime(kx, ky, [torch.randperm(len(a), generator=draws) for _ in range(PERMUTATIONS)], alpha=alpha)

    return of_group


def measure(
    model: AnyHooked | AnyModel,
    subject: Subject,
    batches: Iterable[Batch],
    *,
    pairs: int = 8,
    alpha: float = 1.0,
    kernel: Kernel = "linear",
    bandwidth: Bandwidth = "median",
    centre: bool = True,
    seed: int = 0,
    **where: Any,
) -> Measurement:
    """DiME in nats at every residual point, before the final norm: dim `layer`, the mean over groups of pairs.

    Args:
        model, subject, batches, where: as for `over_sequences` (`points`, `at`, `shuffled`).
        pairs: N, pairs in a group, all of different answers.
        alpha, kernel, bandwidth: of the entropies' matrices, as for `matrix_entropy`; linear as in "Layer by Layer".
        centre: subtract the mean of a group's rows first; then each has length 1.
        seed: of the permutations, ten for each group.

    Raises:
        ValueError: if no group is full, a setting is unknown, or as `over_sequences` does.
    """
    check_kernel(kernel, bandwidth)
    check_order(alpha, None)
    streams = over_sequences(
        lambda: PairGroups(pairs, _of_groups(kernel, bandwidth, centre, alpha, seed)), model, subject, batches, **where
    )
    how = {"pairs": pairs, "alpha": alpha, "kernel": kernel, "centre": centre, **where_settings(where)}
    return over_groups(
        "DiME of shuffled answers" if where.get("shuffled") else "DiME",
        streams,
        {"model": subject.name, **how, "bandwidth": None if kernel == "linear" else bandwidth, "seed": seed},
        f"Joint entropy of {pairs} pairs that are shuffled less that of the pairs, questions with one answer; before "
        "the final norm. 0 where a pair shares nothing. It does not say that the model reads what they share.",
    )
