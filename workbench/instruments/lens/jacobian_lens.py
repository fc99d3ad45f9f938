"""Jacobian lens: what a residual decodes to once the mean Jacobian of the later layers has carried it to the end.

With h_l the residual at a point and h the last one before the final norm, it decodes W_U norm(J_l h_l), where

    J_l = E over sequences of  1/|V| Σ_{t in V} Σ_{t' in V, t' ≥ t}  ∂h_{t'} / ∂h_{l,t},

V being the positions that count: the estimator of "Verbalizable Representations Form a Global Workspace in Language
Models" (Gurnee et al., Transformer Circuits Thread, 2026), as TransformerLens's `JacobianLens` computes it. Effects on
later positions are added up for each source; only sources and sequences are averaged. The logit lens is J = 1. Unlike
there, where V is every position but the first 16 and the last, V is here a sequence's scored positions (at others a
task leaves the output to chance), and the points after attention have a J too. Shows: which tokens a layer makes
likelier to first order, on average over contexts; nothing is trained to agree with the output. Does not show: what
later layers do with this very residual, whose own Jacobian may be another one, nor anything but the linear part of
them; it can be further from the output than the logit lens. Controls: a re-initialised model with a lens of its own,
whose later layers change next to nothing, and the logit lens beside it; the Jacobian is averaged over one side of the
task's split and the lens measured on the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from workbench.capture import Capture, Subject, visit
from workbench.instruments.lens import logit_lens
from workbench.instruments.lens.affine import AffineLens
from workbench.instruments.lens.logit_lens import beside_logit_lens
from workbench.instruments.residual.projection import from_embedding
from workbench.measurement import Measurement
from workbench.models import AnyHooked, AnyModel, Decoder, OwnModel
from workbench.tasks import Task
from workbench.util.memory import check_memory
from workbench.util.seeds import generator

CONTROLS = ("untrained",)
ON_REQUEST = True  # it runs the model backwards once for every dimension of the residual
SEQUENCES = 64  # that the Jacobian is averaged over
AT_ONCE, OF_A_POINT = 2**26, 8  # numbers in memory; of them, for each of a residual, those that its layer computes

needs = logit_lens.needs
why_not = logit_lens.why_not


class JacobianLens(AffineLens):
    """A Jacobian lens: x ↦ x Jᵀ from points of the residual to its end; `weight` is Jᵀ − 1, and `bias` is 0."""

    NAME = "Jacobian"

    @classmethod
    def of(
        cls, points: Sequence[str], jacobians: Float[Tensor, "point d_model d_model"], settings: dict[str, Any]
    ) -> JacobianLens:
        """The lens of these Jacobians, whose rows are dimensions of the end."""
        identity = torch.eye(jacobians.shape[-1], dtype=jacobians.dtype, device=jacobians.device)
        return cls(tuple(points), (jacobians.mT - identity).contiguous(), torch.zeros_like(jacobians[:, 0]), settings)


def mean_jacobians(
    model: AnyHooked | AnyModel,
    tokens: Int[Tensor, "batch pos"],
    counted: Bool[Tensor, "batch pos"],
    points: Sequence[str],
    *,
    at_once: int = AT_ONCE,
) -> Float[Tensor, "point d_model d_model"]:
    """J of every point but the last one, by vector-Jacobian products, a few sequences at a time.

    For each dimension of the end, one backward pass gives its row of every J. The model is not changed.

    Args:
        model: the decoder, its hooked copy, or a model of one's own or of Hugging Face.
        tokens, counted: the sequences and the positions V of each; a sequence without any is left out of the average.
        points: hook names of residuals in the order of the forward pass; the last one is the end.
        at_once: about how many numbers may stand in memory.

    Returns:
        `∂end_i / ∂point_j`, in the model's precision or in float32, whichever is finer.

    Raises:
        ValueError: if no position counts, or the model has no such points in this order.
    """
    with_any = counted.any(-1)
    if not with_any.any():
        raise ValueError("no position of these sequences counts: there is nothing to average over")
    tokens, counted = tokens[with_any], counted[with_any]
    model = model.hooked() if isinstance(model, OwnModel) else model
    shape: Any = model.config if isinstance(model, Decoder) else model.cfg
    size = max(1, at_once // (OF_A_POINT * len(points) * shape.d_model * tokens.shape[1]))
    total = torch.zeros(())
    for some_tokens, some_counted in zip(tokens.split(size), counted.split(size), strict=True):
        total = total + _summed(model, some_tokens, some_counted, points)
    return total / len(tokens)


def _summed(
    model: AnyHooked | AnyModel, tokens: Tensor, counted: Tensor, points: Sequence[str]
) -> Float[Tensor, "point d_model d_model"]:
    """The sum over sequences of each one's own J, at all points but the last."""
    seen: dict[str, Tensor] = {}

    def see(name: str, activation: Tensor) -> None:
        if not seen and not activation.requires_grad:  # the weights may be frozen
            activation.requires_grad_()
        seen[name] = activation

    visit(model, tokens, points, see, gradients=True)
    if list(seen) != list(points):
        raise ValueError(f"points are named once each, in the order of the forward pass: {', '.join(seen)}")
    *sources, end = seen.values()
    counted = counted.to(end.device)
    share = (counted / counted.sum(-1, keepdim=True)).to(torch.promote_types(end.dtype, torch.float32))
    d_model, towards = end.shape[-1], torch.zeros_like(end)
    rows = share.new_empty(d_model, len(sources), d_model)
    for i in range(d_model):
        towards.zero_()[..., i] = counted.to(end)
        slopes = torch.autograd.grad(end, sources, towards, retain_graph=i + 1 < d_model)
        rows[i] = torch.stack([torch.einsum("bp,bpd->d", share, slope.to(share)) for slope in slopes])
    return rows.transpose(0, 1)


def fit_lens(
    model: AnyModel, task: Task, *, n: int = SEQUENCES, seed: int = 0, points: Sequence[str] | None = None
) -> JacobianLens:
    """A lens from the mean Jacobians over n sequences of the training side of a task's split, at scored positions.

    Args:
        model: the decoder, not its hooked copy.
        task: what it was trained on.
        n: how many sequences.
        seed: of the sequences drawn; the same seed gives the same lens.
        points: hook names of residuals; by default the embedding and those after each attention and MLP, but the last,
            which decodes to the output itself.

    Raises:
        ValueError: if n is below 1, the model has no such points in this order, no position of the sequences is scored,
            or the Jacobians do not fit in memory.
    """
    if n < 1:
        raise ValueError(f"a Jacobian lens takes at least 1 sequence, not {n}")
    *before, end = from_embedding(Subject.of(model, task, ""))
    points, d_model = tuple(before if points is None else points), model.config.d_model
    if not points or end in points:
        raise ValueError(f"a Jacobian lens is of points before the last; there is: {', '.join(before)}")
    check_memory(8 * len(points) * d_model**2, f"a Jacobian lens of {len(points)} points (take fewer layers)")
    batch = task.sample(n, generator(seed, "Jacobian lens"), split="train").to(model.token_embedding.weight.device)
    jacobians = mean_jacobians(model, batch.tokens, batch.loss_mask, (*points, end))
    settings = {"n": len(batch), "seed": seed, "split": "train", "positions": "scored"}
    return JacobianLens.of(points, jacobians, settings)


def operations(model: AnyModel, task: Task) -> float:
    """About how many multiplications a lens takes: two for each weight, token and dimension."""
    return 2.0 * SEQUENCES * task.n_ctx * model.config.d_model * model.config.n_parameters


def fit(model: AnyModel, subject: Subject, seed: int) -> dict[str, Any]:
    """The settings of `measure` that must be there first: a lens for this model, at the layers that are looked at."""
    *_, end = from_embedding(Subject.of(model, subject.task, ""))
    points = [point for point in from_embedding(subject) if point != end]
    return {"lens": fit_lens(model, subject.task, seed=seed, points=points)}


def measure(capture: Capture, *, lens: JacobianLens, points: Sequence[str] | None = None) -> Measurement:
    """KL from the final output to what each point decodes to, by both lenses: dims `lens`, `point`, `example`.

    In nats, averaged over scored positions (NaN where an example has none); at the last point both are 0.

    Args:
        capture: with the activations of `needs`.
        lens: of this very model, from `fit_lens`.
        points: hook names of residuals, by default those of `needs`.

    Raises:
        ValueError: if the lens is for a residual of another width.
    """
    caption = (
        "KL(final ‖ lens) at scored positions, the residual decoded as it is (logit) and after the mean Jacobian of "
        f"the later layers over {lens.settings.get('n', '?')} other sequences (Jacobian). It is their linear part, on "
        "average: what they make of one residual it does not show, and the output may be nearer to the logit lens."
    )
    return beside_logit_lens(capture, lens, points, "Jacobian lens", caption)
