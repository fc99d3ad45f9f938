"""Captures on disk, for more activations than fit in memory: written batch by batch, read by slice.

index.json                 what is there; written last, so that a folder without it was never finished
shard-00000.safetensors    one batch: its activations, tokens, targets and loss mask
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from workbench.capture import Capture, Subject, capture
from workbench.models import AnyHooked, AnyModel
from workbench.tasks import Batch
from workbench.util.files import new_folder
from workbench.util.messages import first_problem

INDEX = "index.json"
BATCH = ("tokens", "targets", "loss_mask")


class _Index(BaseModel):
    """The contents of a store."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    model: str = Field(description="the name of the model that was captured")
    names: tuple[str, ...] = Field(description="hook names of the activations")
    shards: tuple[int, ...] = Field(description="sequences in each shard")
    heads: tuple[str, ...] = Field(description="the output head of each shard's batch")


class CaptureStore:
    """A folder of captures. `store["blocks.0.hook_resid_mid", 100:200]` reads those rows and nothing else.

    Raises:
        ValueError: if the folder holds no finished store, or a damaged one.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        try:
            self.index = _Index.model_validate_json((self.folder / INDEX).read_bytes())
        except FileNotFoundError:
            raise ValueError(f"{self.folder} holds no captures: it has no {INDEX}") from None
        except ValidationError as error:
            raise ValueError(f"{self.folder / INDEX} is damaged: {first_problem(error, _Index)}") from None
        missing = [i for i in range(len(self.index.shards)) if not self._shard(i).is_file()]
        if missing or len(self.index.heads) != len(self.index.shards):
            raise ValueError(f"{self.folder} is damaged: {len(missing)} of {len(self.index.shards)} shards are missing")
        self._ends = list(accumulate(self.index.shards))

    @classmethod
    def write(
        cls,
        folder: str | Path,
        model: AnyHooked | AnyModel,
        subject: Subject,
        batches: Iterable[Batch],
        names: Iterable[str],
        *,
        dtype: torch.dtype | None = None,
    ) -> CaptureStore:
        """Capture every batch into a new folder, one batch in memory at a time; interrupted, it leaves nothing on disk.

        Args:
            folder: the folder to make; it must not exist yet.
            model: the hooked model, or the decoder itself for residuals and logits (see `capture.visit`).
            subject: the model's facts.
            batches: its inputs, which may be drawn as they are needed.
            names: TransformerLens hook names.
            dtype: store floating-point activations in this type; by default in their own.

        Raises:
            ValueError: if the folder exists, there is no batch, or a name is not one of the model's hook points.
        """
        folder, names = Path(folder), sorted(set(names))
        if folder.exists():
            raise ValueError(f"{folder} exists already; captures go into a new folder")
        written: list[tuple[int, str]] = []
        with new_folder(folder) as made:
            for number, batch in enumerate(batches):
                seen = {**capture(model, subject, batch, names).activations, **{x: getattr(batch, x) for x in BATCH}}
                shard = {name: x.to(dtype) if dtype and x.is_floating_point() else x for name, x in seen.items()}
                on_cpu = {name: x.contiguous().cpu() for name, x in shard.items()}
                save_file(on_cpu, made / f"shard-{number:05d}.safetensors")
                written.append((len(batch), batch.head))
            if not written:
                raise ValueError("there is nothing to capture: no batch was given")
            shards, heads = zip(*written, strict=True)
            index = _Index(model=subject.name, names=tuple(names), shards=shards, heads=heads)
            (made / INDEX).write_text(index.model_dump_json(indent=1), encoding="utf-8")
        return cls(folder)

    def __len__(self) -> int:
        """The number of sequences."""
        return self._ends[-1]

    def _shard(self, number: int) -> Path:
        return self.folder / f"shard-{number:05d}.safetensors"

    def __getitem__(self, key: tuple[str, slice | int]) -> Tensor:
        """Rows of an activation, or of `tokens`, `targets` or `loss_mask`; a single row loses its first axis.

        Rows from batches of different lengths are padded with zeros on the right to the longest among them.

        Raises:
            ValueError: if there is no such activation, or the slice has a step.
            IndexError: if there is no such row.
        """
        name, rows = key
        known = (*self.index.names, *BATCH)
        if name not in known:
            raise ValueError(f"{name!r} was not captured; there is: {', '.join(known)}")
        if isinstance(rows, int):
            if not -len(self) <= rows < len(self):
                raise IndexError(f"there is no row {rows}; the store has {len(self)}")
            row = rows % len(self)
            return self[name, row : row + 1][0]
        start, stop, step = rows.indices(len(self))
        if step != 1:
            raise ValueError(f"rows are read in one run, without a step of {step}")
        parts = []
        for number, (end, n) in enumerate(zip(self._ends, self.index.shards, strict=True)):
            first, last = max(start - (end - n), 0), min(stop - (end - n), n)
            if first < last:
                parts.append(self._read(number, name, first, last))
        parts = parts or [self._read(0, name, 0, 0)]
        # Along every axis but the first, each part is padded to the longest.
        sizes = [max(axis) for axis in zip(*(part.shape[1:] for part in parts), strict=True)]
        whole, row = parts[0].new_zeros(sum(map(len, parts)), *sizes), 0
        for part in parts:
            whole[(slice(row, row + len(part)), *map(slice, part.shape[1:]))] = part
            row += len(part)
        return whole

    def _read(self, number: int, name: str, start: int, stop: int) -> Tensor:
        try:
            with safe_open(self._shard(number), framework="pt") as shard:
                return shard.get_slice(name)[start:stop]
        except (SafetensorError, OSError) as error:
            raise ValueError(f"{self._shard(number)} is damaged: {error}") from None

    def captures(self, subject: Subject) -> Iterator[Capture]:
        """Every batch as it was captured, for any instrument, without running the model.

        Raises:
            ValueError: if the subject is another model than the one captured.
        """
        if subject.name != self.index.model:
            raise ValueError(f"these are captures of {self.index.model!r}, not of {subject.name!r}")
        for number, n in enumerate(self.index.shards):
            read = {name: self._read(number, name, 0, n) for name in (*self.index.names, *BATCH)}
            tokens, targets, loss_mask = (read.pop(name) for name in BATCH)
            batch = Batch(tokens, targets, loss_mask, self.index.heads[number])
            yield Capture(read, batch, subject)
