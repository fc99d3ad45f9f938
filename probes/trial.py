"""One causal trial: a label's directions at one point of one model are edited, and beside them what should do nothing.

Every edit beside is made as large as the label's own, row by row: else a smaller edit does less because it is smaller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from workbench.interventions import Hooks, put_rows
from workbench.probes.labels import has_label
from workbench.probes.positions import Rows
from workbench.probes.subspace import Subspace
from workbench.tasks import Batch, predicted
from workbench.util.ties import clear

if TYPE_CHECKING:
    from transformer_lens.model_bridge import TransformerBridge

AT_ONCE = 256  # sequences
TRIES = 16  # to draw a partner of each kind
MOST_SCALED = (
    100.0  # times: where rows of one label differ by less than this share in its directions, it is by rounding
)


@dataclass(frozen=True)
class Edited:
    """What edits did, by sequence; NaN where a sequence has nothing to edit.

    Attributes:
        outcomes: `[edit, outcome, example]`.
        sizes: `[edit, 2, example]`: mean norm of what is added to a row, before it is scaled and as it is added.
    """

    outcomes: Float[np.ndarray, "edit outcome example"]
    sizes: Float[np.ndarray, "edit 2 example"]


@dataclass(frozen=True)
class Trial:
    """Sequences, the answers of a model, and the rows that are edited.

    Attributes:
        model, batch, before: the hooked model, the sequences, and its logits.
        point: where it is edited.
        rows: of one place.
        x, y: what the model holds at these rows, and their label.
        space: the label's directions.
    """

    model: TransformerBridge
    batch: Batch
    before: Float[Tensor, "batch pos class"]
    point: str
    rows: Rows
    x: Float[Tensor, "n d"]
    y: Int[Tensor, "n *class"]
    space: Subspace

    def edited(self, how: str, chance: torch.Generator) -> Edited | None:
        """The outcomes of one way to edit and of all beside it (see `probes.use.EDITS`); None if no row has any."""
        another, same = self._partners(chance)
        kept = (another >= 0) & ((same >= 0) if how == "interchange" else True)
        if not bool(kept.any()):
            return None
        x, other = self.x[kept], another[kept]
        if how == "erase":
            to = self.space.mean.float().expand_as(x)
        else:
            to = (self._class_means() if how == "steer" else self.x)[other]
        own, beside = self.space.moved(x, to) - x, self.space.moved(x, to, rest=True) - x
        drawn, added = [own, beside], [own, as_large(self._or_noise(beside, chance), own)]
        if how == "interchange":
            drawn.insert(1, self.space.moved(x, self.x[same[kept]]) - x)
            added.insert(1, as_large(drawn[1], own, MOST_SCALED))
        follow = [another, same, another] if how == "interchange" else [None] * len(added)
        outcomes = [self._outcome(kept, change, whom) for change, whom in zip(added, follow, strict=True)]
        sizes = [
            [self._by_sequence(kept, each.norm(dim=-1)) for each in pair] for pair in zip(drawn, added, strict=True)
        ]
        return Edited(np.stack(outcomes), np.array(sizes))

    def _partners(self, chance: torch.Generator) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"]]:
        """For each row one with another label and one with the same, of any sequence but its own; −1: there is none.

        One with the same token at the same position where one of those drawn is so, else one with the same token, else
        any: so what is exchanged is the label and not, with it, the token.
        """
        kind, token = _numbered(self.y), self.rows.take(self.batch.tokens)[0]
        placed = _numbered(token * self.batch.tokens.shape[1] + self.rows.position[0])
        there, example = has_label(self.y), self.rows.example
        found = []
        for alike in (False, True):
            groups = [placed, token, torch.zeros_like(token)]
            if alike:
                groups = [_numbered(group * len(kind) + kind) for group in groups]
            candidates = torch.cat([_members(group, chance) for group in groups], 1)
            allowed = (kind[candidates] == kind[:, None]) == alike
            allowed = allowed & there[:, None] & there[candidates] & (example[candidates] != example[:, None])
            pick = candidates.gather(1, allowed.long().argmax(1, keepdim=True))[:, 0]
            found.append(torch.where(allowed.any(1), pick, -1))
        return found[0], found[1]

    def _or_noise(self, change: Float[Tensor, "n d"], chance: torch.Generator) -> Float[Tensor, "n d"]:
        """A random direction outside the label's where two rows do not differ in any of the other directions."""
        outside = self.space.outside
        noise = torch.randn(len(change), outside.shape[1], generator=chance, dtype=outside.dtype) @ outside.mT
        return torch.where(change.norm(dim=-1, keepdim=True) > 0, change, noise.to(change))

    def _class_means(self) -> Float[Tensor, "n d"]:
        """The mean of each row's class."""
        kind = _numbered(self.y)
        total = torch.zeros(int(kind.max()) + 1, self.x.shape[1]).index_add_(0, kind, self.x)
        return (total / torch.bincount(kind)[:, None])[kind]

    def _outcome(
        self, kept: Bool[Tensor, " n"], change: Float[Tensor, "row d"], partner: Int[Tensor, " n"] | None
    ) -> Float[np.ndarray, "outcome batch"]:
        example, position = self.rows.example[kept], self.rows.position[0, kept]
        after = run(self.model, self.batch, [(self.point, example, position, self.x[kept] + change)])
        first = torch.full((len(self.batch),), self.batch.tokens.shape[1])
        first.scatter_reduce_(0, example, position, "amin")
        counted = self.batch.loss_mask & (torch.arange(self.batch.tokens.shape[1]) >= first[:, None])
        changed = (predicted(self.before, self.batch.targets) != predicted(after, self.batch.targets)).any(-1)
        moved = (self.before.softmax(-1) - after.softmax(-1)).abs().sum(-1) / 2
        found = [(values * counted).sum(1) / counted.sum(1) for values in (changed.double(), moved.double())]
        found.append(torch.full_like(found[0], torch.nan))
        if partner is not None and self.batch.targets.ndim == 2:
            found[-1] = self._followed(after, kept, partner)
        return torch.stack(found).numpy()

    def _followed(self, after: Tensor, kept: Bool[Tensor, " n"], partner: Int[Tensor, " n"]) -> Tensor:
        """Of a sequence's answers at edited positions: which became those at the other's, having been others.

        Where the two say the same anyway nothing can follow, and it counts as not following: a model that says nearly
        always the same has then no large share of few answers.
        """
        example, position = self.rows.example, self.rows.position[0]
        before, now = clear(self.before), clear(after)  # a tie is no answer
        others = before[example, position][partner.clamp(min=0)]
        both = self.batch.loss_mask[example, position] & self.batch.loss_mask[example, position][partner.clamp(min=0)]
        followed = (now[example, position] == others) & (others != before[example, position]) & (others >= 0)
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
    """Each row scaled to the norm of the other's; by no more than `most` times, and what is 0 stays 0."""
    norm = change.norm(dim=-1, keepdim=True)
    factor = (wanted.norm(dim=-1, keepdim=True) / norm).clamp(max=most)
    return torch.where(norm > 0, change * factor, change)


def _numbered(values: Int[Tensor, "n *class"]) -> Int[Tensor, " n"]:
    """Rows that are the same have the same number."""
    flat = values if values.ndim == 1 else values.reshape(len(values), -1)
    numbers: Tensor = flat.unique(dim=None if flat.ndim == 1 else 0, return_inverse=True)[1]
    return numbers


def _members(group: Int[Tensor, " n"], chance: torch.Generator) -> Int[Tensor, "n try"]:
    """Rows drawn at random of each row's group."""
    order, size = group.argsort(stable=True), torch.bincount(group)
    first = size.cumsum(0) - size
    drawn = torch.rand(len(group), TRIES, generator=chance)
    return order[first[group][:, None] + (drawn * size[group][:, None]).long()]


Put = tuple[str, Int[Tensor, " row"], Int[Tensor, " row"], Float[Tensor, "row d"]]
"""A hook point, the examples and positions of rows, and what is put there."""


@torch.no_grad()
def run(model: TransformerBridge, batch: Batch, puts: Sequence[Put]) -> Float[Tensor, "batch pos class"]:
    """The logits, with other vectors at some rows."""
    parts = []
    for start in range(0, len(batch), AT_ONCE):
        hooks: Hooks = [(point, partial(put_rows, **_within(start, *rest))) for point, *rest in puts]
        with model.hooks(fwd_hooks=hooks):
            parts.append(model(batch.tokens[start : start + AT_ONCE]))
    return torch.cat(parts)


def _within(start: int, example: Tensor, position: Tensor, values: Tensor) -> dict[str, Tensor]:
    """The rows of one part of the batch, as `put_rows` takes them."""
    own = (example >= start) & (example < start + AT_ONCE)
    return {"example": example[own] - start, "position": position[own], "values": values[own]}
