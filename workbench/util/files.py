"""Files: written whole or not at all, tensors with a checksum, and safe reading of files that strangers wrote."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save

from workbench.util.memory import check_memory
from workbench.util.messages import brief

MOST_DIGITS = 40  # of an integer in JSON: enough for a seed of 128 bits
DEEPEST = 100  # levels of brackets, or parts of a name
LONGEST_TOML = 2**24  # bytes
_DEEP_NAME = re.compile(rf"""(?<![\w-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){{{DEEPEST}}}""")


def save_tensors(path: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors and metadata with a checksum of both; the file is either whole or not there."""
    path.parent.mkdir(exist_ok=True)
    metadata = {"format": "1", **metadata}
    write_atomically(path, save(dict(tensors), {**metadata, "sha256": _checksum(tensors, metadata)}))


def load_tensors(path: Path, *, foreign: bool = False) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """The tensors and the metadata that `save_tensors` wrote; a `foreign` file, written by others, has no checksum.

    Raises:
        ValueError: in one line, if the file is missing, or if a single bit differs from what was written.
    """
    metadata = read_metadata(path)
    check_memory(path.stat().st_size, str(path))
    with _readable(path):
        tensors = load_file(path)
    checksum = metadata.pop("sha256", None)
    if not (foreign and checksum is None) and checksum != _checksum(tensors, metadata):
        raise ValueError(f"{path} is corrupted: it is not what was saved")
    return tensors, metadata


def _checksum(tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> str:
    """SHA-256 of the metadata and of each tensor's name, type, shape and bytes."""
    digest = hashlib.sha256(json.dumps(dict(metadata), sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        rows = tensor.contiguous().flatten()[:, None]  # a single number may have stride 0
        digest.update(rows.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that it is either whole or not there, power cuts included."""
    with new_file(path) as partial, partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A temporary path to write a file to; the file gets its name at the end, and is deleted if anything fails."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        yield partial
        partial.replace(path)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = error.filename or str(path)  # the error of a full disk names no file
        raise


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A temporary folder to fill; it gets its name at the end, and is deleted if anything fails.

    An empty folder of that name is replaced. Raises ValueError if another process was faster to fill one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield folder
        mask = os.umask(0)  # it can only be read by setting it
        os.umask(mask)
        folder.chmod(0o777 & ~mask)
        try:
            if path.exists():
                path.rmdir()
            folder.rename(path)
        except OSError:
            check_free(path)
            raise
    except OSError as error:  # a full disk names no file, or one that is gone by now
        named = folder if error.filename is None else Path(str(error.filename))
        if named.is_relative_to(folder):
            error.filename = str(path / named.relative_to(folder))
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def files_replaced(folder: Path, listed: str) -> Iterator[Path]:
    """A temporary folder to fill; its files then take the place of those that the call before wrote into a folder.

    Other files of the folder stay. If anything fails before that, all is as it was.

    Args:
        folder: made if it is not there.
        listed: path within it of the list of what was written, which is written too.

    Raises:
        ValueError: as `check_replaceable`, before anything is replaced.
    """
    new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix=".", dir=folder))
    try:
        yield place
        files = [path.relative_to(place).as_posix() for path in sorted(place.rglob("*")) if path.is_file()]
        check_replaceable(folder, listed, map(Path, files))
        names = [os.fsencode(name).decode(errors="surrogateescape") for name in files]  # read in another locale too
        write_atomically(place / listed, json.dumps({"files": names}, indent=1).encode())
        for path in (folder / name for name in _files_listed(folder, listed)):
            path.unlink(missing_ok=True)
            with suppress(OSError):  # it holds other files too
                path.parent.rmdir()
        for name in (*files, listed):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.move(place / name, folder / name)
    except OSError as error:
        if error.filename is None or Path(os.fsdecode(error.filename)).is_relative_to(place):
            error.filename = str(folder)  # a full disk names no file, or one that nobody knows
        raise
    finally:
        shutil.rmtree(place, ignore_errors=True)
        if new:
            with suppress(OSError):  # it was filled
                folder.rmdir()


def check_replaceable(folder: Path, listed: str, files: Iterable[Path]) -> None:
    """Raise ValueError if in the place of one of these files is something that `files_replaced` has not written.

    Args:
        folder, listed: as of `files_replaced`.
        files: paths within the folder.

    Raises:
        ValueError: in one line, that names it; or as `files_listed`.
    """
    own = set(_files_listed(folder, listed))
    for file in files:
        there = [path for path in (file, *file.parents[:-1]) if os.path.lexists(folder / path)]
        for path in (path for path in there if path == file or not (folder / path).is_dir()):
            if path.as_posix() not in own:
                raise ValueError(
                    f"{folder / path} is there already, and {listed} does not list it as written here, so it is not "
                    "replaced; move it away, or give another folder"
                )


def _files_listed(folder: Path, listed: str) -> list[str]:
    """The files that `files_replaced` wrote into a folder, of those that lie in it; none where nothing was written.

    Raises:
        ValueError: in one line, if the list is damaged.
    """
    if not (folder / listed).exists():
        return []
    try:
        written = read_object(folder / listed, 2**24)["files"]
        names = [os.fsdecode(name.encode(errors="surrogateescape")) for name in written]
        root = os.path.realpath(folder)  # a list that a stranger wrote reaches nothing outside it
        return [name for name in names if Path(os.path.realpath(folder / name)).is_relative_to(root)]
    except (AttributeError, ValueError, KeyError, TypeError):
        raise ValueError(f"{folder / listed} is no list of files; move {folder} away, or give another folder") from None


def check_free(path: Path, *, file: bool = False) -> None:
    """Raise ValueError in one line unless something new can be made at a path: nothing is ever overwritten.

    Args:
        path: where.
        file: whether a file is to be made there; a folder that is to be made may replace an empty one.
    """
    if os.path.lexists(path) and (file or path.is_symlink() or not path.is_dir() or any(path.iterdir())):
        raise ValueError(f"{path} already exists, and nothing is overwritten; give another path, or move it away first")
    check_can_make(path)


def is_run(folder: Path) -> bool:
    """Whether a folder is a run's: its config has a format, which no model of Hugging Face has."""
    path = folder / "config.json"
    if not path.is_file():
        return False
    try:
        config = read_object(path, 2**24)
    except ValueError:  # damaged: whoever loads it says what is wrong
        return False
    return "format" in config and "model_type" not in config


def check_can_make(path: Path) -> None:
    """Raise ValueError in one line unless a file or folder can be made at a path.

    Within a run folder nothing is made but its `inspection`. Called before hours of work whose result is to be written
    there.
    """
    if "\0" in str(path):
        raise ValueError("a path has no character of code 0; give another path")
    if "\n" in str(path) or "\r" in str(path):  # what is said of it would be torn apart, and commands with it
        raise ValueError(f"{str(path)!r} has a line end in its name; give another path, or rename the folder")
    check_utf8(path)
    try:
        # Raises OSError if a name is too long, the temporary name of `new_file` included, or if links form a circle.
        path.with_name(f".{path.name}.partial__").exists()
        # The nearest folder above the path that exists is the one that must be writable.
        parent = next(parent for parent in (*path.parents, Path()) if os.path.lexists(parent))
        if not parent.is_dir():
            kind = "a link that leads nowhere" if parent.is_symlink() and not parent.exists() else "a file"
            raise ValueError(f"{parent} is {kind}, not a folder; give another path, or move it away")
        if path.is_symlink() and not path.exists():
            raise ValueError(f"{path} is a link that leads nowhere; give another path, or delete the link first")
        place = Path(os.path.realpath(path))
        run = next((above for above in place.parents if is_run(above)), None)
        if run is not None and not place.is_relative_to(run / "inspection"):
            raise ValueError(f"{run} is a run folder, into which nothing else is written; give a path outside it")
        Path(tempfile.mkdtemp(prefix=".", dir=parent)).rmdir()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ValueError(f"nothing can be made at {brief(path, 200)}: {reason}; give another path") from None


def check_utf8(path: Path, *, as_text: bool = False) -> None:
    """Raise ValueError unless a path is UTF-8 on the disk, as weights need it.

    Args:
        path: where.
        as_text: whether it has to be UTF-8 as Python reads it too, as a tokenizer and a browser need it; in a locale
            of another encoding it is not.
    """
    name = os.fsencode(path)
    if name.decode(errors="replace").encode() != name:
        raise ValueError(f"{path} is not in UTF-8 on the disk, and weights are not read from there; rename it")
    if as_text and str(path).encode(errors="replace") != name:
        raise ValueError(
            f"{path} is not in UTF-8 in this locale ({sys.getfilesystemencoding()}), as it has to be; set "
            "PYTHONUTF8=1, or give another path"
        )


def read_metadata(path: Path) -> dict[str, str]:
    """The metadata in the header of a safetensors file. Raises ValueError in one line if it is missing or damaged."""
    with _readable(path), safe_open(path, framework="pt") as file:
        return file.metadata() or {}


def read_shapes(path: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The dtype and shape of each tensor, read from the header alone. Raises ValueError as `read_metadata` does."""
    with _readable(path), safe_open(path, framework="pt") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (`file` is not a mapping)
        return {name: (part.get_dtype(), tuple(part.get_shape())) for name, part in slices.items()}


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn every error that safetensors raises on a damaged file into a ValueError that names the file."""
    if not path.exists():
        raise ValueError(f"there is no {path}")
    if not path.is_file():
        raise ValueError(f"{path} is not a file")
    check_utf8(path)
    try:
        yield
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise ValueError(f"{path} is truncated or corrupted: {error}") from None


def check_file(path: Path, what: str = "file") -> None:
    """Raise ValueError in one line unless a path is a file; a pipe or device might never end.

    Args:
        path: where.
        what: what the file is, in words.
    """
    if not path.exists():
        raise ValueError(f"there is no {what} {path}")
    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a {what}; give the path of a file")
    if not path.is_file():
        raise ValueError(f"{path} is a pipe or a device, not a {what}; save what it gives, and give that file")


@contextmanager
def open_text(path: Path) -> Iterator[TextIO]:
    """A text file opened to read: in UTF-8, without the mark (BOM) that it may begin with, lines ending in `\\n`.

    Raises:
        ValueError: in one line, if it is found to be in another encoding; UTF-16 is recognised at once.
    """
    with path.open("rb") as file:
        if b"\0" in file.read(4096):
            raise ValueError(f"{path} is not text in UTF-8: it has bytes 0, as UTF-16 has; save it as text in UTF-8")
    try:
        with path.open(encoding="utf-8-sig") as text:
            yield text
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise ValueError(f"{path} is not text in UTF-8: it has a byte {byte:#x}; save it as text in UTF-8") from None


def read_text(path: Path, longest: int) -> str:
    """The text of a file. Raises ValueError as `open_text`, and unless it is a file of at most `longest` bytes."""
    check_file(path)
    if path.stat().st_size > longest:
        raise ValueError(f"{path} is corrupted: it has {path.stat().st_size:,} bytes, and at most {longest:,} are read")
    with open_text(path) as file:
        return file.read()


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file. Raises ValueError in one line if it is none, is nested too deeply, or as `read_text`."""
    text = read_text(path, LONGEST_TOML)
    try:
        if _DEEP_NAME.search(text):  # which would take time with its square to parse
            raise RecursionError
        data = tomllib.loads(text)
        _check_depth(data)
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply: at most {DEEPEST} levels are read") from None
    except ValueError as error:  # not TOML's alone: Python reads no integer of more than 4300 digits
        raise ValueError(f"{path} is not TOML: {error}") from None
    return data


def read_object(path: Path, longest: int) -> dict[str, Any]:
    """The object that a JSON file holds. Raises ValueError in one line if it holds none, or as `read_text`."""
    text = read_text(path, longest)
    try:
        data = parse_json(text)
    except json.JSONDecodeError:
        raise ValueError(f"{path} is corrupted: it is not JSON") from None
    except ValueError as error:
        raise ValueError(f"{path} is corrupted: {error}") from None
    if not isinstance(data, dict):
        raise ValueError(f"{path} is corrupted: it is JSON, but not an object with named fields in braces {{}}")
    return data


def parse_json(text: str) -> Any:
    """Parse JSON, refusing what other parsers could read differently or what would take too long.

    Raises:
        JSONDecodeError: if the text is not JSON.
        ValueError: if an object has a name twice, an integer has more than `MOST_DIGITS` digits, or brackets are nested
            too deeply.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        name, times = Counter(name for name, _ in pairs).most_common(1)[0] if pairs else ("", 0)
        if times > 1:
            raise ValueError(f"the name {name!r} is there twice")
        return dict(pairs)

    def integer(digits: str) -> int:
        if len(digits) > MOST_DIGITS:
            raise ValueError(f"it holds an integer of {len(digits)} digits; at most {MOST_DIGITS} are read")
        return int(digits)

    try:
        data = json.loads(text, object_pairs_hook=unique, parse_int=integer)
        _check_depth(data)
    except RecursionError:
        raise ValueError(f"it is nested too deeply: at most {DEEPEST} levels are read") from None
    return data


def _check_depth(data: Any) -> None:
    """Raise RecursionError if lists and mappings are nested too deeply for what will walk through them."""
    level: list[Any] = [[data]]
    for _ in range(DEEPEST + 1):
        inner = (each for one in level for each in (one.values() if isinstance(one, dict) else one))
        level = [each for each in inner if isinstance(each, dict | list)]
        if not level:
            return
    raise RecursionError


def is_within(path: Path, *roots: Path | str) -> bool:
    """Whether a path leads into one of these folders, where links lead followed."""
    place = Path(os.path.realpath(path))
    return any(place.is_relative_to(os.path.realpath(root)) for root in roots)


def check_within(path: Path, root: Path) -> None:
    """Raise ValueError unless a path that a stranger names lies in a folder, links followed."""
    if not is_within(path, root):
        raise ValueError(brief(f"{path} is not in {root}, outside which nothing is read; give a path under it"))


def check_contents(folder: Path, *others: Path) -> None:
    """Raise ValueError unless a folder holds only files, folders, and links that lead into it or one of the others.

    Reading and writing in a folder that a stranger made then never reaches anything outside it.
    """
    for parent, folders, files in os.walk(folder):
        for path in (Path(parent, name) for name in (*folders, *files)):
            with suppress(FileNotFoundError):  # a run that trains replaces its files
                mode = path.lstat().st_mode
                if stat.S_ISLNK(mode):
                    if not is_within(path, folder, *others):
                        raise ValueError(f"{path} is a link that leads out of {folder}; put a copy of the file there")
                elif not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                    raise ValueError(f"{path} is neither a file nor a folder")
