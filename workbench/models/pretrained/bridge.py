"""TransformerLens's bridge of a Hugging Face model: our variants in it, and texts by the rule of its tokenizer.

A bridge computes attention itself: scores, `hook_attn_scores`, softmax, `hook_pattern`, pattern times values. So a
variant stands at the two hook points. Before the first, the scores become the variant's; after the second, and after
every edit made there, the pattern becomes what the variant applies to the values (`Attention.mixing_matrix`).

TransformerLens by its custom puts a beginning of text before every text, also where one stands already, takes off an
end of text that the tokenizer puts after it, and finds padding by its token, which a text may begin with too. Here
`hooked.to_tokens(text)` is what `model.tokens(text)` is, and padding is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformer_lens.hook_points import HookPoint
from transformer_lens.model_bridge import TransformerBridge
from transformers import PreTrainedTokenizerBase

from workbench.models.attention import Attention
from workbench.models.hooked_decoder import is_words

_LOCKS: WeakKeyDictionary[nn.Module, Any] = WeakKeyDictionary()  # a lock in the model itself could not be copied


def around(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """The token ids that a tokenizer puts before every text, and those that it puts after it."""
    whole, own = (list(tokenizer("a", add_special_tokens=added)["input_ids"]) for added in (True, False))
    starts = (at for at in range(len(whole) - len(own) + 1) if own and whole[at : at + len(own)] == own)
    start = next(starts, len(whole))
    return whole[:start], whole[start + len(own) :]


class HookedPretrained(TransformerBridge):
    """A bridge of a Hugging Face model that reads texts by the rule of its tokenizer.

    Some of its layers may have a variant of this library. Hooks are on the model and see every run of it, so one thread
    at a time has hooks on it or runs it: another, such as a page that is drawn while something is measured, waits.
    """

    variants: tuple[Attention, ...] = ()

    @property
    def _alone(self) -> AbstractContextManager[Any]:
        """Held by the thread that runs the model or has hooks on it; a copy of the model has its own."""
        return _LOCKS.setdefault(self, RLock())

    @contextmanager
    def hooks(self, *given: Any, **named: Any) -> Iterator[Any]:
        """As TransformerLens's; no other thread runs the model within."""
        with self._alone, super().hooks(*given, **named) as hooked:
            yield hooked

    def run_with_cache(self, *given: Any, **named: Any) -> Any:
        """As TransformerLens's; no other thread runs the model meanwhile."""
        with self._alone:
            return super().run_with_cache(*given, **named)

    def run_with_hooks(self, *given: Any, **named: Any) -> Any:
        """As TransformerLens's; no other thread runs the model meanwhile."""
        with self._alone:
            return super().run_with_hooks(*given, **named)

    def process_weights(self, *given: Any, **named: Any) -> None:
        """TransformerLens's processing of weights, where it does not change what the model computes.

        Raises:
            ValueError: if value biases are to be folded through a layer that does not pass constants on, as ChaCAL's.
        """
        folds = named.get("fold_value_biases", given[4] if len(given) > 4 else True)
        wrong = [variant.name for variant in self.variants if not variant.passes_constants]
        if folds and wrong:
            raise ValueError(
                f"folding value biases would change what {wrong[0]} attention computes, whose rows do not sum to 1: "
                "give fold_value_biases=False"
            )
        super().process_weights(*given, **named)

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
        with self._alone:
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


class _VariantScores(HookPoint):
    """`hook_attn_scores` of a layer whose variant scales its queries: hooks see the scaled scores."""

    variant: Attention

    def __call__(self, scores: Float[Tensor, "batch head query key"]) -> Float[Tensor, "batch head query key"]:
        n_query, n_key = scores.shape[-2:]
        visible = scores > torch.finfo(scores.dtype).min / 2
        if not bool(visible[:, :, -1].all()):
            raise ValueError(
                f"{self.variant.name} attention scales by position, which padding on the left shifts: give the bridge "
                "sequences without it, or pad on the right"
            )
        ones = scores.new_ones(1, 1, n_key, 1)
        factor = self.variant.scale_queries(ones[:, :, :n_query], ones)
        return super().__call__(torch.where(visible, scores * factor, scores))


class _VariantReading(HookPoint):
    """`hook_pattern` of a layer whose variant reads in a way of its own: hooks see, and may change, the pattern."""

    variant: Attention

    def __call__(self, pattern: Float[Tensor, "batch head query key"]) -> Float[Tensor, "batch head query key"]:
        pattern = super().__call__(pattern)
        if pattern.shape[-2] != pattern.shape[-1]:
            raise ValueError(
                f"a bridge of a model with {self.variant.name} attention has no cache of keys and values: give "
                "use_past_kv_cache=False"
            )
        return self.variant.mixing_matrix(pattern)


def put_variants(bridge: TransformerBridge, variants: Sequence[Attention]) -> HookedPretrained:
    """Let each layer of a bridge, whose own attention is standard, have its variant.

    Raises:
        ValueError: if a variant makes its pattern otherwise than by softmax of its scores.
    """
    bridge.__class__ = HookedPretrained
    bridge.variants = tuple(variants)  # type: ignore[attr-defined]
    for block, variant in zip(bridge.blocks, variants, strict=True):
        if variant.name == "standard":
            continue
        kind = type(variant)
        if kind.pattern is not Attention.pattern or kind.scores is not Attention.scores:
            raise ValueError(
                f"{variant.name} attention makes its pattern in a way of its own, which TransformerLens's bridge of a "
                "Hugging Face model cannot show"
            )
        if kind.scale_queries is not Attention.scale_queries:
            _become(block.attn.hook_attn_scores, _VariantScores, variant)
        if not variant.takes_one_step:
            _become(block.attn.hook_pattern, _VariantReading, variant)
    return bridge  # type: ignore[return-value]


def _become(point: HookPoint, kind: type[HookPoint], variant: Attention) -> None:
    """Make a hook point one of another class, which holds the variant; its parameters are not the bridge's."""
    point.__class__ = kind
    object.__setattr__(point, "variant", variant)
