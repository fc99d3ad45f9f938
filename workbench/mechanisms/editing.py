"""Edits of the residual inside a forward pass, and what becomes of an answer: what every causal test is made of.

An edit puts other values at chosen positions of one hook point, and the rest of the pass runs on what it finds there
(TransformerLens hooks). Each example has one answer that is tested, and all examples run at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from workbench.capture import Subject, visit
from workbench.instruments.measurement import Measurement
from workbench.interventions import Head, Hooks, check_head, in_layers
from workbench.ties import clear

if TYPE_CHECKING:
    from transformer_lens.model_bridge import TransformerBridge

OUTCOMES = ("as claimed", "changed")


@dataclass(frozen=True)
class Edit:
    """Other values at some positions of one hook point, and the answer that the claim predicts of them.

    Attributes:
        point: hook name of a residual or of what is written to it.
        span: the positions that are edited; an example without any is not tested.
        values: what is put there, if it is in the span.
        predicted: the answer that the claim predicts; of an edit elsewhere, the one that it must not bring about.
    """

    point: str
    span: Bool[Tensor, "batch pos"]
    values: Float[Tensor, "batch pos d_model"]
    predicted: Int[Tensor, " batch"]

    def __call__(self, activation: Float[Tensor, "batch pos d_model"], hook: Any) -> Float[Tensor, "batch pos d_model"]:
        """As a TransformerLens hook."""
        return torch.where(self.span[..., None].to(activation.device), self.values.to(activation), activation)

    def hooks(self, model: TransformerBridge, tokens: Int[Tensor, "batch pos"]) -> Hooks:
        """What makes the edit in a forward pass on these tokens."""
        return [(self.point, self)]


@dataclass(frozen=True)
class ReadBy:
    """An edit of the residual that some heads alone read, by their keys and values; the residual itself stays.

    Attributes:
        edit: the edit at a layer's `hook_resid_pre`, for each layer; they agree in span and prediction.
        heads: (layer, head) of those that read it.
    """

    edit: Callable[[int], Edit]
    heads: Sequence[Head]

    @property
    def point(self) -> str:
        return ", ".join(f"blocks.{layer}.attn.hook_k and hook_v" for layer in in_layers(self.heads))

    @property
    def span(self) -> Bool[Tensor, "batch pos"]:
        return self.edit(self.heads[0][0]).span

    @property
    def predicted(self) -> Int[Tensor, " batch"]:
        return self.edit(self.heads[0][0]).predicted

    def hooks(self, model: TransformerBridge, tokens: Int[Tensor, "batch pos"]) -> Hooks:
        """Each layer's keys and values as they are when its input is edited, for these heads at the edited positions.

        Raises:
            ValueError: if the model has no such head.
        """
        hooks: Hooks = []
        for layer, own in in_layers(self.heads).items():
            for head in own:
                check_head(model, layer, head)
            edit, points = self.edit(layer), [f"blocks.{layer}.attn.hook_{which}" for which in "kv"]
            found: dict[str, Tensor] = {}
            with model.hooks(fwd_hooks=[(edit.point, edit)]):
                visit(model, tokens, points, found.__setitem__)
            put = torch.zeros(model.cfg.n_heads, dtype=torch.bool)
            put[own] = True
            where = self.span[:, :, None, None] & put[:, None]
            hooks += [(point, partial(_put, values=found[point], where=where)) for point in points]
        return hooks


def _put(activation: Tensor, hook: Any, values: Tensor, where: Tensor) -> Tensor:
    return torch.where(where.to(activation.device), values, activation)


def read_by(edit: Callable[[int], Edit], heads: Sequence[Head] | None, n_layers: int) -> Edit | ReadBy:
    """An edit of a layer's input as these heads alone read it; None for all that the last layer reads."""
    return edit(n_layers - 1) if heads is None else ReadBy(edit, heads)


@dataclass(frozen=True)
class Question:
    """One answer of each example.

    Attributes:
        position: where it is read from the logits.
        answer: the right one.
    """

    position: Int[Tensor, " batch"]
    answer: Int[Tensor, " batch"]


def activation(
    model: TransformerBridge, tokens: Int[Tensor, "batch pos"], point: str
) -> Float[Tensor, "batch pos d_model"]:
    """The activation of one hook point, as the model computes it without edits."""
    found: dict[str, Tensor] = {}
    visit(model, tokens, [point], found.__setitem__)
    return found[point]


@torch.no_grad()
def answers(
    model: TransformerBridge,
    tokens: Int[Tensor, "batch pos"],
    position: Int[Tensor, " batch"],
    edit: Edit | ReadBy | None,
) -> Int[Tensor, " batch"]:
    """The class with the largest logit at one position of each example, after an edit if there is one; −1 for a tie."""
    with model.hooks(fwd_hooks=[] if edit is None else edit.hooks(model, tokens)):
        logits = model(tokens)
    return clear(at(logits, position)).cpu()


def outcomes(
    model: TransformerBridge,
    subject: Subject,
    tokens: Int[Tensor, "batch pos"],
    question: Question,
    edits: Mapping[str, Edit | ReadBy],
    *,
    name: str,
    caption: str,
    edited: str | None = None,
) -> Measurement:
    """Whether each example's answer becomes what the claim predicts, and whether it changes at all.

    Tested are answers that are right before the edit and for which another one is predicted. A tie is no answer, so
    that it is never right nor as claimed, and counts as changed: in doubt against the claim, and 0 or 1 all the same.

    Args:
        model: the hooked model.
        subject: its facts.
        tokens: what it runs on.
        question: the answer of each example.
        edits: name (`claimed`, …, `elsewhere`) -> edit.
        name, caption: of the measurement.
        edited: where, in words, if not the whole residual.

    Returns 1 or 0, NaN where an example allows no test: dims `edit`, `outcome` (`as claimed`, `changed`), `example`.
    """
    before = answers(model, tokens, question.position, None)
    values = np.full((len(edits), len(OUTCOMES), len(tokens)), np.nan)
    for i, edit in enumerate(edits.values()):
        after = answers(model, tokens, question.position, edit)
        tested = edit.span.any(-1) & (before == question.answer) & (edit.predicted != before)
        for o, outcome in enumerate((after == edit.predicted, after != before)):
            values[i, o] = torch.where(tested, outcome.double(), torch.nan).numpy()
    return Measurement(
        name=name,
        values=values,
        dims=("edit", "outcome", "example"),
        coords={"edit": list(edits), "outcome": OUTCOMES, "example": range(len(tokens))},
        units="share",
        settings={"model": subject.name, "points": {name: edit.point for name, edit in edits.items()}}
        | ({} if edited is None else {"edited": edited}),
        caption=f"{caption} Over answers that are right before the edit, one an example.",
    )


def exchanged(
    residual: Float[Tensor, "batch pos d_model"],
    basis: Float[Tensor, "token d_model"],
    first: Int[Tensor, " batch"],
    second: Int[Tensor, " batch"],
) -> Float[Tensor, "batch pos d_model"]:
    """A residual with its coordinates along two tokens' basis vectors exchanged.

    They are the least-squares coordinates α, β of the residual in the plane of the two vectors a, b; exchanging them
    adds (β − α)(a − b), and what is orthogonal to the plane stays. For vectors of one length the two inner products are
    exchanged too. Nothing happens where a and b lie on one line.
    """
    a, b = (basis.to(residual)[ids.to(residual.device)][:, None] for ids in (first, second))
    aa, bb, ab = ((u * v).sum(-1) for u, v in ((a, a), (b, b), (a, b)))
    on_a, on_b = (residual * a).sum(-1), (residual * b).sum(-1)
    determinant = aa * bb - ab**2
    line = determinant <= 1e-6 * aa * bb
    difference = ((aa + ab) * on_b - (bb + ab) * on_a) / torch.where(line, 1.0, determinant)
    return residual + torch.where(line, 0.0, difference)[..., None] * (a - b)


def at(values: Tensor, position: Int[Tensor, " batch"]) -> Tensor:
    """One position of each example: `[batch, pos, …]` to `[batch, …]`."""
    rows = torch.arange(len(position), device=values.device)
    return values[rows, position.to(values.device)]


def only(position: Int[Tensor, " batch"], n_pos: int, where: Bool[Tensor, " batch"]) -> Bool[Tensor, "batch pos"]:
    """A span of one position an example, none where `where` is false."""
    return (torch.arange(n_pos) == position[:, None]) & where[:, None]


def choose(
    allowed: Bool[Tensor, "batch option"], generator: torch.Generator
) -> tuple[Int[Tensor, " batch"], Bool[Tensor, " batch"]]:
    """One allowed option of each row at random (0 where none is), and whether there is one."""
    drawn = torch.rand(allowed.shape, generator=generator)
    return torch.where(allowed, drawn, -1.0).argmax(-1) * allowed.any(-1), allowed.any(-1)


def among(ids: Int[Tensor, " token"], n: int) -> Bool[Tensor, " n"]:
    """Which of n token ids are among these."""
    found = torch.zeros(n, dtype=torch.bool)
    found[ids] = True
    return found


def but(allowed: Bool[Tensor, "#batch option"], *tokens: Int[Tensor, " batch"]) -> Bool[Tensor, "batch option"]:
    """The options of each row without some of its tokens."""
    options = torch.arange(allowed.shape[1])
    for excluded in tokens:
        allowed = allowed & (options != excluded[:, None])
    return allowed


def two_others(
    ids: Int[Tensor, " token"], n: int, taken: Sequence[Int[Tensor, " batch"]], generator: torch.Generator
) -> list[tuple[Int[Tensor, " batch"], Bool[Tensor, " batch"]]]:
    """For each example two of these ids, of n tokens, that differ from what is taken and from each other.

    Each with whether there is one: an example may have too few.
    """
    others = but(among(ids, n)[None], *taken)
    third, there = choose(others, generator)
    return [(third, there), choose(but(others, third), generator)]
