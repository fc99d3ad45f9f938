"""New run folders: of a run that is to be trained, or of weights from elsewhere."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path

import torch

from workbench import tasks
from workbench.models import Decoder
from workbench.runs.config import RunConfig, parse_config
from workbench.runs.folder import CONFIG, STACK, Run, load_run
from workbench.runs.weights import STATES, WEIGHTS, save_weights
from workbench.tasks import Task
from workbench.util.files import check_free, new_folder, write_atomically


def create(path: str | Path, config: RunConfig, stack: Sequence[int] = ()) -> Path:
    """Make the folder of a run that is to be trained; it appears whole or not at all.

    Args:
        path: the folder to make.
        config: the config to train.
        stack: the seeds that are trained together with this one; it can be resumed only together with them.

    Raises:
        ValueError: if the path already holds something (nothing is ever overwritten), or the run could not be opened
            there because of the files that its task reads (see `tasks.check_files`).
    """
    path = Path(path)
    tasks.check_files(config.task, path)
    check_place(path)
    with new_folder(path) as folder:
        write_atomically(folder / CONFIG, config.model_dump_json(indent=1).encode())
        (folder / STATES).mkdir()
        if stack:
            write_atomically(folder / STATES / STACK, json.dumps({"seeds": list(stack)}).encode())
    return path


def save_run(path: str | Path, model: Decoder, task: Task, *, preset: str | None = None) -> Run:
    """Write a decoder of any origin as a finished run, to be opened and inspected like one that was trained here.

    Its config says 0 steps, because nothing is known of its training.

    Args:
        path: the run folder to make.
        model: the decoder, in float32 or float64.
        task: the task it is inspected on; its vocabulary and heads must be the model's.
        preset: a name for the model's origin.

    Raises:
        ValueError: if task and model do not fit, the weights are of another type, or the path already holds something.
    """
    dtypes = {parameter.dtype for parameter in model.parameters()}
    precision = {torch.float32: "float32", torch.float64: "float64"}.get(dtypes.pop()) if len(dtypes) == 1 else None
    if precision is None:
        raise ValueError("a run keeps all its weights in float32, or all in float64; convert the model first")
    shape = {field.name: getattr(model.config, field.name) for field in dataclasses.fields(model.config)}
    task_fields = {"name": task.name, **task.model_dump(mode="json")}
    config = parse_config({"preset": preset, "task": task_fields, "model": shape, "steps": 0, "precision": precision})
    path = Path(path)
    tasks.check_files(config.task, path)
    check_place(path)
    with new_folder(path) as folder:
        write_atomically(folder / CONFIG, config.model_dump_json(indent=1).encode())
        save_weights(model, folder / WEIGHTS, 0, config)
    return load_run(path)


def check_place(path: Path) -> None:
    """Raise ValueError if a run cannot be made at a path; of a run that is not finished, it says how to resume it."""
    if os.path.lexists(path / CONFIG) and not os.path.lexists(path / WEIGHTS):
        resumed = path.parent if (path / STATES / STACK).is_file() else path
        raise ValueError(f"{path} holds a run that is not finished: `workbench resume {resumed}` goes on with it")
    check_free(path)
