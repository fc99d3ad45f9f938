"""A module of one's own, hooked: its activations under TransformerLens's names, and edits of them that take effect.

`hook_embed`, then for each block `hook_resid_pre`, `hook_attn_out`, `hook_resid_mid`, `hook_mlp_out`,
`hook_resid_post`, then `ln_final.hook_out` and `unembed.hook_out`. Where a block's attention calls PyTorch's
`scaled_dot_product_attention` or is an `nn.MultiheadAttention`, also `attn.hook_q`, `hook_k`, `hook_v`,
`hook_attn_scores`, `hook_pattern` and `hook_z`; where it takes a softmax itself, `attn.hook_pattern` alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from threading import Lock
from types import SimpleNamespace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import multi_head_attention_forward, scaled_dot_product_attention
from torch.overrides import TorchFunctionMode
from transformer_lens import HookedRootModule
from transformer_lens.hook_points import HookPoint

from workbench.models.own_model import Facts, OwnModelConfig, Parts, logits_of, part

SOFTMAX = (torch.softmax, torch.nn.functional.softmax, Tensor.softmax)


class _EverySubmodule:
    """While any thread is inside, PyTorch's encoder layers run their submodules, which they skip in evaluation.

    The switch is one for the process: whoever comes first turns it, whoever leaves last turns it back.
    """

    def __init__(self) -> None:
        self.lock, self.inside, self.fast = Lock(), 0, True

    def __enter__(self) -> None:
        with self.lock:
            if not self.inside:
                self.fast = torch.backends.mha.get_fastpath_enabled()
                torch.backends.mha.set_fastpath_enabled(False)
            self.inside += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.inside -= 1
            if not self.inside:
                torch.backends.mha.set_fastpath_enabled(self.fast)


_EVERY_SUBMODULE = _EverySubmodule()


class HookedModule(HookedRootModule):
    """A module whose parts pass what they compute through hook points.

    Args:
        module: the module, which is changed: give a copy.
        parts: where its parts are.
        config: its shape.
    """

    def __init__(self, module: nn.Module, parts: Parts, config: OwnModelConfig) -> None:
        super().__init__()
        self.cfg: Any = SimpleNamespace(
            n_layers=config.n_layers,
            n_heads=config.n_heads,
            d_model=config.d_model,
            d_head=config.d_head,
            d_vocab=config.d_vocab,
            n_ctx=config.n_ctx,
            model_name=config.module,
        )
        self.config, self.parts = config, parts
        self.hook_embed = HookPoint()
        self.blocks = nn.ModuleList(_BlockHooks() for _ in range(config.n_layers))
        self.ln_final, self.unembed = _OutHook(), _OutHook()
        self.module = module
        self._wrap()
        self.setup()

    def _wrap(self) -> None:
        """Let every part pass what it computes through its hook point."""
        module, parts = self.module, self.parts
        after(part(module, parts.embed, "embed"), self.hook_embed)
        after(part(module, parts.final_norm, "final_norm"), self.ln_final.hook_out)
        after(part(module, parts.unembed, "unembed"), self.unembed.hook_out)
        stack = part(module, parts.blocks, "blocks")
        for points, block in zip(self.blocks, stack.children(), strict=True):
            assert isinstance(points, _BlockHooks)
            points.wrap(block, parts)

    def forward(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos class"]:
        """Logits of every position."""
        with _EVERY_SUBMODULE:
            return logits_of(self.module(tokens))

    def hooks(self, fwd_hooks: Sequence[tuple[Any, Any]] = (), **options: Any) -> AbstractContextManager[Any]:  # type: ignore[override]
        """TransformerLens's `hooks`: these functions see, and may change, what passes their hook points."""
        return super().hooks(fwd_hooks=list(fwd_hooks), **options)

    @torch.no_grad()
    def checked(self, tokens: Int[Tensor, "batch pos"], bare: Float[Tensor, "batch pos class"]) -> Facts:
        """Run it on a few tokens and see that its parts are what they are said to be.

        Args:
            tokens: the tokens.
            bare: the logits of the module itself.

        Raises:
            ValueError: if its logits differ, a part does not run, or a block does not add what its attention and MLP
                write.
        """
        seen: dict[str, Tensor] = {}

        def keep(activation: Tensor, hook: Any) -> None:
            seen.setdefault(str(hook.name), activation.detach())

        with self.hooks(fwd_hooks=[(name, keep) for name in self.hook_dict]):
            logits = self(tokens)
        if (logits - bare).abs().max() > torch.finfo(bare.dtype).eps ** 0.5 * bare.abs().max():
            raise ValueError("the hooked module does not compute what the module does: its logits differ")
        for name in ("hook_embed", "ln_final.hook_out", "unembed.hook_out"):
            if name not in seen:
                raise ValueError(f"the module never runs the part that stands for {name}")
        for layer in range(self.config.n_layers):
            self._check_block(layer, seen)
        return self._facts(seen, tokens.shape[1])

    def _check_block(self, layer: int, seen: dict[str, Tensor]) -> None:
        names = ("resid_pre", "attn_out", "mlp_out", "resid_post")
        missing = [name for name in names if f"blocks.{layer}.hook_{name}" not in seen]
        if missing:
            raise ValueError(f"block {layer} never runs the part that stands for hook_{missing[0]}")
        before, attn, mlp, after_both = (seen[f"blocks.{layer}.hook_{name}"] for name in names)
        if before.shape != after_both.shape or attn.shape != before.shape or mlp.shape != before.shape:
            shapes = ", ".join(str(list(x.shape)) for x in (before, attn, mlp, after_both))
            raise ValueError(f"block {layer}: input, attention's write, the MLP's and the output differ: {shapes}")
        apart = (before + attn + mlp - after_both).abs().max()
        if apart > torch.finfo(before.dtype).eps ** 0.5 * after_both.abs().max():
            raise ValueError(
                f"block {layer} is not its input with what {self.parts.attn} and {self.parts.mlp} write added (off by "
                f"{float(apart):.2g}): name the parts whose output is added, such as a norm behind the MLP. Blocks "
                "that norm or scale the sum itself have no residual stream to read"
            )

    def _facts(self, seen: dict[str, Tensor], n_pos: int) -> Facts:
        """How many heads there are, or why the pattern is not seen."""
        patterns = [seen.get(f"blocks.{layer}.attn.hook_pattern") for layer in range(self.config.n_layers)]
        missing = [layer for layer, pattern in enumerate(patterns) if pattern is None]
        if missing:
            return Facts(
                1,
                f"no attention pattern is seen in layer {missing[0]}: it calls neither scaled_dot_product_attention "
                "nor a softmax over [batch, head, query, key]",
            )
        n_heads = {pattern.shape[1] for pattern in patterns if pattern is not None}
        if len(n_heads) > 1:
            return Facts(1, f"layers have different numbers of heads: {', '.join(map(str, sorted(n_heads)))}")
        return Facts(n_heads.pop())


class _OutHook(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hook_out = HookPoint()


class _AttentionHooks(nn.Module):
    """The hook points inside attention."""

    def __init__(self) -> None:
        super().__init__()
        self.hook_attn_scores, self.hook_pattern = HookPoint(), HookPoint()
        self.hook_q, self.hook_k, self.hook_v, self.hook_z = HookPoint(), HookPoint(), HookPoint(), HookPoint()


class _BlockHooks(nn.Module):
    """The hook points of one block."""

    def __init__(self) -> None:
        super().__init__()
        self.hook_resid_pre, self.hook_attn_out, self.hook_resid_mid = HookPoint(), HookPoint(), HookPoint()
        self.hook_mlp_out, self.hook_resid_post = HookPoint(), HookPoint()
        self.attn = _AttentionHooks()
        self.residual: Tensor | None = None  # what came into the block that runs

    def wrap(self, block: nn.Module, parts: Parts) -> None:
        """Let a block and its parts pass what they compute through these hook points."""
        before(block, self._enter)
        after(block, self.hook_resid_post)
        after(part(block, parts.attn, "attn"), self._attention_wrote)
        after(part(block, parts.mlp, "mlp"), self.hook_mlp_out)
        inside(part(block, parts.attention or parts.attn, "attention"), self.attn)

    def _enter(self, x: Tensor) -> Tensor:
        self.residual = self.hook_resid_pre(x)
        return self.residual

    def _attention_wrote(self, out: Tensor) -> Tensor:
        """What attention writes. An edit of the residual behind it is added to it, and so goes on with the residual."""
        assert self.residual is not None, "attention ran outside its block"
        out = self.hook_attn_out(out)
        middle = self.residual + out
        edited = self.hook_resid_mid(middle)
        return out if edited is middle else edited - self.residual


def before(module: nn.Module, through: Callable[[Tensor], Tensor]) -> None:
    """Let a module's first tensor pass through something first."""
    forward = module.forward

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if args:
            return forward(through(args[0]), *args[1:], **kwargs)
        name = next((name for name, value in kwargs.items() if isinstance(value, Tensor)), None)
        if name is None:
            raise ValueError(f"{type(module).__name__} is called without a tensor")
        return forward(**{**kwargs, name: through(kwargs[name])})

    module.forward = wrapped


def after(module: nn.Module, through: Callable[[Tensor], Tensor]) -> None:
    """Let what a module gives out, or the first of a tuple, pass through something."""
    forward = module.forward

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        output = forward(*args, **kwargs)
        return (through(output[0]), *output[1:]) if isinstance(output, tuple) else through(output)

    module.forward = wrapped


def inside(module: nn.Module, points: _AttentionHooks) -> None:
    """Let the attention inside a module pass through its hook points."""
    forward, within = module.forward, _Within(points)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with within:
            return forward(*args, **kwargs)

    module.forward = wrapped


class _Within(TorchFunctionMode):
    """While it is on, attention is computed step by step, each step through its hook point."""

    def __init__(self, points: _AttentionHooks) -> None:
        super().__init__()
        self.points = points

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is scaled_dot_product_attention:
            return self.attend(*args, **kwargs)
        if func is multi_head_attention_forward:
            with _patched(self.attend):
                return func(*args, **{**kwargs, "need_weights": False})
        output = func(*args, **kwargs)
        if func in SOFTMAX and isinstance(output, Tensor) and output.ndim == 4:
            return self.points.hook_pattern(output)
        return output

    def attend(
        self,
        query: Float[Tensor, "batch head query d_head"],
        key: Float[Tensor, "batch head key d_head"],
        value: Float[Tensor, "batch head key d_head"],
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Float[Tensor, "batch head query d_head"]:
        """PyTorch's `scaled_dot_product_attention`, through the hook points; dropout is left out, as in evaluation."""
        if enable_gqa:
            key, value = (x.repeat_interleave(query.shape[-3] // x.shape[-3], dim=-3) for x in (key, value))
        points = (self.points.hook_q, self.points.hook_k, self.points.hook_v)
        query, key, value = (
            point(x.transpose(-2, -3)).transpose(-2, -3) for point, x in zip(points, (query, key, value), strict=True)
        )
        scores = query @ key.mT * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
        if is_causal:
            attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            scores = scores.masked_fill(~attn_mask, -torch.inf)
        elif attn_mask is not None:
            scores = scores + attn_mask
        pattern = self.points.hook_pattern(self.points.hook_attn_scores(scores).softmax(-1))
        return self.points.hook_z((pattern @ value).transpose(-2, -3)).transpose(-2, -3)


@contextmanager
def _patched(attend: Callable[..., Tensor]) -> Iterator[None]:
    """`torch.nn.functional` with another attention; `nn.MultiheadAttention` looks it up there, unseen by a mode."""
    functional: Any = torch.nn.functional
    kept = functional.scaled_dot_product_attention
    functional.scaled_dot_product_attention = attend
    try:
        yield
    finally:
        functional.scaled_dot_product_attention = kept
