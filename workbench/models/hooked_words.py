"""TransformerLens's words on our models: with a task's tokenizer, and one clear line where there is none.

Our decoders have no beginning and no end of text, and take no padding on the left: nothing is put before a text, and a
model goes on from prompts of one length. By TransformerLens's custom `generate` leaves padding out of the text that it
gives; with `return_type="tokens"` it is there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Int
from torch import Tensor
from transformer_lens.model_bridge import TransformerBridge

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

NO_TOKENIZER = (
    "this model has no tokenizer, so it neither takes nor gives words: give token ids, such as task.parse(text).tokens "
    "or task.vocabulary.encode(words); task.words(ids) are the words of ids; or give it the task's words, "
    "hooked.speak(task.fast_tokenizer())"
)
ALWAYS = ("to_string", "to_str_tokens", "to_single_token", "to_single_str_token")
"""Methods that always need a tokenizer."""
OF_WORDS = ("forward", "run_with_cache", "get_token_position", "tokens_to_residual_directions")
"""Methods that take token ids in place of words."""
GENERATING = ("generate", "generate_stream")
"""Methods that take token ids too, and stop at an end-of-text token: where there is none only if its id is given."""


class Words(TransformerBridge):
    """A bridge that takes and gives a task's words, once it was given a tokenizer (`speak`)."""

    def speak(self, tokenizer: PreTrainedTokenizerBase) -> None:
        """Take and give the words of a tokenizer from now on, such as `task.fast_tokenizer()`.

        Raises:
            ValueError: if it has tokens that the model does not know.
        """
        largest = max(tokenizer.get_vocab().values(), default=-1)
        if largest >= self.cfg.d_vocab:
            raise ValueError(f"the tokenizer has the token id {largest}, and the model knows {self.cfg.d_vocab} tokens")
        self.tokenizer = tokenizer
        self.cfg.default_prepend_bos = self.cfg.tokenizer_prepends_bos = self.cfg.tokenizer_appends_eos = False

    def to_tokens(
        self,
        input: str | list[str],
        prepend_bos: bool | None = None,
        padding_side: str | None = None,
        move_to_device: bool = True,
        truncate: bool = True,
    ) -> Int[Tensor, "batch pos"]:
        """The tokens of one text, or of several, padded on the right, as TransformerLens's `to_tokens`.

        Raises:
            ValueError: if there is no tokenizer, a word is not in the vocabulary, something is to be put before the
                text or padded on the left, or texts of different lengths have no token to pad with.
        """
        if self.tokenizer is None:
            raise ValueError(NO_TOKENIZER)
        if prepend_bos:
            raise ValueError("this model has no token that begins a text: leave prepend_bos False")
        rows = [encoded(self.tokenizer, text) for text in ([input] if isinstance(input, str) else input)]
        rows = [row[: self.cfg.n_ctx] for row in rows] if truncate else rows
        longest, pad = max(map(len, rows), default=0), self.tokenizer.pad_token_id
        if any(len(row) < longest for row in rows) and (pad is None or padding_side == "left"):
            why = "its task has no padding" if pad is None else "it takes none on the left"
            raise ValueError(f"texts of different lengths have to be padded, and {why}: give texts of one length")
        tokens = torch.tensor([row + [pad or 0] * (longest - len(row)) for row in rows], dtype=torch.long)
        return tokens.to(self.cfg.device) if move_to_device else tokens

    def hf_generate(self, *given: Any, **named: Any) -> Any:
        """Refused: the model is none of Transformers'."""
        if self.tokenizer is None:
            raise ValueError(NO_TOKENIZER)
        raise ValueError("this is no model of Transformers, and has no generation of its own: use generate")


def encoded(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """The ids of a text. Raises ValueError, which names it, if a word is not in the vocabulary."""
    try:
        return list(tokenizer.encode(text, add_special_tokens=False))
    except Exception as error:  # the library raises bare Exception
        known = tokenizer.get_vocab()
        unknown = next((word for word in text.split() if word not in known), None)
        if unknown is None:
            raise
        shown = " ".join(sorted(known, key=known.__getitem__)[:12]) + (" …" if len(known) > 12 else "")
        raise ValueError(f"token {unknown!r} is not in the vocabulary of {len(known)} tokens: {shown}") from error


def with_words(name: str) -> Callable[..., Any]:
    """TransformerLens's method of this name, in which words are the task's; ValueError where there are none."""
    method = getattr(TransformerBridge, name)

    @wraps(method)
    def checked(self: Any, *given: Any, **named: Any) -> Any:
        first = given[0] if given else named.get("input", "" if name in GENERATING else None)
        if self.tokenizer is None and (name in ALWAYS or any(map(is_words, (first, *given[1:2])))):
            raise ValueError(NO_TOKENIZER)
        ends = self.tokenizer is not None and self.tokenizer.eos_token_id is not None
        if name in GENERATING and named.get("eos_token_id") is None and not ends:
            named.setdefault("stop_at_eos", False)
        if is_words(first) and name in (*GENERATING, "forward", "run_with_cache"):
            named.pop("input", None)
            if name in GENERATING and named.get("return_type", "input") == "input":
                named["return_type"] = "str"
            given = (self.to_tokens(first, padding_side="left" if name in GENERATING else None), *given[1:])
        return method(self, *given, **named)

    return checked


def is_words(given: Any) -> bool:
    """Whether this is a text, or several."""
    return isinstance(given, str) or (isinstance(given, list) and bool(given) and isinstance(given[0], str))
