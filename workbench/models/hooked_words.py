"""TransformerLens's words on a model without a tokenizer: one line that says what to give instead."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from transformer_lens.model_bridge import TransformerBridge

NO_TOKENIZER = (
    "this model has no tokenizer, so it neither takes nor gives words: give token ids, such as task.parse(text).tokens "
    "or task.vocabulary.encode(words); task.words(ids) are the words of ids"
)
ALWAYS = ("to_tokens", "to_string", "to_str_tokens", "to_single_token", "to_single_str_token", "hf_generate")
"""Methods that always need a tokenizer."""
OF_WORDS = ("forward", "run_with_cache", "get_token_position", "tokens_to_residual_directions")
"""Methods that take token ids in place of words."""
GENERATING = ("generate", "generate_stream")
"""Methods that take token ids too, and stop at an end-of-text token: without a tokenizer only if its id is given."""


def with_ids_alone(name: str) -> Callable[..., Any]:
    """TransformerLens's method of this name, which raises ValueError where it would need a tokenizer."""
    method = getattr(TransformerBridge, name)

    @wraps(method)
    def checked(self: Any, *given: Any, **named: Any) -> Any:
        if self.tokenizer is None:
            if name in ALWAYS or any(map(is_words, (*given[:2], named.get("input")))):
                raise ValueError(NO_TOKENIZER)
            if name in GENERATING and named.get("eos_token_id") is None:
                if not given and "input" not in named:  # the default is an empty text
                    raise ValueError(NO_TOKENIZER)
                named.setdefault("stop_at_eos", False)
        return method(self, *given, **named)

    return checked


def is_words(given: Any) -> bool:
    """Whether this is a text, or several."""
    return isinstance(given, str) or (isinstance(given, list) and bool(given) and isinstance(given[0], str))
