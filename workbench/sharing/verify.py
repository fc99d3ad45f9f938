"""Whether a folder that anyone may have written is a run: sizes first, on paper, and only then in memory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from workbench.files import read_metadata
from workbench.models import Decoder
from workbench.runs import CONFIG, METRICS, WEIGHTS, Run, load_run, load_weights
from workbench.sharing.contents import names_in, refuse_file_tasks

# What a config may ask for. Memory follows from these before there are weights to compare with: a task makes its
# vocabulary, an objective its projection.
MAX_NUMBER = 2**20
MAX_PROJECTION = 2**26
MAX_LAYERS = 1000  # and as many output heads: modules cost memory even while their weights are only promised
MAX_HEADER = 2**22
MAX_ROWS, MAX_CELLS = 1_000_000, 20_000_000

_NUMERIC = re.compile(r"[\s\d_.eE+-]{8,}")


def verify(folder: Path) -> Run:
    """Open a run of which nothing is known, and read all of it.

    Nothing is unpickled, imported or executed; names in the config are looked up in the workbench's own tables.

    Raises:
        ValueError: or whatever else a library says of data that is not what it should be (see `contents.refusing`).
    """
    data = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    files = [folder / name for name in names_in(folder) if name.endswith(Path(WEIGHTS).suffix)]
    _check_config(data, len(_tensors(folder / WEIGHTS)))
    run = load_run(folder)
    with torch.device("meta"):  # shapes alone: takes no memory, however large
        expected = Decoder(run.config.model).state_dict()
    for path in files:
        _check_tensors(path, expected, run.config.model.tied)
    model = Decoder(run.config.model)
    for path in files:
        load_weights(model, path)
    _check_metrics(run)
    return run


def _check_config(data: Any, n_tensors: int) -> None:
    """Refuse numbers that would take much memory as soon as the config's task and objectives are made."""
    parts = [data.get(name) for name in ("task", "model", "objectives")] if isinstance(data, dict) else []
    task, model, objectives = parts or (None, None, None)
    if not (isinstance(task, dict) and isinstance(model, dict)):
        raise ValueError(f"{CONFIG} is not a run's config: it has no task or no model")
    refuse_file_tasks(task, "it")
    for value in (number for part in parts for number in _numbers(part)):
        if not abs(value) <= MAX_NUMBER:
            raise ValueError(f"{CONFIG} asks for {value:g}, more than the {MAX_NUMBER:,} that a shared run may ask for")
    n_layers, d_model = model.get("n_layers"), model.get("d_model")
    if not (isinstance(n_layers, int) and isinstance(d_model, int)):
        raise ValueError(f"{CONFIG}: n_layers and d_model are whole numbers, not {n_layers!r} and {d_model!r}")
    if n_layers > n_tensors:
        raise ValueError(f"{CONFIG} asks for {n_layers} layers, but {WEIGHTS} holds {n_tensors} tensors")
    if n_layers > MAX_LAYERS or len(model.get("heads") or ()) > MAX_LAYERS:
        raise ValueError(f"{CONFIG} asks for more than {MAX_LAYERS:,} layers or output heads")
    if d_model * max(_numbers(objectives), default=0) > MAX_PROJECTION:
        raise ValueError(f"{CONFIG} asks for an objective larger than {MAX_PROJECTION:,} numbers")


def _numbers(data: Any) -> Iterator[float]:
    """Every number anywhere in plain data, and every text that could be taken for a large one."""
    if isinstance(data, dict | list):
        for value in data.values() if isinstance(data, dict) else data:
            yield from _numbers(value)
    elif isinstance(data, int | float):
        yield data if abs(data) < MAX_NUMBER**2 else float("inf")  # an int may be too large for a float
    elif isinstance(data, str) and _NUMERIC.fullmatch(data):
        yield float("inf")


def _tensors(path: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and type of every tensor, from the file's header."""
    size = path.stat().st_size
    with path.open("rb") as file:
        header = int.from_bytes(file.read(8), "little")
    if size < 8 or header > min(size - 8, MAX_HEADER):
        raise ValueError(f"{path.name} is not a safetensors file")
    with safe_open(path, framework="pt") as tensors:
        slices = {name: tensors.get_slice(name) for name in tensors.keys()}  # noqa: SIM118
        return {name: (tuple(part.get_shape()), part.get_dtype()) for name, part in slices.items()}


def _check_tensors(path: Path, expected: dict[str, torch.Tensor], tied: bool) -> None:
    """Raise ValueError unless a file's header promises exactly the model's tensors, and says of which step they are."""
    found = _tensors(path)
    wanted = {name: (tuple(tensor.shape), "F32") for name, tensor in expected.items()}
    if tied and "unembedding.weight" not in found:
        del wanted["unembedding.weight"]
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            want, got = wanted.get(name, "nothing"), found.get(name, "nothing")
            raise ValueError(f"{path.name} does not fit its config: {name!r} should be {want} and is {got}")
    step = read_metadata(path).get("step", "")
    if not re.fullmatch(r"[0-9]{1,12}", step) or path.stem not in (Path(WEIGHTS).stem, f"step-{step}"):
        raise ValueError(f"{path.name} says that it was saved at step {step!r}")


def _check_metrics(run: Run) -> None:
    """Raise ValueError unless the log's lines are rows of numbers, or events, and not too many."""
    if (run.path / METRICS).read_bytes().count(b"\n") > MAX_ROWS:
        raise ValueError(f"{METRICS} has more than {MAX_ROWS:,} lines")
    rows = [row for row in run.log() if "event" not in row]
    columns: set[str] = set()
    for row in rows:
        wrong = [key for key, value in row.items() if not isinstance(value, int | float)]
        if wrong or not isinstance(row.get("step"), int):
            raise ValueError(f"{METRICS} is not a log: {wrong[0] if wrong else 'step'!r} is not a number in some line")
        columns.update(row)
        if len(columns) * len(rows) > MAX_CELLS:
            raise ValueError(f"{METRICS} is a table of more than {MAX_CELLS:,} cells")
