"""Measurements and results of studies as JSON, written whole or not at all, and read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from workbench.measurement import Measurement
from workbench.util.files import parse_json, read_text, write_atomically
from workbench.util.messages import brief

ARRAYS = ("values", "low", "high", "n", "each")
LONGEST = 2**28  # bytes
DIGITS = 8  # significant: what is beyond differs between machines


def pack(measured: Measurement) -> dict[str, Any]:
    """A measurement as JSON-ready data; NaN becomes null."""
    arrays = {name: _numbers(array) for name in ARRAYS if (array := getattr(measured, name)) is not None}
    coords = {  # a number of NumPy as Python's
        dim: [label.item() if isinstance(label, np.generic) else label for label in measured.coords[dim]]
        for dim in measured.dims
    }
    about = {"name": measured.name, "units": measured.units, "dims": list(measured.dims), "coords": coords}
    return {**about, "settings": dict(measured.settings), "caption": measured.caption, **arrays}


def unpack(data: Any) -> Measurement:
    """The measurement that `pack` was given. Raises ValueError if the data is damaged."""
    try:
        arrays: dict[str, Any] = {
            name: np.array(data[name], dtype=int if name == "n" else float) for name in ARRAYS if name in data
        }
        words = {name: data[name] for name in ("name", "units", "caption")}
        coords = {dim: list(data["coords"][dim]) for dim in data["dims"]}
        kinds = {type(label) for labels in coords.values() for label in labels}
        shapes = {(array[..., 0] if name == "each" else array).shape for name, array in arrays.items()}
        if len(shapes) != 1 or {*map(type, words.values())} != {str} or kinds & {list, dict}:
            raise TypeError
        return Measurement(**words, **arrays, dims=tuple(coords), coords=coords, settings=dict(data["settings"]))
    except (AssertionError, AttributeError, LookupError, OverflowError, TypeError, ValueError):
        raise ValueError("it holds something that is no measurement") from None


def unpack_each(data: Any) -> dict[str, Measurement]:
    """Quantity -> the measurement that was packed. Raises ValueError if the data is damaged."""
    if not isinstance(data, dict):
        raise ValueError(f"it holds {brief(data, 40)!r} in place of measurements")
    return {name: unpack(packed) for name, packed in data.items()}


def _numbers(array: np.ndarray) -> Any:
    """Nested lists, each number rounded to what is the same everywhere."""
    values = np.asarray(array)
    if values.ndim:
        return [_numbers(part) for part in values]
    number = values.item()
    if isinstance(number, int):
        return number
    return None if np.isnan(number) else float(f"{number:.{DIGITS}g}")


def write_json(path: Path, data: Any) -> None:
    """Write data; a file that holds the same already is left as it is."""
    content = (json.dumps(data, indent=1, ensure_ascii=False, default=str) + "\n").encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or path.read_bytes() != content:
        write_atomically(path, content)


def read_json(path: Path) -> Any:
    """The data of a file; None if it is missing or damaged."""
    try:
        return parse_json(read_text(path, LONGEST))
    except (ValueError, OSError):
        return None
