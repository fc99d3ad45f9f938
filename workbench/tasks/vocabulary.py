"""The vocabulary of a task: token ids, and the words that people read for them; as a tokenizer of Hugging Face too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


@dataclass(frozen=True)
class Vocabulary:
    """Token ids and the words people read for them; id i is `words[i]`.

    Attributes:
        words: a word for each id, none of them twice where people type them.
        texts: what each token adds to a text: nothing for a special token or a part of a character. None where that is
            its word.
    """

    words: tuple[str, ...]
    texts: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def ids(self) -> dict[str, int]:
        """The id of each word."""
        return {word: i for i, word in enumerate(self.words)}

    def id(self, word: str) -> int:
        """The id of one word.

        Raises:
            ValueError: if the word is not in the vocabulary; the message shows what is.
        """
        if word not in self.ids:
            shown = " ".join(self.words[:12]) + (" …" if len(self) > 12 else "")
            raise ValueError(f"token {word!r} is not in the vocabulary of {len(self)} tokens: {shown}")
        return self.ids[word]

    def encode(self, text: str | Iterable[str]) -> list[int]:
        """Ids of whitespace-separated words. Raises ValueError as `id` does."""
        return [self.id(word) for word in (text.split() if isinstance(text, str) else text)]

    def decode(self, ids: Sequence[int] | Tensor) -> list[str]:
        numbers = ids.tolist() if isinstance(ids, Tensor) else map(int, ids)
        return [self.words[i] for i in numbers]


def word_tokenizer(vocabulary: Vocabulary, pad: int, n_ctx: int) -> PreTrainedTokenizerFast:
    """Words with whitespace between them, each one token, as `Vocabulary.encode` reads them.

    A word that stands for several ids has its id after it from the second on: `x`, `x#7`.

    Args:
        vocabulary: the words.
        pad: the id of the padding token; −1 if there is none.
        n_ctx: the longest sequence.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers

    ids: dict[str, int] = {}
    for i, word in enumerate(vocabulary.words):
        ids[f"{word}#{i}" if word in ids else word] = i
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=""))  # no word is empty: one that is unknown is an error
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return wrapped(tokenizer, list(ids)[pad] if pad >= 0 else None, n_ctx)


def wrapped(tokenizer: Any, pad: str | None, n_ctx: int) -> PreTrainedTokenizerFast:
    """A tokenizer of `tokenizers` as Transformers has them; a text that says the padding's name is only a text."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=pad,
        model_max_length=n_ctx,
        padding_side="right",
        split_special_tokens=True,
        clean_up_tokenization_spaces=False,
    )
