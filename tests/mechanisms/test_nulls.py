"""Models that know nothing do not bear the claims out more often than chance: truths permuted across examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import pytest
import torch
from scipy.stats import t

from workbench.capture import Subject, capture
from workbench.measurement.controls.mismatched import mismatched
from workbench.measurement.controls.untrained import shuffled, untrained
from workbench.mechanisms import MECHANISMS
from workbench.models import Decoder
from workbench.models.compiled import sorter
from workbench.models.hooked import hook
from workbench.tasks.sorting import Sorting
from workbench.util.seeds import generator

TASK = Sorting(q=6, max_length=8)
SEEDS = 24
CLAIMS = ("minimum", "successor", "identity_removed", "copy")
ATTENTION_WRITES = ("blocks.0.hook_attn_out", "blocks.1.hook_attn_out")
NULLS: dict[str, Callable[[Decoder, torch.Generator], Decoder]] = {"untrained": untrained, "shuffled": shuffled}


def above_chance(model: Decoder, seed: int) -> Iterator[tuple[str, float]]:
    """Each claim's score less its score against the truths of other examples."""
    subject = Subject.of(model, TASK, "null")
    claims = {name: MECHANISMS[name] for name in CLAIMS}
    points = sorted({point for claim in claims.values() for point in claim.needs(subject)})
    seen = capture(hook(model), subject, TASK.sample(256, generator(seed, "null")), points)
    other = mismatched(seen, generator(seed, "permuted"))
    for name, claim in claims.items():
        own, chance = claim.score(seen).mean("example"), claim.score(other).mean("example")
        if own.dims:
            places = {point: own.coords["point"].index(point) for point in ATTENTION_WRITES}
            yield from ((f"{name} {point}", float((own.values - chance.values)[i])) for point, i in places.items())
        else:
            yield name, float(own.values - chance.values)


@cache
def differences(null: str) -> dict[str, np.ndarray]:
    shape = sorter(TASK.q, n_ctx=TASK.n_ctx, pad=True, rotate_seed=1)
    rows = [dict(above_chance(NULLS[null](shape, generator(seed, null)), seed)) for seed in range(SEEDS)]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


@pytest.mark.parametrize("null", NULLS)
def test_models_that_know_nothing_are_no_better_than_chance(null: str) -> None:
    found = differences(null)
    assert len(found) == 5
    for name, difference in found.items():
        # 99 % each, so that all hold together at 95 %
        half = t.ppf(0.995, SEEDS - 1) * difference.std(ddof=1) / np.sqrt(SEEDS)
        assert abs(difference.mean()) <= half < 0.1, f"{name}: {difference.mean():.3f} ± {half:.3f}"


def test_the_same_difference_tells_the_compiled_sorter_from_chance() -> None:
    found = dict(above_chance(sorter(TASK.q, n_ctx=TASK.n_ctx, pad=True, rotate_seed=1), 0))
    assert min(found[name] for name in ("minimum", "successor", "identity_removed")) > 0.4
