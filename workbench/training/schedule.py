"""What happens at which step: the learning rate, whose turn it is, where checkpoints go."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import count

from workbench.runs import RunConfig

ONE_CYCLE_WARM, ONE_CYCLE_START, ONE_CYCLE_END = 0.3, 1 / 25, 1e-4 / 25  # as PyTorch's OneCycleLR


def learning_rate(config: RunConfig, step: int) -> float:
    """The learning rate after `step` steps: warm-up then cosine to 0, one cycle, or warm-up then constant."""
    if config.schedule == "onecycle":
        return config.learning_rate * _one_cycle(step, config.steps)
    warm = min(1.0, (step + 1) / (config.warmup + 1))
    if config.schedule == "constant" or step < config.warmup:
        return config.learning_rate * warm
    done = (step - config.warmup) / max(1, config.steps - config.warmup)
    return config.learning_rate * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def _one_cycle(step: int, steps: int) -> float:
    top = max(ONE_CYCLE_WARM * (steps + 1) - 1, 0.0)
    if step <= top and top > 0:
        start, end, done = ONE_CYCLE_START, 1.0, step / top
    else:
        start, end, done = 1.0, ONE_CYCLE_END, (step - top) / max(steps - top, 1)
    return end + (start - end) / 2 * (1 + math.cos(math.pi * done))


def turns(shares: Mapping[str, float], first: int = 0) -> Iterator[str]:
    """Whose turn each step is, from one on: every name as often as its share says, as evenly spread as can be."""
    total, credit = sum(shares.values()), dict.fromkeys(shares, 0.0)
    for step in count():
        credit = {name: credit[name] + share for name, share in shares.items()}
        turn = max(credit, key=lambda name: credit[name])
        credit[turn] -= total
        if step >= first:
            yield turn


def sizes(config: RunConfig) -> dict[str, int]:
    """How many sequences of each head a step that trains it has.

    Raises:
        ValueError: if a batch is too small to be divided among the heads.
    """
    n, shares = config.batch_size, config.mixture
    if config.mixing == "alternate":
        return dict.fromkeys(shares, n)
    if n < len(shares):
        raise ValueError(f"batch_size={n} cannot be divided among the heads {', '.join(shares)}; make it larger")
    total = sum(shares.values())
    exact = {name: share / total * n for name, share in shares.items()}
    found = {name: max(1, int(size)) for name, size in exact.items()}
    while sum(found.values()) != n:
        change = 1 if sum(found.values()) < n else -1
        able = [name for name in found if found[name] + change >= 1]
        found[max(able, key=lambda name: change * (exact[name] - found[name]))] += change
    return found


def keeps_checkpoints(config: RunConfig) -> bool:
    return bool(config.checkpoint_every or config.checkpoint_count or config.checkpoint_at)


def is_checkpoint(config: RunConfig, step: int) -> bool:
    """Whether weights are kept for the timeline after a step by schedule; 0 is before training."""
    if step == 0:
        return keeps_checkpoints(config)
    if config.checkpoint_every and step % config.checkpoint_every == 0:
        return True
    if not config.checkpoint_count:
        return False
    # The i-th of them is at steps^(i / (count - 1)): the nearest i is asked for.
    last = config.checkpoint_count - 1
    near = round(last * math.log(step) / math.log(config.steps)) if config.steps > 1 else last
    return any(0 <= i <= last and round(config.steps ** (i / last)) == step for i in (near - 1, near, near + 1))
