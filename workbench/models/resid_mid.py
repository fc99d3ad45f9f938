"""The residual between attention and MLP in TransformerLens's bridges: an edit of it goes on with the residual.

What a bridge of a Hugging Face model calls `hook_resid_mid` is the input of the norm before the MLP: an edit there
would change what the MLP reads, and not the residual that goes on beside it. Here the edit is added to the block's
output as well.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens.hook_points import HookPoint
from transformer_lens.model_bridge import TransformerBridge


class Middle(HookPoint):
    """`hook_resid_mid` of a block: what an edit adds there is kept, for `AfterMiddle` to add it to the residual."""

    added: Tensor | None

    def __call__(self, residual: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
        edited: Tensor = super().__call__(residual)
        self.added = None if edited is residual else edited - residual
        return edited


class AfterMiddle(HookPoint):
    """`hook_resid_post` of a block with a `Middle`: hooks see the residual with what was added there."""

    middle: Middle

    def __call__(self, residual: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        added, self.middle.added = self.middle.added, None
        if added is not None:
            residual = residual + added.view(residual.shape)  # OPT lays positions in one row before its MLP
        return super().__call__(residual)


@torch.no_grad()
def carry_middle(bridge: TransformerBridge, tokens: Int[Tensor, "batch pos"]) -> None:
    """Let an edit of `hook_resid_mid` go on with the residual, in every block in which it does not yet.

    Found out by adding something there while what the MLP writes is held: the block's output is then the same.
    """
    names = [
        [f"blocks.{i}.hook_{part}" for part in ("resid_mid", "mlp_out", "resid_post")]
        for i in range(len(bridge.blocks))
    ]
    names = [block for block in names if not {*block} - {*bridge.hook_dict}]
    before: dict[str, Tensor] = {}
    after: dict[str, Tensor] = {}

    def keep(x: Tensor, hook: Any, name: str) -> None:
        before[name] = x

    def add(x: Tensor, hook: Any) -> Tensor:
        return x + x.std()

    def hold(x: Tensor, hook: Any, name: str) -> Tensor:
        return before[name]

    def compare(x: Tensor, hook: Any, name: str) -> Tensor:
        after[name] = x
        return before[name]  # so that the next block starts as it did

    with bridge.hooks(fwd_hooks=[(name, partial(keep, name=name)) for block in names for name in block[1:]]):
        bridge(tokens)
    held = [
        ((middle, add), (mlp, partial(hold, name=mlp)), (out, partial(compare, name=out))) for middle, mlp, out in names
    ]
    with bridge.hooks(fwd_hooks=[hook for block in held for hook in block]):
        bridge(tokens)
    for middle, _, out in names:
        if torch.equal(before[out], after[out]):
            point, end = bridge.hook_dict[middle], bridge.hook_dict[out]
            point.__class__, end.__class__ = Middle, AfterMiddle
            object.__setattr__(point, "added", None)
            object.__setattr__(end, "middle", point)  # not as a part of the other's
