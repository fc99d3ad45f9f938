"""The attention variants in TransformerLens's bridges of Hugging Face models: hooks see the true pattern and scores.

A bridge computes attention itself: scores, `hook_attn_scores`, softmax, `hook_pattern`, pattern times values. So a
variant stands at the two hook points. Before the first, the scores become the variant's; after the second, and after
every edit made there, the pattern becomes what the variant applies to the values (`Attention.mixing_matrix`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from transformer_lens.hook_points import HookPoint
from transformer_lens.model_bridge import TransformerBridge

from workbench.models.attention import Attention
from workbench.models.pretrained.bridged_texts import BridgedTexts


class HookedPretrained(BridgedTexts):
    """A bridge of a Hugging Face model, some of whose layers may have a variant of this library."""

    variants: tuple[Attention, ...] = ()

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


class OwnScores(HookPoint):
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


class OwnReading(HookPoint):
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
            _become(block.attn.hook_attn_scores, OwnScores, variant)
        if not variant.takes_one_step:
            _become(block.attn.hook_pattern, OwnReading, variant)
    return bridge  # type: ignore[return-value]


def _become(point: HookPoint, kind: type[HookPoint], variant: Attention) -> None:
    """Make a hook point one of another class, which holds the variant; its parameters are not the bridge's."""
    point.__class__ = kind
    object.__setattr__(point, "variant", variant)
