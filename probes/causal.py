"""Whether the model uses what a probe decodes: what becomes of its answers when that, and nothing else, is changed.

A label's directions at a point (`probes.subspace`) are exchanged between two inputs, put to another class, or taken
out, and the model computes on (TransformerLens hooks). Beside it stands the same edit where it should do nothing if the
model reads the label and only the label: exchanged with an input of the same label, and along as many other directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from probes import features
from probes.conditions import asked, distinct
from probes.labels import has_label
from probes.positions import Rows, Rule
from probes.subspace import Subspace
from probes.use import EDITS, Use, measured, untested
from workbench.lookup import lookup
from workbench.runs import Run
from workbench.seeds import generator
from workbench.tasks import Batch, Task, said
from workbench.ties import clear

if TYPE_CHECKING:
    from transformer_lens.model_bridge import TransformerBridge

FITTED_ON = 1024  # sequences on which directions are found
AT_ONCE = 256
TRIES = 16  # to draw a partner


def causal_test(
    run: Run,
    label: str,
    *,
    point: str,
    positions: Rule = "labelled",
    how: str = "interchange",
    n: int = 256,
    seed: int = 0,
    step: int | None = None,
    rank: int | None = None,
    places: Sequence[str] | None = None,
) -> dict[str, Use]:
    """Change what can be read of a label at one point, and see what becomes of the answers.

    Args:
        run: the run.
        label: see `probes.labels`.
        point: hook name of a residual, or of anything with one vector a position.
        positions: where (see `probes.positions`); all positions of a pooled rule are edited at once.
        how: `interchange` (with a sequence whose label is another), `steer` (to the mean of another class), `erase`.
        n: sequences that are tried; the directions are found on up to 1,024 others.
        seed: of the sequences, and of who is exchanged with whom.
        step: of which checkpoint; by default the end.
        rank: most directions to change; by default all that hold the label.
        places: which of the rule's; by default all.

    Returns:
        What was found at each place of the rule.

    Raises:
        ValueError: if there is no such label, point, rule, way or checkpoint, or too few sequences.
    """
    edits = lookup(EDITS, how, "causal test")
    task, model, hooked = run.task(), run.model(step), run.hooked(step)
    fitted = task.sample(FITTED_ON, generator(seed, "directions"), split="test")
    tried = task.sample(n, generator(seed, "causal"), split="test")
    fitted = _others(task, fitted, tried)
    known, found = (asked(task, batch, [label], positions) for batch in (fitted, tried))
    x = features.from_model(model, fitted, [point], known[0])[0]
    own = features.from_model(model, tried, [point], found[0])[0]
    before = _run(hooked, tried, [])
    uses = {}
    for name in known[0].names if places is None else places:
        settings = {"model": run.name_at(step), "label": label, "point": point, "positions": positions, "how": how}
        settings |= {"place": name, "sequences": n, "seed": seed}
        if name not in known[0].names or name not in found[0].names:
            uses[name] = untested(edits, settings, "the sequences drawn have no such place")
            continue
        at, place = known[0].names.index(name), found[0].names.index(name)
        y, there = known[1][0][at], has_label(known[1][0][at])
        rows = Rows(found[0].example, found[0].position[place : place + 1], (name,))
        chance = generator(seed, "subspace", name)
        space = Subspace.of(x[at][there], y[there], chance, rank=rank, group=known[0].example[there])
        if not space.rank:
            uses[name] = untested(edits, settings, "no direction holds more of it than of its shuffles")
            continue
        test = _Test(hooked, tried, before, point, rows, own[place], found[1][0][place], space)
        values = test.outcomes(how, generator(seed, "partners", name))
        if values is None:
            why = "no sequence has a partner with another label and one with the same"
            uses[name] = untested(edits, settings, why)
            continue
        uses[name] = measured(values, edits, space.rank, {**settings, "directions": space.rank})
    return uses


def _others(task: Task, batch: Batch, tried: Batch) -> Batch:
    """Those sequences that ask what none of the tried does."""
    width = max(batch.tokens.shape[1], tried.tokens.shape[1])
    wide = [pad(part.tokens, (0, width - part.tokens.shape[1]), value=task.pad) for part in (tried, batch)]
    own = distinct(task, torch.cat(wide))[len(tried) :] >= len(tried)
    if not bool(own.any()):
        raise ValueError(f"{task.name} has no other sequences to find directions on than those tried; take a smaller n")
    return batch[own]


@dataclass(frozen=True)
class _Test:
    """Sequences, their answers, and the rows that are edited."""

    model: TransformerBridge
    batch: Batch
    before: Float[Tensor, "batch pos class"]
    point: str
    rows: Rows
    x: Float[Tensor, "n d"]
    y: Int[Tensor, "n *class"]
    space: Subspace

    def outcomes(self, how: str, chance: torch.Generator) -> np.ndarray | None:
        """`[edit, outcome, example]`, NaN where an example has nothing to edit; None if none has."""
        another, same = self._partners(chance)
        kept = (another >= 0) & ((same >= 0) if how == "interchange" else True)
        if not bool(kept.any()):
            return None
        to = self._class_means()[another] if how == "steer" else self.x[another.clamp(min=0)]
        to = self.space.mean.float().expand_as(self.x) if how == "erase" else to
        follow = another if how == "interchange" else None
        tries = [(to, False, follow), (to, True, follow)]
        if how == "interchange":
            tries.insert(1, (self.x[same.clamp(min=0)], False, same))
        return np.stack([self._outcome(kept, *one) for one in tries])

    def _partners(self, chance: torch.Generator) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"]]:
        """For each row one with another label and one with the same, of any sequence but its own; −1: there is none."""
        n, kind = len(self.y), self._kinds()
        order, size = kind.argsort(stable=True), torch.bincount(kind)
        first = size.cumsum(0) - size
        anyone = torch.randint(n, (n, TRIES), generator=chance)
        drawn = torch.rand(n, TRIES, generator=chance)
        alike = order[first[kind][:, None] + (drawn * size[kind][:, None]).long()]
        there, example = has_label(self.y), self.rows.example
        found = []
        for candidates, wanted in ((anyone, kind[anyone] != kind[:, None]), (alike, torch.ones(1, dtype=torch.bool))):
            allowed = wanted & there[:, None] & there[candidates] & (example[candidates] != example[:, None])
            pick = candidates.gather(1, allowed.long().argmax(1, keepdim=True))[:, 0]
            found.append(torch.where(allowed.any(1), pick, -1))
        return found[0], found[1]

    def _kinds(self) -> Int[Tensor, " n"]:
        """Rows with the same label have the same number."""
        kinds: Tensor = self.y.reshape(len(self.y), -1).unique(dim=0, return_inverse=True)[1]
        return kinds

    def _class_means(self) -> Float[Tensor, "n d"]:
        """The mean of each row's class."""
        kind = self._kinds()
        total = torch.zeros(int(kind.max()) + 1, self.x.shape[1]).index_add_(0, kind, self.x)
        return (total / torch.bincount(kind)[:, None])[kind]

    def _outcome(
        self, kept: Bool[Tensor, " n"], to: Float[Tensor, "n d"], rest: bool, partner: Int[Tensor, " n"] | None
    ) -> Float[np.ndarray, "outcome batch"]:
        example, position = self.rows.example[kept], self.rows.position[0, kept]
        put = self.space.moved(self.x[kept], to[kept], rest=rest)
        after = _run(self.model, self.batch, [(self.point, example, position, put)])
        first = torch.full((len(self.batch),), self.batch.tokens.shape[1])
        first.scatter_reduce_(0, example, position, "amin")
        counted = self.batch.loss_mask & (torch.arange(self.batch.tokens.shape[1]) >= first[:, None])
        changed = (said(self.before, self.batch.targets) != said(after, self.batch.targets)).any(-1)
        moved = (self.before.softmax(-1) - after.softmax(-1)).abs().sum(-1) / 2
        found = [_mean(values, counted) for values in (changed.double(), moved.double())]
        found.append(torch.full_like(found[0], torch.nan))
        if partner is not None and self.batch.targets.ndim == 2:
            found[-1] = self._followed(after, kept, partner)
        return torch.stack(found).numpy()

    def _followed(self, after: Tensor, kept: Bool[Tensor, " n"], partner: Int[Tensor, " n"]) -> Tensor:
        """Of a sequence's answers at edited positions: which became those at the other's, where these differ.

        A tie is no answer: the other's does not count, and an answer that became one did not follow.
        """
        example, position = self.rows.example, self.rows.position[0]
        before, now = clear(self.before), clear(after)
        others = before[example, position][partner.clamp(min=0)]
        both = self.batch.loss_mask[example, position] & self.batch.loss_mask[example, position][partner.clamp(min=0)]
        counts = kept & both & (others != before[example, position]) & (others >= 0)
        total, right = (torch.zeros(len(self.batch), dtype=torch.float64) for _ in range(2))
        total.index_add_(0, example, counts.double())
        right.index_add_(0, example, (counts & (now[example, position] == others)).double())
        return right / total


def _mean(values: Tensor, counted: Bool[Tensor, "batch pos"]) -> Tensor:
    return (values * counted).sum(1) / counted.sum(1)


Put = tuple[str, Int[Tensor, " row"], Int[Tensor, " row"], Float[Tensor, "row d"]]
"""A hook point, the examples and positions of rows, and what is put there."""


@torch.no_grad()
def _run(model: TransformerBridge, batch: Batch, puts: Sequence[Put]) -> Float[Tensor, "batch pos class"]:
    """The logits, with other vectors at some rows."""
    parts = []
    for start in range(0, len(batch), AT_ONCE):
        hooks = [(point, partial(_put, *_within(start, *rest))) for point, *rest in puts]
        with model.hooks(fwd_hooks=hooks):
            parts.append(model(batch.tokens[start : start + AT_ONCE]))
    return torch.cat(parts)


def _within(start: int, example: Tensor, position: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    own = (example >= start) & (example < start + AT_ONCE)
    return example[own] - start, position[own], values[own]


def _put(example: Tensor, position: Tensor, values: Tensor, activation: Tensor, hook: Any) -> Tensor:
    edited = activation.flatten(2).clone()
    edited[example, position] = values.to(edited)
    return edited.view_as(activation)
