"""The model card of a run in Markdown: its task, shape, training and accuracy, from the run folder alone.

The folder's name and the config may hold any text. It is escaped, so that YAML, Markdown and HTML all show it as text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd
import torch

from workbench.models import Decoder
from workbench.runs import Run
from workbench.util.messages import in_markdown

_LONGEST = 200
_ANSWERS = {"sequence": "whole sequences answered right", "position": "scored positions predicted right"}
_SHAPE = ("n_layers", "d_model", "n_heads", "d_head", "d_mlp", "d_vocab", "n_ctx", "positions", "activation", "norm")
_TRAINING = (
    "preset",
    "seed",
    "steps",
    "batch_size",
    "learning_rate",
    "schedule",
    "warmup",
    "weight_decay",
    "beta2",
    "clip",
    "precision",
    "mixture",
    "mixing",
    "accumulate",
)
COSTS = ("step", "seconds", "tokens", "tokens_per_second", "peak_megabytes")
_LIMITATIONS = (
    "## Limitations",
    "",
    "A small model of one task, trained once, from one seed: what is found in it may not hold for another seed, other "
    "settings of the task, longer sequences, or language models.",
    "",
)


def card(run: Run, repo_id: str | None = None) -> str:
    """The model card of a run, finished or not.

    Args:
        run: the run.
        repo_id: the repository that the card says to pull from; by default it says how to import a file.
    """
    config, model = run.config, run.config.model
    shape = {**{name: getattr(model, name) for name in _SHAPE}, "tied": model.tied, "dropout": model.dropout}
    shape |= {f"layer {number}": layer for number, layer in enumerate(model.attention)}
    shape |= {f"output head {name}": f"{classes} classes" for name, classes in model.heads.items()}
    training = {name: getattr(config, name) for name in _TRAINING}
    training["training sequences"] = "fresh in every batch" if config.train_size is None else config.train_size
    lines = [
        *_title(run),
        *_section("Task", {key: value for key, value in config.task.items() if key != "name"}),
        *_section("Model", shape),
        *_section("Objectives", {name: settings or "default" for name, settings in config.objectives.items()}),
        *_section("Training", {**training, "optimizer": "AdamW"}),
        *_section("What it was trained with, and what it cost", dict(_record(run))),
        *_how_measured(run),
        *_how_to_load(run, repo_id),
        *_LIMITATIONS,
    ]
    return "\n".join(lines)


def _title(run: Run) -> Iterable[str]:
    """The front matter that the Hub reads, and what was learned, by how large a model, how well."""
    variants = dict.fromkeys(layer["variant"] for layer in run.config.model.attention)
    tags = ["workbench", "mechanistic-interpretability", "algorithmic-task", run.config.task["name"], *variants]
    license_ = "# No license is given: the owner of the run chooses one, such as `license: mit`."
    front_matter = ["---", "library_name: workbench", f"tags: {json.dumps(tags)}", license_, "---", ""]
    task, measured = run.task(), _evaluations(run)
    with torch.device("meta"):  # counts the parameters without making them
        n_parameters = sum(p.numel() for p in Decoder(run.config.model).parameters())
    learned = f"A decoder of {n_parameters:,} parameters that learned `{task.name}`: {_escape(task.summary)}."
    right = "Its accuracy on held-out sequences was not measured."
    if not measured.empty:
        accuracy, whole = measured["accuracy"].iloc[-1], measured["whole_answer"].iloc[-1]
        words = "" if whole != whole or whole == accuracy else f"; whole answers right: **{whole:.1%}**"
        right = f"Accuracy on held-out sequences: **{accuracy:.1%}**{words}."
    return [*front_matter, f"# {_escape(run.name).strip() or 'A run'}", "", f"{learned} {right}", ""]


def _escape(text: object) -> str:
    """The beginning of a text, as Markdown (paragraph, heading, table) and HTML show it as it is."""
    text = str(text)
    return in_markdown(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{_escape(key)} {_value(inner)}" for key, inner in value.items())
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    return _escape(value if isinstance(value, str) else json.dumps(value))


def _record(run: Run) -> Iterable[tuple[str, Any]]:
    record = run.record()
    versions = record.get("versions")
    if isinstance(versions, Mapping):
        yield from versions.items()
    for name in ("commit", "device_name", "threads", "processes", *COSTS):
        yield name.replace("_", " "), record.get(name)
    if not run.names_its_config:
        yield "config", "believed: the weights do not say which one they were trained with"


def _section(title: str, rows: Mapping[str, Any]) -> Iterable[str]:
    table = [f"| {_escape(name)} | {_value(value)} |" for name, value in rows.items() if value is not None]
    return [f"## {title}", "", "| | |", "| --- | --- |", *table, ""]


def _evaluations(run: Run) -> pd.DataFrame:
    """The training steps at which held-out accuracy was measured, with it; older runs have NaN for whole answers."""
    metrics = run.metrics()
    if not {"step", "accuracy"} <= set(metrics):
        return pd.DataFrame({"step": [], "accuracy": [], "whole_answer": []})
    figures = metrics.reindex(columns=["step", "accuracy", "whole_answer"]).apply(pd.to_numeric, errors="coerce")
    return figures.dropna(subset=["step", "accuracy"])


def _how_measured(run: Run) -> Iterable[str]:
    config, task = run.config, run.task()
    lines = [
        f"Accuracy is the share of {_ANSWERS[task.unit]}, on {config.eval_size} sequences drawn at the start from the "
        "test side of the task's split; one that came twice counts twice. The split is by a fingerprint of the "
        "question, so none of them was trained on. Where the answer is a set, the share of it that was found counts. A "
        "chain of thought before the answer is scored too. A whole answer is right if each of its tokens is, predicted "
        "from the true tokens before it; of a chain of thought nothing counts there."
    ]
    rows = _evaluations(run).tail(5)
    if not rows.empty:
        lines += ["", "| step | held-out accuracy |", "| ---: | ---: |"]
        lines += [f"| {int(step)} | {accuracy:.4f} |" for step, accuracy, _ in rows.itertuples(index=False)]
    return ["## How it was measured", "", *lines, ""]


def _how_to_load(run: Run, repo_id: str | None) -> Iterable[str]:
    folder = re.sub(r"[^A-Za-z0-9_-]+", "-", run.name).strip("-")[:_LONGEST] or "run"
    if repo_id is None:
        command = f"workbench import PATH --out runs/{folder}    # of this folder, or of the zip"
        python = ["from workbench.sharing import unpack", "", f'run = unpack("PATH", "runs/{folder}")']
    else:
        command = f"workbench pull {repo_id} --out runs/{folder}"
        python = ["from workbench.sharing import pull", "", f'run = pull("{repo_id}", "runs/{folder}")']
    more = ["hooked = run.hooked()  # a TransformerLens bridge; run.model() is plain PyTorch"]
    shell = ["```", command, f"workbench inspect runs/{folder}", "```"]
    return ["## How to load it", "", *shell, "", "```python", *python, *more, "```", ""]
