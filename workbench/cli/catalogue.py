"""What exists, in words: the text behind `workbench list`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from inspect import Parameter, signature
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel


def describe(what: str) -> str:
    """One paragraph per name, for people."""
    return _DESCRIBERS[what]()


def _presets() -> str:
    from workbench.training import PRESETS, preset_config

    lines = []
    for name in PRESETS:
        config = preset_config(name, {})
        task = ", ".join(f"{key}={value}" for key, value in PRESETS[name]["task"].items() if key != "name")
        layers = " then ".join(dict.fromkeys(layer["variant"] for layer in config.model.attention))
        shape = f"{config.model.n_layers} × {layers}, d_model {config.model.d_model}, {config.model.n_heads} heads"
        losses = " + ".join(config.objectives)
        lines.append(f"{name:21} {config.task['name']} ({task}); {shape}; {losses}; {config.steps} steps")
    return "\n".join(lines)


def _fields() -> str:
    import dataclasses

    from workbench.models import DecoderConfig
    from workbench.runs import RunConfig

    skip = {"format", "preset", "task", "model", "objectives"}
    run = [_setting(f"--{name}", field) for name, field in RunConfig.model_fields.items() if name not in skip]
    from_task = {"d_vocab", "heads"}
    model = []
    for field in dataclasses.fields(DecoderConfig):
        if field.name not in from_task:
            described: Any = field.default
            text = f" — {described.description}" if getattr(described, "description", None) else ""
            model.append(f"  --model.{field.name}{text}")
    rest = [
        "  --task.SETTING — see `workbench list tasks`",
        "  --model.attention.SETTING — see `workbench list variants`",
        "  --objectives.NAME.SETTING — see `workbench list objectives`",
    ]
    return "\n".join([*run, *model, *rest])


def _tasks() -> str:
    from workbench.tasks import TASKS

    return _paragraphs((name, task.summary, task) for name, task in TASKS.items())


def _variants() -> str:
    from workbench.models.attention import ATTENTION

    return _paragraphs((name, _first_line(kind), kind.Settings) for name, kind in ATTENTION.items())


def _objectives() -> str:
    from workbench.objectives import OBJECTIVES

    return _paragraphs((name, _first_line(kind), kind.Settings) for name, kind in OBJECTIVES.items())


def _compiled() -> str:
    from workbench.runs.compiled import COMPILED

    return _paragraphs((name, _first_line(kind), kind) for name, kind in COMPILED.items())


def _instruments() -> str:
    from workbench.instruments import INSTRUMENTS

    return "\n".join(_measured(name, instrument, instrument.measure) for name, instrument in INSTRUMENTS.items())


def _mechanisms() -> str:
    from workbench.mechanisms import MECHANISMS

    return "\n".join(_measured(name, claim, claim.score) for name, claim in MECHANISMS.items())


def _measured(name: str, module: Any, function: Callable[..., Any]) -> str:
    """An instrument or mechanism with the settings that its function takes."""
    taken = [p for p in signature(function).parameters.values() if p.kind is Parameter.KEYWORD_ONLY]
    return "\n".join([f"{name}: {_first_line(module)}", *(f"  {p.name} = {p.default}" for p in taken)])


def _paragraphs(entries: Iterable[tuple[str, str, type[BaseModel]]]) -> str:
    lines = []
    for name, summary, settings in entries:
        lines.append(f"{name}: {summary}")
        lines += [_setting(setting, field) for setting, field in settings.model_fields.items()]
    return "\n".join(lines)


def _setting(name: str, field: Any) -> str:
    default = "" if field.is_required() else f" = {json.dumps(field.get_default(call_default_factory=True))}"
    choices = ", ".join(map(str, _choices(field.annotation)))
    said = "; ".join(part for part in (field.description, choices and f"one of {choices}") if part)
    return f"  {name}{default}" + (f" — {said}" if said else "")


def _choices(annotation: Any) -> list[Any]:
    """The values that a `Literal` allows, wherever in the annotation it stands."""
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    return [choice for part in get_args(annotation) for choice in _choices(part)]


def _first_line(thing: Any) -> str:
    return (thing.__doc__ or "").strip().splitlines()[0]


_DESCRIBERS = {
    "presets": _presets,
    "fields": _fields,
    "tasks": _tasks,
    "variants": _variants,
    "objectives": _objectives,
    "compiled": _compiled,
    "instruments": _instruments,
    "mechanisms": _mechanisms,
}
