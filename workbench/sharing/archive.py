"""Export of a run as one folder or zip, and import: a run that comes in becomes a complete run folder, or nothing."""

from __future__ import annotations

import os
import shutil
import stat
import struct
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import tee
from pathlib import Path
from typing import IO

from workbench.runs import CHECKPOINTS, CONFIG, LONGEST_CONFIG, METRICS, WEIGHTS, Run, load_run
from workbench.sharing.contents import MAX_FILES, README, REQUIRED, accept, allowed, refusing
from workbench.sharing.hugging_face import export_hugging_face, is_hugging_face
from workbench.sharing.model_card import card
from workbench.tasks import files_of
from workbench.util.files import check_free, new_file, new_folder, read_metadata, read_object

MAX_ROWS, MAX_CELLS = 1_000_000, 20_000_000
_CHUNK = 2**20
_OLDEST = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can hold
_END = struct.Struct("<4s4H2LH")  # the record at the end of a zip
_DIRECTORY_ENTRY = 512  # bytes of a zip's list that a file of a run can need, with room to spare


def export(run: Run | str | Path, out: str | Path, *, hugging_face: bool = False, repo_id: str | None = None) -> Path:
    """Write a finished run, with a model card, as a folder, or as a zip if `out` ends in .zip.

    The same run gives the same bytes on every machine. All of the run is read first, so that a damaged run is not
    passed on.

    Args:
        run: the run or its folder.
        out: what to write; it must not exist yet.
        hugging_face: write what `export_hugging_face` does; always so of a fine-tuned model.
        repo_id: the repository that the model card says to pull from.

    Raises:
        ValueError: if the run is not finished, damaged or too large, if its task reads files, or if `out` is taken.
    """
    if hugging_face or (not isinstance(run, Run) and is_hugging_face(Path(run))):
        return export_hugging_face(run, out, repo_id=repo_id)
    run = load_run(run)
    out = Path(out)
    check_free(out)
    if not run.finished:
        done = f"step {run.step()} of {run.config.steps}"
        raise ValueError(f"{run.path} is not finished ({done}); `workbench resume {run.path}` first, then export it")
    _refuse_tasks_with_files(run.config.task, run.path)
    names = _names_in(run.path)
    with refusing(run.path, run.path):
        accept((name, (run.path / name).stat().st_size) for name in names)
        _verify(run.path)
        readme = card(run, repo_id).encode()
    if out.suffix.lower() == ".zip":
        out.parent.mkdir(parents=True, exist_ok=True)
        with new_file(out) as unfinished:
            _write_zip(unfinished, run.path, names, readme)
    else:
        with new_folder(out) as folder:
            for name in names:
                (folder / name).parent.mkdir(exist_ok=True)
                shutil.copyfile(run.path / name, folder / name)
            (folder / README).write_bytes(readme)
    return out


def _write_zip(path: Path, folder: Path, names: list[str], readme: bytes) -> None:
    """Write a zip without compression: weights hardly shrink, and the bytes of compressors differ between versions."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=False) as archive:
        for name in sorted([*names, README]):
            entry = zipfile.ZipInfo(name, _OLDEST)
            entry.create_system, entry.external_attr = 3, (stat.S_IFREG | 0o644) << 16
            if name == README:
                archive.writestr(entry, readme)
                continue
            entry.file_size = (folder / name).stat().st_size
            with (folder / name).open("rb") as source, archive.open(entry, "w") as target:
                shutil.copyfileobj(source, target, _CHUNK)


def unpack(archive: str | Path, out: str | Path, *, called: str = "") -> Run:
    """Make a run folder from a folder or zip that `export` wrote; the archive is not trusted.

    Only the files of a run are taken, under their fixed names, so that nothing can be written elsewhere. Links, devices
    and files that grow beyond their declared size are refused. Everything is checked before the folder appears.

    Args:
        archive: a zip or a folder.
        out: the run folder to make; it must not exist yet, or be empty.
        called: what errors call the archive; by default its path.

    Raises:
        ValueError: in one line, if the archive is not a run, is damaged or too large, or if `out` is taken; nothing is
            left behind.
    """
    source, out, name = Path(archive), Path(out), called or archive
    check_free(out)
    if source.exists() and not (source.is_file() or source.is_dir()):
        raise ValueError(f"{source} is neither a file nor a folder")
    if not source.exists():
        raise ValueError(f"there is no {name}; `workbench export RUN OUT` makes what can be imported")
    with ExitStack() as opened:
        with refusing(name):
            # `accept` may refuse a file before the next is listed; `files` has those that it saw
            claims, files = tee(_in_folder(source) if source.is_dir() else _in_zip(source, opened))
            accept((file.name, file.size) for file in claims)
        with new_folder(out) as folder, refusing(name, folder):
            for file in files:
                _copy(file, folder / file.name)
            _verify(folder)
    return load_run(out)


@dataclass(frozen=True)
class _File:
    """A file of an archive: its name, the size that it claims, and a function that opens it."""

    name: str
    size: int
    open: Callable[[], IO[bytes]]


def _copy(file: _File, target: Path) -> None:
    """Copy a file, which must have exactly the size that it claimed."""
    target.parent.mkdir(exist_ok=True)
    left = file.size
    with file.open() as source, target.open("xb") as copy:
        while chunk := source.read(min(_CHUNK, left + 1)):
            left -= len(chunk)
            if left < 0:
                break
            copy.write(chunk)
    if left:
        raise ValueError(f"its {file.name} does not have the {file.size:,} bytes that it says")


def _in_folder(folder: Path) -> Iterator[_File]:
    for path in sorted(folder.iterdir()):
        inside = path.name == CHECKPOINTS and stat.S_ISDIR(path.lstat().st_mode)
        for file in sorted(path.iterdir()) if inside else [path]:
            name, status = file.relative_to(folder).as_posix(), file.lstat()
            if allowed(name) and not stat.S_ISREG(status.st_mode):
                raise ValueError(f"its {name} is a link, a folder or a device, and not a file")
            yield _File(name, status.st_size, partial(_open_plain, file))


def _open_plain(path: Path) -> IO[bytes]:
    """Open a file that may have been replaced since it was listed: links are not followed, pipes not waited for."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    file = os.fdopen(os.open(path, flags), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise ValueError(f"its {path.name} is not a file")
    return file


def _in_zip(path: Path, opened: ExitStack) -> Iterator[_File]:
    _check_end(path)
    archive = opened.enter_context(zipfile.ZipFile(path))
    for entry in archive.infolist():
        name = entry.orig_filename  # `filename` is cut at a null character
        if name == f"{CHECKPOINTS}/" and entry.file_size == 0:
            continue
        if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG):
            raise ValueError(f"its {name[:80]!r} is a link, a folder or a device, and not a file")
        if entry.flag_bits & 1 or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"its {name[:80]!r} is encrypted, or compressed in another way than by deflate")
        yield _File(name, entry.file_size, partial(archive.open, entry))


def _check_end(path: Path) -> None:
    """Refuse a zip whose list of files is too long, because Python's reader loads the whole list into memory.

    The record at the end says how long the list is. A zip is refused too if that record may not be the last (a comment
    follows) or not be the one that counts (the 64-bit extension precedes it).
    """
    locator = 20
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _END.size - locator))
        before, end = (tail := file.read())[: -_END.size], tail[-_END.size :]
    if len(end) < _END.size or not end.startswith(b"PK\5\6"):
        raise ValueError("it is not a zip, is cut short, or has something behind its end")
    _, _, _, _, count, length, _, comment = _END.unpack(end)
    if comment or before.startswith(b"PK\6\7") or count > MAX_FILES or length > MAX_FILES * _DIRECTORY_ENTRY:
        raise ValueError(f"it is a zip with a comment, of more than 4 GB, or of more than {MAX_FILES:,} files")


def _names_in(folder: Path) -> list[str]:
    """The names of the files of a run folder that are shared, sorted; without the model card, which is made anew."""
    checkpoints = (f"{CHECKPOINTS}/{path.name}" for path in (folder / CHECKPOINTS).glob("*"))
    return sorted(name for name in (*REQUIRED, *checkpoints) if allowed(name) and (folder / name).is_file())


def _refuse_tasks_with_files(task: object, source: object) -> None:
    """Raise ValueError if a task reads files: they are not shared, and a stranger must not choose what is read here.

    Args:
        task: its name and settings as plain data, since making it would already open the files.
        source: what the run is called.
    """
    if isinstance(task, dict) and files_of(task):
        raise ValueError(f"{source} learned from files of one machine, which do not travel: such a run is not shared")


def _verify(folder: Path) -> Run:
    """Open a run from a stranger and read all of it.

    Nothing is unpickled, imported or executed; names in the config are looked up in the workbench's own tables.

    Raises:
        ValueError: if it is not a whole run; a library may raise any other error (see `refusing`).
    """
    _refuse_tasks_with_files(read_object(folder / CONFIG, LONGEST_CONFIG).get("task"), "it")
    run = load_run(folder)
    for step in (None, *run.checkpoints()):  # None is the end
        run.model(step)
        path = folder / (WEIGHTS if step is None else f"{CHECKPOINTS}/step-{step}.safetensors")
        saved_at = read_metadata(path).get("step")
        if saved_at != str(run.step() if step is None else step):
            raise ValueError(f"{path.name} says that it was saved at step {saved_at!r}")
    # The log must not have too many lines, nor become a table of too many cells.
    if (run.path / METRICS).read_bytes().count(b"\n") > MAX_ROWS:
        raise ValueError(f"{METRICS} has more than {MAX_ROWS:,} lines")
    columns = set[str]()
    for number, row in enumerate(run.log(), 1):
        columns.update(row)
        if len(columns) * number > MAX_CELLS:
            raise ValueError(f"{METRICS} is a table of more than {MAX_CELLS:,} cells")
    return run
