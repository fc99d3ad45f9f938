"""Sets of heads: which heads an edit is made in, and the smallest set of them without which the answers are lost.

A head that does what is claimed need not be the one that the answers come by: it may write nothing (a decoy), do a part
of the work (split heads), or have others that do the same (backup heads). One head's test cannot tell these apart; the
smallest set whose edit loses the answers can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from workbench.interventions import Head, in_layers
from workbench.measurement import Measurement
from workbench.measurement.intervals import LEAST_FOR_A_VERDICT

KEPT = 0.9  # of what the edit in every head loses: a set that loses as much is enough
LEAST_LOST = 0.1  # of the right answers: an edit that changes fewer shows no need


@dataclass(frozen=True)
class NeededHeads:
    """The heads that the answers come by, as far as a claim's edit can tell.

    Attributes:
        heads: (layer, head) of each, in order; none where the edit loses no answers even in every head.
        causal: the causal test with the edit in these heads, on other sequences than they were found on; None without
            any.
        everywhere: the causal test with the edit in every head, on the same sequences.
    """

    heads: tuple[Head, ...]
    causal: Measurement | None
    everywhere: Measurement


def lost(test: Measurement) -> float:
    """The share of answers that the claimed edit changes, over all hops and examples; NaN where too few are tested."""
    changed = test.select(edit="claimed", outcome="changed").values
    tested = changed[~np.isnan(changed)]
    return float(tested.mean()) if len(tested) >= LEAST_FOR_A_VERDICT else float("nan")


def smallest_set(effect: Callable[[Sequence[Head]], float], weakest_first: Sequence[Head]) -> tuple[Head, ...]:
    """The heads that are left when all are dropped without which the edit in the rest still loses the answers.

    Heads are dropped in halves, quarters, …, at last one by one, the weakest first. What is left loses at least `KEPT`
    of what all heads lose, and no head of it can be dropped by itself. Of two sets that do, the one with the stronger
    heads is found. Dropping begins with everything cut, so that heads which can stand in for each other are all found.

    Args:
        effect: the share of answers lost when the edit is made in these heads.
        weakest_first: every head, in the order in which they are tried.

    Returns the set; empty where the edit in every head loses less than `LEAST_LOST`, or cannot be tested.
    """
    kept = list(weakest_first)
    everything = effect(kept)
    if not everything >= LEAST_LOST:  # NaN too
        return ()
    size = max(1, len(kept) // 2)
    while True:
        start = 0
        while start < len(kept):
            rest = kept[:start] + kept[start + size :]
            if rest and effect(rest) >= KEPT * everything:
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
