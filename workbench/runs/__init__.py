"""Run folders: their files, how they are made, opened and listed. As a table: `workbench.runs_table`.

config.json                      every setting that decides the run, strict and versioned
found.json                       what was found of it, once it was looked at (`report.found`)
metrics.jsonl                    one line per logged step; steps that were repeated after a resume are there twice
weights.safetensors              the final weights, written when training is finished
checkpoints/step-N.safetensors   the weights at step N of training
resume/step-N.safetensors        the last two whole states of training: weights, optimizer, progress
resume/stack.json                the seeds that are trained together with this one, if it is one of a seed stack
"""

from __future__ import annotations

from workbench.runs.config import CONFIG, LONGEST_CONFIG, RunConfig, parse_config
from workbench.runs.expand_paths import open_runs
from workbench.runs.folder import METRICS, STACK, Run, load_run, means_run, scan_runs
from workbench.runs.log import read_log
from workbench.runs.model_run import ModelRun, open_model
from workbench.runs.new_run import HeldRun, check_place, create, save_model, save_run
from workbench.runs.weights import (
    CHECKPOINTS,
    MODEL,
    STATES,
    WEIGHTS,
    check_shapes,
    fill_model,
    noted,
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
    "HeldRun",
    "ModelRun",
    "Run",
    "RunConfig",
    "check_place",
    "check_shapes",
    "create",
    "fill_model",
    "load_run",
    "means_run",
    "noted",
    "open_model",
    "open_runs",
    "parse_config",
    "read_log",
    "save_model",
    "save_run",
    "save_weights",
    "scan_runs",
    "states",
    "step_of",
    "weights_of",
]
