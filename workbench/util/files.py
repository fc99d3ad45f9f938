"""Files that are whole or not there, tensors in files that know when they are damaged, and files of strangers."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save

from workbench.util.memory import check_memory
from workbench.util.messages import brief

MOST_DIGITS = 40  # of a whole number: enough for a seed of 128 bits


def save_tensors(path: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors with a checksum of all that they and the metadata say; the file is either whole or not there."""
    path.parent.mkdir(exist_ok=True)
    metadata = {"format": "1", **metadata}
    write_atomically(path, save(dict(tensors), {**metadata, "sha256": _checksum(tensors, metadata)}))


def load_tensors(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """What `save_tensors` wrote. Raises ValueError in one line if a bit of it is not as it was written."""
    metadata = read_metadata(path)
    check_memory(path.stat().st_size, str(path))
    with _readable(path):
        tensors = load_file(path)
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
    except BaseException as error:
        partial.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = error.filename or str(path)  # a full disk does not say for what
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


def check_free(path: Path, *, file: bool = False) -> None:
    """Raise ValueError in one line unless something new can be made at a path: nothing is ever overwritten.

    Args:
        path: where.
        file: whether a file is to be made there; a folder may take the place of an empty one.
    """
    if os.path.lexists(path) and (file or path.is_symlink() or not path.is_dir() or any(path.iterdir())):
        raise ValueError(f"{path} already exists, and nothing is overwritten; give another path, or move it away first")
    check_can_make(path)


def check_can_make(path: Path) -> None:
    """Raise ValueError in one line unless a file or folder can be made at a path; asked before work is done for it."""
    if "\0" in str(path):
        raise ValueError("a path has no character of code 0; give another path")
    try:
        path.with_name(f".{path.name}.partial__").exists()  # a name too long, also while it is made; a circle of links
        there = next(parent for parent in (*path.parents, Path()) if os.path.lexists(parent))
        if not there.is_dir():
            kind = "a link that leads nowhere" if there.is_symlink() and not there.exists() else "a file"
            raise ValueError(f"{there} is {kind}, not a folder; give another path than {brief(path)}")
        if path.is_symlink() and not path.exists():
            raise ValueError(f"{path} is a link that leads nowhere; give another path, or take it away first")
        Path(tempfile.mkdtemp(prefix=".", dir=there)).rmdir()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ValueError(f"nothing can be made at {brief(path, 200)}: {why}; give another path") from None


def _umask() -> int:
    """The process's umask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def read_metadata(path: Path) -> dict[str, str]:
    """The words in a file's header. Raises ValueError in one line if the file is missing or damaged."""
    with _readable(path), safe_open(path, framework="pt") as file:
        return file.metadata() or {}


def read_shapes(path: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Each tensor's type and shape, from a file's header alone. Raises ValueError as `read_metadata` does."""
    with _readable(path), safe_open(path, framework="pt") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (it is no mapping)
        return {name: (part.get_dtype(), tuple(part.get_shape())) for name, part in slices.items()}


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Whatever safetensors says of a file that is not its own is a ValueError."""
    if not path.exists():
        raise ValueError(f"there is no {path}")
    if not path.is_file():
        raise ValueError(f"{path} is not a file")
    try:
        yield
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise ValueError(f"{path} is truncated or corrupted: {error}") from None


def read_text(path: Path, longest: int) -> str:
    """A file's text. Raises ValueError if it is no file, no UTF-8, or longer than so many bytes."""
    if not path.is_file():
        raise ValueError(f"{path} is not a file")
    if path.stat().st_size > longest:
        raise ValueError(f"{path} is corrupted: it has {path.stat().st_size:,} bytes, and at most {longest:,} are read")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is corrupted: it is not text") from None


def parse_json(text: str) -> Any:
    """JSON that can mean one thing only.

    Raises:
        ValueError: if it is not JSON (a JSONDecodeError), or if a name is there twice, a whole number is enormous, or
            brackets are nested too deeply.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_int=_whole)
    except RecursionError:
        raise ValueError("brackets are nested too deeply") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    name, times = Counter(name for name, _ in pairs).most_common(1)[0] if pairs else ("", 0)
    if times > 1:
        raise ValueError(f"{name!r} is there twice")
    return dict(pairs)


def _whole(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits is there")
    return int(digits)


def check_contents(folder: Path) -> None:
    """Raise ValueError unless everything in a folder, however deep, is a file or folder, or a link that stays inside.

    What a stranger made can then be read and written to, and nothing outside is.
    """
    inside = os.path.realpath(folder)
    for parent, folders, files in os.walk(folder):
        for path in (Path(parent, name) for name in (*folders, *files)):
            with suppress(FileNotFoundError):  # a run that trains replaces its files
                mode = path.lstat().st_mode
                if stat.S_ISLNK(mode):
                    if not Path(os.path.realpath(path)).is_relative_to(inside):
                        raise ValueError(f"{path} is a link that leads out of {folder}; put the file itself there")
                elif not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                    raise ValueError(f"{path} is neither a file nor a folder")
