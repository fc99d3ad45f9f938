"""The run folder: how it is made, opened and listed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.models import MODELS, Decoder, OwnModel
from workbench.models.own_model_config import OwnModelConfig
from workbench.runs.config import CONFIG, RunConfig, read_config
from workbench.runs.fit_to_task import LARGEST_NUMBER
from workbench.runs.log import read_log
from workbench.runs.weights import (
    CHECKPOINTS,
    MODEL,
    NOTED,
    STATES,
    WEIGHTS,
    check_shapes,
    fill_model,
    states,
    step_of,
    weights_of,
)
from workbench.tasks import TASKS, Batch, Task
from workbench.util.files import check_contents, is_run, is_within, load_tensors, read_metadata
from workbench.util.messages import Notice, brief, harmless, in_one_line
from workbench.util.plugins import changed_since
from workbench.util.seeds import generator

if TYPE_CHECKING:
    import pandas as pd

    from workbench.models.hooked import AnyHooked

METRICS = "metrics.jsonl"
STACK = "stack.json"  # in the folder of the states


@dataclass(frozen=True)
class Run:
    """An opened run folder. Weights and logs are read when a method asks for them."""

    path: Path
    config: RunConfig

    @property
    def name(self) -> str:
        """The folder's name, with control characters spelt out."""
        return harmless(self.path.resolve().name)

    def name_at(self, step: int | None) -> str:
        """The run's name, followed by the training step if a checkpoint is meant."""
        return self.name if step is None else f"{self.name} at step {step:,}"

    def task(self) -> Task:
        return self.config.make_task()

    def batch(self, n: int = 8, seed: int = 0) -> Batch:
        """Sequences of its task that it was not trained on, the same for the same seed."""
        return self.task().sample(n, generator(seed), split="test")

    @property
    def finished(self) -> bool:
        """Whether training came to its end."""
        return (self.path / WEIGHTS).is_file()

    @in_one_line()
    def model(self, step: int | None = None) -> Decoder | OwnModel:
        """The trained model in evaluation mode, on the CPU.

        A run that is not finished gives the model of its last whole state.

        Args:
            step: the training step of a checkpoint to load instead.

        Raises:
            ValueError: in one line, if the weights are damaged or there are none.
        """
        if step is not None:
            if step not in (steps := self.checkpoints()):
                known = ", ".join(map(str, steps)) or "none"
                raise ValueError(f"{self.path} has no checkpoint of step {step}; there is: {known}")
            return self._load(self._checkpoint(step))
        return self._load(self.path / WEIGHTS) if self.finished else self._load_last_state()

    @property
    def names_its_config(self) -> bool:
        """Whether its final weights say which config they were trained with: those of earlier versions do not."""
        path = self.path / WEIGHTS
        return not path.is_file() or NOTED in read_metadata(path)

    def _load(self, path: Path, prefix: str = "") -> Decoder | OwnModel:
        """The model with the weights in a file, whose shapes are checked before any memory is taken."""
        check_shapes(self.config, path, prefix)
        config, (tensors, _) = self.config.model, load_tensors(path)
        if not isinstance(config, OwnModelConfig):
            model = Decoder(config).to(self.config.dtype)
            fill_model(model, tensors, path, prefix)
            return model.eval()
        module = MODELS[config.module].fresh(config.settings, generator(0, "own model")).to(self.config.dtype)
        missing, unexpected = module.load_state_dict(tensors, strict=False)
        if unexpected or set(missing) & set(weights_of(module)):  # a tied tensor is there under its first name alone
            raise ValueError(f"{path} does not fit its config: {(unexpected or missing)[0]}")
        return OwnModel.of_kind(config.module, config.settings, config.n_ctx, module)

    @property
    def version(self) -> int:
        """When the weights that `model()` loads were written, in nanoseconds; 0 if there are none.

        It changes whenever `model()` would load other weights.
        """
        for path in (self.path / WEIGHTS, *states(self.path)):
            with suppress(OSError):  # a run in training replaces its states; a link may lead to itself
                return path.stat().st_mtime_ns
        return 0

    def version_at(self, step: int | None) -> int:
        """The time in nanoseconds at which the weights that `model(step)` loads were written; 0 if there are none."""
        if step is None:
            return self.version
        with suppress(OSError):
            return self._checkpoint(step).stat().st_mtime_ns
        return 0

    def _checkpoint(self, step: int) -> Path:
        return self.path / CHECKPOINTS / f"step-{step}.safetensors"

    def _load_last_state(self) -> Decoder | OwnModel:
        problems = []
        for path in states(self.path):
            try:
                return self._load(path, MODEL)
            except ValueError as error:
                problems.append(str(error))
        if not self.path.exists():
            raise ValueError(f"{self.path} is not there any more: it was moved or deleted")
        reason = f" ({problems[0]})" if problems else ""
        raise ValueError(f"{self.path} has no weights yet{reason}; `workbench resume {self.path}` goes on training")

    def hooked(self, step: int | None = None) -> AnyHooked:
        """The trained model as a TransformerLens bridge, which takes and gives the task's words."""
        from workbench.models.hooked import HookedDecoder, hook

        hooked = hook(self.model(step))
        if isinstance(hooked, HookedDecoder):
            hooked.speak(self.task().fast_tokenizer())
        return hooked

    def checkpoints(self) -> list[int]:
        """The training steps that have a checkpoint, in order."""
        return sorted(step_of(p) for p in (self.path / CHECKPOINTS).glob("step-*.safetensors") if step_of(p) >= 0)

    @in_one_line()
    def step(self) -> int:
        """The training step of the latest weights. Raises ValueError if the final weights do not say theirs."""
        if self.finished:
            step = read_metadata(self.path / WEIGHTS).get("step", "")
            if not step.isdecimal() or int(step[:20]) > LARGEST_NUMBER:
                raise ValueError(f"{self.path / WEIGHTS} does not say its step, but {step!r}")
            return int(step)
        return max((step_of(path) for path in states(self.path)), default=0)

    def metrics(self) -> pd.DataFrame:
        """Every logged step as a row (see `logged`)."""
        import pandas as pd

        return pd.DataFrame(self.logged())

    def logged(self) -> list[dict[str, Any]]:
        """Every logged step: `step`, `seconds`, the loss and its parts, accuracies (see `Evaluation`).

        A step that was repeated, because training was killed and resumed from before it, is there once, as last done.
        A last line that was cut short is left out. Groups of accuracy that were renamed since the run was trained have
        their present names.
        """
        by_step = {row["step"]: row for row in self.log() if "event" not in row}
        rows = [by_step[step] for step in sorted(by_step)]
        kind = TASKS.get(str(self.config.task.get("name")))
        if kind is None or not kind.former_groups:
            return rows
        group = self.task().group
        old, new = f"accuracy/{kind.former_groups.get(group, group)}=", f"accuracy/{group}="
        return [
            {new + name.removeprefix(old) if name.startswith(old) else name: value for name, value in row.items()}
            for row in rows
        ]

    def latest(self) -> dict[str, Any]:
        """The latest value of each figure that was logged, but for NaN."""
        return {name: value for row in self.logged() for name, value in row.items() if value == value}

    def record(self) -> dict[str, Any]:
        """What the run was last trained with, and what it cost.

        With: versions, git commit, device, threads, processes. The cost, of a finished run: `step`, `seconds`, `tokens`
        (padding included), `tokens_per_second`, `peak_megabytes`.
        """
        record: dict[str, Any] = {}
        for row in self.log():
            if row.get("event") in ("started", "resumed", "finished"):
                record |= {key: value for key, value in row.items() if key not in ("event", "problems")}
        return record

    @in_one_line()
    def log(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl as they were written, with events such as `{"event": "resumed", "step": 200}`.

        Raises:
            ValueError: if a line before the last is damaged.
        """
        return read_log(self.path / METRICS)


def means_run(given: Any) -> bool:
    """Whether this is a run, or the folder of one: what `load_run` takes, and not a model of Hugging Face."""
    return isinstance(given, Run) or (isinstance(given, str | Path) and is_run(Path(given)))


@in_one_line()
def load_run(path: str | Path | Run) -> Run:
    """Open a run folder, finished or not. It may come from a stranger: nothing in it is executed. A run is returned.

    Raises:
        ValueError: in one line, if the folder, its config or its final weights are missing or damaged; if a link in the
            folder leads out of it, or its task reads files that it may not read (see `tasks.check_files`).
    """
    if isinstance(path, Run):
        return path
    path = Path(path)
    if not path.is_dir():
        raise ValueError(f"there is no run folder {path}; `workbench train PRESET --out {path}` makes one")
    if not (path / CONFIG).is_file():
        names = ", ".join(run.name for run in scan_runs(path)[0][:5])
        hint = f"; it contains the runs {names}" if names else ""
        raise ValueError(f"{path} is not a run folder: it has no {CONFIG}{hint}")
    check_contents(path)
    run = Run(path, read_config(path / CONFIG))
    if changed := changed_since(run.config.plugins):
        warnings.warn(f"{path}: {changed}; its numbers may have changed with it", Notice, stacklevel=2)
    if run.finished:
        read_metadata(path / WEIGHTS)
    elif not (path / STATES).is_dir():
        raise ValueError(f"{path} has no {WEIGHTS} and no {STATES}: its weights are gone; train it again")
    return run


def scan_runs(root: str | Path, open_run: Callable[[Path], Run] | None = None) -> tuple[list[Run], list[str]]:
    """The runs directly under a folder, ordered by name; and for each that cannot be opened, why.

    Args:
        root: the folder.
        open_run: opens one, as `load_run` does: a cached version.
    """
    runs, problems = [], []
    for config in sorted(Path(root).glob(f"[!.]*/{CONFIG}")):
        try:
            if not is_within(config.parent, root):
                raise ValueError(brief(f"{config.parent} is a link that leads out of {root}"))
            runs.append((open_run or load_run)(config.parent))
        except ValueError as error:
            problems.append(str(error))
    return runs, problems
