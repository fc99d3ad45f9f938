"""The vocabulary of a task: token ids, and the words that people read for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor


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
