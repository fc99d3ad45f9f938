"""Hook points that can be watched and not edited, because the output of the model does not depend on them.

TransformerLens's bridges let some models compute their own attention (OPT, GPT-J): its pattern is then shown, and never
read again. That cannot be known from names, so it is found out by running the model, once, when it is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from workbench.models.logits import LOGITS
from workbench.util.seeds import generator

if TYPE_CHECKING:
    from workbench.models.hooked import AnyHooked

EDITED = (
    *("hook_embed", "hook_resid_pre", "hook_resid_mid", "hook_resid_post"),
    *("hook_attn_out", "hook_mlp_out", "ln_final.hook_out", LOGITS),
    *(f"attn.hook_{name}" for name in ("q", "k", "v", "attn_scores", "pattern", "z")),
)
"""The ends of the names of the hook points at which this library edits. Of others nothing is found out: an edit within
a norm, for one, has TransformerLens compute that norm in another way."""


class EditReachesNothingError(ValueError):
    """An edit that the model cannot have: nothing reads what is edited, or not the edited heads alone do."""


class WatchedOnly(nn.Module):
    """What a hook point is too whose activation is shown, and of which the rest of the forward pass reads nothing."""

    name: str | None

    def __call__(self, activation: Tensor) -> Tensor:
        place, version = activation.data_ptr(), activation._version
        output: Tensor = super().__call__(activation)
        if output.data_ptr() != place or output._version != version:
            raise EditReachesNothingError(why_watched(self.name))
        return output


def why_watched(point: str | None) -> str:
    """Why an edit at a hook point is refused, in one line."""
    return (
        f"{point} of this model can be watched, not edited: the model computes this step by itself, and an edit there "
        "does not reach its output"
    )


def check_editable(model: AnyHooked, names: Sequence[str]) -> None:
    """Raise EditReachesNothingError if there is no such hook point, or the output does not depend on it."""
    for name in names:
        if name not in model.hook_dict:
            raise EditReachesNothingError(f"this model does not show {name}, so that nothing can be edited there")
        if isinstance(model.hook_dict[name], WatchedOnly):
            raise EditReachesNothingError(why_watched(name))


def watched_only(model: AnyHooked, tokens: Int[Tensor, "batch pos"]) -> tuple[str, ...]:
    """The hook points of `EDITED` that a forward pass goes through and its output does not depend on.

    One forward pass and one backward: zeros are added at every point, and where the output has a gradient by them it
    rests on them, though it be 0, as behind weights of 0. Where it has none, what is computed there may be detached, or
    nothing have a gradient: something is added there, and the output moves or does not.
    """
    names = {id(point): name for name, point in model.hook_dict.items() if name.endswith(EDITED)}
    added: dict[str, Tensor] = {}

    def add(point: Any, given: Any, activation: Any) -> Any:
        name = names[id(point)]
        if not isinstance(activation, Tensor) or not activation.is_floating_point() or name in added:
            return activation
        added[name] = torch.zeros_like(activation, requires_grad=True)
        return activation + added[name]

    with ExitStack() as hooks, torch.enable_grad():
        for name in names.values():  # PyTorch's own hooks: TransformerLens's refuse points that are switched off
            hooks.callback(model.hook_dict[name].register_forward_hook(add).remove)
        try:
            total = model(tokens).sum()
            slopes: Sequence[Tensor | None] = torch.autograd.grad(total, list(added.values()), allow_unused=True)
        except RuntimeError:  # without gradients at all (`torch.no_grad` in its code), or none that can be had
            slopes = (None,) * len(added)
    without = [name for name, slope in zip(added, slopes, strict=True) if slope is None]
    if not without or not _moves(model, tokens, without):
        return tuple(without)
    return tuple(name for name in without if not _moves(model, tokens, [name]))


@torch.no_grad()
def _moves(model: AnyHooked, tokens: Int[Tensor, "batch pos"], names: Sequence[str]) -> bool:
    """Whether the output is another one where something random is added at these hook points."""
    draws = generator(0, "watched only")

    def add(point: Any, given: Any, activation: Tensor) -> Tensor:
        return activation + torch.randn(activation.shape, generator=draws).to(activation)

    before = model(tokens)
    with ExitStack() as hooks:
        for name in names:
            hooks.callback(model.hook_dict[name].register_forward_hook(add).remove)
        return not torch.equal(model(tokens).nan_to_num(), before.nan_to_num())


def let_watch_only(model: AnyHooked, names: Sequence[str]) -> None:
    """Let an edit at these hook points raise EditReachesNothingError."""
    from transformer_lens.hook_points import HookPoint

    class WatchedHookPoint(WatchedOnly, HookPoint):
        pass

    for name in names:
        model.hook_dict[name].__class__ = WatchedHookPoint
