"""The best head of each role in models with fresh and with shuffled weights: what a head's role is held against.

Of a model's many heads the best of a role is told of, so it is held against the best of each uninformed model. These
have hardly a right answer that could be lost, so there what is tested is what becomes of their own answers.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from workbench.capture import Capture, Subject, capture
from workbench.circuits.comparison import Comparison
from workbench.circuits.movers import difference_lost, moves
from workbench.inspection.baseline_models import Model, uninformed_model
from workbench.inspection.without_heads import lost_without
from workbench.instruments.attention import head_roles
from workbench.interventions import Head
from workbench.interventions.edit import edited_logits
from workbench.measurement import Measurement
from workbench.measurement.controls import SHUFFLED, UNTRAINED
from workbench.models import OwnModel
from workbench.tasks import Batch, Pairs, Sequences, Task
from workbench.util.progress import steps

MODELS = 5  # of each kind: an informed head's share of a half is then clearly more than none of theirs of a tenth
FEW = 8  # sequences that they are run on
UNTESTED = ("own position", "first token")  # roles that no answer is known to need

Rows = Mapping[str, Float[np.ndarray, " example"]]
"""Role -> each example's value."""


@dataclass(frozen=True)
class Prompted:
    """The prompts of a set, on which heads are tested by the answer's logit difference, and one role more is told of.

    Attributes:
        pairs, control: as of `tasks.prompt_sets.Prompts`.
        slot: that the answer is read from, which heads may move.
    """

    pairs: Pairs
    control: Pairs
    slot: str

    @property
    def role(self) -> str:
        """The role of the heads that move the slot."""
        return f"moves {self.slot}"

    def moved(self, hooked: Any, n: int) -> dict[str, Measurement]:
        """That role of every head on the first n pairs; none where direct attribution does not know the model."""
        try:
            return {self.role: moves(Comparison(hooked, self.pairs[:n]), self.slot)}
        except ValueError:
            return {}


@dataclass
class Uninformed:
    """Kind of model -> of each, role -> the shares of its best head, and what of its answers changes without it."""

    shares: dict[str, list[Rows]] = field(default_factory=dict)
    changed: dict[str, list[Rows]] = field(default_factory=dict)

    def most(self, role: str) -> float:
        """The largest share of a role that the best head of one of them has; NaN without any."""
        of_each = [shares[role] for models in self.shares.values() for shares in models if role in shares]
        return max((float(np.nanmean(shares)) for shares in of_each), default=float("nan"))


@torch.no_grad()
def uninformed_heads(
    subject: Subject, batch: Batch, roles: Sequence[str], seeds: tuple[int, int], prompted: Prompted | None
) -> Uninformed:
    """The best heads of `MODELS` models of each kind, one in memory at a time; Ctrl-C keeps those that are done.

    Args:
        subject: the model's facts, with the bare model.
        batch: what they run on, of which `FEW` are taken.
        roles: that are told of.
        seeds: of the inspection and of the run.
        prompted: the prompts, if these are those of a set.
    """
    model, seen = subject.model, Uninformed()
    assert model is not None
    fresh = not isinstance(model, OwnModel) or model.can_be_fresh
    kinds = [UNTRAINED, SHUFFLED] if fresh else [SHUFFLED]

    draws, what = [*product(kinds, range(MODELS))], "measuring heads of re-initialised and shuffled models"
    for kind, draw in steps(draws, what, keep=True):
        other = uninformed_model(kind, model, subject, draw, seeds)
        best = _best_heads(other, batch[:FEW], roles, prompted)
        seen.shares.setdefault(kind, []).append({role: shares for role, (_, shares) in best.items()})
        heads = {role: head for role, (head, _) in best.items() if role not in UNTESTED}
        seen.changed.setdefault(kind, []).append(_changed(other, batch[:FEW], heads, prompted))
        del other  # before the next one is made
        gc.collect()
    return seen


def _best_heads(
    model: Model, batch: Batch, roles: Sequence[str], prompted: Prompted | None
) -> dict[str, tuple[Head, Float[np.ndarray, " example"]]]:
    """Role -> the head that has most of it, and its share on each example; without roles that no query can have."""
    subject = model.subject
    measured = head_roles.measure(capture(model.hooked, subject, batch, head_roles.needs(subject)), by_label=True)
    known = {role: measured.select(role=role) for role in roles if role in measured.coords["role"]}
    best = {}
    for role, shares in (known | ({} if prompted is None else prompted.moved(model.hooked, len(batch)))).items():
        if not np.isnan(shares.values).all():
            head = strongest(shares, 1)[0]
            best[role] = (head, shares.select(layer=head[0], head=head[1]).values)
    return best


def strongest(shares: Measurement, n: int) -> list[Head]:
    """The heads with most of a role, the strongest first: of dims `layer`, `head`, `example`; none if it is NaN."""
    mean = shares.mean("example").values
    if np.isnan(mean).all():
        return []
    order = (-mean).argsort(None, "stable")[:n]
    return [(int(shares.coords["layer"][i]), int(j)) for i, j in zip(*np.unravel_index(order, mean.shape), strict=True)]


def _changed(model: Model, batch: Batch, heads: Mapping[str, Head], prompted: Prompted | None) -> Rows:
    """Role -> what of each example's own answers changes without its head; of prompts, of the logit difference."""
    removed = list(dict.fromkeys(heads.values()))
    if prompted is not None:
        comparison = Comparison(model.hooked, prompted.pairs[: len(batch)])
        differences = {head: difference_lost(comparison, head) for head in removed}
        return {role: differences[head] for role, head in heads.items()}
    if not removed:
        return {}
    right = edited_logits(model.hooked, batch.tokens, []).argmax(-1).cpu()
    keys = head_roles.role_keys(Capture({}, batch, model.subject), by_label=True)
    lost = lost_without(
        model.hooked, replace(batch, targets=right), removed, {role: keys[role].any(-1) for role in heads}
    )
    return {role: lost[head][role][graded(model.subject.task)].numpy() for role, head in heads.items()}


def graded(task: Task) -> int:
    """Which share of `lost_without` is tested: of probabilities where there is no task with answers, else of answers.

    In a large vocabulary, uninformed models hold so many tokens as likely that any edit changes which is first.
    """
    return int(isinstance(task, Sequences))
