"""Whether the parts of a module of one's own are what they are said to be: found out by running it on a few tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from torch.overrides import TorchFunctionMode

from workbench.models.facts import LOGITS, Facts, agree
from workbench.models.own_model import OwnModel
from workbench.models.own_model_hooks import HookedModule
from workbench.util.messages import brief
from workbench.util.seeds import generator

PRODUCTS = (torch.matmul, torch.bmm, Tensor.matmul, Tensor.__matmul__, Tensor.bmm)
"""Products that sum over the last dimension of their first factor."""
LONG = 512
"""The tokens of the one sequence on which patterns are looked at again, as far as the context goes."""
WRITES = ("resid_pre", "attn_out", "mlp_out", "resid_post")


@contextmanager
def in_one_line(what: str) -> Iterator[None]:
    """Turn what a module raises that does not expect to be run so into one line, which begins with `what`."""
    try:
        yield
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"{what}: {type(error).__name__}: {brief(error, 200)}") from None


@torch.no_grad()
def check_parts(hooked: HookedModule, model: OwnModel, tokens: Int[Tensor, "batch pos"]) -> Facts:
    """Run a hooked module on a few tokens and see that its parts are what they are said to be.

    Args:
        hooked: the module.
        model: the same without hooks.
        tokens: the tokens, of which there are other numbers of sequences and of positions.

    Raises:
        ValueError: if its logits differ, a part does not run, or a block does not add what its attention and MLP write.
    """
    seen, times, reads = _run(hooked, model, tokens)
    for layer in range(hooked.config.n_layers):
        _check_block(hooked, layer, seen, tokens)
    parallel = _parallel(hooked, tokens, seen)
    logits = model(tokens)  # of a causal model another last token leaves those before it as they are
    last_changed = torch.cat([tokens[:, :-1], (tokens[:, -1:] + 1) % logits.shape[-1]], dim=1)
    causal = agree(model(last_changed)[:, :-1], logits[:, :-1])
    patterns = [f"blocks.{layer}.attn.hook_pattern" for layer in range(hooked.config.n_layers)]
    for length in (tokens.shape[1], min(hooked.config.n_ctx, LONG)):
        if length != tokens.shape[1]:  # one long sequence: what only a window or a chunk does is then seen
            tokens = torch.randint(hooked.config.d_vocab, (1, length), generator=generator(0, "long"))
            seen, times, reads = _run(hooked, model, tokens.to(model.token_embedding.weight.device))
        for layer, name in enumerate(patterns):
            # Where z is seen, the product with the values is taken here, in place of scaled_dot_product_attention.
            read = (reads.read[name] == 1 and name not in reads.changed) or name.replace("pattern", "z") in seen
            why = _why_no_pattern(seen.get(name), times[name], read, tokens, causal)
            if why is not None:
                return Facts(1, f"no attention pattern is seen in layer {layer}: {why}", parallel=parallel)
    n_heads = {seen[name].shape[1] for name in patterns}
    if len(n_heads) > 1:
        why = f"layers have different numbers of heads: {', '.join(map(str, sorted(n_heads)))}"
        return Facts(1, why, parallel=parallel)
    silent = tuple(name for name in hooked.hook_dict if name not in seen)
    return Facts(n_heads.pop(), parallel=parallel, silent=silent)


def _run(
    hooked: HookedModule, model: OwnModel, tokens: Int[Tensor, "batch pos"]
) -> tuple[dict[str, Tensor], Counter[str], _Reads]:
    """What passes each hook point the first time, how often something passes, and what becomes of patterns.

    Raises ValueError if it cannot be run, or its logits differ from the model's or are no `[batch, pos, d_vocab]`.
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

    n, length = tokens.shape
    with in_one_line(f"it cannot be run on {n} sequences of {length} tokens"):
        bare = model(tokens)
    if bare.shape != (n, length, hooked.config.d_vocab):
        raise ValueError(
            f"its logits are {list(bare.shape)} for {n} sequences of {length} tokens, not [batch, pos, d_vocab], which "
            f"is [{n}, {length}, {hooked.config.d_vocab}]"
        )
    with hooked.hooks(fwd_hooks=[(name, keep) for name in hooked.hook_dict]), reads:
        logits = hooked(tokens)
    if bare.isnan().any() or not agree(logits, bare):
        raise ValueError("the hooked module does not compute what the module does: its logits differ")
    for name in ("hook_embed", "ln_final.hook_out", LOGITS):
        if name not in seen:
            raise ValueError(f"the module never runs the part that stands for {name}")
    if seen[LOGITS].shape[-1] != hooked.config.d_vocab:
        raise ValueError(f"the part that stands for {LOGITS} gives out {list(seen[LOGITS].shape)}, no logits")
    return seen, times, reads


def _check_block(hooked: HookedModule, layer: int, seen: dict[str, Tensor], tokens: Int[Tensor, "batch pos"]) -> None:
    missing = [name for name in WRITES if f"blocks.{layer}.hook_{name}" not in seen]
    if missing:
        raise ValueError(f"block {layer} never runs the part that stands for hook_{missing[0]}")
    before, attn, mlp, after_both = (seen[f"blocks.{layer}.hook_{name}"] for name in WRITES)
    if before.shape != after_both.shape or attn.shape != before.shape or mlp.shape != before.shape:
        shapes = ", ".join(str(list(x.shape)) for x in (before, attn, mlp, after_both))
        raise ValueError(f"block {layer}: input, attention's write, the MLP's and the output differ: {shapes}")
    expected = (*tokens.shape, hooked.config.d_model)
    if before.shape != expected:
        raise ValueError(
            f"block {layer} is given {list(before.shape)}, not [batch, pos, d_model], which is {list(expected)}: every "
            "sequence, position and number is read in this order (PyTorch's layers have it with batch_first=True)"
        )
    if not agree(before + attn + mlp, after_both):
        apart = float((before + attn + mlp - after_both).abs().max())
        raise ValueError(
            f"block {layer} is not its input with what {hooked.parts.attn} and {hooked.parts.mlp} write added (off by "
            f"{apart:.2g}): name the parts whose output is added, such as a norm behind the MLP. Blocks "
            "that norm or scale the sum itself have no residual stream to read"
        )


def _parallel(hooked: HookedModule, tokens: Int[Tensor, "batch pos"], seen: dict[str, Tensor]) -> bool:
    """Whether in some block the MLP does not read what attention writes, or attention reads what the MLP writes.

    There is then no residual between the two. Every block starts with what it was given before, and one of the two is
    changed at random: the other moves, or it does not.
    """

    def moves(changed: str, watched: str) -> list[bool]:
        moved: dict[int, bool] = {}
        draws = generator(0, "parallel")
        hooks = []
        for layer in range(hooked.config.n_layers):
            at = f"blocks.{layer}.hook_"

            def start(x: Tensor, hook: Any, at: str = at) -> Tensor:
                return seen[at + "resid_pre"]

            def change(x: Tensor, hook: Any) -> Tensor:
                return x + x.abs().max() * torch.randn(x.shape, generator=draws).to(x)

            def watch(x: Tensor, hook: Any, at: str = at, layer: int = layer) -> None:
                moved[layer] = not agree(x, seen[at + watched])

            hooks += [(at + "resid_pre", start), (at + changed, change), (at + watched, watch)]
        with hooked.hooks(fwd_hooks=hooks):
            hooked(tokens)
        return list(moved.values())

    return not all(moves("attn_out", "mlp_out")) or any(moves("mlp_out", "attn_out"))


def _why_no_pattern(
    pattern: Tensor | None, times: int, read: bool, tokens: Int[Tensor, "batch pos"], causal: bool
) -> str | None:
    """Why what was seen of a layer is not its attention pattern; None if it is."""
    n, n_pos = tokens.shape
    if pattern is None:
        return "it calls neither scaled_dot_product_attention nor a softmax over [batch, head, query, key]"
    if times > 1:
        return f"its attention takes {times} softmaxes, and which of them is the pattern is not known"
    if pattern.ndim != 4 or (len(pattern), *pattern.shape[2:]) != (n, n_pos, n_pos):
        return f"its softmax gives {list(pattern.shape)} for {n} of {n_pos} tokens, not [batch, head, query, key]"
    if not ((pattern.sum(-1) - 1).abs() <= torch.finfo(pattern.dtype).eps ** 0.5).all():
        return "the rows of its softmax do not sum to 1 over the keys, the last dimension"
    if causal and pattern.triu(1).any():
        return "its softmax has weight on later positions, on which its logits do not depend"
    if not read:
        return "its softmax is changed before the values are multiplied by it, or multiplies something else too"
    return None


class _Reads(TorchFunctionMode):
    """Sees of which attention patterns, as they are, a product with values is taken: `pattern @ values`, or an einsum.

    A copy, a cast, a view or a dropout that does nothing are the same pattern; a mask, a scale or a mixing of heads
    behind the softmax are another, which no hook point shows.
    """

    def __init__(self) -> None:
        super().__init__()
        self.same: dict[int, tuple[str, Tensor]] = {}  # by the id of a tensor, which is kept so that the id is its own
        self.read: Counter[str] = Counter()  # how often values, or anything else, were multiplied by it
        self.changed: set[str] = set()  # of which something as large was made that differs

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
            # Whether it is multiplied with another factor, and summed over its last dimension, the keys.
            if func is torch.einsum and isinstance(factors[0], str):
                terms, _, result = factors[0].replace(" ", "").partition("->")
                sums = bool(result) and terms.split(",")[at - 1][-1] not in result
            else:
                sums = at == 0 and func in PRODUCTS
            if sums:
                self.read[name] += 1
            elif output.numel() == pattern.numel():
                if torch.equal(output.flatten(), pattern.flatten().to(output.dtype)):
                    self.follow(name, output)
                else:
                    self.changed.add(name)
        return output
