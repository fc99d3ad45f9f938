"""What is known of the text that a language model was trained on: fingerprints of it, kept beside its weights.

The loss on a text that a model was trained on is a training loss, whatever the file is called. So the fingerprints of
what was trained on, and of what was held out, go where the weights go; a text is compared with them by its content:
every window of `WINDOW` tokens has a hash, and a piece of which a quarter of the windows or more were trained on is
trained on. Texts of one language share few such windows. Does not show: whether a text was trained on elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Self

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from workbench.tasks.split import fingerprints
from workbench.util.files import load_tensors, save_tensors

FILE = "known_text.safetensors"
WINDOW = 16  # tokens
MOST = 2**20  # fingerprints of a text that are kept: of a longer one those of every second window, or fourth, …
ENOUGH = 0.25  # of a piece's windows


class Origin(StrEnum):
    """What a sequence is to a model."""

    HELD_OUT = "held-out"
    TRAINED = "trained-on"
    GIVEN = "given"
    """Nobody here knows whether it was trained on."""
    MIXED = "partly trained-on"
    """Of several sequences: they differ."""

    @classmethod
    def of_all(cls, origins: Iterable[Origin]) -> Origin:
        """The origin of several sequences."""
        each = set(origins)
        return each.pop() if len(each) == 1 else cls.GIVEN if cls.TRAINED not in each else cls.MIXED


@dataclass(frozen=True)
class _Seen:
    """One text that was trained on.

    Attributes:
        window: tokens of each window.
        rate: one in so many windows is kept, by its hash.
        trained, held_out: sorted hashes of the windows.
    """

    window: int
    rate: int
    trained: Int[np.ndarray, " hash"]
    held_out: Int[np.ndarray, " hash"]

    def origin(self, piece: Int[Tensor, " pos"]) -> Origin | None:
        """What a piece is by this text; None where none of its windows was kept."""
        hashes = _hashes([piece], self.window)
        hashes = hashes[hashes % self.rate == 0]
        if not len(hashes):
            return None
        for kept, origin in ((self.trained, Origin.TRAINED), (self.held_out, Origin.HELD_OUT)):
            if np.isin(hashes, kept).mean() >= ENOUGH:
                return origin
        return Origin.GIVEN


@dataclass(frozen=True)
class KnownText:
    """The texts that a model was trained on, one after the other."""

    seen: tuple[_Seen, ...]

    @classmethod
    def of(
        cls, trained: Iterable[Int[Tensor, " pos"]], held_out: Iterable[Int[Tensor, " pos"]], before: Self | None = None
    ) -> Self:
        """Of running texts, or of pieces of one.

        Args:
            trained, held_out: the tokens of each.
            before: what is known of the model that it began with.
        """
        hashes = [np.unique(_hashes(rows, WINDOW)) for rows in (trained, held_out)]
        rate = 1
        while len(hashes[0]) > MOST * rate:
            rate *= 2
        trained_hashes, held_out_hashes = (of_side[of_side % rate == 0] for of_side in hashes)
        seen = _Seen(WINDOW, rate, trained_hashes, np.setdiff1d(held_out_hashes, trained_hashes))
        return cls((*(before.seen if before else ()), seen))

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """What lies beside a model's weights; None where nothing does."""
        if not (folder / FILE).is_file():
            return None
        tensors, metadata = load_tensors(folder / FILE)
        return cls(
            tuple(
                _Seen(int(window), int(rate), tensors[f"{i}.trained"].numpy(), tensors[f"{i}.held_out"].numpy())
                for i, (window, rate) in enumerate(json.loads(metadata["seen"]))
            )
        )

    def save(self, folder: Path) -> None:
        """Write it beside a model's weights."""
        tensors = {
            f"{i}.{name}": torch.from_numpy(getattr(text, name))
            for i, text in enumerate(self.seen)
            for name in ("trained", "held_out")
        }
        save_tensors(folder / FILE, tensors, {"seen": json.dumps([[text.window, text.rate] for text in self.seen])})

    def origins(self, pieces: Sequence[Int[Tensor, " pos"]]) -> list[Origin]:
        """What each piece is to the model; one of which no window was kept is as the piece before it."""
        origins: list[Origin] = []
        for piece in pieces:
            by_text = {text.origin(piece) for text in self.seen}
            strongest = (origin for origin in (Origin.TRAINED, Origin.HELD_OUT, Origin.GIVEN) if origin in by_text)
            origins.append(next(strongest, origins[-1] if origins else Origin.GIVEN))
        return origins


def _hashes(rows: Iterable[Int[Tensor, " pos"]], window: int) -> Int[np.ndarray, " window"]:
    """A hash of 63 bits of every window; of a row that is shorter of all of it."""
    parts = []
    for row in rows:
        size = min(window, len(row))
        windows = row.unfold(0, size, 1)
        for few in windows.split(2**16):
            parts.append((fingerprints(few, torch.full((len(few),), size)) >> np.uint64(1)).astype(np.int64))
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
