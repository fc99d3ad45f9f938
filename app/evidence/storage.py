"""Where pins are kept: on disk in the folder that the explorer shows, or in the server's memory for one browser."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from threading import Lock

import streamlit as st
from pydantic import ValidationError

from workbench.app.evidence.pin import MOST_BYTES, Pin
from workbench.util.files import check_contents, read_text, write_atomically
from workbench.util.messages import brief

FOLDER = ".workbench-evidence"
MOST = 100  # pins of a folder or browser
MOST_TOGETHER = 100_000_000  # bytes of a folder's pins
_WRITING = Lock()


class InMemory:
    """Pins of one browser, kept as long as the server runs."""

    def __init__(self) -> None:
        self._pins: dict[str, Pin] = {}

    def pins(self) -> tuple[list[Pin], list[str]]:
        """The pins in the order they were pinned; and in one line each, what cannot be read."""
        return [pin for _, pin in sorted(self._pins.items())], []

    def put(self, pin: Pin) -> None:
        """Keep a pin; raises ValueError or OSError if there is no room."""
        _check_room(len(self._pins))
        self._pins[pin.id] = pin

    def note(self, id: str, words: str) -> None:
        """Give a pin a note; nothing if it is gone."""
        if id in self._pins:
            self._pins[id] = _with_note(self._pins[id], words)

    def remove(self, id: str) -> None:
        """Drop a pin."""
        self._pins.pop(id, None)


class OnDisk:
    """Pins of a folder, a file each: what two browsers pin never meets, and one damaged file is not all of them.

    A stranger may have made the folder: links are not followed, and files are read within limits. What cannot be read
    stays as it is.

    Args:
        root: the folder with the runs.
    """

    def __init__(self, root: Path) -> None:
        self.folder = root / FOLDER

    def pins(self) -> tuple[list[Pin], list[str]]:
        if self.folder.is_symlink() or not self.folder.is_dir():
            return [], []
        pins, problems, size = [], [], 0
        names = sorted(path.name for path in self.folder.iterdir() if path.suffix == ".json" and path.name[0] != ".")
        for name in names[:MOST]:
            path = self.folder / name
            try:
                found = path.lstat()
                size += found.st_size
                if size > MOST_TOGETHER:
                    raise ValueError(f"all pins together have more than {MOST_TOGETHER:,} bytes")
                pins.append(_read(str(path), (found.st_mtime_ns, found.st_size, found.st_ino)))
            except FileNotFoundError:  # removed a moment ago
                continue
            except (ValueError, OSError) as error:
                problems.append(brief(f"{FOLDER}/{name} is left out: {error}", 300))
        if len(names) > MOST:
            problems.append(f"{len(names) - MOST:,} more pins are left out: {MOST} are shown")
        return pins, problems

    def put(self, pin: Pin) -> None:
        with _WRITING:
            if self.folder.is_symlink():
                raise ValueError(f"{FOLDER} is a link")
            _check_room(len(list(self.folder.glob("*.json"))) if self.folder.is_dir() else 0)
            self.folder.mkdir(exist_ok=True)
            self._write(pin)

    def note(self, id: str, words: str) -> None:
        with _WRITING:
            path = self._path(id)
            if path.is_file():
                self._write(_with_note(Pin.read(read_text(path, MOST_BYTES)), words))

    def remove(self, id: str) -> None:
        self._path(id).unlink(missing_ok=True)

    def _path(self, id: str) -> Path:
        return self.folder / f"{id}.json"

    def _write(self, pin: Pin) -> None:
        check_contents(self.folder)  # a stranger's link would have us write elsewhere
        content = pin.model_dump_json(indent=1).encode()
        if len(content) > MOST_BYTES:
            raise ValueError(f"the figure has {len(content):,} bytes, and at most {MOST_BYTES:,} are kept")
        write_atomically(self._path(pin.id), content)


Place = InMemory | OnDisk


@st.cache_resource(show_spinner=False, max_entries=2 * MOST)
def _read(path: str, state: tuple[int, ...]) -> Pin:
    """The pin of a file, read once for each state of it."""
    file = Path(path)
    if file.is_symlink():
        raise ValueError("it is a link")
    pin = Pin.read(read_text(file, MOST_BYTES))
    if file.stem != pin.id:
        raise ValueError("its name is not that of its pin")
    return pin


def why_read_only(root: Path) -> str | None:
    """Why pins cannot be kept in this folder, in words that follow "because"; None if they can."""
    folder = root / FOLDER
    with suppress(OSError):
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            return f"{FOLDER} in it is not a folder"
        if os.access(folder if folder.exists() else root, os.W_OK | os.X_OK):
            return None
    return "it is read-only"


def _with_note(pin: Pin, words: str) -> Pin:
    try:
        return Pin.model_validate({**dict(pin), "note": words})
    except ValidationError:
        return pin


def _check_room(n: int) -> None:
    if n >= MOST:
        raise ValueError(f"there are {MOST} pins already; remove one first")
