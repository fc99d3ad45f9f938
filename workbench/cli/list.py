"""`workbench list`: say what exists."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Callable, Mapping
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from workbench.cli.output import say
from workbench.cli.parser import AddCommand
from workbench.util.lookup import lookup
from workbench.util.plugins import KINDS

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo


def add(command: AddCommand) -> None:
    parser = command(summary="say what exists")
    parser.add_argument("what", nargs="?", choices=tuple(LISTED), help="what to list; without it, what there is")


def run(options: argparse.Namespace, fields: list[str]) -> None:
    say(listed(options.what))


def listed(what: str | None = None) -> str:
    """What exists, with every setting: the text for one of `LISTED`; without it, what there is to list.

    Raises:
        ValueError: if there is no such kind of thing.
    """
    if what is None:
        width = max(map(len, LISTED))
        return "\n".join(f"workbench list {name:{width}}  {summary}" for name, (summary, _) in LISTED.items())
    _, describe = lookup(LISTED, what, "list")
    return describe()


def _presets() -> str:
    """A line for each preset, with its task, model, objectives and steps; those of the papers apart."""
    from workbench.training import PAPER_PRESETS, PRESETS, preset_config

    apart = (
        "The papers' own configurations take hours on a GPU, or days on a CPU. What each paper states, and what it "
        "leaves open, is in workbench/training/paper_presets.py."
    )
    lines: list[str] = []
    for presets in (PRESETS, PAPER_PRESETS):
        lines += ["", apart, ""] if lines else []
        width = max(map(len, presets))
        for name, preset in presets.items():
            config = preset_config(name, {})
            task = ", ".join(f"{key}={value}" for key, value in preset["task"].items() if key != "name")
            layers = " then ".join(dict.fromkeys(layer["variant"] for layer in config.model.attention))
            shape = f"{config.model.n_layers} × {layers}, d_model {config.model.d_model}, {config.model.n_heads} heads"
            losses = " + ".join(config.objectives)
            lines.append(f"{name:{width}} {config.task['name']} ({task}); {shape}; {losses}; {config.steps} steps")
    return "\n".join(lines)


def _fields() -> str:
    from workbench.models import DecoderConfig
    from workbench.runs import RunConfig

    listed_elsewhere = {"format", "preset", "task", "model", "objectives", "plugins"}
    of_run = [
        _setting(f"--{name}", field) for name, field in RunConfig.model_fields.items() if name not in listed_elsewhere
    ]
    decided_by_task = {"d_vocab", "heads"}
    of_model = []
    for field in dataclasses.fields(DecoderConfig):
        if field.name not in decided_by_task:
            description = getattr(field.default, "description", None)
            of_model.append(f"  --model.{field.name}" + (f" — {description}" if description else ""))
    of_parts = [
        "  --task.SETTING — see `workbench list tasks`",
        "  --model.attention.SETTING — see `workbench list variants`",
        "  --objectives.NAME.SETTING — see `workbench list objectives`",
    ]
    return "\n".join([*of_run, *of_model, *of_parts])


def _compiled() -> str:
    from workbench.runs.compiled import COMPILED

    return _with_settings(COMPILED)


def _instruments() -> str:
    from workbench.instruments import INSTRUMENTS, SETS, WEIGHTS

    together = [f"{name}: {_first_line(one)}" for name, one in SETS.items()]
    measured = _with_arguments({**INSTRUMENTS, **WEIGHTS}, "measure")
    return "\n".join([measured, "With --geometry, of all sequences together:", *together])


def _probes() -> str:
    from workbench.probes import PRESETS

    return "\n".join(
        f"{name:17} {', '.join(preset.tasks) or 'any task'}: {preset.question}" for name, preset in PRESETS.items()
    )


def _prompts() -> str:
    from workbench.tasks.prompt_sets import PROMPT_SETS

    return "\n".join(f"{name}: {made.asks}\n  {made.known}" for name, made in PROMPT_SETS.items())


def _schemas() -> str:
    from workbench.cli.schemas import SCHEMAS, schema_of

    lines = (f"{json.dumps(command)}: {json.dumps(schema_of(command))}" for command in SCHEMAS)
    return "{" + ",\n ".join(lines) + "}"


def _with_arguments(parts: Mapping[str, Any], function: str) -> str:
    """Instruments or mechanisms with their settings: the keyword-only arguments of a function that are plain data."""
    lines = []
    for name, part in parts.items():
        lines.append(f"{name}: {_first_line(part)}")
        keywords = (p for p in signature(getattr(part, function)).parameters.values() if p.kind is p.KEYWORD_ONLY)
        lines += [f"  {p.name} = {p.default}" for p in keywords if not callable(p.default)]
    return "\n".join(lines)


def _with_settings(parts: Mapping[str, Any]) -> str:
    """Parts with their settings, which are fields of the part itself, or of its `Settings`; a task has a summary."""
    lines = []
    for name, part in parts.items():
        lines.append(f"{name}: {getattr(part, 'summary', '') or _first_line(part)}")
        fields = getattr(part, "Settings", part).model_fields
        lines += [_setting(setting, field) for setting, field in fields.items()]
    return "\n".join(lines)


def _setting(name: str, field: FieldInfo) -> str:
    """The line that describes one setting: `--batch_size = 64 — what it is; one of …`."""
    default = "" if field.is_required() else f" = {json.dumps(field.get_default(call_default_factory=True))}"
    choices = ", ".join(map(str, _choices(field.annotation)))
    description = "; ".join(part for part in (field.description, choices and f"one of {choices}") if part)
    return f"  {name}{default}" + (f" — {description}" if description else "")


def _choices(annotation: Any) -> list[Any]:
    """The values that a `Literal` allows, however deep in the annotation it is."""
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    return [choice for part in get_args(annotation) for choice in _choices(part)]


def _first_line(thing: Any) -> str:
    return (thing.__doc__ or "").strip().splitlines()[0]


LISTED: dict[str, tuple[str, Callable[[], str]]] = {
    "presets": ("models with their tasks, ready to train", _presets),
    "fields": ("every setting of a training run", _fields),
    "tasks": ("what can be learned, with its settings", lambda: _with_settings(KINDS["tasks"].parts)),
    "variants": ("kinds of attention, with their settings", lambda: _with_settings(KINDS["attention"].parts)),
    "objectives": ("terms of the loss, with their settings", lambda: _with_settings(KINDS["objectives"].parts)),
    "compiled": ("models whose weights are worked out, not learned", _compiled),
    "instruments": ("what can be measured, with its settings", _instruments),
    "mechanisms": (
        "claims about how a task is solved, with their settings",
        lambda: _with_arguments(KINDS["mechanisms"].parts, "score"),
    ),
    "probes": ("what can be asked of a residual", _probes),
    "schemas": ("the JSON Schema of what each command prints with --json", _schemas),
    "prompts": ("prompt sets for language models, and what is known of each", _prompts),
}
"""What can be listed -> what that is in a line, and the text that lists it."""
