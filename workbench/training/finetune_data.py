"""The text that a model is fine-tuned on: cut into sequences, the last of them held out."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workbench.tasks.text_file import read_parts
from workbench.training.finetune_config import FinetuneConfig
from workbench.util.seeds import generator

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from workbench.models.pretrained.loading import Loaded

HELD_OUT = 10  # one in so many sequences is held out, but no more than `eval_size`


@dataclass(frozen=True)
class TextData:
    """The sequences of a text.

    Attributes:
        training: `[n, length]`, the first ones.
        held_out: `[m, length]`, the last ones, which are not trained on.
        digest: SHA-256 of all their tokens.
    """

    training: Int[Tensor, "n length"]
    held_out: Int[Tensor, "m length"]
    digest: str

    @property
    def length(self) -> int:
        return self.training.shape[1]

    def batch(self, seed: int, step: int, size: int) -> Int[Tensor, "size length"]:
        """The sequences of one step, drawn with replacement; they depend on the arguments alone."""
        return self.training[torch.randint(len(self.training), (size,), generator=generator(seed, "finetune", step))]


def read_data(loaded: Loaded, config: FinetuneConfig) -> TextData:
    """A text as sequences of a model's tokens.

    Raises:
        ValueError: in one line, if the model has no tokenizer, the text cannot be read, is too short, or is not the one
            that the fine-tuning began with, or a sequence is longer than the model's context.
    """
    from workbench.models.pretrained.text_file import cut, needed, sequence_length, text_tokens

    path = Path(config.text)
    tokenizer = needed(loaded.tokenizer, loaded.name)
    length = sequence_length(loaded.name, loaded.n_ctx, config.length)
    pieces = list(cut(text_tokens(tokenizer, path), length))
    if len(pieces) < 2:
        what = "too short" if next(read_parts(path), "") else "empty"
        raise ValueError(
            f"{path} is {what}: training needs two sequences of {length} tokens at least; take shorter ones "
            "(--length), or a longer text"
        )
    whole = torch.stack(pieces)
    digest = hashlib.sha256(whole.numpy().tobytes()).hexdigest()
    if config.digest not in ("", digest):
        raise ValueError(f"{path} is not the text that this fine-tuning began with: it has changed since")
    n = max(1, min(config.eval_size, len(whole) // HELD_OUT))
    return TextData(whole[:-n], whole[-n:], digest)


def token_loss(logits: Float[Tensor, "batch pos token"], tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, ""]:
    """The mean loss in nats of each token but the first of a sequence, predicted from those before it, in float32."""
    return nn.functional.cross_entropy(logits[:, :-1].float().flatten(0, 1), tokens[:, 1:].flatten())


@torch.no_grad()
def measure(model: PreTrainedModel, sequences: Int[Tensor, "n length"], size: int) -> float:
    """The mean loss of a model on sequences, `size` at a time, without dropout."""
    model.eval()
    total = sum(
        float(token_loss(model(some, use_cache=False).logits, some)) * len(some) for some in sequences.split(size)
    )
    return total / len(sequences)
