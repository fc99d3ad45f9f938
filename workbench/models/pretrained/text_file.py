"""A text file as sequences of a model's tokens, read no further than is needed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from jaxtyping import Int
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from workbench.tasks import Sequences, own_sequences
from workbench.tasks.text_file import read_parts

if TYPE_CHECKING:
    from workbench.models.pretrained.model import Pretrained


def text_tokens(tokenizer: PreTrainedTokenizerBase, path: Path) -> Iterator[Int[Tensor, " token"]]:
    """The tokens of a text, part by part; the tokenizer adds nothing before or after them.

    They are those of the whole text: what a tokenizer puts before a text, as SentencePiece a space, is not put before
    each part, since each is read after the line before it.

    Raises:
        ValueError: as `read_parts`.
    """
    before = ""
    for part in read_parts(path):
        known, ids = (
            tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"] if text else []
            for text in (before, before + part)
        )
        yield torch.tensor(ids[len(known) :], dtype=torch.long)
        before = part[part.rfind("\n", 0, -1) + 1 :]


def cut(tokens: Iterator[Int[Tensor, " token"]], length: int) -> Iterator[Int[Tensor, " length"]]:
    """Pieces of `length` tokens one after the other, without overlap; a last one that is shorter is left out."""
    rest = torch.empty(0, dtype=torch.long)
    for more in tokens:
        rest = torch.cat([rest, more])
        whole = len(rest) - len(rest) % length
        yield from rest[:whole].split(length) if whole else ()
        rest = rest[whole:]


def needed(tokenizer: PreTrainedTokenizerBase | None, name: str) -> PreTrainedTokenizerBase:
    """A model's tokenizer. Raises ValueError if it has none."""
    if tokenizer is None:
        raise ValueError(f"{name} has no tokenizer, which cuts a text into tokens: save one in its folder")
    return tokenizer


def sequence_length(name: str, n_ctx: int, length: int | None) -> int:
    """The tokens of each sequence of a text: those asked for, else 256, or the context if that is shorter.

    Raises:
        ValueError: if a sequence is longer than the context, or has fewer than two tokens.
    """
    length = min(256, n_ctx) if length is None else length
    if not 2 <= length <= n_ctx:
        raise ValueError(f"a sequence for {name} has 2 to {n_ctx} tokens, its context, not {length}")
    return length


def file_sequences(
    model: Pretrained, path: str | Path, *, length: int | None = None, n: int = 256, training: int = 0
) -> Sequences:
    """The first sequences of a text file, to inspect a model on.

    Every sequence has `length` tokens of the running text, and none that the tokenizer puts before texts.

    Args:
        model: whose tokenizer cuts the text.
        path: a text file in UTF-8.
        length: tokens in a sequence; by default 256, or the model's context if that is shorter.
        n: the most sequences to measure on.
        training: the most sequences after these, for what has to be trained first, such as a tuned lens.

    Raises:
        ValueError: in one line, if the model has no tokenizer, the file cannot be read, holds no text or fewer than two
            such sequences, or a sequence is longer than the model's context.
    """
    path = Path(path)
    tokenizer = needed(model.tokenizer, model.config.module)
    length = sequence_length(model.config.module, model.config.n_ctx, length)
    pieces = list(islice(cut(text_tokens(tokenizer, path), length), n + training))
    if len(pieces) < 2:
        total = sum(len(part) for part in text_tokens(tokenizer, path))
        raise ValueError(too_short(path, total, length))
    others = pieces[n:] or None
    return own_sequences(
        pieces[:n], model.config.d_vocab, training=others, words=model.vocabulary, known=model.known_text
    )


def too_short(path: Path, total: int, length: int) -> str:
    """What is wrong with a text that has fewer than two sequences, and what to do."""
    if not total:
        return f"{path} is empty: there is no text in it"
    advice = f"take sequences of {total // 2} tokens or fewer (--length), or a longer text" if total >= 4 else ""
    return (
        f"{path} has {total} tokens, and an interval needs two sequences of {length} at least; "
        f"{advice or 'take a longer text'}"
    )
