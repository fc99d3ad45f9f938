"""When training keeps a checkpoint: every so many steps, at steps spaced logarithmically, or at an accuracy."""

from __future__ import annotations

import math

from workbench.runs import RunConfig


def keeps_checkpoint(config: RunConfig, step: int) -> bool:
    """Whether a checkpoint is kept after a step, whatever the accuracy; step 0 is the model before training."""
    if step == 0:
        return bool(config.checkpoint_every or config.checkpoint_count or config.checkpoint_at)
    if config.checkpoint_every and step % config.checkpoint_every == 0:
        return True
    if not config.checkpoint_count:
        return False
    # Checkpoint i is at step steps^(i / (count − 1)), rounded; only the i nearest to this step can be it.
    last = config.checkpoint_count - 1
    near = round(last * math.log(step) / math.log(config.steps)) if config.steps > 1 else last
    return any(0 <= i <= last and round(config.steps ** (i / last)) == step for i in (near - 1, near, near + 1))


def accuracies_passed(config: RunConfig, best: float, accuracy: float) -> list[float]:
    """The accuracies of `checkpoint_at` that an evaluation is the first to reach, where the best before it is known."""
    return [level for level in config.checkpoint_at if best < level <= accuracy]
