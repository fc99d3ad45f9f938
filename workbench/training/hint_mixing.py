"""Hint mixing: how steps, batches and training sets are divided between a task and its hints (task hinting, §3.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count

from workbench.runs import RunConfig
from workbench.tasks import Batch

Batches = tuple[Batch, ...]
"""What one step trains on: a batch for each output head that takes part."""


def turns(shares: Mapping[str, float], first: int = 0) -> Iterator[str]:
    """The head that each step trains when heads alternate: as often as its share says, spread as evenly as possible.

    Args:
        shares: head -> its share of the steps.
        first: the step to begin with; what came before it counts as taken.
    """
    total, credit = sum(shares.values()), dict.fromkeys(shares, 0.0)
    for step in count():
        # Each head earns its share; the one with the most credit has the turn, and pays for it.
        credit = {name: credit[name] + share for name, share in shares.items()}
        turn = max(credit, key=lambda name: credit[name])
        credit[turn] -= total
        if step >= first:
            yield turn


def sizes(config: RunConfig) -> dict[str, int]:
    """How many sequences of each head are in a step that trains it.

    Raises:
        ValueError: if a batch is too small to be divided among the heads.
    """
    n, shares = config.batch_size, config.mixture
    if config.mixing == "alternate":
        return dict.fromkeys(shares, n)
    if n < len(shares):
        raise ValueError(f"batch_size={n} cannot be divided among the heads {', '.join(shares)}; make it larger")
    return divided(n, shares)


def sizes_of_steps(config: RunConfig, first: int) -> Iterator[tuple[int, dict[str, int]]]:
    """Each step from `first` to the run's end, with the number of sequences of each head that it trains."""
    sizes_of_heads, turn = sizes(config), turns(config.mixture, first)
    for step in range(first, config.steps):
        head = next(turn) if config.mixing == "alternate" else None
        yield step, sizes_of_heads if head is None else {head: sizes_of_heads[head]}


def divided(n: int, shares: Mapping[str, float]) -> dict[str, int]:
    """A number of sequences, divided among heads by their shares; each has at least one, for which n must suffice."""
    total = sum(shares.values())
    exact = {name: share / total * n for name, share in shares.items()}
    rounded = {name: max(1, int(size)) for name, size in exact.items()}
    # One sequence at a time, to the head that rounding has moved furthest from its exact size; none drops to 0.
    while sum(rounded.values()) != n:
        change = 1 if sum(rounded.values()) < n else -1
        candidates = [name for name in rounded if rounded[name] + change >= 1]
        rounded[max(candidates, key=lambda name: change * (exact[name] - rounded[name]))] += change
    return rounded


def purpose(head: str) -> tuple[str, ...]:
    """What a head adds to the purpose of its random stream: nothing for main, whose draws no hint may change."""
    return () if head == "main" else (head,)
