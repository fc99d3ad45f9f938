"""The best head of each role in models with fresh and with shuffled weights: what a head's role is held against.

Of a model's many heads the best of a role is told of, so it is held against the best of each uninformed model. These
have hardly a right answer that could be lost, so there what is tested is what becomes of their own answers: with and
without a head (`answered`, `lost_without`).
"""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from workbench.capture import Capture, Subject, capture
from workbench.circuits.comparison import Comparison
from workbench.circuits.movers import difference_lost, moves
from workbench.inspection.baseline_models import Model, uninformed_model
from workbench.instruments.attention import head_roles
from workbench.interventions import Head, Hooks
from workbench.interventions.edit_protocol import check_head, edited_logits, put
from workbench.measurement import Measurement
from workbench.measurement.controls import SHUFFLED, UNTRAINED
from workbench.models import AnyHooked, OwnModel
from workbench.models.facts import check_editable
from workbench.tasks import Batch, Pairs, Sequences, Task, correct
from workbench.util.progress import steps

AT_ONCE = 8  # sequences: the logits of a large vocabulary are large


def answered(
    model: AnyHooked,
    batch: Batch,
    hooks: Hooks = (),  # type: ignore[assignment]
) -> tuple[Bool[Tensor, "batch pos"], Float[Tensor, "batch pos"]]:
    """Whether each answer is right with these hooks, and the log-probability of the right one; of sets that is 0."""
    right, known = [], []
    for start in range(0, len(batch), AT_ONCE):
        part = batch[start : start + AT_ONCE]
        logits = edited_logits(model, part.tokens, list(hooks)).cpu()
        right.append((correct(logits, part) == 1) & part.loss_mask)
        one_of_a_set = part.targets.ndim == 3
        known.append(
            torch.zeros(part.tokens.shape)
            if one_of_a_set
            else logits.gather(-1, part.targets[..., None])[..., 0] - logits.logsumexp(-1)
        )
    return torch.cat(right), torch.cat(known)


@torch.no_grad()
def lost_without(
    model: AnyHooked,
    batch: Batch,
    heads: Sequence[Head],
    at: Mapping[str, Bool[Tensor, "batch pos"]],
    *,
    keep: bool = False,
) -> dict[Head, dict[str, Float[Tensor, "measure example"]]]:
    """What each head's absence costs: head -> name of positions -> two shares of each example's right answers there.

    The first is of the answers that turn wrong; the second of the right answers' probability, which falls by little
    where it is an answer's rank alone that changes, as of models that hold all tokens as likely. NaN where none is
    right.

    Args:
        model, batch: the hooked model, and what it runs on.
        heads: that write nothing, one at a time.
        at: name -> the positions that count.
        keep: whether Ctrl-C keeps the heads that are done: the others are then not there.

    Raises:
        ValueError: if there is no such head, or the model does not show or read what it reads.
    """
    right, before = answered(model, batch)
    lost = {}
    for layer, head in steps(heads, "removing heads one by one", keep=keep):
        check_head(model, layer, head)
        check_editable(model, [point := f"blocks.{layer}.attn.hook_z"])
        mine: Any = torch.arange(model.cfg.n_heads)[:, None] == head
        after = answered(model, batch, [(point, partial(put, where=mine, values=torch.zeros(())))])
        shares = torch.stack([(~after[0]).double(), (1 - (after[1] - before).exp()).clamp(0, 1).double()])
        counted = {name: right & positions for name, positions in at.items()}
        lost[layer, head] = {name: (shares * where).sum(-1) / where.sum(-1) for name, where in counted.items()}
    return lost


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
