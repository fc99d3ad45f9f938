"""A model of Hugging Face as a run in memory, for what looks at runs, such as the explorer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from workbench.runs.own_run import HeldRun, hold


@dataclass(frozen=True)
class ModelRun(HeldRun):
    """A model of Hugging Face with what it is looked at on: sentences, or pieces of a text.

    Attributes:
        source: its folder, or its name on the hub.
        text: the text file that the pieces are of; None for a few sentences.
    """

    source: str = ""
    text: str | None = None

    @property
    def name(self) -> str:
        return Path(self.source).name

    @property
    def version(self) -> int:
        """One: it is loaded once, and does not change."""
        return 1

    def checkpoints(self) -> list[int]:
        return []


@lru_cache(maxsize=4)
def open_model(source: str, text: str | None = None) -> ModelRun:
    """Open a model of Hugging Face to look at, as a run in memory: loaded once in this process.

    Args:
        source: the folder that `save_pretrained` wrote, or the name of a model on the hub.
        text: a text file in UTF-8, of which pieces of 32 tokens are looked at; by default a few sentences.

    Raises:
        ValueError: in one line, as `workbench.load_model`; or if it has no tokenizer, or the text cannot be read.
    """
    from workbench.models.pretrained import load_model
    from workbench.models.pretrained.typed_text import TypedText

    model = load_model(source, progress=False)
    held = hold(model, TypedText.of(model, text), source)
    return ModelRun(held.path, held.config, held.held, held.on, source, text)
