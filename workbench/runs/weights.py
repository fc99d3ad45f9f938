"""The weight files of a run folder: writing, reading, and checking that they fit the run's model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from workbench.models import MODELS, Decoder, DecoderConfig
from workbench.models.own_model_config import OwnModelConfig
from workbench.runs.config import RunConfig, parse_config
from workbench.tasks import OF_OWN_MODELS, TASKS
from workbench.util.files import parse_json, read_metadata, read_shapes, save_tensors
from workbench.util.messages import brief
from workbench.util.seeds import generator
from workbench.util.settings import flat_config

CHECKPOINTS, STATES, WEIGHTS = "checkpoints", "resume", "weights.safetensors"
MODEL = "model."  # prefix of the names of weights in a state of training
NOTED = "config"  # the entry of a weight file's metadata that says what it was trained as

T = TypeVar("T")


def save_weights(model: torch.nn.Module, path: Path, step: int, config: RunConfig) -> None:
    """Write a model's weights, with their training step and their run's config; the file is whole or not there."""
    save_tensors(path, weights_of(model), {"step": str(step), **noted(config)})


def noted(config: RunConfig) -> dict[str, str]:
    """What a file of weights says of the config that they were trained with: its model and its task."""
    return {NOTED: config.model_dump_json(include={"model", "task"})}


def weights_of(model: torch.nn.Module, prefix: str = "") -> dict[str, torch.Tensor]:
    """The tensors of a module, on the CPU. A tensor that has several names (tied weights) is there under its first.

    Args:
        model: the module.
        prefix: what to put before each name.
    """
    first_names: dict[int, str] = {}
    tensors = {}
    for name, tensor in model.state_dict().items():
        if first_names.setdefault(tensor.data_ptr(), name) == name:
            tensors[prefix + name] = tensor.detach().cpu().contiguous()
    return tensors


def check_shapes(config: RunConfig, path: Path, prefix: str = "") -> None:
    """Raise ValueError unless a file lists exactly the weights of the config's model, and was trained with this config.

    Only the header is read: neither the config nor the header can make this function take much memory. Files of earlier
    versions do not say what they were trained with (`Run.names_its_config`).

    Args:
        config: the run's config.
        path: the file.
        prefix: what stands before each weight's name in the file.
    """
    listed, n_parameters = _under(prefix, read_shapes(path), config.model), config.model.n_parameters
    if path.stat().st_size < n_parameters * config.dtype.itemsize:
        raise ValueError(f"{path} does not fit its config: it is too small for {n_parameters:,} parameters")
    if isinstance(config.model, OwnModelConfig):  # of whose tied tensors each is there under its first name
        own = MODELS[config.model.module].fresh(config.model.settings, generator(0, "own model"))
        due = weights_of(own.to(config.dtype))
    else:
        with torch.device("meta"), _Unfilled():
            due = Decoder(config.model).to(config.dtype).state_dict()
    expected = {name: (DTYPES[tensor.dtype], tuple(tensor.shape)) for name, tensor in due.items()}
    for name in sorted(expected.keys() | listed.keys()):
        if expected.get(name) != listed.get(name):
            want, got = (" ".join(map(str, shapes.get(name, ["nothing"]))) for shapes in (expected, listed))
            raise ValueError(f"{path} does not fit its config: {name} should be {want} and is {got}")
    _check_noted(config, path)


def _check_noted(config: RunConfig, path: Path) -> None:
    """Raise ValueError if weights were trained as another model or on another task than their run's config names.

    Of heads or attention, for one, the shapes of weights do not tell.
    """
    text = read_metadata(path).get(NOTED)
    if text in (None, noted(config)[NOTED]):  # none is of an earlier version, which reports say
        return
    try:
        written = parse_json(text)
        kind = (TASKS | OF_OWN_MODELS).get(config.task["name"])
        for name in kind.files if kind else ():  # which may lie elsewhere now, and are opened as the config is read
            written["task"].pop(name, None)
            written["task"] |= {name: config.task[name]} if name in config.task else {}
        trained_as = parse_config(written, of_a_run=True)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is corrupted: it names no config that it was trained with: {error}") from None
    then, now = (
        dict(flat_config(each.model_dump(mode="json", include={"model", "task"}))) for each in (trained_as, config)
    )
    changed = [
        f"{name} = {brief(then.get(name), 100)} (now {brief(now.get(name), 100)})"
        for name in sorted(now.keys() | then.keys())
        if then.get(name) != now.get(name)
    ]
    if changed:
        raise ValueError(f"{path} was trained with {', '.join(changed)}: its config was changed since; change it back")


class _Unfilled(TorchFunctionMode):
    """Leaves new weights as they are: without memory there is nothing to fill, and to try takes PyTorch a second."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__module__", None) == nn.init.__name__:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""The types of tensors that a run folder keeps, and what they are called in its files."""


def without_prefix(prefix: str, tensors: Mapping[str, T]) -> dict[str, T]:
    """The entries whose names have the prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _under(prefix: str, tensors: Mapping[str, T], config: DecoderConfig) -> dict[str, T]:
    """The entries whose names have the prefix, without it; of a tied model, the unembedding under its own name too."""
    weights = without_prefix(prefix, tensors)
    if config.tied and "token_embedding.weight" in weights:
        weights.setdefault("unembedding.weight", weights["token_embedding.weight"])
    return weights


def fill_model(model: Decoder, tensors: Mapping[str, torch.Tensor], path: Path, prefix: str = "") -> None:
    """Load the tensors whose names have the prefix into a model; `check_shapes` comes first."""
    weights = _under(prefix, tensors, model.config)
    if model.config.tied and not torch.equal(weights["unembedding.weight"], weights["token_embedding.weight"]):
        raise ValueError(f"{path} does not fit its config: tied is true, but embedding and unembedding differ")
    model.load_state_dict(weights)


def states(run: Path) -> list[Path]:
    """The files of the states from which training can be resumed, the latest first."""
    return sorted((p for p in (run / STATES).glob("step-*.safetensors") if step_of(p) >= 0), key=step_of, reverse=True)


def step_of(path: Path) -> int:
    """The training step in a file's name; −1 if there is none."""
    number = path.stem.removeprefix("step-")
    return int(number) if number.isascii() and number.isdecimal() else -1
