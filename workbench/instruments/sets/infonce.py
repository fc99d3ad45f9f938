"""InfoNCE: how well a vector picks out its partner among others (van den Oord et al., 2018; as SimCLR's loss).

−log(e^(s⁺/τ) / Σ e^(s/τ)), s the cosines of a vector with all others of its group, s⁺ with its partner: another
question with the same answer, which the task's truth knows. "Layer by Layer" (Skean et al., 2025) measures it so, on
augmentations. Shows: whether questions with one answer are nearer to each other than to others. Does not show: whether
the model reads that. Chance is log(2N − 1) for groups of N pairs, so figures of one N alone can be compared. Controls:
a re-initialised model of the same shape on the same sequences; and the answers shuffled (`shuffled=True`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.capture import Subject
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

CONTROLS = ("untrained",)
NEEDS_ANSWERS = True

why_not = no_reason


def infonce(
    a: Float[Tensor, "pair d"], b: Float[Tensor, "pair d"], *, temperature: float = 0.1, centre: bool = True
) -> float:
    """The mean over both sides of −log(e^(s⁺/τ) / Σ e^(s/τ)) in nats, over the 2N − 1 other rows, in float64.

    Raises:
        ValueError: if the temperature is not above 0.
    """
    if not temperature > 0:
        raise ValueError(f"the temperature must be greater than 0, not {temperature}")
    n, rows = len(a), torch.cat(unit_pairs(a, b, centre))
    scores = (rows @ rows.T / temperature).fill_diagonal_(-math.inf)
    partner = torch.arange(2 * n).roll(n)
    return float(-(scores.gather(1, partner[:, None])[:, 0] - scores.logsumexp(-1)).mean())


def measure(
    model: AnyHooked | AnyModel,
    subject: Subject,
    batches: Iterable[Batch],
    *,
    pairs: int = 8,
    temperature: float = 0.1,
    centre: bool = True,
    **where: Any,
) -> Measurement:
    """InfoNCE in nats at every residual point, before the final norm: dim `layer`, the mean over groups of pairs.

    Args:
        model, subject, batches, where: as for `over_sequences` (`points`, `at`, `shuffled`).
        pairs: N, pairs in a group, all of different answers.
        temperature: τ, of "Layer by Layer" by default.
        centre: subtract the mean of a group's rows first, or what all share makes every cosine large.

    Raises:
        ValueError: if no group is full, or as `over_sequences` does.
    """
    of_group = partial(infonce, temperature=temperature, centre=centre)
    streams = over_sequences(lambda: PairGroups(pairs, of_group), model, subject, batches, **where)
    how = {"pairs": pairs, "temperature": temperature, "centre": centre, **where_settings(where)}
    return over_groups(
        "InfoNCE of shuffled answers" if where.get("shuffled") else "InfoNCE",
        streams,
        {"model": subject.name, **how},
        f"How hard it is to tell a question's partner of the same answer among {2 * pairs - 1} vectors by its cosine, "
        f"before the final norm: chance is {math.log(2 * pairs - 1):.2f}. It does not say that the model does so.",
    )
