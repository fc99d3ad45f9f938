"""Early stopping: training ends at the first evaluation with the held-out accuracy that the config asks for."""

from __future__ import annotations

from typing import Any

from workbench.runs import RunConfig


def stops_early(config: RunConfig, accuracy: float) -> bool:
    """Whether a run has reached its target, `stop_at`, and trains no further.

    Args:
        config: the run's config; without `stop_at` a run never stops early.
        accuracy: the held-out accuracy of the main task at this evaluation.
    """
    return config.stop_at is not None and accuracy >= config.stop_at


def stop_event(step: int, accuracy: float) -> dict[str, Any]:
    """The line of metrics.jsonl that says that a run stopped early."""
    return {"event": "target", "step": step, "accuracy": accuracy}
