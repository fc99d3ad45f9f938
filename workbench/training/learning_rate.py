"""The learning rate at each training step: cosine, one cycle or constant, after a linear warm-up."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.runs import RunConfig
    from workbench.training.finetune_config import FinetuneConfig

ONE_CYCLE_WARM, ONE_CYCLE_START, ONE_CYCLE_END = 0.3, 1 / 25, 1e-4 / 25  # as PyTorch's OneCycleLR


def learning_rate(config: RunConfig | FinetuneConfig, step: int) -> float:
    """The learning rate of the step that follows `step` finished ones.

    `cosine` and `constant` first rise linearly over `warmup` steps; then the one falls to 0 along half a cosine, the
    other stays. `onecycle` is PyTorch's OneCycleLR.
    """
    if config.schedule == "onecycle":
        return config.learning_rate * _one_cycle(step, config.steps)
    warm = min(1.0, (step + 1) / (config.warmup + 1))
    if config.schedule == "constant" or step < config.warmup:
        return config.learning_rate * warm
    progress = (step - config.warmup) / max(1, config.steps - config.warmup)
    return config.learning_rate * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


def _one_cycle(step: int, steps: int) -> float:
    """The share of the highest learning rate: half a cosine up, then half a cosine down."""
    peak = max(ONE_CYCLE_WARM * (steps + 1) - 1, 0.0)
    if step <= peak and peak > 0:
        start, end, progress = ONE_CYCLE_START, 1.0, step / peak
    else:
        start, end, progress = 1.0, ONE_CYCLE_END, (step - peak) / max(steps - peak, 1)
    return end + (start - end) / 2 * (1 + math.cos(math.pi * progress))
