"""A Griffe extension for docstrings that describe several parameters in one entry (`first, second: the runs.`)."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

# An entry for several names, with the lines below it that are indented further.
JOINT = re.compile(r"^(?P<indent> +)(?P<names>\w+(?:, \w+)+): (?P<words>.*(?:\n(?P=indent) +\S.*)*)", re.M)


class JointParameters(Extension):
    """Gives each of the names the whole description, so that each has a row of its own in the reference."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring:
            obj.docstring.value = JOINT.sub(one_each, obj.docstring.value)


def one_each(entry: re.Match[str]) -> str:
    return "\n".join(f"{entry['indent']}{name}: {entry['words']}" for name in entry["names"].split(", "))
