"""Heads by their roles, judged as claims are: beside uninformed models and controls, with a causal test.

A role is a claim about one head: it attends to the role's keys, or moves a slot of prompts to the answer
(`circuits.movers`). The causal test is that the head writes nothing: right answers at the role's queries are lost, on
prompts of a set their logit difference; beside it the same of a head drawn at random.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch

from workbench.capture import Capture, capture
from workbench.circuits.comparison import Comparison
from workbench.circuits.movers import difference_lost
from workbench.inspection.baseline_models import Model
from workbench.inspection.result import ControlResult
from workbench.inspection.uninformed_heads import (
    UNTESTED,
    Prompted,
    Rows,
    Uninformed,
    graded,
    lost_without,
    strongest,
    uninformed_heads,
)
from workbench.instruments.attention import head_roles
from workbench.interventions import Head
from workbench.judgement.claim import ELSEWHERE, Judgement
from workbench.judgement.judge import CLAIMED, judge
from workbench.measurement import Measurement
from workbench.measurement.controls import UNTRAINED
from workbench.measurement.draws import DRAW, over_draws
from workbench.mechanisms.heads import where_in_words
from workbench.tasks import Batch, Sequences
from workbench.util.progress import interrupted, steps
from workbench.util.seeds import generator

REORDERED_ON = 32  # sequences
REORDERED = "the same tokens in random order"
OF_PLACE = ("previous token", "own position", "first token")  # roles that tokens in any order have alike
ALL = "all"
OUTCOMES = ("as claimed", "changed")


@dataclass(frozen=True)
class RoleHead:
    """A head that is among the strongest of a role.

    Attributes:
        role, layer, head: which.
        share: of a query's attention on the role's keys; of prompts, of those on which it moves a slot; with its
            interval.
        baseline: the largest share that a head of uninformed models reaches: re-initialised ones, and such with the
            model's own weights shuffled. NaN without any.
        lost, lost_there: right answers that turn wrong without the head, of all and of the role's queries; on prompts,
            `lost_there` is the share of the answer's logit difference. NaN where that was not measured.
        judgement: the share beside its controls, and whether the answers need the head.
        pairs: on prompts, of a head that moves a slot: the share of the logit difference that is lost when it holds
            what it does on control pairs, and on corrupted ones.
    """

    role: str
    layer: int
    head: int
    share: Measurement
    baseline: float
    lost: Measurement
    lost_there: Measurement
    judgement: Judgement
    pairs: tuple[Measurement, Measurement] | None = None

    @property
    def is_more(self) -> bool:
        """Whether it has more of the role than its controls."""
        return self.judgement.beyond


@dataclass(frozen=True)
class _Lost:
    """What is lost without each head of each example, 0 to 1.

    Attributes:
        of_all: head -> of all right answers.
        answers: role and head -> of those at the role's queries; on prompts, of the logit difference.
        tested, elsewhere: what is judged, of these; and the same of a head drawn at random.
    """

    of_all: Mapping[Head, np.ndarray]
    answers: Mapping[tuple[str, Head], np.ndarray]
    tested: Mapping[tuple[str, Head], np.ndarray]
    elsewhere: Mapping[str, np.ndarray]


@torch.no_grad()
def judged_heads(
    model: Model,
    batch: Batch,
    shares: Mapping[str, Measurement],
    controls: Mapping[str, ControlResult],
    prompted: Prompted | None,
    *,
    top: int,
    seeds: tuple[int, int],
) -> tuple[RoleHead, ...]:
    """The strongest heads of each role, judged. Ctrl-C keeps what is measured: what is not is NaN, or not tested.

    Args:
        model: the model, hooked.
        batch: sequences on which heads are removed, and the first of which uninformed models run on.
        shares: role -> each head's on each example: dims `layer`, `head`, `example`.
        controls: the controls of `head_roles` that were measured.
        prompted: the prompts, if these are those of a set.
        top: how many heads of each role.
        seeds: of the inspection and of the run.
    """
    shares = shares if prompted is None else {**shares, **prompted.moved(model.hooked, len(batch))}
    ranked = [(role, head) for role, of_role in shares.items() for head in strongest(of_role, top)]
    beside = _controls(model, batch, shares, controls, seeds[0])
    lost = _lost(model, batch, ranked, prompted, seeds[0])
    seen = Uninformed()
    if not interrupted():
        seen = uninformed_heads(model.subject, batch, list(shares), seeds, prompted)
    told = []
    for role, head in ranked:
        share = shares[role].select(layer=head[0], head=head[1])
        there = lost.tested.get((role, head))
        tests = None
        if role not in UNTESTED and there is not None:
            tests = {CLAIMED: there, **({ELSEWHERE: lost.elsewhere[role]} if role in lost.elsewhere else {})}
        at_head = {name: m.select(layer=head[0], head=head[1]) for name, m in beside.get(role, {}).items()}
        told.append(
            RoleHead(
                role,
                *head,
                share=share.mean(),
                baseline=seen.most(role),
                lost=_mean(lost.of_all.get(head), share),
                lost_there=_mean(lost.answers.get((role, head)), share),
                judgement=_judged(role, head, share, at_head, seen, tests),
                pairs=_pairs(model, prompted, head) if prompted is not None and role == prompted.role else None,
            )
        )
    return tuple(told)


def _controls(
    model: Model, batch: Batch, roles: Mapping[str, Measurement], measured: Mapping[str, ControlResult], seed: int
) -> dict[str, dict[str, Measurement]]:
    """Role -> control that is no model -> its mean of every head.

    Of sequences of one's own, whose tokens have no order that a task asks for: the attention on the same positions
    where all but the first token stand in random order. Other examples' tokens, the control of a task, are no control
    where all examples repeat alike.
    """
    means = {name: control.mean for name, control in measured.items() if name != UNTRAINED}
    if isinstance(model.subject.task, Sequences):
        means.pop("mismatched", None)
        batch, draws = batch[:REORDERED_ON], generator(seed, "reordered")
        tokens = batch.tokens.clone()
        for row, length in zip(tokens, model.subject.task.lengths(tokens).tolist(), strict=True):
            row[1:length] = row[1 + torch.randperm(length - 1, generator=draws)]
        seen = capture(model.hooked, model.subject, replace(batch, tokens=tokens), head_roles.needs(model.subject))
        means[REORDERED] = head_roles.measure(replace(seen, batch=batch), by_label=True).mean()
    return {
        role: {
            name: mean.select(role=role)
            for name, mean in means.items()
            if role in mean.coords["role"] and (name == "random_graph" or role not in OF_PLACE)
        }
        for role in roles
    }


def _lost(model: Model, batch: Batch, ranked: list[tuple[str, Head]], prompted: Prompted | None, seed: int) -> _Lost:
    """What is lost without each of the heads, one at a time, and without one that is drawn from all others."""
    removed = list(dict.fromkeys(head for _, head in ranked))
    best = dict(reversed(ranked)).values()
    others = [head for head in model.every_head if head not in best]
    drawn = torch.randint(len(others), (1,), generator=generator(seed, ELSEWHERE)).tolist() if others else []
    elsewhere = [others[number] for number in drawn]
    keys = head_roles.role_keys(Capture({}, batch, model.subject), by_label=True)
    at = {ALL: torch.ones_like(batch.loss_mask), **{role: keys[role].any(-1) for role, _ in ranked if role in keys}}
    lost = lost_without(model.hooked, batch, list(dict.fromkeys([*elsewhere, *removed])), at, keep=True)
    of_all = {head: lost[head][ALL][0].numpy() for head in removed if head in lost}
    answers = {(role, head): lost[head][role][0].numpy() for role, head in ranked if head in lost and role in keys}
    if prompted is None:
        which = graded(model.subject.task)
        there = {place: lost[place[1]][place[0]][which].numpy() for place in answers}
        beside = {role: lost[head][role][which].numpy() for head in elsewhere for role in at}
        return _Lost(of_all, answers, there, beside)
    comparison, difference = Comparison(model.hooked, prompted.pairs[: len(batch)]), {}
    if not interrupted():
        for head in steps(
            list(dict.fromkeys([*elsewhere, *removed])), "removing heads one by one, logit differences", keep=True
        ):
            difference[head] = difference_lost(comparison, head)
    there = {(role, head): difference[head] for role, head in ranked if head in difference}
    beside = {role: difference[head] for head in elsewhere if head in difference for role, _ in ranked}
    return _Lost(of_all, there, there, beside)


def _pairs(model: Model, prompted: Prompted, head: Head) -> tuple[Measurement, Measurement]:
    """The share of the logit difference that is lost when a head holds what it does on control and corrupted pairs."""
    comparison = Comparison(model.hooked, prompted.pairs)
    sides = (difference_lost(comparison, head, pairs) for pairs in (prompted.control, prompted.pairs))
    control, corrupted = (
        comparison.measurement("Share of the logit difference", side, {}, "").mean() for side in sides
    )
    return control, corrupted


def _mean(rows: np.ndarray | None, like: Measurement) -> Measurement:
    """The mean of what was lost; NaN of what was not measured."""
    rows = np.full(1, np.nan) if rows is None else rows
    return replace(like, values=rows, dims=("example",), coords={}, name="Lost without the head").mean()


def _judged(
    role: str, head: Head, share: Measurement, controls: Mapping[str, Measurement], seen: Uninformed, lost: Rows | None
) -> Judgement:
    """The claim that a head has a role.

    Args:
        role, head: the claim.
        share: the head's on each example.
        controls: control that is no model -> the same head's mean under it; none counts where no model ran.
        seen: what uninformed models do.
        lost: `claimed` and `elsewhere` -> what of each example's answers is lost; None where it was not tested.
    """
    draws, nulls = {}, {}
    for kind, models in seen.shares.items():
        if rows := [shares[role] for shares in models if role in shares]:
            draws[kind] = _of_draws(rows, replace(share, coords={})).mean("example")
    for kind, models in seen.changed.items() if lost is not None else ():
        if tests := [_test({CLAIMED: changed[role]}, head) for changed in models if role in changed]:
            nulls[kind] = _of_draws([test.values for test in tests], tests[0]).mean("example")
    title = f"{role[0].upper()}{role[1:]}, head {head[0]}.{head[1]}"
    return judge(
        role,
        replace(share.mean(), name=title),
        {**{kind: over_draws(each) for kind, each in draws.items()}, **(controls if draws else {})},
        draws,
        None if lost is None else _test(lost, head).mean("example"),
        nulls,
        of_heads=True,
    )[0]


def _of_draws(rows: list[np.ndarray], like: Measurement) -> Measurement:
    """Values of several models: the dim `draw`, then those of one of them."""
    coords = {name: labels for name, labels in like.coords.items() if name != "example"}
    return replace(like, values=np.stack(rows), dims=(DRAW, *like.dims), coords=coords)


def _test(lost: Rows, head: Head) -> Measurement:
    """A causal test: dims `edit`, `outcome`, `example`; an answer that is lost is as claimed."""
    rows = np.stack([*lost.values()])
    return Measurement(
        name="Without a head",
        values=np.repeat(rows[:, None], len(OUTCOMES), axis=1),
        dims=("edit", "outcome", "example"),
        coords={"edit": tuple(lost), "outcome": OUTCOMES},
        units="share",
        settings={"edited": where_in_words([head])},
        caption="What of right answers is lost when a head writes nothing.",
    )
