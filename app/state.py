"""What the explorer loads, cached: runs, their hooked models, and captures of one input."""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import streamlit as st

from workbench.capture import Capture, Subject, capture
from workbench.inspection import hook_names
from workbench.runs import Run, list_runs, load_run
from workbench.tasks import Batch


def root() -> Path:
    """The folder whose runs may be opened: `--root`, given when the app starts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=Path, default=Path("runs"))
    return parser.parse_known_args(sys.argv[1:])[0].root


def plain(text: str) -> str:
    """A text for what shows Markdown, which would make links and pictures of a stranger's names."""
    return re.sub(r"([\\`*_\[\]<>$:~!|#&])", r"\\\1", text)


@dataclass(frozen=True)
class Opened:
    """A run with its model in memory.

    Attributes:
        names: the hook points that every capture keeps.
        version: which weights these are; with the run's path, the key of everything measured on them.
        lock: the browser's tabs share the model, and hooks set for one must not fire in another.
    """

    run: Run
    version: int
    hooked: Any
    subject: Subject
    names: list[str]
    lock: Any = field(default_factory=Lock)

    @property
    def key(self) -> tuple[str, int]:
        return str(self.run.path), self.version

    def see(self, batch: Batch) -> Capture:
        """Everything that the views measure, captured on one input (the task decides its targets)."""
        return _seen(self.key, tuple(batch.tokens[0].tolist()), self, batch)

    def capture(self, batch: Batch) -> Capture:
        """The same of any batch, not kept."""
        with self.lock:
            return capture(self.hooked, self.subject, batch, self.names)


def runs() -> list[Run]:
    """The runs directly under the root."""
    return list_runs(root())


def opened(run: Run) -> Opened:
    """A run with its model, loaded once for each version of its weights.

    Raises:
        ValueError: in one line, if the weights do not fit the config.
    """
    return _opened(str(run.path), run.version)


@st.cache_resource(show_spinner="Loading the model …", max_entries=8)
def _opened(path: str, version: int) -> Opened:
    run = load_run(path)
    subject = Subject.of(run.model(), run.task(), run.name)
    return Opened(run, version, run.hooked(), subject, hook_names(subject))


# A resource, not data: a capture refers to its model, which is shared and never copied.
@st.cache_resource(show_spinner="Running the model …", max_entries=16)
def _seen(key: tuple[str, int], tokens: tuple[int, ...], _opened: Opened, _batch: Batch) -> Capture:
    return _opened.capture(_batch)
