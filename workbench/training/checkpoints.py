"""When checkpoints are kept: at every so many steps, at logarithmically spaced steps, or at levels of accuracy."""

from __future__ import annotations

import math

from workbench.runs import RunConfig


def keeps_checkpoints(config: RunConfig) -> bool:
    """Whether a run keeps any checkpoint."""
    return bool(config.checkpoint_every or config.checkpoint_count or config.checkpoint_at)


def is_checkpoint(config: RunConfig, step: int) -> bool:
    """Whether the schedule keeps a checkpoint after a step; step 0 is the model before training."""
    if step == 0:
        return keeps_checkpoints(config)
    if config.checkpoint_every and step % config.checkpoint_every == 0:
        return True
    if not config.checkpoint_count:
        return False
    # Checkpoint i is at step steps^(i / (count − 1)), rounded; only the i nearest to this step can be it.
    last = config.checkpoint_count - 1
    near = round(last * math.log(step) / math.log(config.steps)) if config.steps > 1 else last
    return any(0 <= i <= last and round(config.steps ** (i / last)) == step for i in (near - 1, near, near + 1))


def levels_passed(config: RunConfig, best: float, accuracy: float) -> list[float]:
    """The levels of `checkpoint_at` that an evaluation is the first to reach.

    Args:
        config: the run's config.
        best: the highest held-out accuracy before this evaluation.
        accuracy: the held-out accuracy of this evaluation.
    """
    return [level for level in config.checkpoint_at if best < level <= accuracy]
