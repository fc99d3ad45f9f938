"""The log of a run that trains, metrics.jsonl: appended to line by line, and mended after a kill."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workbench.util.memory import check_memory


class Log:
    """An open metrics.jsonl. A last line that a kill cut short is removed when the file is opened."""

    def __init__(self, path: Path) -> None:
        self.path, self.file = path, os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        check_memory(os.fstat(self.file).st_size, str(path))
        written = path.read_bytes()
        os.ftruncate(self.file, written.rfind(b"\n") + 1)
        os.lseek(self.file, 0, os.SEEK_END)

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: Any) -> None:
        os.close(self.file)

    def write(self, row: Mapping[str, Any]) -> None:
        """Append a line. Raises OSError, with the file's name, if the disk is full."""
        line = (json.dumps(row) + "\n").encode()
        try:
            while line:
                line = line[os.write(self.file, line) :]
        except OSError as error:
            error.filename = str(self.path)
            raise

    def sync(self) -> None:
        """Make sure that what was written survives a power cut."""
        os.fsync(self.file)
