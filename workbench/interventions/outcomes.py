"""Causal tests on many examples: what is edited is drawn, and what becomes of the answers is counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from workbench.capture import Subject
from workbench.interventions.edit_protocol import Head, Hooks, check_head, edited_logits, head_in_words, put
from workbench.interventions.many_inputs import ReadBy, SpanEdit, cut_edges
from workbench.measurement import Measurement
from workbench.models import AnyHooked
from workbench.models.facts import WatchedOnly, check_editable
from workbench.tasks import Batch, correct
from workbench.tasks.pairs import choose
from workbench.util.progress import steps
from workbench.util.ties import clear


def at_position(values: Tensor, position: Int[Tensor, " batch"]) -> Tensor:
    """The values at one position of each example: `[batch, pos, …]` to `[batch, …]`."""
    rows = torch.arange(len(position), device=values.device)
    return values[rows, position.to(values.device)]


def single_position(
    position: Int[Tensor, " batch"], n_pos: int, where: Bool[Tensor, " batch"]
) -> Bool[Tensor, "batch pos"]:
    """A mask with one true position in each example, and none where `where` is false."""
    return (torch.arange(n_pos) == position[:, None]) & where[:, None]


def choose_one(
    allowed: Bool[Tensor, "batch option"], generator: torch.Generator
) -> tuple[Int[Tensor, " batch"], Bool[Tensor, " batch"]]:
    """One allowed option of each row at random (0 where none is), and whether there is one."""
    return choose(allowed, generator)[:, 0], allowed.any(-1)


def excluding(allowed: Bool[Tensor, "#batch option"], *tokens: Int[Tensor, " batch"]) -> Bool[Tensor, "batch option"]:
    """The allowed options of each row without these tokens."""
    options = torch.arange(allowed.shape[1])
    for excluded in tokens:
        allowed = allowed & (options != excluded[:, None])
    return allowed


def with_other_token(
    tokens: Int[Tensor, "batch pos"],
    position: Int[Tensor, " batch"],
    allowed: Bool[Tensor, "#batch token"],
    generator: torch.Generator,
) -> tuple[Int[Tensor, "batch pos"], Int[Tensor, " batch"], Bool[Tensor, " batch"]]:
    """The sequences with another allowed token at one position of each; that token; and whether there is one."""
    token, exists = choose_one(excluding(allowed, at_position(tokens, position)), generator)
    return tokens.scatter(1, position[:, None], token[:, None]), token, exists


def two_other_tokens(
    ids: Int[Tensor, "*token"], n: int, taken: Sequence[Int[Tensor, " batch"]], generator: torch.Generator
) -> list[tuple[Int[Tensor, " batch"], Bool[Tensor, " batch"]]]:
    """Two random tokens of each example, among these ids, that differ from the tokens taken and from each other.

    Args:
        ids: the tokens to draw from, of a vocabulary of n; −1 is none.
        n: the size of the vocabulary.
        taken: tokens of each example that are not drawn.
        generator: the only source of chance.

    Returns each token with whether there is one: an example may have too few.
    """
    others = excluding(torch.isin(torch.arange(n), ids)[None], *taken)
    third, there = choose_one(others, generator)
    return [(third, there), choose_one(excluding(others, third), generator)]


OUTCOMES = ("as claimed", "changed")


@torch.no_grad()
def _answers(
    model: AnyHooked, tokens: Int[Tensor, "batch pos"], position: Int[Tensor, " batch"], edit: SpanEdit | ReadBy | None
) -> Int[Tensor, " batch"]:
    """The class with the largest logit at one position of each example, after an edit if there is one; −1 for a tie."""
    logits = edited_logits(model, tokens, [] if edit is None else edit.hooks(model, tokens))
    return clear(at_position(logits, position)).cpu()


def outcomes(
    model: AnyHooked,
    subject: Subject,
    tokens: Int[Tensor, "batch pos"],
    position: Int[Tensor, " batch"],
    answer: Int[Tensor, " batch"],
    edits: Mapping[str, SpanEdit | ReadBy],
    *,
    name: str,
    caption: str,
    edited: str | None = None,
) -> Measurement:
    """Whether each example's answer becomes what the claim predicts, and whether it changes at all.

    An answer is tested if it is right before the edit and another one is predicted. A tie counts as changed only.

    Args:
        model, subject, tokens: the hooked model, its facts, and what it runs on.
        position, answer: where the logits give each example's answer, and the right one.
        edits: name (`claimed`, …, `elsewhere`) -> edit.
        name, caption, edited: of the measurement; where the edit is made, in words, if not in the whole residual.

    Returns 1 or 0, NaN where an example allows no test: dims `edit`, `outcome` (`as claimed`, `changed`), `example`.
    """
    before, values = _answers(model, tokens, position, None), list[Tensor]()
    for edit in edits.values():
        after = _answers(model, tokens, position, edit)
        tested = edit.span.any(-1) & (before == answer) & (edit.predicted != before)
        became = torch.stack([after == edit.predicted, after != before]).double()  # in the order of OUTCOMES
        values.append(torch.where(tested, became, torch.nan))
    points, where = {name: edit.point for name, edit in edits.items()}, {} if edited is None else {"edited": edited}
    return Measurement(
        name=name,
        values=torch.stack(values).numpy(),
        dims=("edit", "outcome", "example"),
        coords={"edit": list(edits), "outcome": OUTCOMES, "example": range(len(tokens))},
        units="share",
        settings={"model": subject.name, "points": points, **where},
        caption=f"{caption} Over answers that are right before the edit, one an example.",
    )


@torch.no_grad()
def cut_test(
    model: AnyHooked,
    subject: Subject,
    batch: Batch,
    claimed: Bool[Tensor, "batch query key"],
    generator: torch.Generator,
    *,
    heads: Sequence[Head] | None = None,
    name: str,
    caption: str,
) -> Measurement:
    """Cut one edge of one right answer of each example, and see whether the answer is lost.

    Args:
        model, subject, batch: the hooked model, its facts, and what it runs on.
        claimed: the edges over which answers are claimed to come, each from the position that gives the answer.
        generator, heads: draws the answer and its edges; where to cut, (layer, head) of each or None for every head.
        name, caption: name and caption of the measurement.

    Returns 1 or 0, NaN where an example allows no test: dims `edit` (`claimed`: the edge; `elsewhere`: an edge from the
    same position to another one, itself included, not claimed), `outcome` (both: right before, wrong now), `example`.
    """
    before = correct(cut_edges(model, batch, None, []).cpu(), batch) == 1
    query, tested = choose_one(before & claimed.any(-1), generator)  # one right answer of each example, if there is one
    rows, earlier = torch.arange(len(batch)), torch.arange(batch.tokens.shape[1]) <= query[:, None]
    lost = []
    for allowed in (claimed[rows, query], earlier & ~claimed[rows, query]):
        key, exists = choose_one(allowed, generator)
        made, cut = tested & exists, torch.stack([rows, query, key], dim=1)
        after = correct(cut_edges(model, batch, None, cut[made], heads=heads).cpu(), batch) == 1
        lost.append(torch.where(made, (~after[rows, query]).double(), torch.nan))
    return Measurement(
        name=name,
        values=torch.stack(lost)[:, None].expand(-1, len(OUTCOMES), -1).contiguous().numpy(),
        dims=("edit", "outcome", "example"),
        coords={"edit": ("claimed", "elsewhere"), "outcome": OUTCOMES, "example": range(len(batch))},
        units="share",
        settings={"model": subject.name},
        caption=f"{caption} Over answers that are right before the edit, one an example.",
    )


REMOVED = "removed"  # the dim


def can_remove_heads(model: AnyHooked) -> bool:
    """Whether the model shows what each of its heads reads, and reads it there, so that a head can be removed."""
    points = [model.hook_dict.get(_point(layer)) for layer in range(model.cfg.n_layers)]
    return all(point is not None and not isinstance(point, WatchedOnly) for point in points)


@torch.no_grad()
def fallen_without(model: AnyHooked, subject: Subject, batch: Batch, heads: Sequence[Head]) -> Measurement:
    """The share of each example's right answers that are wrong when a head writes nothing, each head by itself.

    Args:
        model, subject, batch: the model, what is known of it, and what it runs on.
        heads: the heads that are removed, one at a time.

    Returns dims `removed` (`layer 0, head 3`, …), `example`; NaN where no answer is right to begin with.

    Raises:
        ValueError: if there is no such layer or head, or the model does not show or read what it reads.
    """
    right = (correct(edited_logits(model, batch.tokens, []).cpu(), batch) == 1) & batch.loss_mask
    fallen = []
    for layer, head in steps(heads, "removing heads one by one"):
        check_head(model, layer, head)
        check_editable(model, [_point(layer)])
        mine = torch.arange(model.cfg.n_heads)[:, None] == head
        hooks: Hooks = [(_point(layer), partial(put, where=mine, values=torch.zeros(())))]
        after = correct(edited_logits(model, batch.tokens, hooks).cpu(), batch)
        fallen.append((right & (after < 1)).sum(-1).double() / right.sum(-1))
    return Measurement(
        name="Right answers that fall without a head",
        values=torch.stack(fallen).numpy(),
        dims=(REMOVED, "example"),
        coords={REMOVED: [head_in_words(*head) for head in heads], "example": range(len(batch))},
        units="share",
        settings={"model": subject.name},
        caption="Of the answers that are right, each predicted from the true tokens before it, the share that is wrong "
        "when the head writes nothing. A head whose work another one can do falls out of sight here.",
    )


def costliest(fallen: Measurement, own: int) -> int:
    """Which removed head costs clearly more right answers than one of them; that one itself if none does.

    Args:
        fallen: `fallen_without(…).mean("example")`: dim `removed`, with intervals.
        own: the position along `removed` of the head that the others are held against.

    Returns:
        The position of the head without which most right answers change, if its whole interval lies above that of
        `own`.
    """
    if fallen.low is None or fallen.high is None or np.isnan(fallen.values).all():
        return own
    most = int(np.nanargmax(fallen.values))
    return most if fallen.low[most] > fallen.high[own] else own


def _point(layer: int) -> str:
    return f"blocks.{layer}.attn.hook_z"
