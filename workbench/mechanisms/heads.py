"""Needed heads: the smallest set of heads without which the answers are lost.

A head that does what is claimed need not be the one that the answers depend on: it may write nothing (a decoy), do a
part of the work (split heads), or have others that do the same (backup heads). A test of one head cannot tell these
apart; the smallest set of heads whose edit loses the answers can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from workbench.interventions import Head, in_layers
from workbench.measurement import Measurement
from workbench.measurement.intervals import LEAST_FOR_A_VERDICT

KEPT = 0.9  # of what the edit in every head loses: a set that loses as much is enough
LEAST_LOST = 0.1  # of the right answers: an edit that changes fewer shows no need


@dataclass(frozen=True)
class NeededHeads:
    """The heads that the answers depend on, as far as a claim's edit can tell.

    Attributes:
        heads: (layer, head) of each, in order; none where the edit loses no answers even in every head.
        causal: the causal test with the edit in these heads, on other sequences than they were found on; None without
            any.
        everywhere: the causal test with the edit in every head, on the same sequences.
    """

    heads: tuple[Head, ...]
    causal: Measurement | None
    everywhere: Measurement


def lost(test: Measurement) -> Float[np.ndarray, " hop"]:
    """The share of right answers that the claimed edit changes at each hop; NaN where too few are tested.

    Args:
        test: the dim `example`, and perhaps `hop`.
    """
    changed = test.select(edit="claimed", outcome="changed").values
    by_hop = changed.reshape(-1, changed.shape[-1])
    enough = (~np.isnan(by_hop)).sum(-1) >= LEAST_FOR_A_VERDICT
    return np.array([np.nanmean(row) if tested else np.nan for row, tested in zip(by_hop, enough, strict=True)])


def smallest_set(
    effect: Callable[[Sequence[Head]], Float[np.ndarray, " hop"]], weakest_first: Sequence[Head]
) -> tuple[Head, ...]:
    """The smallest set of heads in which the edit still loses the answers, found by leaving heads out.

    What counts are the hops at which the edit in every head loses answers: a hop that the model fails has none to lose,
    and a mean over all hops would hide those that it solves. The edit in the set loses at least `KEPT` of what it loses
    there in all heads, and no head of the set can be left out by itself. Where two sets would do, the result is the one
    with the stronger heads. The search starts from the edit in all heads, so that heads which can replace each other
    are all in the set.

    Args:
        effect: the share of answers lost at each hop when the edit is made in these heads.
        weakest_first: every head, in the order in which they are left out.

    Returns the set; empty where the edit in every head loses less than `LEAST_LOST` at every hop, or cannot be tested.
    """
    # The edit in all heads: if it loses nothing, no set does.
    kept = list(weakest_first)
    everything = effect(kept)
    counted = everything >= LEAST_LOST  # NaN is not
    if not counted.any():
        return ()
    enough = KEPT * everything[counted].mean()
    # Leave out half of the heads at once, then quarters, …, at last single heads.
    size = max(1, len(kept) // 2)
    while True:
        # One pass over the heads, the weakest first: what is not missed stays out.
        start = 0
        while start < len(kept):
            rest = kept[:start] + kept[start + size :]
            if rest and effect(rest)[counted].mean() >= enough:
                kept = rest
            else:
                start += size
        if size == 1:
            return tuple(sorted(kept))
        size //= 2


def where_in_words(heads: Sequence[Head] | None) -> str:
    """`layer 0, head 1`, `layer 0, heads 0 and 2; layer 1, head 3`, or `every head`."""
    if heads is None:
        return "every head"
    parts = []
    for layer, own in in_layers(heads).items():
        names = [str(head) for head in own]
        listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
        parts.append(f"layer {layer}, head{'s' * (len(names) > 1)} {listed}")
    return "; ".join(parts) or "no head"
