"""A module of one's own, hooked: its activations under TransformerLens's names, and edits of them that take effect.

`hook_embed`, then for each block `hook_resid_pre`, `hook_attn_out`, `hook_resid_mid`, `hook_mlp_out`,
`hook_resid_post`, then `ln_final.hook_out` and `unembed.hook_out`. Where a block's attention calls PyTorch's
`scaled_dot_product_attention` or is an `nn.MultiheadAttention`, also `attn.hook_q`, `hook_k`, `hook_v`,
`hook_attn_scores`, `hook_pattern` and `hook_z`; where it takes a softmax itself, `attn.hook_pattern` alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from threading import Lock
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import multi_head_attention_forward, scaled_dot_product_attention
from torch.overrides import TorchFunctionMode
from transformer_lens import HookedRootModule
from transformer_lens.hook_points import HookPoint

from workbench.models.facts import logits_of
from workbench.models.own_model_config import OwnModelConfig, Parts

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
        self.config, self.parts = config, parts
        self.hook_embed = HookPoint()
        self.blocks = nn.ModuleList(_BlockHooks(config) for _ in range(config.n_layers))
        self.ln_final: Any = nn.ModuleDict({"hook_out": HookPoint()})
        self.unembed: Any = nn.ModuleDict({"hook_out": HookPoint()})
        self.module = module
        # Every part passes what it computes through its hook point.
        ends: dict[str, Any] = {"embed": self.hook_embed, "final_norm": self.ln_final.hook_out}
        for part, point in {**ends, "unembed": self.unembed.hook_out}.items():
            _hook_output(parts.of(module, part), point)
        wrapped: dict[int, int] = {}  # the module that stands in a layer, by its id
        for layer, block in enumerate(parts.of(module, "blocks")):
            for inner in (block, parts.of(block, "attn"), parts.of(block, "mlp")):
                if wrapped.setdefault(id(inner), layer) != layer:
                    raise ValueError(
                        f"layers {wrapped[id(inner)]} and {layer} run one and the same {type(inner).__name__}: what it "
                        "computes in the one cannot be told from the other; give each layer a module of its own "
                        "(copy.deepcopy), which may have the same weights"
                    )
            cast(_BlockHooks, self.blocks[layer]).wrap(block, parts)
        self.setup()
        self.eval()

    @property
    def cfg(self) -> Any:
        """What TransformerLens's tools ask of a model: its shape, and where it is."""
        config = self.config
        return SimpleNamespace(
            n_layers=config.n_layers,
            n_heads=config.n_heads,
            n_key_value_heads=None,
            d_model=config.d_model,
            d_head=config.d_head,
            d_vocab=config.d_vocab,
            n_ctx=config.n_ctx,
            model_name=config.module,
            device=next(self.parameters()).device,
        )

    def forward(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos class"]:
        """Logits of every position."""
        with _EVERY_SUBMODULE:
            return logits_of(self.module(tokens))

    def hooks(  # type: ignore[override]
        self, fwd_hooks: Sequence[tuple[Any, Any]] = (), *args: Any, **options: Any
    ) -> AbstractContextManager[Any]:
        """TransformerLens's `hooks`: these functions see, and may change, what passes their hook points."""
        return super().hooks(list(fwd_hooks), *args, **options)


class _BlockHooks(nn.Module):
    """The hook points of one block."""

    def __init__(self, config: OwnModelConfig) -> None:
        super().__init__()
        self.hook_resid_pre, self.hook_attn_out = HookPoint(), HookPoint()
        self.hook_mlp_out, self.hook_resid_post = HookPoint(), HookPoint()
        if not config.parallel:  # what is not there has no hook point, so that no edit of it is without effect
            self.hook_resid_mid = HookPoint()
        if config.pattern:
            parts = ("attn_scores", "pattern", "q", "k", "v", "z")
            self.attn: Any = nn.ModuleDict({f"hook_{part}": HookPoint() for part in parts})
        self.d_model = config.d_model
        self.residual: Tensor | None = None  # what came into the block that runs

    def wrap(self, block: nn.Module, parts: Parts) -> None:
        """Let a block and its parts pass what they compute through these hook points."""
        block.forward = partial(self._run_block, type(block).__name__, block.forward)
        _hook_output(block, self.hook_resid_post)
        _hook_output(parts.of(block, "attn"), self._attention_wrote)
        _hook_output(parts.of(block, "mlp"), self.hook_mlp_out)
        if hasattr(self, "attn"):
            attention = parts.of(block, "attention" if parts.attention else "attn")
            attention.forward = partial(self._run_attention, attention.forward)

    def _run_block(self, name: str, forward: Forward, *args: Any, **kwargs: Any) -> Any:
        """Run a block whose class has this name on a residual that passed its hook point."""
        given: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
        for key, value in given.items():
            if isinstance(value, Tensor) and value.ndim == 3 and value.shape[-1] == self.d_model:
                residual = self.residual = self.hook_resid_pre(value)
                given[key] = residual.clone()  # code that adds to it in place would change what was seen
                return forward(*(given[i] for i in range(len(args))), **{key: given[key] for key in kwargs})
        raise ValueError(f"{name} is called without a residual [batch, pos, {self.d_model}]")

    def _run_attention(self, forward: Forward, *args: Any, **kwargs: Any) -> Any:
        with _Within(self.attn):
            return forward(*args, **kwargs)

    def _attention_wrote(self, out: Tensor) -> Tensor:
        """What attention writes. An edit of the residual behind it is added to it, and so goes on with the residual."""
        assert self.residual is not None, "attention ran outside its block"
        out = self.hook_attn_out(out)
        if not hasattr(self, "hook_resid_mid"):
            return out
        middle = self.residual + out
        edited = self.hook_resid_mid(middle)
        return out if edited is middle else edited - self.residual


Forward = Callable[..., Any]
"""It replaces `forward` of a module as a `partial` of the one before and of what belongs to the module. A copy of the
module then has copies of these, where a closure would go on with the hook points of the first."""


def _hook_output(module: nn.Module, through: Callable[[Tensor], Tensor]) -> None:
    """Let what a module gives out, or the first of a tuple, pass through something."""
    module.forward = partial(_with_output_hooked, module.forward, through)


def _with_output_hooked(forward: Forward, through: Callable[[Tensor], Tensor], *args: Any, **kwargs: Any) -> Any:
    output = forward(*args, **kwargs)
    first = output[0] if isinstance(output, tuple | list) else output
    if not isinstance(first, Tensor):
        raise ValueError(
            f"a part gives out {type(output).__name__}, not a tensor, or several of which one is the first"
        )
    passed = through(first).clone()  # a copy: code that changes it in place would change what was seen
    return type(output)([passed, *output[1:]]) if isinstance(output, tuple | list) else passed


class _Within(TorchFunctionMode):
    """While it is on, attention is computed step by step, each step through its hook point."""

    def __init__(self, points: Any) -> None:
        super().__init__()
        self.points = points
        self.pattern: Tensor | None = None  # the last one

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is scaled_dot_product_attention:
            return self.attend(*args, **kwargs)
        if func is multi_head_attention_forward:
            # nn.MultiheadAttention looks the function up there, unseen by a mode.
            with patch.object(torch.nn.functional, "scaled_dot_product_attention", self.attend):
                output, _ = func(*args, **{**kwargs, "need_weights": False})
            if not kwargs.get("need_weights", True):
                return output, None
            assert self.pattern is not None
            return output, self.pattern.mean(1) if kwargs.get("average_attn_weights", True) else self.pattern
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
        scores = self.points.hook_attn_scores(scores)
        # As PyTorch does: a query that may read nothing reads zeros.
        shares = scores.softmax(-1).masked_fill(scores.isneginf().all(-1, keepdim=True), 0.0)
        self.pattern = pattern = self.points.hook_pattern(shares)
        return self.points.hook_z((pattern @ value).transpose(-2, -3)).transpose(-2, -3)
