"""Direct logit attribution: what every part writes straight into the logit difference."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from workbench.circuits.comparison import INPUT, Comparison, activations, check_names
from workbench.circuits.graph import Graph
from workbench.measurement import Measurement
from workbench.models import AnyHooked
from workbench.models.facts import logit_transform

NORMALISED = "ln_final.hook_out"


def direct_logit_attribution(comparison: Comparison) -> Measurement:
    """What each part of the clean run writes into the logit difference; the parts sum to it.

    The final norm, a LayerNorm or an RMSNorm, is taken as the linear map that it is once its scale, which the whole
    residual decides, is held at what it was (Elhage et al. 2021). `constants` are the biases of the final norm and the
    unembedding.

    Returns dims `part` (`embedding`, `positions`, `a0.h1` for heads, `attention bias 0`, `m0` for MLPs, …, `constants`)
    and `example`.

    Raises:
        ValueError: if the metric is not the logit difference, which alone is linear in the logits; the final norm is
            neither of these nor none; the model caps its logits; or the parts do not sum to the logit difference.
    """
    if comparison.metric != "logit_difference":
        raise ValueError(f"direct attribution is of the logit_difference, not of {comparison.metric}: that is no sum")
    norm = Norm.at(getattr(comparison.model, "ln_final", None), comparison.model)
    transform = logit_transform(comparison.model, comparison.pairs.clean.tokens[:2].to(comparison.device))
    if transform is None or not math.isinf(transform.cap):
        raise ValueError("direct attribution is of logits that are a sum of writes: this model caps or changes its own")
    tables = []
    names: list[str] = []
    for _, part in comparison.parts():
        writes, final = _writes(comparison, part.clean.tokens)
        clean = comparison.clean_logits(part)
        slope, constant = _slope(comparison, part, clean)
        passed = (write if norm is None else norm(write, final) for write in writes.values())
        rows = [(write * slope).sum((1, 2)) for write in passed]
        if norm is not None and norm.bias is not None:
            constant = constant + (norm.bias * slope).sum((1, 2))
        names = [*writes, "constants"]
        tables.append(torch.stack([*rows, constant]).detach())
    values = torch.cat(tables, dim=-1).double().cpu().numpy()
    _check_sum(values, comparison.baselines[0])
    caption = (
        "What each part of the clean run writes into the logit difference, the scale of the final norm held. What it "
        "does by way of later layers is not in it."
    )
    return comparison.measurement("Direct logit attribution", values, {"part": names}, caption)


def _check_sum(values: np.ndarray, clean_run: np.ndarray) -> None:
    """Raise ValueError unless what the parts write `[part, example]` sums to the logit difference `[example]`."""
    if not np.allclose(values.sum(0), clean_run, rtol=0, atol=1e-3 * np.abs(values).max()):
        apart = np.abs(values.sum(0) - clean_run).max()
        raise ValueError(
            f"what the parts of this model write does not sum to its logit difference (off by {apart:.2g}): its logits "
            "are not what its final norm and its unembedding make of the last residual"
        )


@dataclass(frozen=True)
class Norm:
    """A LayerNorm or RMSNorm: what it multiplies by and adds, and whether it takes the mean off first."""

    gain: Tensor
    bias: Tensor | None
    centres: bool
    eps: float

    def __call__(self, write: Tensor, residual: Tensor) -> Tensor:
        """A write as the norm passes it on, with the scale of the whole residual, and without the bias."""
        if self.centres:
            write, residual = (each - each.mean(-1, keepdim=True) for each in (write, residual))
        return self.gain * write / (residual.square().mean(-1, keepdim=True) + self.eps).sqrt()

    @staticmethod
    @torch.no_grad()
    def at(place: Any, model: AnyHooked) -> Norm | None:
        """What a model normalises by at `ln_final` or a block's `ln1`; None where it does not.

        Raises:
            ValueError: if it is no LayerNorm and no RMSNorm.
        """
        module = getattr(place, "original_component", None)
        if module is None or isinstance(module, nn.Identity):
            return None
        probe = torch.linspace(-1, 2, cast(Any, model.cfg).d_model).to(next(model.parameters()))
        if isinstance(module, nn.LayerNorm):
            gain = torch.ones_like(probe) if module.weight is None else module.weight
            return Norm(gain, module.bias, True, module.eps)
        eps = next((float(getattr(module, name)) for name in ("variance_epsilon", "eps") if hasattr(module, name)), 0.0)
        norm = Norm(module(torch.ones_like(probe)) * math.sqrt(1 + eps), None, False, eps)  # the scale of ones is known
        if not all(torch.allclose(module(x), norm(x, x), rtol=1e-4, atol=1e-4) for x in (probe, 5 * probe)):
            raise ValueError(f"a norm of the model is a {type(module).__name__}, neither LayerNorm nor RMSNorm")
        return norm


@torch.no_grad()
def _writes(comparison: Comparison, tokens: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    """What each part writes to the residual, `[pair, pos, d_model]`, and the residual at the end."""
    cfg = cast(Any, comparison.model.cfg)
    last = f"blocks.{cfg.n_layers - 1}.hook_resid_post"
    layers = range(cfg.n_layers)
    has_mlps = Graph.of(comparison.model).has_mlps
    points = ["attn.hook_z", "hook_attn_out", *(["hook_mlp_out"] if has_mlps else [])]
    hooks = [f"blocks.{i}.{point}" for i in layers for point in points]
    seen = activations(comparison, tokens, ["hook_embed", INPUT, last, *hooks])
    writes = {"embedding": seen["hook_embed"]}
    if "hook_pos_embed" in comparison.model.hook_dict:
        writes["positions"] = seen[INPUT] - seen["hook_embed"]
    for i in layers:
        heads = head_writes(comparison, i, seen[f"blocks.{i}.attn.hook_z"])
        writes |= {f"a{i}.h{head}": write for head, write in enumerate(heads)}
        writes[f"attention bias {i}"] = seen[f"blocks.{i}.hook_attn_out"] - heads.sum(0)
        if has_mlps:
            writes[f"m{i}"] = seen[f"blocks.{i}.hook_mlp_out"]
    return writes, seen[last]


def head_writes(
    comparison: Comparison, layer: int, z: Float[Tensor, "row pos head d_head"]
) -> Float[Tensor, "head row pos d_model"]:
    """What each head writes to the residual, without the bias that all share.

    Raises:
        ValueError: if the model does not show the map from its heads to the residual.
    """
    W_O = getattr(cast(Any, comparison.model).blocks[layer].attn, "W_O", None)
    if W_O is None:
        raise ValueError(
            "this model does not show what its heads write (W_O): nodes can be attributed in it (activation_patching, "
            "attribution_patching), but neither edges nor direct writes"
        )
    return torch.einsum("rphe,hed->hrpd", z, W_O)


def _slope(comparison: Comparison, part: Any, clean: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of the logit difference at the normalised residual, which is the same everywhere; its value at 0."""
    check_names(comparison.model, [NORMALISED])
    seen: list[Tensor] = []

    def at_zero(normalised: Tensor, hook: Any) -> Tensor:
        seen.append(torch.zeros_like(normalised).requires_grad_(True))
        return seen[0]

    with torch.enable_grad():
        constant = comparison.score(comparison.run(part.clean.tokens, [(NORMALISED, at_zero)]), part, clean)
        (slope,) = torch.autograd.grad(constant.sum(), seen)
    return slope, constant.detach()
