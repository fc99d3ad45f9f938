"""Weights in a run folder's files, and whether they are its model's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import torch

from workbench.models import Decoder, DecoderConfig
from workbench.runs.config import RunConfig
from workbench.util.files import load_tensors, read_shapes, save_tensors

CHECKPOINTS, STATES, WEIGHTS = "checkpoints", "resume", "weights.safetensors"
MODEL = "model."  # before a weight's name in a state of training

T = TypeVar("T")


def save_weights(model: torch.nn.Module, path: Path, step: int) -> None:
    """Write a model's weights so that the file is either whole or not there."""
    save_tensors(path, weights_of(model), {"step": str(step)})


def weights_of(model: torch.nn.Module, prefix: str = "") -> dict[str, torch.Tensor]:
    """A module's tensors on the CPU, each once, however many names it has."""
    shared: dict[int, str] = {}
    tensors = {}
    for name, tensor in model.state_dict().items():
        if shared.setdefault(tensor.data_ptr(), name) == name:
            tensors[prefix + name] = tensor.detach().cpu().contiguous()
    return tensors


def load_weights(model: Decoder, path: Path, prefix: str = "") -> None:
    """Fill a model with a file's weights, which `check_shapes` said fit. Raises ValueError if they are damaged."""
    tensors, _ = load_tensors(path)
    fill_model(model, tensors, path, prefix)


def check_shapes(config: RunConfig, path: Path, prefix: str = "") -> None:
    """Raise ValueError unless a file's header lists the weights of such a run's model, no more and no less.

    No memory is taken for what the config, or the header, says is there.
    """
    found, n_parameters = _under(prefix, read_shapes(path), config.model), config.model.n_parameters
    if path.stat().st_size < n_parameters * config.dtype.itemsize:
        raise ValueError(f"{path} does not fit its config: it is too small for {n_parameters:,} parameters")
    with torch.device("meta"):
        model = Decoder(config.model)
    kind = f"F{8 * config.dtype.itemsize}"
    expected = {name: (kind, tuple(tensor.shape)) for name, tensor in model.state_dict().items()}
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            want, got = (" ".join(map(str, listed.get(name, ["nothing"]))) for listed in (expected, found))
            raise ValueError(f"{path} does not fit its config: {name} should be {want} and is {got}")


def _under(prefix: str, tensors: Mapping[str, T], config: DecoderConfig) -> dict[str, T]:
    """What is listed under this prefix, the unembedding as well where the embedding serves as such."""
    weights = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    if config.tied and "token_embedding.weight" in weights:
        weights.setdefault("unembedding.weight", weights["token_embedding.weight"])
    return weights


def fill_model(model: Decoder, tensors: Mapping[str, torch.Tensor], path: Path, prefix: str = "") -> None:
    """Fill a model with the tensors under this prefix, which `check_shapes` said fit it."""
    weights = _under(prefix, tensors, model.config)
    if model.config.tied and not torch.equal(weights["unembedding.weight"], weights["token_embedding.weight"]):
        raise ValueError(f"{path} does not fit its config: tied is true, but embedding and unembedding differ")
    model.load_state_dict(weights)


def states(run: Path) -> list[Path]:
    """The states that training can go on from, the latest first."""
    return sorted((p for p in (run / STATES).glob("step-*.safetensors") if step_of(p) >= 0), key=step_of, reverse=True)


def step_of(path: Path) -> int:
    """The step in a file's name, or −1."""
    number = path.stem.removeprefix("step-")
    return int(number) if number.isascii() and number.isdecimal() else -1
