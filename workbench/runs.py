"""The run folder: write, open, list. The only code that turns names into objects.

config.json                      what was asked for, strict and versioned
metrics.jsonl                    one line per logged step; after a resume, steps that were done twice are there twice
weights.safetensors              the final weights; there when training is finished
checkpoints/step-N.safetensors   weights on the way
resume/step-N.safetensors        the last two whole states of training: weights, optimizer, random numbers
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import pandas as pd
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from workbench import tasks
from workbench.files import (
    check_contents,
    load_tensors,
    new_folder,
    parse_json,
    read_metadata,
    read_shapes,
    read_text,
    save_tensors,
    write_atomically,
)
from workbench.lookup import lookup
from workbench.memory import most_memory
from workbench.models import Decoder, DecoderConfig
from workbench.objectives import OBJECTIVES, Objective
from workbench.tasks import Task
from workbench.validation import brief, harmless, in_one_line, one_line

if TYPE_CHECKING:
    from transformer_lens.model_bridge import TransformerBridge

FORMAT: Literal[1] = 1
CONFIG, METRICS, WEIGHTS = "config.json", "metrics.jsonl", "weights.safetensors"
CHECKPOINTS, STATES = "checkpoints", "resume"
LONGEST_CONFIG = 2**20  # bytes: 1,000 layers with a dozen settings each
LARGEST_NUMBER = 2**53  # of anything that is counted: floats are exact up to here

T = TypeVar("T")


class RunConfig(BaseModel):
    """All that decides a run: the same config on the same machine trains the same weights."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    format: Literal[1] = Field(FORMAT, description="version of the run folder's format")
    preset: str | None = Field(None, description="the preset it was made from")
    seed: int = Field(0, ge=0)
    task: dict[str, Any] = Field(description="a task's name and settings")
    model: DecoderConfig = Field(description="the model's shape; d_vocab, n_ctx and heads come from the task")
    objectives: dict[str, dict[str, Any]] = Field(
        default={"next_token": {}}, description="objective -> its settings; the loss is their sum"
    )
    steps: int = Field(1000, ge=1)
    batch_size: int = Field(64, ge=1)
    learning_rate: float = Field(1e-3, gt=0)
    schedule: Literal["cosine", "onecycle", "constant"] = "cosine"
    warmup: int = Field(50, ge=0, description="steps of linear warm-up (onecycle warms up over its first 30 %)")
    weight_decay: float = Field(0.0, ge=0)
    beta2: float = Field(0.98, ge=0, lt=1, description="AdamW's second-moment decay")
    clip: float = Field(1.0, gt=0, description="largest gradient norm")
    mixture: dict[str, float] = Field(
        default={}, description="output head -> its share of training; by default main and each hint equally"
    )
    mixing: Literal["alternate", "together"] = Field(
        "alternate", description="heads take turns, a batch each; or divide every batch among them"
    )
    accumulate: int = Field(
        1, ge=1, description="parts that a batch is computed in, to save memory; the same gradient, a third slower"
    )
    precision: Literal["float32", "float64", "bfloat16", "float16"] = Field(
        "float32", description="bfloat16 and float16 run under autocast, float16 with its loss scaled"
    )
    workers: int = Field(0, ge=0, description="processes that draw the batches (the same for any number)")
    device: str = Field("auto", description='"auto", "cpu", "cuda", "cuda:1", …')
    log_every: int = Field(20, ge=1, description="steps between lines of metrics.jsonl")
    eval_every: int = Field(200, ge=1, description="steps between evaluations on held-out sequences")
    eval_size: int = Field(512, ge=1, description="held-out sequences per evaluation")
    eval_conditions: bool = Field(False, description="evaluate each of the task's test conditions (lengths) too")
    eval_decoded: int = Field(
        0, ge=0, description="held-out questions answered by greedy decoding at each evaluation, for edit distance"
    )
    stop_at: float | None = Field(None, gt=0, le=1, description="stop at the first evaluation with this accuracy")
    save_every: int = Field(100, ge=1, description="steps between states that a killed run is resumed from")
    checkpoint_every: int | None = Field(None, ge=1, description="steps between checkpoints; by default there are none")
    checkpoint_count: int | None = Field(None, ge=2, description="checkpoints at logarithmically spaced steps")
    checkpoint_at: tuple[Annotated[float, Field(gt=0, le=1)], ...] = Field(
        (), description="accuracies: a checkpoint at the first evaluation with each"
    )

    @model_validator(mode="before")
    @classmethod
    def _fit_model_to_task(cls, data: Any) -> Any:
        """Fill in what the task decides about the model, so that one change of the task changes both."""
        if not isinstance(data, Mapping) or not isinstance(data.get("task"), Mapping):
            return data
        task = make_task(data["task"])
        data = {**data, "task": {"name": task.name, **task.model_dump(mode="json")}}
        data["mixture"] = data.get("mixture") or even_mixture(task)
        model = data.get("model")
        if isinstance(model, Mapping):
            data["model"] = {"d_vocab": len(task.vocabulary), "n_ctx": task.n_ctx, "heads": task.heads, **model}
        return data

    @field_validator("task")
    @classmethod
    def _task_is_whole(cls, value: dict[str, Any]) -> dict[str, Any]:
        make_task(value)
        return value

    @model_validator(mode="after")
    def _parts_fit(self) -> RunConfig:
        for name, value in self:
            if isinstance(value, int) and value > LARGEST_NUMBER and name != "seed":
                raise ValueError(f"{name} must be at most {LARGEST_NUMBER}, not {value}")
        task = self.make_task()
        if self.model.d_vocab != len(task.vocabulary):
            raise ValueError(f"model.d_vocab is {self.model.d_vocab}, but the task has {len(task.vocabulary)} tokens")
        if self.model.n_ctx < task.n_ctx:
            raise ValueError(f"model.n_ctx is {self.model.n_ctx}, but the task makes {task.n_ctx} tokens")
        for head, share in self.mixture.items():
            lookup({"main": None, **task.heads}, head, f"{task.name} head")
            if share <= 0:
                raise ValueError(f"mixture.{head} must be greater than 0, not {share:g}; leave it out instead")
        if not self.objectives:
            raise ValueError(f"objectives is empty; there is: {', '.join(OBJECTIVES)}")
        with torch.device("meta"):  # a config is read without taking the memory that it asks for
            objectives = self.make_objectives()
        for name, objective in objectives.items():
            if self.batch_size < objective.least_batch:
                raise ValueError(f"{name} needs batch_size of at least {objective.least_batch}, not {self.batch_size}")
        return self

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights."""
        return torch.float64 if self.precision == "float64" else torch.float32

    def make_task(self) -> Task:
        return make_task(self.task)

    def make_objectives(self) -> dict[str, Objective]:
        """The objectives with fresh parameters."""
        return {name: make_objective(name, self.model, settings) for name, settings in self.objectives.items()}


def even_mixture(task: Task) -> dict[str, float]:
    """The main task and every hint, equally."""
    return dict.fromkeys(("main", *task.heads), 1.0)


def make_task(spec: Mapping[str, Any]) -> Task:
    """A task from `{"name": ..., setting: value, ...}`. Raises ValueError in one line."""
    if "name" not in spec:
        raise ValueError(f"task needs a name; there is: {', '.join(tasks.TASKS)}")
    return tasks.make(spec["name"], **{key: value for key, value in spec.items() if key != "name"})


def make_objective(name: str, model: DecoderConfig, settings: Mapping[str, Any]) -> Objective:
    """An objective by name. Raises ValueError in one line."""
    kind = lookup(OBJECTIVES, name, "objective")
    try:
        return kind(model, **kind.Settings(**settings).model_dump())
    except ValidationError as error:
        raise ValueError(f"objective {name}: {one_line(error, kind.Settings)}") from None


def parse_config(data: Any) -> RunConfig:
    """A `RunConfig` from plain data.

    Raises:
        ValueError: in one line, naming the field, what it was, and what exists.
    """
    try:
        return RunConfig.model_validate(data)
    except ValidationError as error:
        raise ValueError(one_line(error, RunConfig)) from None


@dataclass(frozen=True)
class Run:
    """An opened run folder. Nothing is loaded until it is asked for."""

    path: Path
    config: RunConfig

    @property
    def name(self) -> str:
        """The folder's name, without what a terminal or a page would obey."""
        return harmless(self.path.resolve().name)

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
            return self._load(self.path / CHECKPOINTS / f"step-{step}.safetensors")
        return self._load(self.path / WEIGHTS) if self.finished else self._load_last_state()

    def _load(self, path: Path, prefix: str = "") -> Decoder:
        """The model with a file's weights; what does not fit is refused before it takes memory."""
        check_shapes(self.config, path, prefix)
        model = Decoder(self.config.model).to(self.config.dtype)
        load_weights(model, path, prefix)
        return model.eval()

    @property
    def version(self) -> int:
        """Changes whenever `model()` would load other weights: when its file was written, in nanoseconds."""
        latest = self.path / WEIGHTS if self.finished else next(iter(states(self.path)), None)
        return latest.stat().st_mtime_ns if latest is not None else 0

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
        """
        rows = [row for row in self.log() if "event" not in row]
        last = {row["step"]: row for row in rows}
        return pd.DataFrame([last[step] for step in sorted(last)])

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


def create(path: str | Path, config: RunConfig) -> Path:
    """Start a run folder with its config; it appears whole or not at all.

    Raises:
        ValueError: if the path already holds something (nothing is ever overwritten), or the run could not be opened
            from there (see `tasks.check_files`).
    """
    path = Path(path)
    tasks.check_files(config.task, path)
    check_free(path)
    with new_folder(path) as made:
        write_atomically(made / CONFIG, config.model_dump_json(indent=1).encode())
        (made / STATES).mkdir()
    return path


def check_free(path: Path) -> None:
    """Raise ValueError if there is something at the path where a run should go."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        if (path / CONFIG).is_file() and not (path / WEIGHTS).is_file():
            raise ValueError(f"{path} holds a run that is not finished: `workbench resume {path}` goes on with it")
        raise ValueError(f"{path} already exists and is not empty; give another --out, or move it away first")


def save_weights(model: torch.nn.Module, path: Path, step: int) -> None:
    """Write a model's weights so that the file is either whole or not there."""
    save_tensors(path, weights_of(model), {"step": str(step)})


def weights_of(model: torch.nn.Module, prefix: str = "") -> dict[str, torch.Tensor]:
    """A module's tensors on the CPU, each once, however many names it has."""
    shared: dict[int, str] = {}
    tensors = {}
    for name, tensor in model.state_dict().items():
        if shared.setdefault(tensor.data_ptr(), name) == name:
            tensors[prefix + name] = tensor.detach().cpu().contiguous()
    return tensors


def load_weights(model: Decoder, path: Path, prefix: str = "") -> None:
    """Fill a model with a file's weights, which `check_shapes` said fit. Raises ValueError if they are damaged."""
    tensors, _ = load_tensors(path)
    fill_model(model, tensors, path, prefix)


def check_shapes(config: RunConfig, path: Path, prefix: str = "") -> None:
    """Raise ValueError unless a file's header lists the weights of such a run's model, no more and no less.

    No memory is taken for what the config, or the header, says is there.
    """
    found, n_parameters = _under(prefix, read_shapes(path), config.model), config.model.n_parameters
    if path.stat().st_size < n_parameters * config.dtype.itemsize:
        raise ValueError(f"{path} does not fit its config: it is too small for {n_parameters:,} parameters")
    with torch.device("meta"):
        model = Decoder(config.model)
    kind = f"F{8 * config.dtype.itemsize}"
    expected = {name: (kind, tuple(tensor.shape)) for name, tensor in model.state_dict().items()}
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            want, got = (" ".join(map(str, listed.get(name, ["nothing"]))) for listed in (expected, found))
            raise ValueError(f"{path} does not fit its config: {name} should be {want} and is {got}")


def _under(prefix: str, tensors: Mapping[str, T], config: DecoderConfig) -> dict[str, T]:
    """What is listed under this prefix, the unembedding as well where the embedding serves as such."""
    weights = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    if config.tied and "token_embedding.weight" in weights:
        weights.setdefault("unembedding.weight", weights["token_embedding.weight"])
    return weights


def fill_model(model: Decoder, tensors: Mapping[str, torch.Tensor], path: Path, prefix: str = "") -> None:
    """Fill a model with the tensors under this prefix, which `check_shapes` said fit it."""
    weights = _under(prefix, tensors, model.config)
    if model.config.tied and not torch.equal(weights["unembedding.weight"], weights["token_embedding.weight"]):
        raise ValueError(f"{path} does not fit its config: tied is true, but embedding and unembedding differ")
    model.load_state_dict(weights)


MODEL = "model."


def states(run: Path) -> list[Path]:
    """The states that training can go on from, the latest first."""
    return sorted((p for p in (run / STATES).glob("step-*.safetensors") if step_of(p) >= 0), key=step_of, reverse=True)


def step_of(path: Path) -> int:
    """The step in a file's name, or −1."""
    number = path.stem.removeprefix("step-")
    return int(number) if number.isascii() and number.isdecimal() else -1


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
