"""What of a run's config follows from its task: it is filled in, taken out again to be replaced, and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import torch
from pydantic import ValidationError

from workbench.models import MODELS
from workbench.models.config import fit_attention, without_fitted
from workbench.models.own_model_config import OwnModelConfig
from workbench.models.positions import POSITIONS
from workbench.objectives import OBJECTIVES
from workbench.tasks import Task
from workbench.util.lookup import lookup
from workbench.util.messages import first_problem
from workbench.util.plugins import ORIGINS

if TYPE_CHECKING:
    from workbench.runs.config import RunConfig

LARGEST_NUMBER = 2**53  # for counts of anything: up to here floats are exact


def fit_to_task(data: Mapping[str, Any], task: Task, *, of_a_run: bool) -> dict[str, Any]:
    """The fields of a config with the task's defaults, the mixture, and what of the model follows from the task.

    Args:
        data: the fields, unchecked.
        task: the task that they name.
        of_a_run: as of `parse_config`. Settings that did not exist when the run was made then get the meaning that they
            had (see `Settings.of_old_config`).
    """
    fitted = {**data, "task": {"name": task.name, **task.model_dump(mode="json")}}
    mixture = data.get("mixture") or _even_mixture(task)
    if isinstance(mixture, Mapping):  # main first, whatever the order it was written in
        mixture = dict(sorted(mixture.items(), key=lambda share: share[0] != "main"))
    fitted["mixture"] = mixture
    model, objectives = data.get("model"), data.get("objectives")
    if isinstance(model, Mapping) and "module" in model:
        try:
            own = OwnModelConfig(**model)
        except ValidationError as error:
            raise ValueError(f"model: {first_problem(error, OwnModelConfig)}") from None
        if of_a_run:
            lookup(MODELS, own.module, "kind of model")
        fitted["model"] = own
    elif isinstance(model, Mapping):
        model = {"d_vocab": len(task.vocabulary), "n_ctx": task.n_ctx, "heads": task.heads, **model}
        if "attention" in model and not of_a_run:
            model["attention"] = fit_attention(model["attention"], task)
        fitted["model"] = model
    if not of_a_run:
        needed = dict.fromkeys(ORIGINS[part] for part in _parts_of(fitted) if part in ORIGINS)  # each once
        fitted["plugins"] = [asdict(plugin) for plugin in needed]
    elif isinstance(objectives, Mapping):
        fitted["objectives"] = {
            name: OBJECTIVES[name].Settings.of_old_config(settings)
            if name in OBJECTIVES and isinstance(settings, dict)
            else settings
            for name, settings in objectives.items()
        }
    return fitted


def unfitted(config: RunConfig) -> dict[str, Any]:
    """A config as plain data without what follows from other fields, so that it follows them when they are replaced."""
    task, data = config.make_task(), config.model_dump(mode="json")
    model = data["model"]
    if config.mixture == _even_mixture(task):
        del data["mixture"]
    if model["d_head"] * model["n_heads"] == model["d_model"]:
        del model["d_head"]
    if model["n_kv_heads"] == model["n_heads"]:
        del model["n_kv_heads"]
    if model["d_mlp"] == 4 * model["d_model"]:
        del model["d_mlp"]
    model["attention"] = [without_fitted(layer, task) for layer in config.model.attention]
    if all(layer == model["attention"][0] for layer in model["attention"]):
        model["attention"] = model["attention"][0]
    return data


def check_fit(config: RunConfig, task: Task) -> None:
    """Raise ValueError, which names the field, unless the parts of a config fit its task and one another."""
    for name, value in config:
        if isinstance(value, int) and value > LARGEST_NUMBER and name != "seed":
            raise ValueError(f"{name} must be at most {LARGEST_NUMBER}, not {value}")
    _check_model_and_heads(config, task)
    if config.train_size is not None:
        if config.train_size < config.batch_size:
            raise ValueError(
                f"train_size={config.train_size} is smaller than a batch of batch_size={config.batch_size}"
            )
        least, share = min(config.mixture.items(), key=lambda head_and_share: head_and_share[1])
        its_part = int(config.train_size * share / sum(config.mixture.values()))
        if config.mixing == "alternate" and its_part < config.batch_size:
            raise ValueError(
                f"train_size={config.train_size} is divided among the heads {', '.join(config.mixture)}: {its_part} "
                f"for {least} are fewer than a batch of batch_size={config.batch_size}"
            )
    if config.curriculum:
        _check_curriculum(config, task)
    if config.compile == "reduce-overhead" and config.accumulate > 1:
        raise ValueError("compile=reduce-overhead cannot keep the parts of accumulate; take default, or accumulate 1")
    if config.stop_on == "exact_match" and not config.eval_decoded:
        raise ValueError("stop_on=exact_match is about decoded answers: set eval_decoded to how many to decode")
    if config.eval_decoded > config.eval_size:
        raise ValueError(f"eval_decoded={config.eval_decoded} is more than the eval_size={config.eval_size} questions")
    if not config.objectives:
        raise ValueError(f"objectives is empty; there is: {', '.join(OBJECTIVES)}")
    with torch.device("meta"):  # checking a config takes none of the memory that it asks for
        objectives = config.make_objectives(task)
    for name, objective in objectives.items():
        if config.batch_size < objective.least_batch:
            raise ValueError(f"{name} needs batch_size of at least {objective.least_batch}, not {config.batch_size}")


def _even_mixture(task: Task) -> dict[str, float]:
    """The default mixture: the main task and every hint have equal shares."""
    return dict.fromkeys(("main", *task.heads), 1.0)


def _parts_of(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The parts that a config names, each a kind and a name; what is damaged is passed over."""
    objectives, model = data.get("objectives"), data.get("model")
    parts = [("tasks", data["task"]["name"])]
    parts += [("objectives", str(name)) for name in (objectives if isinstance(objectives, Mapping) else ())]
    if isinstance(model, OwnModelConfig):
        parts.append(("models", model.module))
    layers = model.get("attention") if isinstance(model, Mapping) else ()
    layers = layers if isinstance(layers, list) else [layers]
    return parts + [("attention", str(layer.get("variant"))) for layer in layers if isinstance(layer, Mapping)]


def _check_model_and_heads(config: RunConfig, task: Task) -> None:
    model = config.model
    if model.d_vocab != len(task.vocabulary):
        raise ValueError(f"model.d_vocab is {model.d_vocab}, but the task has {len(task.vocabulary)} tokens")
    if model.n_ctx < task.n_ctx:
        raise ValueError(f"model.n_ctx is {model.n_ctx}, but the task makes {task.n_ctx} tokens")
    if config.shift_positions and POSITIONS[model.positions].add is None:
        raise ValueError(
            f"shift_positions changes nothing where model.positions is {model.positions}: leave it out, or "
            "choose learned or sinusoidal positions, which are added to embeddings"
        )
    for head, share in config.mixture.items():
        lookup({"main": None, **task.heads}, head, f"{task.name} head")
        if share <= 0:
            raise ValueError(f"mixture.{head} must be greater than 0, not {share:g}; leave it out instead")
    if "main" not in config.mixture and (config.stop_at or config.checkpoint_at or config.eval_decoded):
        raise ValueError("stop_at, checkpoint_at and eval_decoded are about the main task, which mixture leaves out")


def _check_curriculum(config: RunConfig, task: Task) -> None:
    for number, (settings, easier) in enumerate(zip(config.curriculum, config.curriculum_tasks(), strict=True), 1):
        if easier.vocabulary.words != task.vocabulary.words or easier.heads != task.heads:
            raise ValueError(f"curriculum, step {number}: {settings} needs other tokens or heads")
        if easier.n_ctx > config.model.n_ctx:
            needed = f"a longer context: set model.n_ctx to {easier.n_ctx} or more"
            raise ValueError(f"curriculum, step {number}: {settings} needs {needed}")
        if easier.model_dump() == task.model_dump():
            raise ValueError(f"curriculum, step {number}: {settings} changes nothing of the task; leave it out")
    if config.train_size is not None:
        raise ValueError("a curriculum draws fresh sequences at every step: leave train_size out")
    if config.workers:
        raise ValueError("workers draw ahead, and a curriculum waits for the model: set workers to 0")
    if config.eval_every % config.bucket_steps:
        raise ValueError(
            "a curriculum is asked between two buckets: "
            f"eval_every={config.eval_every} is no multiple of bucket_steps={config.bucket_steps}"
        )
