"""What decides what a measure gives, as text: its settings, and the files that its code is in."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any


def described(how: Any, within: tuple[Any, ...] = ()) -> str:
    """A measure as text that is the same in every process, and another once its settings or its file have changed.

    Args:
        how: the measure, or a part of it. What its file imports is not looked at.
        within: what it is a part of.
    """
    if any(how is one for one in within):
        return "itself"
    inner = (*within, how)
    if isinstance(how, partial):
        return f"partial({', '.join(described(part, inner) for part in (how.func, how.args, how.keywords))})"
    if is_dataclass(how) and not isinstance(how, type):
        own = {field.name: getattr(how, field.name) for field in fields(how)}
        return f"{_code(type(how))}({described(own, inner)})"
    if isinstance(how, Mapping):
        return f"{{{', '.join(f'{key!r}: {described(value, inner)}' for key, value in how.items())}}}"
    if isinstance(how, (tuple, list)):
        return f"({', '.join(described(part, inner) for part in how)})"
    if hasattr(how, "__code__"):
        around = [cell.cell_contents for cell in how.__closure__ or ()]
        return f"{_code(how)}({described([how.__defaults__, around], inner)})"
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(how))


def _code(thing: Any) -> str:
    """The name of a function, or of a class whose instances are called, with a digest of its file."""
    called = vars(thing).get("__call__") if isinstance(thing, type) else thing
    code = getattr(called, "__code__", None)
    file = None if code is None else Path(code.co_filename)
    content = file.read_bytes() if file is not None and file.is_file() else b""
    return f"{thing.__qualname__} {hashlib.sha256(content).hexdigest()}"
