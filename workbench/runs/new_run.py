"""New run folders: of a run that is to be trained, of weights from elsewhere, of a model of one's own; or in memory."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from workbench.models import MODELS, Decoder, OwnModel
from workbench.runs.config import CONFIG, RunConfig, parse_config
from workbench.runs.folder import STACK, Run, load_run
from workbench.runs.weights import DTYPES, STATES, WEIGHTS, save_weights, weights_of
from workbench.tasks import SEQUENCES, Sequences, Task, check_files, own_sequences
from workbench.util.files import check_free, new_folder, write_atomically
from workbench.util.lookup import lookup


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
    check_files(config.task, path)
    check_place(path)
    with new_folder(path) as folder:
        write_atomically(folder / CONFIG, config.model_dump_json(indent=1).encode())
        (folder / STATES).mkdir()
        if stack:
            write_atomically(folder / STATES / STACK, json.dumps({"seeds": list(stack)}).encode())
    return path


def check_place(path: Path) -> None:
    """Raise ValueError if a run cannot be made at a path; of a run that is not finished, it says how to resume it."""
    if os.path.lexists(path / CONFIG) and not os.path.lexists(path / WEIGHTS):
        resumed = path.parent if (path / STATES / STACK).is_file() else path
        raise ValueError(f"{path} holds a run that is not finished: `workbench resume {resumed}` goes on with it")
    check_free(path)


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
    _check_dtypes(model)
    config = _untrained(model, task, preset)
    path = Path(path)
    check_place(path)
    return _write(path, config, model, task)


@dataclass(frozen=True)
class HeldRun(Run):
    """A run in memory: a model of one's own that no folder holds. Its path is a name, under which nothing lies."""

    held: OwnModel
    on: Task

    @staticmethod
    def of(model: OwnModel, task: Task, name: str) -> HeldRun:
        """A model of one's own and what it is inspected on, as a run in memory."""
        return HeldRun(Path(name), _untrained(model, task), model, task)

    def task(self) -> Task:
        return self.on

    def model(self, step: int | None = None) -> OwnModel:
        return self.held

    @property
    def finished(self) -> bool:
        return True

    def step(self) -> int:
        return 0


def save_model(
    path: str | Path,
    module: nn.Module,
    kind: str,
    on: Task | Tensor | Sequence[Tensor],
    *,
    settings: dict[str, Any] | None = None,
    n_ctx: int | None = None,
) -> Run:
    """Write a module of one's own as a run folder, which every command and the explorer open like any other.

    The kind is an entry of a plugin's `MODELS` (`workbench.models.ModuleKind`), which says how such a module is built
    and where its parts are; who opens the folder loads that plugin too.

    Args:
        path: the run folder to make.
        module: the module, with its weights.
        kind: its kind.
        on: what it is inspected on: a task whose vocabulary is the model's; or token
            sequences `[n, pos]` (see `tasks.own_sequences`).
        settings: what the kind builds it from.
        n_ctx: the longest sequence that the model takes; by default the longest that it is inspected on.

    Raises:
        ValueError: in one line, if there is no such kind, the module is not what the kind builds, its blocks do not add
            to a residual, or task and model do not fit; or if the path already holds something.
    """
    path = Path(path)
    check_place(path)
    parts = lookup(MODELS, kind, "kind of model").parts
    _check_dtypes(module)
    d_vocab = len(parts.of(module, "embed").weight)
    task = on if isinstance(on, Task) else own_sequences(on, d_vocab)
    model = OwnModel.of_kind(kind, dict(settings or {}), n_ctx or task.n_ctx, module)
    _check_builds(module, model)
    return _write(path, _untrained(model, task), model.module, task)


def _untrained(model: Decoder | OwnModel, task: Task, preset: str | None = None) -> RunConfig:
    """The config of a model that was not trained here, in float64 or float32."""
    names = [field.name for field in fields(model.config)]
    if isinstance(model, OwnModel):
        preset = f"own model {model.config.module}"
        sizes = ("n_layers", "d_model", "n_heads", "d_vocab", "n_ctx", "d_head")
        names = [*sizes, "module", "settings", "n_weights", "pattern"]
    return parse_config(
        {
            "preset": preset,
            "task": {"name": task.name, **task.model_dump(mode="json")},
            "model": {name: getattr(model.config, name) for name in names},
            "steps": 0,
            "precision": "float64" if model.token_embedding.weight.dtype == torch.float64 else "float32",
        }
    )


def _write(path: Path, config: RunConfig, module: nn.Module, task: Task) -> Run:
    """The folder of a finished run, which appears whole or not at all; sequences in memory go into it."""
    if isinstance(task, Sequences):
        config = config.model_copy(update={"task": {"name": task.name, "path": SEQUENCES}})
    else:
        check_files(config.task, path)
    with new_folder(path) as folder:
        if isinstance(task, Sequences):
            task.save(folder / SEQUENCES)
        write_atomically(folder / CONFIG, config.model_dump_json(indent=1).encode())
        save_weights(module, folder / WEIGHTS, 0, config)
    return load_run(path)


def _check_dtypes(module: nn.Module) -> None:
    """Raise ValueError if a run folder cannot keep one of a module's tensors."""
    floats = {parameter.dtype for parameter in module.parameters()}
    if not floats <= {torch.float32} and not floats <= {torch.float64}:
        raise ValueError("a run keeps all its weights in float32, or all in float64; convert the model first")
    for name, tensor in module.state_dict().items():
        if tensor.dtype not in DTYPES:
            raise ValueError(
                f"{name} is {tensor.dtype}, which a run folder does not keep: register it with persistent=False, so "
                "that the module makes it anew"
            )


def _check_builds(module: nn.Module, model: OwnModel) -> None:
    """Raise ValueError unless the kind builds modules with the same tensors."""
    built = {name: tuple(tensor.shape) for name, tensor in weights_of(model.fresh_module()).items()}
    given = {name: tuple(tensor.shape) for name, tensor in weights_of(module).items()}
    for name in sorted(built.keys() | given.keys()):
        if built.get(name) != given.get(name):
            raise ValueError(
                f"{model.config.module} builds another module from these settings: {name} is "
                f"{given.get(name, 'not there')}, and {built.get(name, 'not there')} as built"
            )
