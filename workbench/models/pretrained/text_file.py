"""Text as sequences of a model's tokens: a file, read no further than is needed, and what a person types."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import torch
from jaxtyping import Int
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from workbench.tasks import Batch, Sequences, own_sequences
from workbench.tasks.prompt_sets import named
from workbench.tasks.prompt_sets.sequences import PromptSequences
from workbench.tasks.text_file import text_parts

if TYPE_CHECKING:
    from workbench.models.pretrained.model import Pretrained


def text_tokens(tokenizer: PreTrainedTokenizerBase, path: Path) -> Iterator[Int[Tensor, " token"]]:
    """The tokens of a text, part by part; the tokenizer adds nothing before or after them.

    They are those of the whole text: what a tokenizer puts before a text, as SentencePiece a space, is not put before
    each part, since each is read after the line before it.

    Raises:
        ValueError: as `text_parts`.
    """
    before = ""
    for part in text_parts(path):
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
    """The first sequences of a text file, to inspect a model on; or the prompts of a set, if its name is given.

    Every sequence has `length` tokens of the running text, and none that the tokenizer puts before texts.

    Args:
        model: whose tokenizer cuts the text.
        path: a text file in UTF-8, or the name of a prompt set.
        length: tokens in a sequence; by default 256, or the model's context if that is shorter. Not of prompts.
        n: the most sequences to measure on.
        training: the most sequences after these, for what has to be trained first, such as a tuned lens.

    Raises:
        ValueError: in one line, if the model has no tokenizer, the file cannot be read, holds no text or fewer than two
            such sequences, or a sequence is longer than the model's context.
    """
    if (prompts := named(path)) is not None:
        if length is not None:
            raise ValueError(f"the prompts of {prompts} are as long as they are: leave length out")
        return PromptSequences.of(prompts, model, n=n)
    path = Path(path)
    tokenizer = needed(model.tokenizer, model.config.module)
    length = sequence_length(model.config.module, model.config.n_ctx, length)
    pieces = list(islice(cut(text_tokens(tokenizer, path), length), n + training))
    if len(pieces) < 2:
        total = sum(len(part) for part in text_tokens(tokenizer, path))
        if not total:
            raise ValueError(f"{path} is empty: there is no text in it")
        shorter = f"take sequences of {total // 2} tokens or fewer (--length), or a longer text"
        raise ValueError(
            f"{path} has {total} tokens, and an interval needs two sequences of {length} at least; "
            f"{shorter if total >= 4 else 'take a longer text'}"
        )
    others = pieces[n:] or None
    return own_sequences(
        pieces[:n], model.config.d_vocab, training=others, words=model.vocabulary, known=model.known_text
    )


SENTENCES = (
    "When Mary and John went to the store, John gave a drink to Mary.",
    "The cat sat on the mat, and then the cat sat on the mat again.",
    "Paris is the capital of France, and Rome is the capital of Italy.",
    "One, two, three, four, five, six, seven, eight, nine, ten.",
    "The keys to the cabinet are on the table near the door.",
    "She opened the box, took the ring out of the box, and closed the box.",
    "If it rains tomorrow, we will stay at home and read a book.",
    "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday.",
)
"""What there is to look at before anything is typed."""
OTHERS = (
    "The author who wrote the books was known to the editors of the paper.",
    "A long time ago, in a small village by the sea, there lived an old man.",
    "He said that he would come, but he did not say when he would come.",
    "Red, green, blue, red, green, blue, red, green, blue, red.",
    "The train to London leaves at noon, and the train to Leeds at one.",
    "To be, or not to be, that is the question.",
    "They sold the house in the city and bought a farm in the hills.",
    "Water boils at one hundred degrees and freezes at zero degrees.",
)
"""Other sentences, for what has to be trained first, such as a probe."""
LENGTH, SHOWN = 32, 64  # tokens of a piece of a text file, and how many pieces there are to look at

_models: dict[str, Pretrained] = {}  # path of the sequences -> the model that reads what is typed


class TypedText(Sequences):
    """Sequences to begin with, and whatever a person types, in the words of a model's own tokenizer."""

    summary: ClassVar[str] = "the next token of a text"
    typed: ClassVar[str] = "Your text"

    @classmethod
    def of(cls, model: Pretrained, path: str | Path | None = None) -> TypedText:
        """For a model: the first pieces of a text file, or a few sentences.

        Raises:
            ValueError: in one line, if the model has no tokenizer, or as `file_sequences`.
        """
        needed(model.tokenizer, model.config.module)
        if path is None:
            # All are cut to one length, so that nothing is padded: a typed text may end in any token.
            shown, others = ([model.tokens(sentence) for sentence in group] for group in (SENTENCES, OTHERS))
            least = min([model.config.n_ctx, *map(len, shown), *map(len, others)])
            if least < 2:
                name = model.config.module
                raise ValueError(f"the tokenizer of {name} makes fewer than 2 tokens of a sentence; give --text")
            tokens, training = ([ids[:least] for ids in group] for group in (shown, others))
            sequences = own_sequences(
                tokens, model.config.d_vocab, training=training, words=model.vocabulary, known=model.known_text
            )
        else:
            length = min(LENGTH, model.config.n_ctx) if named(path) is None else None
            sequences = file_sequences(model, path, length=length, n=SHOWN, training=SHOWN)
        _models[sequences.path] = model
        return cls(path=sequences.path)

    @property
    def n_ctx(self) -> int:
        """The model's context: what is typed may be as long."""
        return _models[self.path].config.n_ctx

    def parse(self, text: str) -> Batch:
        """A batch of one typed text. Raises ValueError if it has fewer than two tokens, or more than the context."""
        return _models[self.path].batch(text)

    def question(self, tokens: Int[Tensor, " pos"]) -> str:
        return _models[self.path].text(tokens[: int(self.lengths(tokens[None])[0])])
