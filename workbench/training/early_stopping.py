"""Early stopping: training ends at the first evaluation that reaches what the config asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.runs import RunConfig


def stop_event(config: RunConfig, step: int, figures: Mapping[str, float]) -> dict[str, Any] | None:
    """The line of metrics.jsonl that says that a run has reached its target and trains no further; None if it has not.

    Args:
        config: the run's config; without `stop_at` a run never stops early.
        step: the training step.
        figures: of the evaluation at this step; the target is of the one that `stop_on` names.
    """
    reached = config.stop_at is not None and figures.get(config.stop_on, -1.0) >= config.stop_at
    return {"event": "target", "step": step, config.stop_on: figures[config.stop_on]} if reached else None
