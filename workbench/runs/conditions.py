"""Test conditions, which narrow what a task draws: as people write them, and whether a task can draw them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from workbench.tasks import Task
from workbench.util.seeds import generator
from workbench.util.settings import value_of


def parse_condition(parts: Iterable[str]) -> dict[str, Any]:
    """`["length=20", "repeats=4"]` as `{"length": 20, "repeats": 4}`.

    Raises:
        ValueError: if a part is not of this form, or a name is given twice.
    """
    condition: dict[str, Any] = {}
    for part in parts:
        name, _, value = part.partition("=")
        if not name or not value or value.startswith("="):
            raise ValueError(f"a condition is NAME=VALUE, such as length=16, not {part!r}")
        if name in condition:
            raise ValueError(f"the condition {name} is given twice, in {part!r} again")
        condition[name] = value_of(value)
    return condition


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
    conditions = [parse_condition(each.split(",")) if isinstance(each, str) else each for each in value]
    in_order = [dict(sorted(each.items(), key=str)) if isinstance(each, Mapping) else each for each in conditions]
    return [condition for i, condition in enumerate(in_order) if condition not in in_order[:i]]


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
