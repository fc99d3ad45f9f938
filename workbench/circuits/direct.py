"""Direct logit attribution: what every part writes straight into the logit difference."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from workbench.circuits.comparison import INPUT, Comparison, activations, check_names
from workbench.circuits.graph import Graph
from workbench.measurement import Measurement
from workbench.models.facts import logit_transform

NORMALISED = "ln_final.hook_out"


def direct_logit_attribution(comparison: Comparison) -> Measurement:
    """What each part of the clean run writes into the logit difference; the parts sum to it.

    The final LayerNorm is taken as the linear map that it is once its scale, which the whole residual decides, is held
    at what it was (Elhage et al. 2021). `constants` are the biases of the final norm and the unembedding.

    Returns dims `part` (`embedding`, `positions`, `a0.h1` for heads, `attention bias 0`, `m0` for MLPs, …, `constants`)
    and `example`.

    Raises:
        ValueError: if the metric is not the logit difference, which alone is linear in the logits; the final norm is
            neither a LayerNorm nor none; the model caps its logits; or the parts do not sum to the logit difference.
    """
    if comparison.metric != "logit_difference":
        raise ValueError(f"direct attribution is of the logit_difference, not of {comparison.metric}: that is no sum")
    norm = _final_norm(comparison)
    transform = logit_transform(comparison.model, comparison.pairs.clean.tokens[:2].to(comparison.device))
    if transform is None or not math.isinf(transform.cap):
        raise ValueError("direct attribution is of logits that are a sum of writes: this model caps or changes its own")
    tables = []
    names: list[str] = []
    for _, part in comparison.parts():
        writes, final = _writes(comparison, part.clean.tokens)
        clean = comparison.clean_logits(part)
        slope, constant = _slope(comparison, part, clean)
        rows = [(_normalised(write, final, norm) * slope).sum((1, 2)) for write in writes.values()]
        if isinstance(norm, nn.LayerNorm) and norm.bias is not None:
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
            "are not what a LayerNorm and its unembedding make of the last residual"
        )


def _final_norm(comparison: Comparison) -> nn.Module | None:
    """The final LayerNorm, or None where there is none. Raises ValueError for any other."""
    module = getattr(getattr(comparison.model, "ln_final", None), "original_component", None)
    if module is None or isinstance(module, nn.Identity):
        return None
    if not isinstance(module, nn.LayerNorm):
        raise ValueError(
            f"the final norm is a {type(module).__name__}: direct attribution knows LayerNorm and no norm at all"
        )
    return module


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


def _normalised(write: Tensor, final: Tensor, norm: nn.Module | None) -> Tensor:
    """A write as the final norm passes it on, with the scale of the whole residual."""
    if norm is None:
        return write
    layer_norm = cast(nn.LayerNorm, norm)
    scale = (final.var(-1, unbiased=False, keepdim=True) + layer_norm.eps).sqrt()
    centred = (write - write.mean(-1, keepdim=True)) / scale
    return centred if layer_norm.weight is None else centred * layer_norm.weight


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
