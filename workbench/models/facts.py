"""What running a hooked model on a few tokens tells of it: what it does to its logits, and which edits reach nothing.

None of it can be known from the names of hook points.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import linear

from workbench.util.seeds import generator

if TYPE_CHECKING:
    from workbench.models.hooked import AnyHooked


LOGITS = "unembed.hook_out"
FAR, NEAR = 1e4, 1e-3  # logits at which a cap is reached, and at which none is felt


@dataclass(frozen=True)
class LogitTransform:
    """What a model does to what its unembedding gives out: x ↦ c tanh(s x / c), and s x without a cap.

    Attributes:
        scale: s (Cohere's `logit_scale`, one over Granite's `logits_scaling`).
        cap: c (Gemma 2's `final_logit_softcapping`); infinite where there is none.
    """

    scale: float = 1.0
    cap: float = math.inf

    def __call__(self, unembedded: Float[Tensor, "*batch token"]) -> Float[Tensor, "*batch token"]:
        scaled = unembedded if self.scale == 1 else unembedded * self.scale
        return scaled if math.isinf(self.cap) else self.cap * torch.tanh(scaled / self.cap)


@torch.no_grad()
def logit_transform(model: AnyHooked, tokens: Int[Tensor, "batch pos"]) -> LogitTransform | None:
    """What the model does to its logits, found by giving it some at `unembed.hook_out`; None if it is no such map."""
    put_in: list[Tensor] = []

    def put(unembedded: Tensor, hook: Any) -> Tensor:
        chosen = torch.linspace(-50, 50, unembedded.numel())
        chosen[:2] = torch.tensor([FAR, NEAR])
        put_in.append(chosen.reshape(unembedded.shape).to(unembedded))
        return put_in[0].clone()

    with model.hooks(fwd_hooks=[(LOGITS, put)]):
        logits = model(tokens).double()
    unembedded = put_in[0].double()
    far, near = (logits.flatten()[:2] / unembedded.flatten()[:2]).tolist()
    rounding = torch.finfo(put_in[0].dtype).eps * 4
    scale = 1.0 if math.isclose(near, 1, rel_tol=rounding) else near
    transform = LogitTransform(scale, math.inf if math.isclose(far, near, rel_tol=rounding) else far * FAR)
    alike = bool(logits.isfinite().all()) and agree(transform(unembedded), logits, put_in[0].dtype)
    return transform if alike else None


@torch.no_grad()
def why_not_decoded(
    model: AnyHooked,
    tokens: Int[Tensor, "batch pos"],
    final_norm: nn.Module,
    unembedding: nn.Linear,
    transform: LogitTransform,
) -> str | None:
    """Why a residual cannot be read as the model reads its last one; None where that gives the model's own logits.

    Args:
        model: the hooked model.
        tokens: a few tokens.
        final_norm, unembedding, transform: what is said to make its logits.
    """
    seen: list[Tensor] = []
    with model.hooks(fwd_hooks=[(f"blocks.{model.cfg.n_layers - 1}.hook_resid_post", lambda x, hook: seen.append(x))]):
        logits = model(tokens)
    decoded = transform(linear(final_norm(seen[0]), unembedding.weight, getattr(unembedding, "bias", None)))
    if not logits.isfinite().all():
        return "some of its logits are infinite, whatever it reads, so no residual can be read as it reads the last one"
    if agree(decoded, logits):
        return None
    apart = float((decoded - logits).abs().max() / logits.abs().max())
    return (
        "its logits are not what its final norm and unembedding make of the last residual (off by "
        f"{apart:.2g} of the largest), so no residual can be read as it reads that one"
    )


PROBED, LONGEST_PROBE, FEW = 2, 32, 8
"""Sequences on which a module's parts are checked, and the most tokens of each; tokens of one that tell the rest."""
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
    there = model.hook_dict  # which a bridge makes anew each time
    for name in names:
        if name not in there:
            raise EditReachesNothingError(f"this model does not show {name}, so that nothing can be edited there")
        if isinstance(there[name], WatchedOnly):
            raise EditReachesNothingError(why_watched(name))


def watched_only(model: AnyHooked, tokens: Int[Tensor, "batch pos"]) -> tuple[str, ...]:
    """The hook points of `EDITED` that a forward pass goes through and its output does not depend on.

    One forward pass and one backward: zeros are added at every point, and where the output has a gradient by them it
    rests on them, though it be 0, as behind weights of 0. Where it has none, what is computed there may be detached, or
    nothing have a gradient: something is added there, and the output moves or does not. Those at which an edit is
    refused already are left out.
    """
    points = model.hook_dict.items()
    names = {id(p): name for name, p in points if name.endswith(EDITED) and not isinstance(p, WatchedOnly)}
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


@dataclass(frozen=True)
class Facts:
    """What running a module on a few tokens tells.

    Attributes:
        n_heads: heads of a layer; 1 where no pattern was seen.
        no_pattern: why the pattern of a layer cannot be seen; None if all can.
        parallel: whether attention and MLP of a block read the same residual, so that there is none between them.
        logits: what becomes of the logits behind the unembedding.
        no_decoding: why a residual cannot be read as the last one is; None where it can.
        watched_only: the hook points of which the output reads nothing, so that an edit there is refused.
        silent: those that nothing passes, such as `hook_z` of attention that is written out by hand.
    """

    n_heads: int
    no_pattern: str | None = None
    parallel: bool = False
    logits: LogitTransform = LogitTransform()
    no_decoding: str | None = None
    watched_only: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()


def logits_of(output: Any) -> Tensor:
    """The logits in what a module gave out."""
    logits = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", output)
    if isinstance(logits, tuple | list):  # of a loss and logits, the logits
        logits = next((part for part in logits if isinstance(part, Tensor) and part.ndim == 3), logits)
    if not isinstance(logits, Tensor):
        raise ValueError(f"the module gives out {type(output).__name__}, in which there are no logits")
    return logits


def probe_tokens(d_vocab: int, n_ctx: int, device: torch.device) -> Int[Tensor, "batch pos"]:
    """A few tokens, the same at every call, at which a model and its hooked copy are compared.

    Two short sequences would not tell that a fast path differs beyond some length: they are as long as the context, up
    to a bound that keeps the check at a few milliseconds.
    """
    length = min(n_ctx, LONGEST_PROBE)
    shape = (PROBED + (length == PROBED), length)  # so that a position is not taken for a sequence
    return torch.randint(d_vocab, shape, generator=generator(0, "hooked model")).to(device)


def check_numbers(module: nn.Module) -> None:
    """Raise ValueError, which names it, if a weight is no finite number."""
    for name, values in module.named_parameters():
        # Both the least and the most are NaN where one number is.
        if values.is_floating_point() and values.numel() and not torch.stack(values.aminmax()).isfinite().all():
            raise ValueError(f"{name} has numbers that are NaN or infinite")


def agree(got: Tensor, expected: Tensor, dtype: torch.dtype | None = None) -> bool:
    """Whether two tensors differ by no more than rounding: by √ε of the largest number expected.

    Where both are infinite or NaN they are alike.

    Args:
        got, expected: the tensors.
        dtype: the type that they were computed in, whose ε counts; by default that of `expected`.
    """
    finite = expected.isfinite()
    if got.shape != expected.shape or not torch.equal(finite, got.isfinite()):
        return False
    if not finite.any():
        return True
    apart, largest = (got - expected)[finite].abs().max(), expected[finite].abs().max()
    return bool(apart <= largest * torch.finfo(dtype or expected.dtype).eps ** 0.5)
