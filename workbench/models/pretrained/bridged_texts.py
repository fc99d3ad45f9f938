"""Texts at the door of a bridge: the tokens that the tokenizer itself makes of them, and a mask that knows the padding.

TransformerLens by its custom puts a beginning of text before every text, also where one stands already, takes off an
end of text that the tokenizer puts after it, and finds padding by its token, which a text may begin with too. Here
`hooked.to_tokens(text)` is what `model.tokens(text)` is, and padding is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from transformer_lens.model_bridge import TransformerBridge
from transformers import PreTrainedTokenizerBase

from workbench.models.hooked_words import is_words


class BridgedTexts(TransformerBridge):
    """A bridge that reads texts by the rule of its tokenizer."""

    def to_tokens(
        self,
        input: str | list[str],
        prepend_bos: bool | None = None,
        padding_side: str | None = None,
        move_to_device: bool = True,
        truncate: bool = True,
    ) -> Int[Tensor, "batch pos"]:
        """The tokens of one text, or of several, padded on one side.

        Args:
            input: one text or several.
            prepend_bos: None for what the tokenizer puts before and after a text; False for the text alone; True for a
                beginning of text too, where the tokenizer has one and none stands there.
            padding_side: `left` or `right`; by default the tokenizer's own.
            move_to_device: put them where the model is.
            truncate: cut off what is longer than the context.
        """
        rows = self._rows([input] if isinstance(input, str) else input, prepend_bos)
        tokens, _ = self._padded([row[: self.cfg.n_ctx] for row in rows] if truncate else rows, padding_side)
        return tokens.to(self.cfg.device) if move_to_device else tokens

    def forward(self, input: Any, *given: Any, **named: Any) -> Any:
        """As TransformerLens's; of several texts no padding is read, and none counts in the loss."""
        if isinstance(input, list) and is_words(input) and named.get("attention_mask") is None:
            rows = self._rows(input, named.pop("prepend_bos", None))
            input, real = self._padded([row[: self.cfg.n_ctx] for row in rows], named.pop("padding_side", None))
            input, real = input.to(self.cfg.device), real.to(self.cfg.device)
            if not bool(real[:, :1].all()):
                named["attention_mask"] = real.long()
            if not bool(real.all()) and (given[0] if given else named.get("return_type")) in ("loss", "both"):
                named.setdefault("labels", input.masked_fill(~real, -100))
        return super().forward(input, *given, **named)

    def generate(self, input: Any = "", *given: Any, **named: Any) -> Any:
        """As TransformerLens's: prompts go on behind their own last token, whatever a tokenizer puts after a text."""
        return super().generate(self._prompts(input, named), *given, **named)

    def generate_stream(self, input: Any = "", *given: Any, **named: Any) -> Any:
        """As TransformerLens's, of the prompts that `generate` goes on from."""
        return super().generate_stream(self._prompts(input, named), *given, **named)

    def _prompts(self, given: Any, named: dict[str, Any]) -> Any:
        """Prompts as tokens, padded on the left, with a mask of it among what else is given; tokens as they are."""
        texts = [given] if isinstance(given, str) else given
        if not is_words(texts) or (len(texts) > 1 and not getattr(self.adapter, "supports_batched_generation", True)):
            return given
        tokens, real = self._padded(self._rows(texts, named.pop("prepend_bos", None), goes_on=True), "left")
        if not bool(real.all()):
            named["attention_mask"] = real.long()
        if named.get("return_type", "input") == "input":
            named["return_type"] = "str"
        return tokens

    def _rows(self, texts: Sequence[str], prepend_bos: bool | None, goes_on: bool = False) -> list[list[int]]:
        """The token ids of each text (see `to_tokens`)."""
        tokenizer = self.tokenizer
        if tokenizer is None:
            raise ValueError("this model has no tokenizer: give token ids")
        if prepend_bos is False:
            return [list(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in texts]
        n_after = len(around(tokenizer)[1]) if goes_on else 0
        rows = [list(tokenizer(text)["input_ids"]) for text in texts]
        rows = [row[: len(row) - n_after] for row in rows]
        begin = tokenizer.bos_token_id
        if not prepend_bos or begin is None:
            return rows
        return [row if row[:1] == [begin] else [begin, *row] for row in rows]

    def _padded(
        self, rows: list[list[int]], padding_side: str | None
    ) -> tuple[Int[Tensor, "batch pos"], Bool[Tensor, "batch pos"]]:
        """Rows filled up to one length, and where their own tokens are."""
        left = (padding_side or self.tokenizer.padding_side) == "left"
        width, pad = max(map(len, rows), default=0), self.tokenizer.pad_token_id
        fills = [[0 if pad is None else pad] * (width - len(row)) for row in rows]
        tokens = [fill + row if left else row + fill for row, fill in zip(rows, fills, strict=True)]
        position, missing = torch.arange(width), torch.tensor(list(map(len, fills)))[:, None]
        return torch.tensor(tokens, dtype=torch.long), position >= missing if left else position < width - missing


def around(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """The token ids that a tokenizer puts before every text, and those that it puts after it."""
    whole, own = (list(tokenizer("a", add_special_tokens=added)["input_ids"]) for added in (True, False))
    starts = (at for at in range(len(whole) - len(own) + 1) if own and whole[at : at + len(own)] == own)
    start = next(starts, len(whole))
    return whole[:start], whole[start + len(own) :]
