"""The run folder: make, open, list. The only code that turns names into objects."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch

from workbench import tasks
from workbench.models import Decoder
from workbench.runs.config import FORMAT, LARGEST_NUMBER, RunConfig, parse_config
from workbench.runs.weights import (
    CHECKPOINTS,
    MODEL,
    STATES,
    WEIGHTS,
    check_shapes,
    load_weights,
    save_weights,
    states,
    step_of,
)
from workbench.tasks import TASKS, Task
from workbench.util.files import (
    check_can_make,
    check_contents,
    check_free,
    new_folder,
    parse_json,
    read_metadata,
    read_text,
    write_atomically,
)
from workbench.util.memory import most_memory
from workbench.util.messages import brief, harmless, in_one_line

if TYPE_CHECKING:
    from transformer_lens.model_bridge import TransformerBridge

CONFIG, METRICS = "config.json", "metrics.jsonl"
STACK = "stack.json"  # among the states
LONGEST_CONFIG = 2**20  # bytes: 1,000 layers with a dozen settings each


@dataclass(frozen=True)
class Run:
    """An opened run folder. Nothing is loaded until it is asked for."""

    path: Path
    config: RunConfig

    @property
    def name(self) -> str:
        """The folder's name, without what a terminal or a page would obey."""
        return harmless(self.path.resolve().name)

    def name_at(self, step: int | None) -> str:
        """The run's name, with the step where it is as of a checkpoint."""
        return self.name if step is None else f"{self.name} at step {step:,}"

    def task(self) -> Task:
        return self.config.make_task()

    @property
    def finished(self) -> bool:
        """Whether training came to its end."""
        return (self.path / WEIGHTS).is_file()

    @in_one_line()
    def model(self, step: int | None = None) -> Decoder:
        """The trained model in evaluation mode, on the CPU; of a checkpoint if `step` is given.

        Of a run that is not finished, the model as of its last state that is whole.

        Raises:
            ValueError: in one line, if the weights are damaged or there are none.
        """
        if step is not None:
            return self._load(self._checkpoint(step))
        return self._load(self.path / WEIGHTS) if self.finished else self._load_last_state()

    def _load(self, path: Path, prefix: str = "") -> Decoder:
        """The model with a file's weights; what does not fit is refused before it takes memory."""
        check_shapes(self.config, path, prefix)
        model = Decoder(self.config.model).to(self.config.dtype)
        load_weights(model, path, prefix)
        return model.eval()

    @property
    def version(self) -> int:
        """Changes whenever `model()` would load other weights: when they were written, in nanoseconds; 0 for none."""
        for path in (self.path / WEIGHTS, *states(self.path)):
            with suppress(FileNotFoundError):  # a run that trains replaces its states
                return path.stat().st_mtime_ns
        return 0

    def version_at(self, step: int | None) -> int:
        """The same of `model(step)`: a checkpoint stays what it is while training goes on. 0 for none."""
        if step is None:
            return self.version
        with suppress(OSError):
            return self._checkpoint(step).stat().st_mtime_ns
        return 0

    def _checkpoint(self, step: int) -> Path:
        return self.path / CHECKPOINTS / f"step-{step}.safetensors"

    def _load_last_state(self) -> Decoder:
        problems = []
        for path in states(self.path):
            try:
                return self._load(path, MODEL)
            except ValueError as error:
                problems.append(str(error))
        why = f" ({problems[0]})" if problems else ""
        raise ValueError(f"{self.path} has no weights yet{why}; `workbench resume {self.path}` goes on training")

    def hooked(self, step: int | None = None) -> TransformerBridge:
        """The trained model as a TransformerLens bridge."""
        from workbench.models.hooked import hook

        return hook(self.model(step))

    def checkpoints(self) -> list[int]:
        """Steps that have a checkpoint, in order."""
        return sorted(step_of(p) for p in (self.path / CHECKPOINTS).glob("step-*.safetensors") if step_of(p) >= 0)

    @in_one_line()
    def step(self) -> int:
        """The step at which the latest weights were saved. Raises ValueError if they do not say."""
        if self.finished:
            said = read_metadata(self.path / WEIGHTS).get("step", "")
            if not said.isdecimal() or int(said[:20]) > LARGEST_NUMBER:
                raise ValueError(f"{self.path / WEIGHTS} does not say its step, but {said!r}")
            return int(said)
        return max((step_of(path) for path in states(self.path)), default=0)

    def metrics(self) -> pd.DataFrame:
        """Everything logged, one row a step; a last line cut short is left out.

        Steps done twice, because training was killed and resumed from before them, are there once, as last done.
        Figures of groups that had another name when the run was trained have the one of today.
        """
        rows = [row for row in self.log() if "event" not in row]
        last = {row["step"]: row for row in rows}
        frame = pd.DataFrame([last[step] for step in sorted(last)])
        kind = TASKS.get(str(self.config.task.get("name")))
        if kind is None or not kind.former_groups:
            return frame
        group = self.task().group
        old, new = f"accuracy/{kind.former_groups.get(group, group)}=", f"accuracy/{group}="
        of_old = {name: new + name.removeprefix(old) for name in frame if old != new and str(name).startswith(old)}
        for name, renamed in of_old.items():  # a run that was trained on has both
            was = frame.pop(name)
            frame[renamed] = frame[renamed].fillna(was) if renamed in frame else was
        return frame

    def record(self) -> dict[str, Any]:
        """What the run was last trained with (versions, git commit, device, threads, processes) and, of a finished run,
        what it cost: `step`, `seconds`, `tokens` (padding included), `tokens_per_second`, `peak_megabytes`.
        """
        record: dict[str, Any] = {}
        for row in self.log():
            if row.get("event") in ("started", "resumed", "finished"):
                record |= {key: value for key, value in row.items() if key not in ("event", "problems")}
        return record

    @in_one_line()
    def log(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl as they were written, events (`{"event": "resumed", "step": 200}`) among them.

        Raises:
            ValueError: if a line before the last is damaged.
        """
        path = self.path / METRICS
        lines = read_text(path, most_memory() // 16).splitlines() if path.exists() else []
        rows = []
        for number, line in enumerate(lines, 1):
            try:
                row = parse_json(line)
            except json.JSONDecodeError:
                if number < len(lines):
                    raise ValueError(f"{path} is corrupted: line {number} is not JSON") from None
                continue
            except ValueError as error:
                raise ValueError(f"{path} is corrupted: line {number}: {error}") from None
            if not _is_row(row):
                raise ValueError(f"{path} is corrupted: line {number} is not a row of figures")
            rows.append(row)
        return rows


def _is_row(row: Any) -> bool:
    """Whether this can be a line of metrics.jsonl: an event, or a step and its figures."""
    if not isinstance(row, dict) or "event" in row:
        return isinstance(row, dict)
    return isinstance(row.get("step"), int) and all(isinstance(value, int | float) for value in row.values())


@in_one_line()
def load_run(path: str | Path) -> Run:
    """Open a run folder, finished or not, whoever wrote it: nothing in it is run, or leads to files elsewhere.

    Raises:
        ValueError: in one line, if the folder or its config is missing or damaged, or its final weights are; if a link
            in the folder leads out of it, or its task reads files that it may not (see `tasks.check_files`).
    """
    path = Path(path)
    if not path.is_dir():
        raise ValueError(f"there is no run folder {path}; `workbench train PRESET --out {path}` makes one")
    if not (path / CONFIG).is_file():
        inside = ", ".join(run.name for run in list_runs(path)[:5])
        hint = f"; it contains the runs {inside}" if inside else ""
        raise ValueError(f"{path} is not a run folder: it has no {CONFIG}{hint}")
    check_contents(path)
    run = Run(path, _read_config(path / CONFIG))
    if run.finished:
        read_metadata(path / WEIGHTS)
    elif not (path / STATES).is_dir():
        raise ValueError(f"{path} has no {WEIGHTS} and no {STATES}: what was trained is gone; train it again")
    return run


def list_runs(root: str | Path) -> list[Run]:
    """The runs directly under a folder that can be opened, by name."""
    return scan_runs(root)[0]


def scan_runs(root: str | Path) -> tuple[list[Run], list[str]]:
    """The runs directly under a folder, by name; and why those that cannot be opened cannot."""
    found, problems = [], []
    inside = os.path.realpath(root)
    for config in sorted(Path(root).glob(f"[!.]*/{CONFIG}")):
        try:
            if not Path(os.path.realpath(config.parent)).is_relative_to(inside):
                raise ValueError(brief(f"{config.parent} is a link that leads out of {root}"))
            found.append(load_run(config.parent))
        except ValueError as error:
            problems.append(str(error))
    return found, problems


def create(path: str | Path, config: RunConfig, stack: Sequence[int] = ()) -> Path:
    """Start a run folder with its config; it appears whole or not at all.

    Args:
        path: where.
        config: what is to be trained.
        stack: the seeds that are trained together with this one, which it needs to go on as one of them.

    Raises:
        ValueError: if the path already holds something (nothing is ever overwritten), or the run could not be opened
            from there (see `tasks.check_files`).
    """
    path = Path(path)
    tasks.check_files(config.task, path)
    check_place(path)
    with new_folder(path) as made:
        write_atomically(made / CONFIG, config.model_dump_json(indent=1).encode())
        (made / STATES).mkdir()
        if stack:
            write_atomically(made / STATES / STACK, json.dumps({"seeds": list(stack)}).encode())
    return path


@in_one_line()
def stack_of(path: Path) -> tuple[int, ...]:
    """The seeds that an unfinished run is trained together with, its own among them; none if it is by itself.

    Raises:
        ValueError: if the file that says so is damaged.
    """
    file = path / STATES / STACK
    if not file.exists():
        return ()
    try:
        seeds = parse_json(read_text(file, LONGEST_CONFIG))["seeds"]
        if not (all(type(seed) is int for seed in seeds) and len(set(seeds)) == len(seeds)):
            raise TypeError
    except (KeyError, TypeError, json.JSONDecodeError):
        raise ValueError(f"{file} is corrupted: it does not list seeds") from None
    return tuple(seeds)


def save_run(path: str | Path, model: Decoder, task: Task, *, preset: str | None = None) -> Run:
    """Write a decoder of whatever origin as a finished run, to be opened and inspected like one that was trained here.

    Its config says 0 steps: nothing in it tells how the weights came to be.

    Args:
        path: the run folder to make.
        model: the decoder, in float32 or float64.
        task: what it is to be inspected on; its vocabulary and heads must be the model's.
        preset: what to call its origin.

    Raises:
        ValueError: if task and model do not fit, the weights are of another type, or the path already holds something.
    """
    dtypes = {parameter.dtype for parameter in model.parameters()}
    precision = {torch.float32: "float32", torch.float64: "float64"}.get(dtypes.pop()) if len(dtypes) == 1 else None
    if precision is None:
        raise ValueError("a run keeps weights in float32 or float64, all of them in one; convert the model first")
    shape = {field.name: getattr(model.config, field.name) for field in dataclasses.fields(model.config)}
    named = {"name": task.name, **task.model_dump(mode="json")}
    config = parse_config({"preset": preset, "task": named, "model": shape, "steps": 0, "precision": precision})
    path = Path(path)
    tasks.check_files(config.task, path)
    check_place(path)
    with new_folder(path) as made:
        write_atomically(made / CONFIG, config.model_dump_json(indent=1).encode())
        save_weights(model, made / WEIGHTS, 0)
    return load_run(path)


def check_no_run(folder: Path) -> None:
    """Raise ValueError if a folder that is to hold runs is a run, or no folder."""
    if (folder / CONFIG).is_file():
        raise ValueError(f"{folder} is a run itself; give another --out")
    check_can_make(folder / "run")


def check_place(path: Path) -> None:
    """Raise ValueError if a run cannot be made at a path; of a run that is not finished, it says how to resume it."""
    if os.path.lexists(path / CONFIG) and not os.path.lexists(path / WEIGHTS):
        resumed = path.parent if (path / STATES / STACK).is_file() else path
        raise ValueError(f"{path} holds a run that is not finished: `workbench resume {resumed}` goes on with it")
    check_free(path)


def _read_config(path: Path) -> RunConfig:
    text = read_text(path, LONGEST_CONFIG)
    try:
        data = parse_json(text)
    except json.JSONDecodeError:
        raise ValueError(f"{path} is corrupted: it is not JSON") from None
    except ValueError as error:
        raise ValueError(f"{path} is corrupted: {error}") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        found = data.get("format") if isinstance(data, dict) else None
        raise ValueError(f"{path} is of format {found!r}; this version reads format {FORMAT}")
    try:
        if isinstance(data.get("task"), dict):
            tasks.check_files(data["task"], path.parent)
        return parse_config(data)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
