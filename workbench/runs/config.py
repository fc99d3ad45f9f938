"""The config of a run: every setting that decides it, checked when it is made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Annotated, Any, Literal

import torch
from pydantic import (
    Field,
    SerializeAsAny,
    StrictInt,
    StrictStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from workbench import tasks
from workbench.models import MODELS, DecoderConfig
from workbench.models.components import POSITIONS
from workbench.models.config import fit_attention
from workbench.models.own_model_config import OwnModelConfig
from workbench.objectives import OBJECTIVES, Objective
from workbench.tasks import Task
from workbench.util.lookup import lookup
from workbench.util.messages import brief, first_problem
from workbench.util.plugins import plugins_of
from workbench.util.seeds import generator
from workbench.util.settings import parse_condition
from workbench.util.strict_settings import Checked

FORMAT: Literal[1] = 1
NOT_SETTINGS = ("seed", "preset", "device", "workers", "format", "plugins")  # by which runs of one group may differ
HOW_OFTEN = ("log_every", "eval_every", "save_every", "checkpoint_every", "checkpoint_count", "checkpoint_at")
LARGEST_NUMBER = 2**53  # for counts of anything: up to here floats are exact


class NotedPlugin(Checked):
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
    test_conditions: tuple[dict[str, StrictInt | StrictStr], ...] = Field(
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

    plugins: tuple[NotedPlugin, ...] = Field((), description="plugins that it needs; found out, not set")

    @model_validator(mode="before")
    @classmethod
    def _fit_model_to_task(cls, data: Any, info: ValidationInfo) -> Any:
        """Fill in the task's defaults, the mixture, and the settings of the model that follow from the task."""
        if not isinstance(data, Mapping) or not isinstance(data.get("task"), Mapping):
            return data
        task = make_task(data["task"])
        data = {**data, "task": {"name": task.name, **task.model_dump(mode="json")}}
        mixture = data.get("mixture") or even_mixture(task)
        if isinstance(mixture, Mapping):  # main first, whatever the order it was written in
            mixture = dict(sorted(mixture.items(), key=lambda share: share[0] != "main"))
        data["mixture"] = mixture
        model = data.get("model")
        if isinstance(model, Mapping) and "module" in model:
            data["model"] = _own_model(model, must_be_known=bool((info.context or {}).get("of_a_run")))
        elif isinstance(model, Mapping):
            model = {"d_vocab": len(task.vocabulary), "n_ctx": task.n_ctx, "heads": task.heads, **model}
            if "attention" in model and not (info.context or {}).get("of_a_run"):
                model["attention"] = fit_attention(model["attention"], task)
            data["model"] = model
        if not (info.context or {}).get("of_a_run"):
            data["plugins"] = [asdict(plugin) for plugin in plugins_of(_parts_of(data))]
        return data

    @field_validator("test_conditions", mode="before")
    @classmethod
    def _conditions_may_be_text(cls, value: Any) -> Any:
        return parse_conditions(value)

    @field_validator("curriculum", mode="before")
    @classmethod
    def _settings_in_order(cls, value: Any) -> Any:
        if not isinstance(value, list | tuple) or not all(isinstance(settings, Mapping) for settings in value):
            example = '[{"max_length": 4}, {"max_length": 8}]'
            raise ValueError(brief(f"curriculum is a list of settings of the task, such as {example}, not {value!r}"))
        if any("name" in settings for settings in value):
            raise ValueError("a curriculum changes settings of the task, never the task: leave its name out")
        return value

    @field_validator("task")
    @classmethod
    def _check_task(cls, value: dict[str, Any]) -> dict[str, Any]:
        make_task(value)
        return value

    @field_validator("objectives")
    @classmethod
    def _spell_out_objectives(cls, value: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        return {name: objective_settings(name, settings).model_dump(mode="json") for name, settings in value.items()}

    @model_validator(mode="after")
    def _check_parts_fit(self) -> RunConfig:
        for name, value in self:
            if isinstance(value, int) and value > LARGEST_NUMBER and name != "seed":
                raise ValueError(f"{name} must be at most {LARGEST_NUMBER}, not {value}")
        task = self.make_task()
        self._check_model_fits(task)
        self._check_mixture(task)
        self._check_train_size()
        self._check_curriculum(task)
        if self.compile == "reduce-overhead" and self.accumulate > 1:
            raise ValueError(
                "compile=reduce-overhead cannot keep the parts of accumulate; take default, or accumulate 1"
            )
        if self.stop_on == "exact_match" and not self.eval_decoded:
            raise ValueError("stop_on=exact_match is about decoded answers: set eval_decoded to how many to decode")
        if self.eval_decoded > self.eval_size:
            raise ValueError(f"eval_decoded={self.eval_decoded} is more than the eval_size={self.eval_size} questions")
        self._check_objectives(task)
        return self

    def _check_model_fits(self, task: Task) -> None:
        if self.model.d_vocab != len(task.vocabulary):
            raise ValueError(f"model.d_vocab is {self.model.d_vocab}, but the task has {len(task.vocabulary)} tokens")
        if self.model.n_ctx < task.n_ctx:
            raise ValueError(f"model.n_ctx is {self.model.n_ctx}, but the task makes {task.n_ctx} tokens")
        if self.shift_positions and POSITIONS[self.model.positions].add is None:
            raise ValueError(
                f"shift_positions changes nothing where model.positions is {self.model.positions}: leave it out, or "
                "choose learned or sinusoidal positions, which are added to embeddings"
            )

    def _check_mixture(self, task: Task) -> None:
        for head, share in self.mixture.items():
            lookup({"main": None, **task.heads}, head, f"{task.name} head")
            if share <= 0:
                raise ValueError(f"mixture.{head} must be greater than 0, not {share:g}; leave it out instead")
        if "main" not in self.mixture and (self.stop_at or self.checkpoint_at or self.eval_decoded):
            raise ValueError(
                "stop_at, checkpoint_at and eval_decoded are about the main task, which mixture leaves out"
            )

    def _check_train_size(self) -> None:
        if self.train_size is None:
            return
        if self.train_size < self.batch_size:
            raise ValueError(f"train_size={self.train_size} is smaller than a batch of batch_size={self.batch_size}")
        least = min(self.mixture, key=lambda head: self.mixture[head])
        its_part = int(self.train_size * self.mixture[least] / sum(self.mixture.values()))
        if self.mixing == "alternate" and its_part < self.batch_size:
            raise ValueError(
                f"train_size={self.train_size} is divided among the heads {', '.join(self.mixture)}: {its_part} for "
                f"{least} are fewer than a batch of batch_size={self.batch_size}"
            )

    def _check_curriculum(self, task: Task) -> None:
        if not self.curriculum:
            return
        for number, (settings, easier) in enumerate(zip(self.curriculum, self.curriculum_tasks(), strict=True), 1):
            alike = easier.vocabulary.words == task.vocabulary.words and easier.heads == task.heads
            if not alike:
                raise ValueError(f"curriculum, step {number}: {settings} needs other tokens or heads")
            if easier.n_ctx > self.model.n_ctx:
                needed = f"a longer context: set model.n_ctx to {easier.n_ctx} or more"
                raise ValueError(f"curriculum, step {number}: {settings} needs {needed}")
            if easier.model_dump() == task.model_dump():
                raise ValueError(f"curriculum, step {number}: {settings} changes nothing of the task; leave it out")
        if self.train_size is not None:
            raise ValueError("a curriculum draws fresh sequences at every step: leave train_size out")
        if self.workers:
            raise ValueError("workers draw ahead, and a curriculum waits for the model: set workers to 0")
        if self.eval_every % self.bucket_steps:
            raise ValueError(
                "a curriculum is asked between two buckets: "
                f"eval_every={self.eval_every} is no multiple of bucket_steps={self.bucket_steps}"
            )

    def curriculum_tasks(self) -> tuple[Task, ...]:
        """The easier tasks that training begins with, in order. Raises ValueError, with its number, if one is none."""
        tasks = []
        for number, settings in enumerate(self.curriculum, 1):
            try:
                tasks.append(make_task({**self.task, **settings}))
            except ValueError as error:
                raise ValueError(f"curriculum, step {number}: {error}") from None
        return tuple(tasks)

    def _check_objectives(self, task: Task) -> None:
        if not self.objectives:
            raise ValueError(f"objectives is empty; there is: {', '.join(OBJECTIVES)}")
        with torch.device("meta"):  # checking a config takes none of the memory that it asks for
            objectives = self._objectives_for(task)
        for name, objective in objectives.items():
            if self.batch_size < objective.least_batch:
                raise ValueError(f"{name} needs batch_size of at least {objective.least_batch}, not {self.batch_size}")

    def without_seed(self) -> dict[str, Any]:
        """The settings that runs of one group share, JSON-ready: all that decide the trained model but the seed."""
        return self.model_dump(mode="json", exclude=set(NOT_SETTINGS))

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights."""
        return torch.float64 if self.precision == "float64" else torch.float32

    def make_task(self) -> Task:
        return make_task(self.task)

    def make_objectives(self) -> dict[str, Objective]:
        """The objectives with fresh parameters."""
        return self._objectives_for(self.make_task())

    def _objectives_for(self, task: Task) -> dict[str, Objective]:
        named = self.objectives.items()
        made = {name: make_objective(name, self.model, settings, task.pad) for name, settings in named}
        for objective in made.values():
            objective.fit_to_task(task)
        return made


def _own_model(model: Mapping[str, Any], must_be_known: bool) -> OwnModelConfig:
    """The config of a model of one's own. Raises ValueError in one line if it is wrong, or nothing knows its kind."""
    try:
        config = OwnModelConfig(**model)
    except ValidationError as error:
        raise ValueError(f"model: {first_problem(error, OwnModelConfig)}") from None
    if must_be_known:
        lookup(MODELS, config.module, "kind of model")
    return config


def _parts_of(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The parts that a config names, each a kind and a name; what is damaged is passed over."""
    yield "tasks", data["task"]["name"]
    objectives, model = data.get("objectives"), data.get("model")
    yield from (("objectives", str(name)) for name in (objectives if isinstance(objectives, Mapping) else ()))
    if isinstance(model, OwnModelConfig):
        yield "models", model.module
    layers = model.get("attention") if isinstance(model, Mapping) else ()
    for layer in layers if isinstance(layers, list) else [layers]:
        if isinstance(layer, Mapping):
            yield "attention", str(layer.get("variant"))


def even_mixture(task: Task) -> dict[str, float]:
    """The default mixture: the main task and every hint have equal shares."""
    return dict.fromkeys(("main", *task.heads), 1.0)


def parse_conditions(value: Any) -> Any:
    """Test conditions as a list of mappings without repeats, the names of each sorted; other values are not changed.

    Args:
        value: one mapping; one text, such as `length=20,repeats=4`, with spaces between several conditions; or a list
            of mappings and texts.

    Raises:
        ValueError: if a text is not of this form, or has a name twice.
    """
    if isinstance(value, str | Mapping):
        value = value.split() if isinstance(value, str) else [value]
    if not isinstance(value, list | tuple):
        return value
    conditions = [parse_condition(one.split(",")) if isinstance(one, str) else one for one in value]
    in_order = [dict(sorted(one.items(), key=str)) if isinstance(one, Mapping) else one for one in conditions]
    return [one for i, one in enumerate(in_order) if one not in in_order[:i]]


def condition_in_words(condition: Mapping[str, Any]) -> str:
    """A test condition as it is written and logged, `length=20,repeats=4`; `all` where nothing is asked for."""
    return ",".join(f"{key}={value}" for key, value in condition.items()) or "all"


def check_condition(task: Task, condition: Mapping[str, Any]) -> None:
    """Raise ValueError, which names it, if a task cannot draw sequences of a test condition.

    It draws one, which of some conditions takes minutes: opening a run, which anyone may have written, does not ask.
    """
    named = condition_in_words(condition)
    try:
        task.check_condition(condition)
        task.sample(1, generator(0, "condition"), **condition)
    except ValueError as error:
        raise ValueError(f"test condition {named}: {error}") from None
    except (TypeError, RuntimeError):  # of a task of one's own: a word where it counts
        raise ValueError(f"test condition {named}: {task.name} cannot draw sequences of this") from None


def make_task(spec: Mapping[str, Any]) -> Task:
    """A task from `{"name": ..., setting: value, ...}`. Raises ValueError in one line."""
    if "name" not in spec:
        raise ValueError(f"task needs a name; there is: {', '.join(tasks.TASKS)}")
    return tasks.make(spec["name"], **{key: value for key, value in spec.items() if key != "name"})


def make_objective(name: str, model: DecoderConfig, settings: Mapping[str, Any], pad: int = -1) -> Objective:
    """An objective by name, for a task whose padding token is `pad`. Raises ValueError in one line."""
    return OBJECTIVES[name](model, pad=pad, **objective_settings(name, settings).model_dump())


def objective_settings(name: str, settings: Mapping[str, Any]) -> Checked:
    """The checked settings of an objective. Raises ValueError in one line."""
    kind = lookup(OBJECTIVES, name, "objective")
    try:
        return kind.Settings(**settings)
    except ValidationError as error:
        raise ValueError(f"objective {name}: {first_problem(error, kind.Settings)}") from None


def of_old_config(data: dict[str, Any]) -> dict[str, Any]:
    """What a config.json says, with the meaning that it had when it was written (see `Settings.of_old_config`)."""
    objectives = data.get("objectives")
    if not isinstance(objectives, dict):
        return data
    old = {
        name: OBJECTIVES[name].Settings.of_old_config(settings)
        if name in OBJECTIVES and isinstance(settings, dict)
        else settings
        for name, settings in objectives.items()
    }
    return {**data, "objectives": old}


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
