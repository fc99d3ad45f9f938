"""Gradient interaction modifications (GIM, Edin et al. 2025): a backward pass that sees what softmax hides.

Where a softmax is nearly one or none, a key whose score falls is replaced by another that stands ready, and the
gradient of either is nearly nothing. The forward pass stays as it is; of the backward pass three things are changed
(§4): the softmax's Jacobian is taken at a higher temperature, the scale of a LayerNorm is a constant, and where two
things are multiplied each gets half of the gradient.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from workbench.circuits.direct import Norm
from workbench.interventions import Hooks
from workbench.models import AnyHooked

TEMPERATURE = 2.0  # of the softmax's Jacobian, as in the paper
VALUES, SCORED = 0.5, 0.25  # shares of the gradient: pattern times values, and before that queries times keys
ROUNDING = 1e-4


class _Softened(torch.autograd.Function):
    """A pattern whose gradient at the scores is that of a softmax at a higher temperature, without its factor 1/T."""

    @staticmethod
    def forward(ctx: Any, pattern: Tensor, scores: Tensor) -> Tensor:
        ctx.save_for_backward(scores)
        return pattern.clone()

    @staticmethod
    def backward(ctx: Any, *of_output: Tensor) -> tuple[None, Tensor]:
        (gradient,), (scores,) = of_output, ctx.saved_tensors
        soft = (scores / TEMPERATURE).softmax(-1).nan_to_num()  # [row, head, query, key]
        return None, soft * (gradient - (gradient * soft).sum(-1, keepdim=True))


@contextmanager
def interaction_hooks(model: AnyHooked) -> Iterator[Hooks]:
    """The hooks under which, within this context, a backward pass is that of GIM.

    Raises:
        ValueError: if a norm is neither LayerNorm nor RMSNorm, or MLPs are gated in a way that is not known, as those
            of experts; when the hooks run, if a pattern is not the softmax of its scores.
    """
    scores: dict[str, Tensor] = {}
    hooks: Hooks = []

    def keep(activation: Tensor, hook: Any, *, layer: str) -> Tensor:
        scores[layer] = activation
        return activation

    def hold_scale(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor, *, norm: Norm) -> Tensor:
        held = norm(inputs[0], inputs[0].detach())
        return held - held.detach() + output.detach()

    for name in model.hook_dict:
        layer, _, point = name.rpartition(".attn.")
        if point == "hook_attn_scores":
            hooks.append((name, partial(keep, layer=layer)))
        elif point == "hook_pattern":
            hooks.append((name, partial(_soften, scores=scores, layer=layer)))
        elif point in ("q.hook_out", "k.hook_out", "v.hook_out"):
            hooks.append((name, partial(_share, share=VALUES if point[0] == "v" else SCORED)))
        elif name.endswith(".hook_scale"):
            hooks.append((name, lambda scale, hook: scale.detach()))
        elif name.endswith("gate.hook_out"):  # its product with what comes in is shared out too
            both = name, name.replace("gate.hook_out", "in.hook_out")
            if not name.endswith(".mlp.gate.hook_out") or both[1] not in model.hook_dict:
                raise ValueError(f"GIM does not know what is multiplied at {name}: take eap or eap_ig")
            hooks += [(each, partial(_share, share=0.5)) for each in both]
    with ExitStack() as stack:
        for block in cast(Any, model).blocks:  # heads with inputs of their own are normed by the module, without hooks
            if (norm := Norm.at(getattr(block, "ln1", None), model)) is not None:
                stack.enter_context(block.ln1.original_component.register_forward_hook(partial(hold_scale, norm=norm)))
        yield hooks


def _share(activation: Tensor, hook: Any, *, share: float) -> Tensor:
    """The same activation, whose gradient is a share of what it was."""
    return activation * share + (activation * (1 - share)).detach()


def _soften(
    pattern: Float[Tensor, "row head query key"], hook: Any, *, scores: dict[str, Tensor], layer: str
) -> Float[Tensor, "row head query key"]:
    scored = scores.get(layer)
    rounding = max(ROUNDING, float(torch.finfo(pattern.dtype).eps))
    if scored is None or not torch.allclose(
        scored.float().softmax(-1).nan_to_num(), pattern.float(), rtol=0, atol=rounding
    ):
        raise ValueError(f"GIM needs patterns that are the softmax of their scores; that of {layer} is not")
    softened: Tensor = _Softened.apply(pattern.detach(), scored)
    return softened
