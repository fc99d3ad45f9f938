"""Patching on one input: a position holds what it holds in another input, or two tokens' coordinates change places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from workbench.capture import Capture
from workbench.instruments.residual import projection
from workbench.interventions.batch_edits import activation, exchanged
from workbench.interventions.edit import position_in_words, position_mask, span
from workbench.interventions.hooks import Hooks, put, put_rows
from workbench.interventions.points import check_point, point_in_words, points
from workbench.tasks import Task

if TYPE_CHECKING:
    from workbench.models.hooked import AnyHooked


@dataclass(frozen=True)
class Patch:
    """A position gets the activation that a position of another input has, at the same hook point or another one.

    Attributes:
        point: one of `points(subject)`.
        other: the other input, in the task's own words, as `task.parse` takes it.
        position: where; None for every position, of an input of the same length.
        other_position: of the other input; by default the same.
        other_point: of the other input; by default the same. `swap` tries all pairs of points.
    """

    point: str
    other: str
    position: int | None = None
    other_position: int | None = None
    other_point: str | None = None

    def in_words(self, task: Task) -> str:
        where = point_in_words(self.point)
        if self.other_point not in (None, self.point):
            where = f"{where}, from {point_in_words(str(self.other_point))}"
        if self.position is None:
            return f"every position holds what it holds in another input ({where})"
        source = self.position if self.other_position is None else self.other_position
        what = f"position {self.position} holds what position {source} of another input holds"
        return f"{what} ({where})"

    def places(self, n_pos: int) -> Sequence[int]:
        return span(self.position, n_pos)

    def hooks(self, model: AnyHooked, seen: Capture) -> Hooks:
        source = self.other_point or self.point
        for point in (self.point, source):
            check_point(point, points(seen.subject))
        n_pos, other = seen.batch.tokens.shape[1], seen.subject.task.parse(self.other).tokens
        n_other = other.shape[1]
        places = list(self.places(n_pos))
        if self.position is None:
            if self.other_position is not None:
                raise ValueError("a position of the other input goes to one position: say which")
            if n_other != n_pos:
                raise ValueError(f"the other input has {n_other} tokens, this one {n_pos}: name a position of each")
            sources = places
        else:
            try:
                sources = list(span(self.position if self.other_position is None else self.other_position, n_other))
            except ValueError as error:
                raise ValueError(f"of the other input: {error}") from None
        values = activation(model, other, source)[0, sources]
        example = torch.zeros(len(places), dtype=torch.long)
        return [(self.point, partial(put_rows, example=example, position=torch.tensor(places), values=values))]


@dataclass(frozen=True)
class Exchange:
    """The coordinates of two tokens change places (`interventions.exchanged`); all else that is held stays.

    Attributes:
        point: one of `points(subject)`.
        first, second: token ids.
        position: where; None for every position.
        basis: `encoder` or `decoder`.
    """

    point: str
    first: int
    second: int
    position: int | None = None
    basis: str = "decoder"

    def in_words(self, task: Task) -> str:
        first, second = task.words(torch.tensor([self.first, self.second]))
        what = f"the coordinates of {first} and {second} in the {self.basis} basis are exchanged"
        return f"{what}{position_in_words(self.position) or ' everywhere'} ({point_in_words(self.point)})"

    def places(self, n_pos: int) -> Sequence[int]:
        return span(self.position, n_pos)

    def hooks(self, model: AnyHooked, seen: Capture) -> Hooks:
        check_point(self.point, points(seen.subject))
        basis = projection.basis(seen.subject, self.basis)
        for token in (self.first, self.second):
            if not 0 <= token < len(basis):
                raise ValueError(f"there is no token {token}; the vocabulary has {len(basis)}, from 0")
        if self.first == self.second:
            raise ValueError("two tokens are exchanged; these are the same one")
        where = position_mask(self.places(seen.batch.tokens.shape[1]), seen)[:, None]
        ids = [torch.tensor([token]) for token in (self.first, self.second)]

        def exchange(activation: Tensor, hook: Any) -> Tensor:
            return put(activation, hook, where=where, values=exchanged(activation, basis, *ids))

        return [(self.point, exchange)]
