"""The config of a run: every setting that decides it, checked when it is made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import torch
from pydantic import (
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    SerializeAsAny,
    StrictInt,
    StrictStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from workbench import tasks
from workbench.models import DecoderConfig
from workbench.objectives import OBJECTIVES, Objective
from workbench.runs.conditions import parse_conditions
from workbench.runs.fit_to_task import check_fit, fit_to_task
from workbench.tasks import SEQUENCES, Sequences, Task, check_files
from workbench.util.files import read_object
from workbench.util.lookup import lookup
from workbench.util.messages import brief, first_problem
from workbench.util.plugins import not_loaded
from workbench.util.strict_settings import Checked, checked

CONFIG = "config.json"
LONGEST_CONFIG = 2**20  # bytes: 1,000 layers with a dozen settings each
FORMAT: Literal[1] = 1
NOT_SETTINGS = ("seed", "preset", "device", "workers", "format", "plugins")  # by which runs of one group may differ
HOW_OFTEN = ("log_every", "eval_every", "save_every", "checkpoint_every", "checkpoint_count", "checkpoint_at")


class _Plugin(Checked):
    """A plugin that a run needs: a part of its task, model or loss came with it."""

    name: str
    version: str = Field("", description="of an installed package")
    sha256: str = Field("", description="of a file")


class RunConfig(Checked):
    """Every setting that decides a run: the same config on the same machine trains the same weights."""

    format: Literal[1] = Field(FORMAT, description="version of the run folder's format")
    preset: str | None = Field(None, description="the preset it was made from")
    seed: int = Field(0, ge=0)
    task: dict[str, Any] = Field(description="a task's name and settings")
    model: SerializeAsAny[DecoderConfig] = Field(
        description="the model's shape; d_vocab, n_ctx and heads come from the task"
    )
    objectives: dict[str, dict[str, Any]] = Field(
        default={"next_token": {}}, description="objective -> its settings; the loss is their sum"
    )
    steps: int = Field(1000, ge=0, description="optimizer steps; 0 leaves the model as it was initialised")
    batch_size: int = Field(64, ge=1)
    train_size: int | None = Field(
        None,
        ge=1,
        description="sequences in the training set, visited in epochs and divided among the heads like the mixture; "
        "by default every batch is fresh",
    )
    bucket_steps: int = Field(
        1, ge=1, le=256, description="steps whose sequences are dealt anew by length, so that batches have less padding"
    )
    curriculum: tuple[dict[str, Any], ...] = Field(
        (), description="easier settings of the task, one after the other, to begin with; each waits for curriculum_at"
    )
    curriculum_at: float = Field(
        0.97, gt=0, le=1, description="held-out accuracy at which the next step of the curriculum follows"
    )
    shift_positions: bool = Field(
        False,
        description="each training sequence begins at a random position of the context, so that positions beyond "
        "training lengths are trained too; for learned and sinusoidal positions",
    )
    learning_rate: float = Field(1e-3, gt=0)
    schedule: Literal["cosine", "onecycle", "constant"] = "cosine"
    warmup: int = Field(50, ge=0, description="steps of linear warm-up (onecycle warms up over its first 30 %)")
    weight_decay: float = Field(0.0, ge=0)
    optimizer: Literal["adamw", "muon"] = Field(
        "adamw", description="muon is for the matrices of attention and MLPs, with AdamW for all else"
    )
    beta2: float = Field(0.98, ge=0, lt=1, description="AdamW's second-moment decay")
    clip: float = Field(1.0, gt=0, description="largest gradient norm")
    average: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="decay of an exponential moving average of the weights, such as 0.998, which is then what is "
        "evaluated and kept, in checkpoints and at the end; 0 for none",
    )
    mixture: dict[str, float] = Field(
        default={}, description="output head -> its share of training; by default main and each hint equally"
    )
    mixing: Literal["alternate", "together"] = Field(
        "alternate", description="heads take turns, a batch each; or divide every batch among them"
    )
    accumulate: int = Field(
        1, ge=1, description="parts that a batch is computed in, to save memory; the same gradient, a third slower"
    )
    precision: Literal["float32", "tf32", "float64", "bfloat16", "float16"] = Field(
        "float32",
        description="tf32 is float32 with rounded matrix products on a GPU; bfloat16 and float16 run under autocast, "
        "float16 with its loss scaled",
    )
    compile: Literal["default", "reduce-overhead"] | None = Field(
        None, description="torch.compile the model; reduce-overhead captures CUDA graphs, for small models"
    )
    workers: int = Field(0, ge=0, description="processes that draw the batches (the same for any number)")
    device: str = Field("auto", description='"auto", "cpu", "cuda", "cuda:1", …')
    log_every: int = Field(20, ge=1, description="steps between lines of metrics.jsonl")
    eval_every: int = Field(200, ge=1, description="steps between evaluations on held-out sequences")
    eval_size: int = Field(512, ge=1, description="held-out sequences per evaluation")
    eval_conditions: bool = Field(False, description="evaluate each of the task's test conditions (lengths) too")
    eval_training: bool = Field(
        False, description="evaluate on questions of the training side too, those of the training set if it is finite"
    )
    test_conditions: Annotated[tuple[dict[str, StrictInt | StrictStr], ...], BeforeValidator(parse_conditions)] = Field(
        (), description="other test conditions to evaluate, such as 'length=20,repeats=4 length=20,repeats=2'"
    )
    eval_decoded: int = Field(
        0,
        ge=0,
        description="questions answered by greedy decoding at each evaluation, for exact match and edit distance: held "
        "out, and of each test condition",
    )
    stop_at: float | None = Field(
        None, gt=0, le=1, description="stop at the first evaluation where the figure that stop_on names is as high"
    )
    stop_on: Literal["accuracy", "whole_answer", "exact_match"] = Field(
        "accuracy", description="what stop_at is about; exact_match is of decoded answers"
    )
    save_every: int = Field(100, ge=1, description="steps between states that a killed run is resumed from")
    checkpoint_every: int | None = Field(None, ge=1, description="steps between checkpoints; by default there are none")
    checkpoint_count: int | None = Field(None, ge=2, description="checkpoints at logarithmically spaced steps")
    checkpoint_at: tuple[Annotated[float, Field(gt=0, le=1)], ...] = Field(
        (), description="accuracies: a checkpoint at the first evaluation with each"
    )

    plugins: tuple[_Plugin, ...] = Field((), description="plugins that it needs; found out, not set")

    @model_validator(mode="wrap")
    @classmethod
    def _fits_its_task(cls, data: Any, make: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        """Make the task, here alone: fill in what follows from it, and check that everything else fits it."""
        if not isinstance(data, Mapping) or not isinstance(data.get("task"), Mapping):
            return make(data)  # which says what is wrong
        task = tasks.make(data["task"])
        config = make(fit_to_task(data, task, of_a_run=bool((info.context or {}).get("of_a_run"))))
        check_fit(config, task)
        return config

    @field_validator("curriculum", mode="before")
    @classmethod
    def _settings_in_order(cls, value: Any) -> Any:
        if not isinstance(value, list | tuple) or not all(isinstance(settings, Mapping) for settings in value):
            example = '[{"max_length": 4}, {"max_length": 8}]'
            raise ValueError(brief(f"curriculum is a list of settings of the task, such as {example}, not {value!r}"))
        if any("name" in settings for settings in value):
            raise ValueError("a curriculum changes settings of the task, never the task: leave its name out")
        reads = {setting for kind in tasks.TASKS.values() for setting in kind.files}
        if named := sorted(reads & {name for settings in value for name in settings}):
            raise ValueError(f"a curriculum changes none of the files that its task reads: leave {named[0]} out")
        return value

    @field_validator("objectives")
    @classmethod
    def _spell_out_objectives(cls, value: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        spelt_out = {}
        for name, settings in value.items():
            made = checked(lookup(OBJECTIVES, name, "objective").Settings, settings, f"objective {name}: ")
            spelt_out[name] = made.model_dump(mode="json")
        return spelt_out

    def curriculum_tasks(self) -> tuple[Task, ...]:
        """The easier tasks that training begins with, in order. Raises ValueError, with its number, if one is none."""
        easier = []
        for number, settings in enumerate(self.curriculum, 1):
            try:
                easier.append(tasks.make({**self.task, **settings}))
            except ValueError as error:
                raise ValueError(f"curriculum, step {number}: {error}") from None
        return tuple(easier)

    def stops_at(self, figures: Mapping[str, float]) -> bool:
        """Whether these figures of an evaluation are what training was to reach (`stop_at`)."""
        return self.stop_at is not None and figures.get(self.stop_on, -1.0) >= self.stop_at

    def without_seed(self) -> dict[str, Any]:
        """The settings that runs of one group share, JSON-ready: all that decide the trained model but the seed."""
        return self.model_dump(mode="json", exclude=set(NOT_SETTINGS))

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights."""
        return torch.float64 if self.precision == "float64" else torch.float32

    def make_task(self) -> Task:
        return tasks.make(self.task)

    def make_objectives(self, task: Task) -> dict[str, Objective]:
        """The objectives with fresh parameters, for the config's task."""
        named = self.objectives.items()
        made = {name: OBJECTIVES[name](self.model, pad=task.pad, **settings) for name, settings in named}
        for objective in made.values():
            objective.fit_to_task(task)
        return made


def parse_config(data: Any, *, of_a_run: bool = False) -> RunConfig:
    """A `RunConfig` from plain data.

    Args:
        data: the fields.
        of_a_run: these are the fields of a run that is there already. What follows from the task when a run is made
            (`Attention.fit_to_task`) is then left as it is: a config that does not say it was made before it was so.

    Raises:
        ValueError: in one line, naming the field, what it was, and what exists.
    """
    try:
        return RunConfig.model_validate(data, context={"of_a_run": of_a_run})
    except ValidationError as error:
        raise ValueError(first_problem(error, RunConfig)) from None


def read_config(path: Path) -> RunConfig:
    """The config of the run in whose folder this file is.

    Raises:
        ValueError: in one line, naming the file, if it is no config that this version reads.
    """
    data = read_object(path, LONGEST_CONFIG)
    if data.get("format") != FORMAT:
        if "format" not in data and "model_type" in data:
            raise ValueError(
                f"{path.parent} is a model of Hugging Face, not a run folder; "
                f"`workbench inspect {path.parent} --text FILE` inspects it on a text of yours"
            )
        raise ValueError(f"{path} is of format {data.get('format')!r}; this version reads format {FORMAT}")
    try:
        if isinstance(data.get("task"), dict):
            task = data["task"]
            if (task.get("name"), task.get("path")) == (Sequences.name, SEQUENCES):  # they lie in the run's own folder
                data["task"] = {**task, "path": str(path.parent / SEQUENCES)}
            check_files(data["task"], path.parent)
        return parse_config(data, of_a_run=True)
    except ValueError as error:
        raise ValueError(f"{path}: {error}{not_loaded(data.get('plugins'))}") from None
