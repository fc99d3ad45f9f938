"""A model that TransformerLens has bridged, under the names that instruments know.

A bridge cuts queries, keys, values and what is read by the one width of a head that it knows. Where a layer has
another (of DeepSeek's latent attention it is the width of the rotated part; Qwen 3.5 lays a gate beside each head's
queries) or lays heads before positions, hooks would see parts of heads, or heads as positions. Shapes tell: the model
is run once.

What a bridge of a Hugging Face model calls `hook_resid_mid` is the input of the norm before the MLP: an edit there
would change what the MLP reads, and not the residual that goes on beside it. Here the edit is added to the block's
output as well.
"""

from __future__ import annotations

import copy
from functools import partial
from types import CellType, FunctionType, SimpleNamespace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformer_lens.conversion_utils.conversion_steps import RearrangeTensorConversion as Rearranged
from transformer_lens.hook_points import HookPoint
from transformer_lens.model_bridge import TransformerBridge

from workbench.models.facts import FEW, Facts, let_watch_only, probe_tokens
from workbench.models.own_model import OwnModel
from workbench.models.own_model_config import OwnModelConfig

HEADS = tuple(f"attn.hook_{part}" for part in "qkvz")


@torch.no_grad()
def _show_heads(bridge: TransformerBridge, tokens: Int[Tensor, "batch pos"]) -> int:
    """Let `hook_q`, `hook_k`, `hook_v` and `hook_z` of every layer show heads; returns how wide what one reads is.

    Args:
        bridge: the bridge, whose hook points are changed so.
        tokens: a few tokens.

    Raises:
        ValueError: if a layer has another number of heads than the model.
    """
    n_heads, width = bridge.cfg.n_heads, bridge.cfg.d_head
    length = next((n for n in range(tokens.shape[1], 1, -1) if n_heads % n), 1)  # one that is no number of heads
    _, cache = bridge.run_with_cache(
        tokens[:, :length], names_filter=lambda name: name.endswith((*HEADS, "attn.hook_pattern"))
    )
    for name, seen in cache.items():
        point = bridge.hook_dict[name]
        if name.endswith("pattern") and seen.shape[1] != n_heads:
            raise ValueError(f"layers have different numbers of heads: {name} has {seen.shape[1]}, others {n_heads}")
        if not name.endswith(HEADS):
            continue
        if seen.shape[1] != length:
            point.hook_conversion = Rearranged("batch head pos width -> batch pos head width")
            point.pos_dim = None
        elif seen.shape[2] != n_heads and (name[-1] in "qz" or n_heads % seen.shape[2]):
            point.hook_conversion = Rearranged("batch pos (head width) -> batch pos head width", head=n_heads)
        if name[-1] == "z":
            width = seen.flatten(2).shape[-1] // n_heads
    return int(width)


class _Middle(HookPoint):
    """`hook_resid_mid` of a block: what an edit adds there is kept, for `_AfterMiddle` to add it to the residual."""

    added: Tensor | None

    def __call__(self, residual: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
        edited: Tensor = super().__call__(residual)
        self.added = None if edited is residual else edited - residual
        return edited


class _AfterMiddle(HookPoint):
    """`hook_resid_post` of a block with a `_Middle`: hooks see the residual with what was added there."""

    middle: _Middle

    def __call__(self, residual: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        added, self.middle.added = self.middle.added, None
        if added is not None:
            residual = residual + added.view(residual.shape)  # OPT lays positions in one row before its MLP
        return super().__call__(residual)


@torch.no_grad()
def _carry_middle(bridge: TransformerBridge, tokens: Int[Tensor, "batch pos"]) -> None:
    """Let an edit of `hook_resid_mid` go on with the residual, in every block in which it does not yet.

    Found out by adding something there while what the MLP writes is held: the block's output is then the same.
    """
    names = [
        [f"blocks.{i}.hook_{part}" for part in ("resid_mid", "mlp_out", "resid_post")]
        for i in range(len(bridge.blocks))
    ]
    names = [block for block in names if not {*block} - {*bridge.hook_dict}]
    held = [name for block in names for name in block[1:]]
    before: dict[str, Tensor] = {}
    after: dict[str, Tensor] = {}

    def keep(x: Tensor, hook: Any, name: str) -> None:
        before[name] = x

    def add(x: Tensor, hook: Any) -> Tensor:
        return x + x.std()

    def hold(x: Tensor, hook: Any, name: str) -> Tensor:
        after[name] = x
        return before[name]  # so that the next block starts as it did

    with bridge.hooks(fwd_hooks=[(name, partial(keep, name=name)) for name in held]):
        bridge(tokens)
    adding, holding = [(block[0], add) for block in names], [(name, partial(hold, name=name)) for name in held]
    with bridge.hooks(fwd_hooks=[*adding, *holding]):
        bridge(tokens)
    for middle, _, out in names:
        if torch.equal(before[out], after[out]):
            point, end = bridge.hook_dict[middle], bridge.hook_dict[out]
            point.__class__, end.__class__ = _Middle, _AfterMiddle
            object.__setattr__(point, "added", None)
            object.__setattr__(end, "middle", point)  # not as a part of the other's


class BridgedModel(OwnModel):
    """A model that TransformerLens has bridged, such as one of Hugging Face's, under the same names.

    From then on an edit of the bridge's `hook_resid_mid` goes on with the residual, and an edit that would reach
    nothing is an error; `hook_q`, `hook_k`, `hook_v` and `hook_z` are `[batch, pos, head, width]`.

    Args:
        bridge: the `TransformerBridge`, whose hook points are changed so.

    Raises:
        ValueError: if its layers have different numbers of heads.
    """

    def __init__(self, bridge: TransformerBridge) -> None:
        nn.Module.__init__(self)
        parallel = "blocks.0.hook_resid_mid" not in bridge.hook_dict  # as in Pythia's and Phi's blocks
        self.module, self.build, self.facts = bridge, None, Facts(bridge.cfg.n_heads, parallel=parallel)
        d_model, d_vocab = bridge.W_U.shape
        cfg = bridge.cfg
        tokens = probe_tokens(d_vocab, cfg.n_ctx, bridge.W_E.device)
        self.config = OwnModelConfig(
            n_layers=cfg.n_layers,
            d_model=d_model,
            n_heads=cfg.n_heads,
            d_vocab=d_vocab,
            n_ctx=cfg.n_ctx,
            d_head=_show_heads(bridge, tokens[:1, :FEW]),
            module=str(cfg.model_name),
            n_weights=sum(parameter.numel() for parameter in bridge.parameters()),
        )
        _carry_middle(bridge, tokens[:1, :FEW])
        self.facts = self._learnt(tokens)
        let_watch_only(bridge, self.facts.watched_only)

    def __deepcopy__(self, memo: dict[int, Any]) -> BridgedModel:
        # TransformerLens keeps the pattern of the last run, which cannot be copied where that run was for gradients.
        kept = (value for module in self.modules() for value in vars(module).values() if isinstance(value, Tensor))
        memo |= {id(value): value.detach() for value in kept if not value.is_leaf}
        copied = memo[id(self)] = type(self).__new__(type(self))
        copied.__dict__.update(copy.deepcopy(self.__dict__, memo))
        for module in copied.modules():  # a function that it has put in place of a method is of the module copied from
            functions = {name: value for name, value in vars(module).items() if isinstance(value, FunctionType)}
            vars(module).update({name: _of_copies(function, memo) for name, function in functions.items()})
        return copied

    def hooked(self) -> Any:
        """The bridge itself."""
        return self.module

    @property
    def token_embedding(self) -> Any:
        return SimpleNamespace(weight=self.module.W_E)

    @property
    def unembedding(self) -> Any:
        return SimpleNamespace(weight=self.module.W_U.T, bias=self.module.b_U)

    @property
    def final_norm(self) -> Any:
        return self.module.ln_final


def _of_copies(function: FunctionType, memo: dict[int, Any]) -> FunctionType:
    """A function as it is, but for what it has closed over: of that, what `copy.deepcopy` has made with this memo."""
    contents = [cell.cell_contents for cell in function.__closure__ or ()]
    cells = tuple(
        CellType(_of_copies(each, memo) if isinstance(each, FunctionType) else copy.deepcopy(each, memo))
        for each in contents
    )
    made = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, cells)
    made.__kwdefaults__ = function.__kwdefaults__
    return made
