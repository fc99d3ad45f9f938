"""A vocabulary as a tokenizer of Hugging Face, for all that asks for one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.tasks.vocabulary import Vocabulary

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


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
