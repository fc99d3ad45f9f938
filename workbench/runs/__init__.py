"""Runs on disk.

config.json                      what was asked for, strict and versioned
metrics.jsonl                    one line per logged step; after a resume, steps that were done twice are there twice
weights.safetensors              the final weights; there when training is finished
checkpoints/step-N.safetensors   weights on the way
resume/step-N.safetensors        the last two whole states of training: weights, optimizer, how far it is
resume/stack.json                the seeds that are trained together with this one, where several are
"""

from __future__ import annotations

from workbench.runs.config import RunConfig, even_mixture, make_objective, make_task, parse_config
from workbench.runs.folder import (
    CONFIG,
    LONGEST_CONFIG,
    METRICS,
    STACK,
    Run,
    check_no_run,
    check_place,
    create,
    list_runs,
    load_run,
    save_run,
    scan_runs,
    stack_of,
)
from workbench.runs.several import run_folders
from workbench.runs.weights import (
    CHECKPOINTS,
    MODEL,
    STATES,
    WEIGHTS,
    check_shapes,
    fill_model,
    load_weights,
    save_weights,
    states,
    step_of,
    weights_of,
)

__all__ = [
    "CHECKPOINTS",
    "CONFIG",
    "LONGEST_CONFIG",
    "METRICS",
    "MODEL",
    "STACK",
    "STATES",
    "WEIGHTS",
    "Run",
    "RunConfig",
    "check_no_run",
    "check_place",
    "check_shapes",
    "create",
    "even_mixture",
    "fill_model",
    "list_runs",
    "load_run",
    "load_weights",
    "make_objective",
    "make_task",
    "parse_config",
    "run_folders",
    "save_run",
    "save_weights",
    "scan_runs",
    "stack_of",
    "states",
    "step_of",
    "weights_of",
]
