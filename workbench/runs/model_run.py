"""A model of Hugging Face as a run in memory, for what looks at runs, such as the explorer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from workbench.models.attention.standard import StandardAttention
from workbench.models.own_model import SeenPattern
from workbench.runs.new_run import HeldRun

FINETUNE = "finetune.json"
"""The file that a folder has beside its model if `workbench finetune` wrote it."""


@dataclass(frozen=True)
class ModelRun(HeldRun):
    """A model of Hugging Face with what it is looked at on: sentences, or pieces of a text.

    Attributes:
        source: its folder or file, or its name on the hub.
        text: the text file that the pieces are of; None for a few sentences.
    """

    source: str = ""
    text: str | None = None

    @property
    def name(self) -> str:
        return Path(self.held.config.module).name

    @property
    def version(self) -> int:
        """One: it is loaded once, and does not change."""
        return 1

    def checkpoints(self) -> list[int]:
        return []

    def step(self) -> int:
        """The last step of its fine-tuning, if it was fine-tuned here."""
        return max((int(row.get("step", 0)) for row in self.log()), default=0)

    def log(self) -> list[dict[str, Any]]:
        """The log of its fine-tuning; empty for a folder that was made elsewhere."""
        return super().log() if (self.path / FINETUNE).is_file() else []


@lru_cache(maxsize=4)
def open_model(source: str, text: str | None = None) -> ModelRun:
    """Open a model of Hugging Face to look at, as a run in memory: loaded once in this process.

    Args:
        source: the folder that `save_pretrained` wrote, a GGUF file, or the name of a model on the hub.
        text: a text file in UTF-8, of which pieces of 32 tokens are looked at; by default a few sentences.

    Raises:
        ValueError: in one line, as `workbench.load_model`; or if it has no tokenizer, or the text cannot be read.
    """
    from workbench.models.pretrained import load_model
    from workbench.models.pretrained.text_file import TypedText

    model = load_model(source, progress=False)
    held = HeldRun.of(model, TypedText.of(model, text), source)
    config = held.config.model_copy(update={"preset": "a model of Hugging Face"})
    attention = [StandardAttention() if isinstance(layer, SeenPattern) else layer for layer in model.attention]
    layers = tuple({"variant": layer.name, "gamma": layer.gamma} for layer in attention)
    object.__setattr__(config.model, "attention", layers)  # for people: what is saved of such a config has none
    return ModelRun(held.path, config, held.held, held.on, source, text)
