"""The runs, hooked models and captures that the explorer has loaded, cached; and what every page looks at."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import streamlit as st

from workbench import tasks
from workbench.app.config_in_words import plain
from workbench.app.panels.code import Symbol, value_of
from workbench.capture import Capture, Subject, capture
from workbench.inspection import found, hook_names
from workbench.inspection.found import Kept
from workbench.models import AnyModel
from workbench.runs import CONFIG, STATES, WEIGHTS, ModelRun, Run, load_run, open_model, scan_runs
from workbench.tasks import Batch
from workbench.util.files import check_contents

ZOO = Path(__file__).resolve().parent / "zoo"
"""Run folders that come with the workbench, made by `workbench study zoo`."""
FIRST = "chain-chacal"  # of the zoo: one layer, one task, and the most to see


def root() -> Path:
    """The folder whose runs may be opened: `--root`, given when the app starts."""
    return _given().root


def as_seen(path: Path) -> Path:
    """A path as one writes it in the folder in which the explorer was started: relative, if it lies in there."""
    start = _given().start
    return path.relative_to(start) if path.is_relative_to(start) else path


def model_run() -> ModelRun | None:
    """The model of Hugging Face that the explorer was started for; None for one over runs alone."""
    given = _given()
    return None if given.model is None else open_model(given.model, given.text)


def _given() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=Path, default=Path("runs"))
    parser.add_argument("--start", type=Path, default=Path.cwd())
    parser.add_argument("--model")
    parser.add_argument("--text")
    return parser.parse_known_args(sys.argv[1:])[0]


@dataclass(frozen=True)
class Opened:
    """A run with its model in memory, at its end or at one checkpoint.

    Attributes:
        step: the checkpoint's training step; None for the end.
        version: which weights these are; with the run's path and the step, the key of everything measured on them.
        names: the hook points that every capture keeps.
        lock: held while hooks are set: all browser tabs share the model, and hooks of one must not fire in another.
    """

    run: Run
    step: int | None
    version: int
    model: AnyModel
    hooked: Any
    subject: Subject
    names: list[str]
    lock: Any = field(default_factory=Lock)

    @property
    def key(self) -> tuple[str, int, int | None]:
        return str(self.run.path), self.version, self.step

    @property
    def name(self) -> str:
        """The run's name; for a checkpoint with its training step."""
        return self.run.name_at(self.step)

    @property
    def kept(self) -> Kept | None:
        """What is kept of the run beside its weights; None of a checkpoint before the end."""
        return None if self.step is not None else kept(self.run)

    def see(self, batch: Batch) -> Capture:
        """Everything that pages measure, captured on one input and cached."""
        return _seen(self.key, tuple(batch.tokens[0].tolist()), self, batch)

    def capture(self, batch: Batch) -> Capture:
        """The same for any batch, not cached."""
        with self.lock:
            return capture(self.hooked, self.subject, batch, self.names)


def kept(run: Run) -> Kept | None:
    """What was found of a run at its end and is kept beside its weights, read again when that or these are others."""
    file = run.path / found.FOUND
    return _kept(str(run.path), run.version, file.stat().st_mtime_ns, run) if file.is_file() else None


@st.cache_resource(show_spinner=False, max_entries=2000)
def _kept(path: str, version: int, made: int, _run: Run) -> Kept | None:
    return found.kept(_run)


@dataclass(frozen=True, eq=False)
class Look:
    """What every page is about: a run and one input.

    Attributes:
        opened: the run.
        input: the input, a batch of one, as the code of panels has it (`batch`).
        suffix: what its names in that code end with, where it is the second of two: `_b` for `run_b`, `seen_b`.
    """

    opened: Opened
    input: Symbol
    suffix: str = ""

    @property
    def batch(self) -> Batch:
        batch: Batch = value_of(self.input)
        return batch

    @property
    def seen(self) -> Capture:
        return self.opened.see(self.batch)

    @property
    def key(self) -> tuple[Any, ...]:
        """The cache key of measurements of this input."""
        return (*self.opened.key, tuple(self.batch.tokens[0].tolist()))


def current(*, attention: bool = False) -> Look:
    """What the sidebar chose; if it could not be opened, the page stops here (the sidebar says why).

    Args:
        attention: the page is about attention: it stops where the model's cannot be seen, and says why.
    """
    look = st.session_state.get("look")
    if not isinstance(look, Look):
        st.info("Choose a run and an input in the sidebar; a message there says what is missing.")
        st.stop()
    if attention and (reason := look.opened.subject.no_pattern):
        st.info(f"This page is about attention, and {reason}. The other pages show this model's residual stream.")
        st.stop()
    return look


def runs() -> list[Run]:
    """The runs directly under the root that can be opened and have weights."""
    return [run for run in scanned()[0] if run.version]


def scanned() -> tuple[list[Run], list[str]]:
    """The runs directly under the root, also those without weights yet; and why others cannot be opened.

    Where there is none, the runs of the zoo, with the one that is opened first before all others.
    """
    if SCANNED not in st.session_state:
        scan()
    runs, problems = st.session_state[SCANNED]
    return list(runs), list(problems)


SCANNED = "scanned"  # in the session


def scan() -> None:
    """Look into the folder; until this is called again, pages and their parts see the same runs."""
    runs, problems = scan_runs(root(), _open)
    model = model_run()
    if model is not None:
        runs.insert(0, model)
    zoo = not runs and not problems
    if zoo:
        runs, problems = scan_runs(ZOO, _open)
        runs.sort(key=lambda run: run.name != FIRST)
    st.session_state[SCANNED], st.session_state[IS_ZOO] = (runs, problems), zoo and bool(runs)


IS_ZOO = "is_zoo"  # in the session


def _open(path: Path) -> Run:
    """`load_run`, once for every state of the files that it reads."""
    check_contents(path)
    run = _loaded(str(path), tuple(_state_of(path / name) for name in (CONFIG, WEIGHTS, STATES)))
    tasks.check_files(run.config.task, path)
    return run


def _state_of(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:  # there is none, or a link that leads to itself
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino


@st.cache_resource(show_spinner=False, max_entries=2000)
def _loaded(path: str, files: tuple[tuple[int, ...], ...]) -> Run:
    return load_run(path)


def shows_zoo() -> bool:
    """Whether the runs that are shown are those of the zoo, for want of any under the root."""
    return bool(st.session_state.get(IS_ZOO))


def first(among: list[Run]) -> str:
    """The name of the run that is opened first: the model that the explorer was started for, else the newest.

    Of the zoo it is the one with the most to see.

    Raises:
        ValueError: if there is none.
    """
    model = model_run()
    if model is not None and model in among:
        return model.name
    return FIRST if shows_zoo() else max(among, key=lambda run: run.version).name


def on_page() -> dict[str, Run]:
    """Path -> the runs that were opened for this page."""
    runs: dict[str, Run] = st.session_state.setdefault("on_page", {})
    return runs


def tell_if_gone(error: Exception) -> None:
    """Say that a run of the page was moved or deleted while it was drawn; raises the error if none was."""
    runs = [run for run in (*on_page().values(), *scanned()[0]) if not isinstance(run, ModelRun)]
    gone = next((run for run in runs if not run.path.exists()), None)
    if gone is None:
        raise error
    st.error(plain(f"{gone.path} was moved or deleted while this page was drawn: reload the page"))


def opened(run: Run, step: int | None = None) -> Opened:
    """Open a run with its model, which is loaded once for each version of its weights.

    Raises:
        ValueError: in one line, if the weights do not fit the config, or there is no such checkpoint.
    """
    on_page()[str(run.path)] = run
    return _opened(str(run.path), run.version_at(step), step, run)


@st.cache_resource(show_spinner="Loading the model …", max_entries=24)
def _opened(path: str, version: int, step: int | None, _run: Run) -> Opened:
    from workbench.models.hooked import hook

    model = _run.model(step)
    subject = Subject.of(model, _run.task(), _run.name_at(step))
    return Opened(_run, step, version, model, hook(model), subject, hook_names(subject))


# A resource, not data: a capture refers to its model, which is shared and never copied.
@st.cache_resource(show_spinner="Running the model …", max_entries=48)
def _seen(key: tuple[str, int, int | None], tokens: tuple[int, ...], _opened: Opened, _batch: Batch) -> Capture:
    return _opened.capture(_batch)
