"""A run that is killed at a step and resumed, beside the same run that never was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import workbench
from workbench.runs import RunConfig
from workbench.training.training_run import TrainingRun
from workbench.util.files import load_tensors

FEW_STEPS: dict[str, Any] = {
    "batch_size": 4,
    "eval_size": 8,
    "steps": 12,
    "eval_every": 6,
    "log_every": 1,
    "save_every": 5,
    "precision": "float64",
    "device": "cpu",
}
"""A run of a second, with states to go on from, whose arithmetic is exact enough to be compared."""


def train_until_killed(config: RunConfig, folder: Path, step: int) -> None:
    """Train a run that dies before it has recorded a step."""
    usual = TrainingRun.record

    def record(member: TrainingRun, *given: Any) -> None:
        if member.learner.step == step:
            raise MemoryError
        usual(member, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingRun, "record", record)
        with pytest.raises(MemoryError):
            workbench.train(config, folder, progress=False)


def check_resumed(config: RunConfig, killed: Path, whole: Path) -> dict[str, torch.Tensor]:
    """Resume a run that died: it has bit for bit the weights of one that did not, which are returned."""
    workbench.train(config, whole, progress=False)
    assert workbench.resume(killed, progress=False).finished
    expected, found = (load_tensors(folder / "weights.safetensors")[0] for folder in (whole, killed))
    assert expected.keys() == found.keys() and all(torch.equal(expected[name], found[name]) for name in expected)
    return expected
