"""Whether the parts of a module of one's own are what they are said to be: found out by running it on a few tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.overrides import TorchFunctionMode

from workbench.models.own_model import Facts
from workbench.models.own_model_hooks import HookedModule

PRODUCTS = (torch.matmul, torch.bmm, Tensor.matmul, Tensor.__matmul__, Tensor.bmm)
"""Products that sum over the last dimension of their first factor."""
WRITES = ("resid_pre", "attn_out", "mlp_out", "resid_post")


@torch.no_grad()
def check_parts(
    hooked: HookedModule, tokens: Int[Tensor, "batch pos"], bare: Float[Tensor, "batch pos class"]
) -> Facts:
    """Run a hooked module on a few tokens and see that its parts are what they are said to be.

    Args:
        hooked: the module.
        tokens: the tokens.
        bare: the logits of the module itself.

    Raises:
        ValueError: if its logits differ, a part does not run, or a block does not add what its attention and MLP write.
    """
    seen: dict[str, Tensor] = {}
    times: Counter[str] = Counter()
    reads = _Reads()

    def keep(activation: Tensor, hook: Any) -> None:
        name = str(hook.name)
        seen.setdefault(name, activation.detach())
        times[name] += 1
        if name.endswith("hook_pattern"):
            reads.follow(name, activation)

    with hooked.hooks(fwd_hooks=[(name, keep) for name in hooked.hook_dict]), reads:
        logits = hooked(tokens)
    if (logits - bare).abs().max() > torch.finfo(bare.dtype).eps ** 0.5 * bare.abs().max():
        raise ValueError("the hooked module does not compute what the module does: its logits differ")
    for name in ("hook_embed", "ln_final.hook_out", "unembed.hook_out"):
        if name not in seen:
            raise ValueError(f"the module never runs the part that stands for {name}")
    patterns = [f"blocks.{layer}.attn.hook_pattern" for layer in range(hooked.config.n_layers)]
    for layer in range(hooked.config.n_layers):
        _check_block(hooked, layer, seen)
    causal = _is_causal(hooked, tokens, logits)
    for layer, name in enumerate(patterns):
        # Where z is seen, the product with the values is taken here, in place of scaled_dot_product_attention.
        read = name in reads.read or name.replace("pattern", "z") in seen
        why = _why_no_pattern(seen.get(name), times[name], read, tokens.shape[1], causal)
        if why is not None:
            return Facts(1, f"no attention pattern is seen in layer {layer}: {why}")
    n_heads = {seen[name].shape[1] for name in patterns}
    if len(n_heads) > 1:
        return Facts(1, f"layers have different numbers of heads: {', '.join(map(str, sorted(n_heads)))}")
    return Facts(n_heads.pop())


def _check_block(hooked: HookedModule, layer: int, seen: dict[str, Tensor]) -> None:
    missing = [name for name in WRITES if f"blocks.{layer}.hook_{name}" not in seen]
    if missing:
        raise ValueError(f"block {layer} never runs the part that stands for hook_{missing[0]}")
    before, attn, mlp, after_both = (seen[f"blocks.{layer}.hook_{name}"] for name in WRITES)
    if before.shape != after_both.shape or attn.shape != before.shape or mlp.shape != before.shape:
        shapes = ", ".join(str(list(x.shape)) for x in (before, attn, mlp, after_both))
        raise ValueError(f"block {layer}: input, attention's write, the MLP's and the output differ: {shapes}")
    apart = (before + attn + mlp - after_both).abs().max()
    if apart > torch.finfo(before.dtype).eps ** 0.5 * after_both.abs().max():
        raise ValueError(
            f"block {layer} is not its input with what {hooked.parts.attn} and {hooked.parts.mlp} write added (off by "
            f"{float(apart):.2g}): name the parts whose output is added, such as a norm behind the MLP. Blocks "
            "that norm or scale the sum itself have no residual stream to read"
        )


def _is_causal(
    hooked: HookedModule, tokens: Int[Tensor, "batch pos"], logits: Float[Tensor, "batch pos class"]
) -> bool:
    """Whether another last token leaves the logits before it as they are."""
    other = torch.cat([tokens[:, :-1], (tokens[:, -1:] + 1) % logits.shape[-1]], dim=1)
    moved = (hooked(other) - logits)[:, :-1].abs()
    return not moved.numel() or bool(moved.max() <= torch.finfo(logits.dtype).eps ** 0.5 * logits.abs().max())


def _why_no_pattern(pattern: Tensor | None, times: int, read: bool, n_pos: int, causal: bool) -> str | None:
    """Why what was seen of a layer is not its attention pattern; None if it is."""
    if pattern is None:
        return "it calls neither scaled_dot_product_attention nor a softmax over [batch, head, query, key]"
    if times > 1:
        return f"its attention takes {times} softmaxes, and which of them is the pattern is not known"
    if pattern.shape[2:] != (n_pos, n_pos):
        return f"its softmax gives {list(pattern.shape)}, not [batch, head, query, key] of {n_pos} positions"
    if ((pattern.sum(-1) - 1).abs() > torch.finfo(pattern.dtype).eps ** 0.5).any():
        return "the rows of its softmax do not sum to 1 over the keys, the last dimension"
    if causal and pattern.triu(1).any():
        return "its softmax has weight on later positions, on which its logits do not depend"
    if not read:
        return "its softmax is changed before the values are multiplied by it"
    return None


class _Reads(TorchFunctionMode):
    """Sees of which attention patterns, as they are, a product with values is taken: `pattern @ values`, or an einsum.

    A copy, a cast, a view or a dropout that does nothing are the same pattern; a mask, a scale or a mixing of heads
    behind the softmax are another, which no hook point shows.
    """

    def __init__(self) -> None:
        super().__init__()
        self.same: dict[int, tuple[str, Tensor]] = {}  # by the id of a tensor, which is kept so that the id is its own
        self.read: set[str] = set()

    def follow(self, name: str, pattern: Tensor) -> None:
        """Follow the pattern of a hook point."""
        self.same[id(pattern)] = name, pattern

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        output = func(*args, **(kwargs or {}))
        factors = [x for arg in args for x in (arg if isinstance(arg, list | tuple) else [arg])]
        for at, factor in enumerate(factors):
            name, pattern = self.same.get(id(factor), (None, None))
            if name is None or pattern is None or not isinstance(output, Tensor):
                continue
            if _sums_over_keys(func, at, factors):
                self.read.add(name)
            elif output.numel() == pattern.numel() and torch.equal(output.flatten().to(pattern), pattern.flatten()):
                self.follow(name, output)
        return output


def _sums_over_keys(func: Any, at: int, factors: list[Any]) -> bool:
    """Whether a function multiplies its factor at a place with another, and sums over the last dimension of it."""
    if func is torch.einsum and isinstance(factors[0], str):
        terms, _, result = factors[0].replace(" ", "").partition("->")
        return bool(result) and terms.split(",")[at - 1][-1] not in result
    return at == 0 and func in PRODUCTS
