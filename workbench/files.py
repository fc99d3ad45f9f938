"""Files that are whole or not there, and tensors in files that know when they are damaged."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save


def save_tensors(path: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors with a checksum of all that they and the metadata say; the file is either whole or not there."""
    path.parent.mkdir(exist_ok=True)
    metadata = {"format": "1", **metadata}
    write_atomically(path, save(dict(tensors), {**metadata, "sha256": _checksum(tensors, metadata)}))


def load_tensors(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """What `save_tensors` wrote. Raises ValueError in one line if a bit of it is not as it was written."""
    metadata = read_metadata(path)
    try:
        tensors = load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise ValueError(f"{path} is truncated or corrupted: {error}") from None
    if metadata.pop("sha256", None) != _checksum(tensors, metadata):
        raise ValueError(f"{path} is corrupted: it is not what was saved")
    return tensors, metadata


def _checksum(tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(dict(metadata), sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that it is either whole or not there, power cuts included."""
    with new_file(path) as partial, partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A place to write a file, which takes its name when all went well and leaves nothing behind otherwise."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        yield partial
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to fill, which takes its name when all went well and leaves nothing behind otherwise.

    An empty folder of that name gives way.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield made
        made.chmod(0o777 & ~_umask())
        if path.exists():
            path.rmdir()
        made.rename(path)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _umask() -> int:
    """The process's umask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def read_metadata(path: Path) -> dict[str, str]:
    """The words in a file's header. Raises ValueError in one line if the file is missing or damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            return file.metadata() or {}
    except FileNotFoundError:
        raise ValueError(f"there is no {path}") from None
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} is truncated or corrupted: {error}") from None
