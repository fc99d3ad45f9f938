"""Causal models of one's own: a variable is put in from another input, and the answer must become what follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from workbench.circuits.comparison import check_names
from workbench.interventions import activation
from workbench.measurement import Measurement
from workbench.models import AnyHooked
from workbench.tasks import Boxes, Task
from workbench.tasks.boxes_world import OBJECTS
from workbench.util.ties import clear

Rows = Int[Tensor, " row"]


@dataclass(frozen=True)
class Hypothesis:
    """A variable that a model is thought to compute from the task's truth, and where it is thought to live.

    Attributes:
        claim: the variable in words.
        where: task, tokens -> the position of each sequence at which the variable lives; −1 where a sequence has none.
        predicts: task, base tokens, source tokens -> the answer of each base once the variable has the source's value
            and all else stays; −1 where nothing follows.
        asks: task, tokens -> the position whose logits answer; by default where the variable lives.
    """

    claim: str
    where: Callable[[Task, Tensor], Rows]
    predicts: Callable[[Task, Tensor, Tensor], Rows]
    asks: Callable[[Task, Tensor], Rows] | None = None


@dataclass(frozen=True)
class Interchange:
    """Bases and sources of an interchange intervention, with what must follow.

    Attributes:
        base, source: tokens, a row each.
        at, source_at: the position of either at which the variable lives.
        before, predicted: the right answer of each base, and the one that follows from the exchange. They differ.
        asked_at: the position of the base whose logits answer.
    """

    base: Int[Tensor, "row pos"]
    source: Int[Tensor, "row other"]
    at: Rows
    source_at: Rows
    before: Rows
    predicted: Rows
    asked_at: Rows

    def __len__(self) -> int:
        return len(self.base)

    def __getitem__(self, index: Tensor) -> Interchange:
        return Interchange(**{part.name: getattr(self, part.name)[index] for part in fields(self)})


def interchanges(
    task: Task, hypothesis: Hypothesis, n: int, generator: torch.Generator, *, split: Any = "test", **condition: Any
) -> Interchange:
    """Draw n sequences twice, and keep those rows in which the exchange must change the answer.

    Args:
        task, hypothesis: what is drawn, and what follows.
        n, generator, split, condition: as for `Task.sample`; a subspace is sought on `train`, and tested on `test`.

    Raises:
        ValueError: if in none of them another answer follows.
    """
    base, source = (task.sample(n, generator, split=split, **condition) for _ in range(2))
    at, source_at = hypothesis.where(task, base.tokens), hypothesis.where(task, source.tokens)
    if base.targets.ndim != 2:
        raise ValueError(f"{task.name} asks for sets here: an interchange predicts one class")
    asked_at = at if hypothesis.asks is None else hypothesis.asks(task, base.tokens)
    before = base.targets.gather(1, asked_at.clamp(min=0)[:, None])[:, 0]
    predicted = hypothesis.predicts(task, base.tokens, source.tokens)
    usable = (at >= 0) & (source_at >= 0) & (asked_at >= 0) & (predicted >= 0) & (predicted != before)
    if not usable.any():
        raise ValueError(f"in none of {n} draws does another answer follow from: {hypothesis.claim}")
    return Interchange(base.tokens, source.tokens, at, source_at, before, predicted, asked_at)[usable]


def exchanged_logits(
    model: AnyHooked,
    rows: Interchange,
    point: str,
    basis: Float[Tensor, "d_model rank"] | None,
    taken: Float[Tensor, "row d_model"] | None = None,
) -> Float[Tensor, "row class"]:
    """The logits where bases answer when they hold at their position, within a subspace, what the source holds.

    h ← h + (h' − h) B Bᵀ, with h' the source's (Geiger et al. 2021).

    Args:
        model, rows: the hooked model, and what it runs on.
        point: a hook name of the residual, `[row, pos, d_model]`.
        basis: B, orthonormal; None for all of the residual.
        taken: h', where it is known already.
    """
    source = held(model, rows.source, rows.source_at, point) if taken is None else taken
    number = torch.arange(len(rows), device=rows.base.device)

    def exchange(residual: Tensor, hook: Any) -> Tensor:
        change = source - residual[number, rows.at]
        change = change if basis is None else change @ basis @ basis.T
        edited = residual.clone()
        edited[number, rows.at] = edited[number, rows.at] + change
        return edited

    with model.hooks(fwd_hooks=[(point, exchange)]):
        logits = cast(Tensor, model(rows.base))
    return logits[number, rows.asked_at]


def held(model: AnyHooked, tokens: Int[Tensor, "row pos"], at: Rows, point: str) -> Float[Tensor, "row d_model"]:
    """What each row holds at a position. Raises ValueError if there is no such hook point."""
    check_names(model, [point])
    return activation(model, tokens, point)[torch.arange(len(tokens), device=tokens.device), at]


@torch.no_grad()
def interchange_accuracy(
    model: AnyHooked,
    rows: Interchange,
    point: str,
    basis: Float[Tensor, "d_model rank"] | None = None,
    name: str = "",
    *,
    only_right: bool = True,
) -> Measurement:
    """Whether each answer becomes the one that follows from the exchange: 1 or 0, dims `example`.

    A tie is 0, and NaN where the base's answer is not right before the exchange: nothing can be said of it.

    Args:
        model, rows, point, basis: as for `exchanged_logits`.
        name: what to call the model in captions.
        only_right: False counts all rows, for a control that knows no answer.
    """
    number = torch.arange(len(rows), device=rows.base.device)
    right: Bool[Tensor, " row"] = clear(cast(Tensor, model(rows.base))[number, rows.asked_at]) == rows.before
    right = right | (not only_right)
    became = clear(exchanged_logits(model, rows, point, basis)) == rows.predicted
    values = torch.where(right, became.double(), torch.nan).cpu().numpy()
    return Measurement(
        name="Interchange accuracy",
        values=values,
        dims=("example",),
        coords={"example": range(len(rows))},
        units="share",
        settings={"model": name, "point": point, "rank": None if basis is None else basis.shape[1]},
        caption="Whether the answer becomes the one that follows when the variable has the source's value, over bases "
        f"whose answer must change{' and that are answered right' * only_right}.",
    )


def _labelled(task: Task, tokens: Tensor, label: str) -> tuple[Tensor, Rows]:
    """A label of the truth, and its first position in each sequence; −1 where it is nowhere."""
    values = task.truth(tokens).labels
    if label not in values:
        raise ValueError(f"{task.name} has no label {label!r}; there is: {', '.join(values) or 'none'}")
    return values[label], _first(values[label] >= 0)


def _first(where: Bool[Tensor, "row pos"]) -> Rows:
    """The first position of each row where this is true; −1 where it is nowhere."""
    return torch.where(where.any(-1), where.long().argmax(-1), -1)


def at_first(label: str) -> Callable[[Task, Tensor], Rows]:
    """The first position at which a label of the truth is there."""
    return lambda task, tokens: _labelled(task, tokens, label)[1]


def _at_last(label: str) -> Callable[[Task, Tensor], Rows]:
    """The last position at which a label of the truth is there."""

    def where(task: Task, tokens: Tensor) -> Rows:
        values, first = _labelled(task, tokens, label)
        last = values.shape[1] - 1 - (values >= 0).flip(1).long().argmax(-1)
        return torch.where(first >= 0, last, -1)

    return where


def _value_at(task: Task, tokens: Tensor, label: str, at: Rows) -> Rows:
    values, _ = _labelled(task, tokens, label)
    return torch.where(at >= 0, values.gather(1, at.clamp(min=0)[:, None])[:, 0], -1)


def _answer_itself(claim: str, label: str, find: Callable[[str], Callable[[Task, Tensor], Rows]]) -> Hypothesis:
    """The variable is a label of the truth and the answer itself: that of the source follows."""
    where = find(label)
    return Hypothesis(claim, where, lambda task, base, source: _value_at(task, source, label, where(task, source)))


def _second_place(task: Task, tokens: Tensor) -> Rows:
    return _first(_labelled(task, tokens, "place")[0] == 1)


def _with_sources_carry(task: Task, base: Tensor, source: Tensor) -> Rows:
    """The base's digit of the second place plus the source's carry into it."""
    at, source_at = _second_place(task, base), _second_place(task, source)
    carry = _value_at(task, source, "carry", source_at)
    digit = base.gather(1, (task.question_length(base) - 2).clamp(min=0)[:, None])[:, 0]
    usable = (at >= 0) & (carry >= 0) & (task.question_length(base) >= 2)
    return torch.where(usable, (digit + carry) % 10, -1)


def _parent_of_last(task: Task, tokens: Tensor) -> Rows:
    """The position that the last token points to."""
    return _labelled(task, tokens, "parent")[0][:, -1]


def _last(task: Task, tokens: Tensor) -> Rows:
    return torch.full((len(tokens),), tokens.shape[1] - 1, device=tokens.device)


def _root_by_sources_pointer(task: Task, base: Tensor, source: Tensor) -> Rows:
    """The root that the last token of the base has once its parent points where the source's parent points."""
    parent, source_parent = (_parent_of_last(task, tokens)[:, None].clamp(min=0) for tokens in (base, source))
    return _labelled(task, base.scatter(1, parent, source.gather(1, source_parent)), "root")[0][:, -1]


def _before_first_item(task: Task, tokens: Tensor) -> Rows:
    """The position that predicts the first item of the answer."""
    if not isinstance(task, Boxes):
        raise ValueError(f"{task.name} has no items; boxes has")
    items = torch.tensor([task.vocabulary.id(word) for word in OBJECTS[: task.n_objects]], device=tokens.device)
    asked = torch.arange(tokens.shape[1] - 1, device=tokens.device) >= task.question_length(tokens)[:, None] - 1
    return _first(torch.isin(tokens[:, 1:], items) & asked)


def _sources_first_item(task: Task, base: Tensor, source: Tensor) -> Rows:
    at = _before_first_item(task, source)
    return torch.where(at >= 0, source.gather(1, at[:, None] + 1)[:, 0], -1)


HYPOTHESES: dict[str, Hypothesis] = {
    "minimum": _answer_itself("the delimiter holds the smallest symbol", "minimum", at_first),
    "successor": _answer_itself("the first output holds the next one", "successor", at_first),
    "pointer": Hypothesis(
        "what the last token's parent attends with holds where it points, and the last answer follows from there",
        _parent_of_last,
        _root_by_sources_pointer,
        _last,
    ),
    "item": Hypothesis(
        "the word before an answer's first item holds what is in the box", _before_first_item, _sources_first_item
    ),
    "root": _answer_itself("the last position holds the value at the root of its chain", "root", _at_last),
    "carry": Hypothesis(
        "the position that writes the second digit holds the carry into it, apart from the digit",
        _second_place,
        _with_sources_carry,
    ),
}
"""Variables of the tasks that are known; one's own is another `Hypothesis`."""
