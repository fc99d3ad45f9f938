"""Erase, steer, interchange: the edits of a causal test, and beside each the control edits that should do nothing.

A label's directions at one point of one model are edited. Every control edit is made as large as the label's own, row
by row: else it would do less only because it is smaller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from workbench.interventions import Hooks, put_rows
from workbench.judgement.used import OTHER_DIRECTIONS, SAME
from workbench.models import AnyHooked
from workbench.probes.label_directions import Subspace
from workbench.probes.positions import Rows
from workbench.tasks import Batch, predicted
from workbench.tasks.labels import is_labelled
from workbench.util.ties import clear

EDITS = {
    "interchange": ("another label", SAME, OTHER_DIRECTIONS),
    "steer": ("another label", OTHER_DIRECTIONS),
    "erase": ("erased", OTHER_DIRECTIONS),
}
"""The edits by name: what the label's own is called, then its control edits."""
AT_ONCE = 256  # sequences
TRIES = 16  # draws of a partner of each kind
# An edit is enlarged this many times at most: where rows of one label differ by less than a hundredth of the label's
# own edit, they differ by rounding.
MOST_SCALED = 100.0


@dataclass(frozen=True)
class Edited:
    """How the answers changed, by edit and sequence; NaN where a sequence has nothing to edit.

    Attributes:
        outcomes: shares of the answers (see `causal_result.Use`).
        sizes: mean norm of what is added to a row, before it is scaled and as it is added.
    """

    outcomes: Float[np.ndarray, "edit outcome example"]
    sizes: Float[np.ndarray, "edit 2 example"]


@dataclass(frozen=True)
class Trial:
    """One model, the rows of it that are edited, and the directions along which they are.

    Attributes:
        model: the hooked model.
        batch: the sequences.
        before: the model's logits without an edit.
        point: hook name of what is edited.
        rows: the edited rows, of one place.
        x: what the model holds at these rows.
        y: the label of each row, −1 where it has none.
        space: the label's directions.
    """

    model: AnyHooked
    batch: Batch
    before: Float[Tensor, "batch pos class"]
    point: str
    rows: Rows
    x: Float[Tensor, "n d"]
    y: Int[Tensor, "n *class"]
    space: Subspace

    def edited(self, how: str, chance: torch.Generator) -> Edited | None:
        """Make an edit and its control edits (in the order of `EDITS`); None if no row has a partner.

        Args:
            how: `interchange`, `steer` or `erase`.
            chance: for the choice of partners, and for random directions.
        """
        another, same = self._partners(chance)
        kept = another >= 0
        if how == "interchange":
            kept &= same >= 0
        if not bool(kept.any()):
            return None
        x, target = self.x[kept], self._target(how, another[kept])
        # What is added to a row: along the label's directions, and along as many others.
        label_change = self.space.moved(x, target) - x
        other_change = self.space.moved(x, target, rest=True) - x
        drawn = [label_change, other_change]
        scaled = [label_change, as_large(self._or_noise(other_change, chance), label_change)]
        partners: list[Tensor | None] = [None, None]
        if how == "interchange":
            same_change = self.space.moved(x, self.x[same[kept]]) - x
            drawn.insert(1, same_change)
            scaled.insert(1, as_large(same_change, label_change, MOST_SCALED))
            partners = [another, same, another]
        outcomes = [self._outcome(kept, change, partner) for change, partner in zip(scaled, partners, strict=True)]
        sizes = [
            [self._by_sequence(kept, change.norm(dim=-1)) for change in changes]
            for changes in zip(drawn, scaled, strict=True)
        ]
        return Edited(np.stack(outcomes), np.array(sizes))

    def _target(self, how: str, partner: Int[Tensor, " row"]) -> Float[Tensor, "row d"]:
        """The vectors whose part in the label's directions replaces that of the edited rows."""
        if how == "erase":
            return self.space.mean.float().expand(len(partner), -1)
        if how == "interchange":
            return self.x[partner]
        kind = _numbered(self.y)
        total = torch.zeros(int(kind.max()) + 1, self.x.shape[1]).index_add_(0, kind, self.x)
        return (total / torch.bincount(kind)[:, None])[kind][partner]  # the mean of the partner's class

    def _partners(self, chance: torch.Generator) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"]]:
        """For each row, one with another label and one with the same label, of another sequence; −1 where none is.

        Preferred is a partner with the same token at the same position, then one with the same token, then any: so the
        label is exchanged, and not the token along with it.
        """
        kind, token = _numbered(self.y), self.rows.take(self.batch.tokens)[0]
        placed = _numbered(token * self.batch.tokens.shape[1] + self.rows.position[0])
        there, example = is_labelled(self.y, lead=1), self.rows.example
        partners = []
        for alike in (False, True):
            groups = [placed, token, torch.zeros_like(token)]
            if alike:
                groups = [_numbered(group * len(kind) + kind) for group in groups]
            candidates = torch.cat([_members(group, chance) for group in groups], 1)
            allowed = (kind[candidates] == kind[:, None]) == alike
            allowed = allowed & there[:, None] & there[candidates] & (example[candidates] != example[:, None])
            pick = candidates.gather(1, allowed.long().argmax(1, keepdim=True))[:, 0]
            partners.append(torch.where(allowed.any(1), pick, -1))
        return partners[0], partners[1]

    def _or_noise(self, change: Float[Tensor, "n d"], chance: torch.Generator) -> Float[Tensor, "n d"]:
        """The change; where a row has none in the other directions, a random direction outside the label's instead."""
        outside = self.space.outside
        noise = torch.randn(len(change), outside.shape[1], generator=chance, dtype=outside.dtype) @ outside.mT
        return torch.where(change.norm(dim=-1, keepdim=True) > 0, change, noise.to(change))

    def _outcome(
        self, kept: Bool[Tensor, " n"], change: Float[Tensor, "row d"], partner: Int[Tensor, " n"] | None
    ) -> Float[np.ndarray, "outcome batch"]:
        """What a change of the kept rows does to the answers of each sequence, in the order of `OUTCOMES`."""
        example, position = self.rows.example[kept], self.rows.position[0, kept]
        after = logits_with(self.model, self.batch, [(self.point, example, position, self.x[kept] + change)])
        # Counted are the answers at and after the first edited position: no earlier one can change.
        first = torch.full((len(self.batch),), self.batch.tokens.shape[1])
        first.scatter_reduce_(0, example, position, "amin")
        counted = self.batch.loss_mask & (torch.arange(self.batch.tokens.shape[1]) >= first[:, None])
        changed = (predicted(self.before, self.batch.targets) != predicted(after, self.batch.targets)).any(-1)
        moved = (self.before.softmax(-1) - after.softmax(-1)).abs().sum(-1) / 2
        shares = [(values * counted).sum(1) / counted.sum(1) for values in (changed.double(), moved.double())]
        if partner is not None and self.batch.targets.ndim == 2:
            shares.append(self._followed(after, kept, partner))
        else:
            shares.append(torch.full_like(shares[0], torch.nan))
        return torch.stack(shares).numpy()

    def _followed(self, after: Tensor, kept: Bool[Tensor, " n"], partner: Int[Tensor, " n"]) -> Tensor:
        """The share of a sequence's answers at edited positions that became the partner's answer, and were not before.

        Where both have the same answer anyway, nothing can follow, and it counts as not following: else a model that
        nearly always gives the same answer would get a large share of few answers.
        """
        example, position = self.rows.example, self.rows.position[0]
        before, now = clear(self.before), clear(after)  # a tie is no answer
        target = before[example, position][partner.clamp(min=0)]
        both = self.batch.loss_mask[example, position] & self.batch.loss_mask[example, position][partner.clamp(min=0)]
        followed = (now[example, position] == target) & (target != before[example, position]) & (target >= 0)
        return torch.from_numpy(self._by_sequence(kept & both, followed[kept & both].double()))

    def _by_sequence(self, kept: Bool[Tensor, " n"], values: Float[Tensor, " row"]) -> Float[np.ndarray, " batch"]:
        """The mean over each sequence's kept rows; NaN where it has none."""
        total, count = (torch.zeros(len(self.batch), dtype=torch.float64) for _ in range(2))
        total.index_add_(0, self.rows.example[kept], values.double())
        count.index_add_(0, self.rows.example[kept], torch.ones(len(values), dtype=torch.float64))
        return (total / count).numpy()


def as_large(
    change: Float[Tensor, "n d"], wanted: Float[Tensor, "n d"], most: float = float("inf")
) -> Float[Tensor, "n d"]:
    """A change whose rows are scaled to the norms of another's, by no more than `most` times; a row of 0 stays 0."""
    norm = change.norm(dim=-1, keepdim=True)
    factor = (wanted.norm(dim=-1, keepdim=True) / norm).clamp(max=most)
    return torch.where(norm > 0, change * factor, change)


def _numbered(values: Int[Tensor, "n *class"]) -> Int[Tensor, " n"]:
    """A number for each row; equal rows have the same."""
    flat = values if values.ndim == 1 else values.reshape(len(values), -1)
    numbers: Tensor = flat.unique(dim=None if flat.ndim == 1 else 0, return_inverse=True)[1]
    return numbers


def _members(group: Int[Tensor, " n"], chance: torch.Generator) -> Int[Tensor, "n try"]:
    """For each row, `TRIES` rows drawn at random from its group."""
    order, size = group.argsort(stable=True), torch.bincount(group)
    first = size.cumsum(0) - size
    drawn = torch.rand(len(group), TRIES, generator=chance)
    return order[first[group][:, None] + (drawn * size[group][:, None]).long()]


Replacement = tuple[str, Int[Tensor, " row"], Int[Tensor, " row"], Float[Tensor, "row d"]]
"""A hook name, the examples and positions of rows, and the vectors that replace what the model has there."""


@torch.no_grad()
def logits_with(
    model: AnyHooked, batch: Batch, replacements: Sequence[Replacement]
) -> Float[Tensor, "batch pos class"]:
    """The model's logits when the vectors at some rows are replaced."""
    parts = []
    for start in range(0, len(batch), AT_ONCE):
        hooks: Hooks = []
        for point, example, position, values in replacements:
            inside = (example >= start) & (example < start + AT_ONCE)
            rows = {"example": example[inside] - start, "position": position[inside], "values": values[inside]}
            hooks.append((point, partial(put_rows, **rows)))
        with model.hooks(fwd_hooks=hooks):
            parts.append(model(batch.tokens[start : start + AT_ONCE]))
    return torch.cat(parts)
