"""Settings as people write them: dotted names, and values as text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any


def value_of(text: str) -> Any:
    """JSON, or else the text itself. Raises ValueError if it is JSON that `parse_json` refuses: a name there twice."""
    from workbench.util.files import parse_json  # imports PyTorch, without which a command shows its help

    try:
        return parse_json(text)
    except json.JSONDecodeError:
        return text


def as_text(value: Any) -> str:
    """A value as names of runs, tables and conditions show it: strings as they are, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def as_json(content: Any) -> str:
    """Content as JSON in ASCII, which any terminal may print: NaN and infinity are null, paths and the like text."""
    return json.dumps(_finite(content), indent=1, default=str)


def _finite(content: Any) -> Any:
    if isinstance(content, Mapping):
        return {str(name): _finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not isfinite(content) else content


def place(nested: dict[str, Any], name: str) -> tuple[dict[str, Any], str]:
    """The mapping in which the value of a dotted name goes, and the last part of the name.

    Missing mappings on the way are made. Where a variant's name is on the way, it becomes that variant's settings.

    Args:
        nested: nested settings, which are changed.
        name: such as `model.attention.gamma`.

    Raises:
        ValueError: if a part of the name has a value that is not a mapping.
    """
    *parents, last = name.split(".")
    for parent in parents:
        if isinstance(nested.get(parent), str):
            nested[parent] = {"variant": nested[parent]}
        nested = nested.setdefault(parent, {})
        if not isinstance(nested, dict):
            raise ValueError(f"{name} is given, and {parent} as {nested!r} too")
    return nested, last


def flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings as dotted names and values: `{"task": {"n": 8}}` gives `("task.n", 8)`.

    An empty mapping counts as a value: it stands for something with its default settings.
    """
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def flat_config(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The settings of a run's config under their dotted names, as tables and comparisons show them.

    Each objective is `("objectives.NAME", True)`, then `objectives.NAME.SETTING`. Attention is
    `model.attention.SETTING` where all layers have the same, else `model.attention.0.SETTING` and so on. Keys and
    values have heads of their own only where several query heads share them: else `model.n_heads` says it.
    """
    model = config.get("model")
    if isinstance(model, Mapping):
        model = dict(model)
        config = {**config, "model": model}
        if "n_heads" in model and model.get("n_kv_heads") == model["n_heads"]:
            model.pop("n_kv_heads", None)
        layers = model.get("attention")
        if isinstance(layers, list | tuple) and layers:
            same = all(layer == layers[0] for layer in layers)
            model["attention"] = layers[0] if same else {str(number): layer for number, layer in enumerate(layers)}
    seen: set[str] = set()
    for name, value in flat(config):
        objective = ".".join(name.split(".")[:2])
        if name.startswith("objectives.") and objective not in seen:
            seen.add(objective)
            yield objective, True
        if not isinstance(value, Mapping):
            yield name, tuple(value) if isinstance(value, list) else value


def merge(base: Any, changes: Any) -> Any:
    """Nested mappings merged; where both have a value, the change wins, and None removes an entry.

    A variant's name in place of a mapping stands for that variant with its default settings.
    """
    if not isinstance(changes, Mapping):
        return changes
    if isinstance(base, str):
        base = {"variant": base}
    merged = dict(base) if isinstance(base, Mapping) else {}
    for key, value in changes.items():
        merged[key] = merge(merged.get(key), value)
    return {key: value for key, value in merged.items() if value is not None or key not in changes}
