"""What the explorer loads, cached: runs, their hooked models, and captures of one input."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
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


@dataclass(frozen=True)
class Opened:
    """A run with its model in memory."""

    run: Run
    hooked: Any
    subject: Subject

    def see(self, batch: Batch) -> Capture:
        """Everything that the views measure, captured on one batch."""
        return capture(self.hooked, self.subject, batch, hook_names(self.subject))


def runs() -> list[Run]:
    """The runs directly under the root."""
    return list_runs(root())


def opened(run: Run) -> Opened:
    """A run with its model, loaded once for each version of its weights."""
    return _opened(str(run.path), (run.path / "weights.safetensors").stat().st_mtime_ns)


@st.cache_resource(show_spinner="Loading the model …", max_entries=8)
def _opened(path: str, _version: int) -> Opened:
    run = load_run(path)
    return Opened(run, run.hooked(), Subject.of(run.model(), run.task(), run.name))
