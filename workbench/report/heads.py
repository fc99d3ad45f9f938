"""Every head of a model by its role: what it attends to, beside re-initialised models, and what is lost without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from workbench import figures
from workbench.capture import Capture, Subject
from workbench.inspection import inspect_run
from workbench.inspection.result import Result
from workbench.instruments.attention import head_roles
from workbench.interventions import fallen_without
from workbench.interventions.edit import Head, edited_logits, head_in_words
from workbench.judgement.words import heads as words
from workbench.measurement import Measurement
from workbench.measurement.controls import UNTRAINED
from workbench.runs import HeldRun, Run, load_run, means_run
from workbench.tasks import Batch, Sequences, correct, own_sequences
from workbench.util.seeds import generator
from workbench.util.settings import as_json

REPEATED = 32  # random tokens, each of which comes twice
REMOVED_ON = 64  # sequences
NAME, ALL = "head_roles", "all"
UNTOLD = ("gold recall", "own position")  # the first has the keys of gold precision


@dataclass(frozen=True)
class RoleHead:
    """A head that is among the strongest of a role.

    Attributes:
        role, layer, head: which.
        share: of a query's attention on the role's keys, with its interval.
        baseline: the largest share that a head of re-initialised models reaches; without such models, that a head with
            attention drawn at random has.
        lost, lost_there: right answers that turn wrong without the head, of all and of the role's queries.
    """

    role: str
    layer: int
    head: int
    share: Measurement
    baseline: float
    lost: Measurement
    lost_there: Measurement

    @property
    def is_more(self) -> bool:
        """Whether its whole interval lies above what re-initialised heads reach."""
        low = self.share.ends[0]
        return low is not None and low > self.baseline


@dataclass(frozen=True)
class Heads:
    """The heads of a model by their roles.

    Attributes:
        name: the model's.
        roles: every head's share of each role, and its controls.
        strongest: of each role, the strongest heads, and what is lost without them.
        right: the share of answers that the model has right.
        n, removed_on: sequences that attention was measured on, and on which heads were removed.
        others: whether the latter are others, as those of a task are; those of a text are some of the same.
    """

    name: str
    roles: Result
    strongest: tuple[RoleHead, ...]
    right: float
    n: int
    removed_on: int
    others: bool

    @property
    def says(self) -> str:
        """The strongest heads of each role that have more of it than re-initialised ones, and the roles of none."""
        shown = [each for each in self.strongest if each.is_more]
        rows = [
            (
                each.role.replace("gold precision", "the task's true edges"),
                f"{each.layer}.{each.head}",
                _share(each.share),
                each.baseline,
                _share(each.lost),
                _share(each.lost_there),
            )
            for each in shown
        ]
        baseline = "re-initialised" if UNTRAINED in self.roles.controls else "at random"
        mean = self.roles.mean
        n_heads = len(mean.coords["layer"]) * len(mean.coords["head"])
        lines = [words.of_sample(self.n, n_heads, self.removed_on, self.right, self.others), ""]
        lines += [*words.of_roles(rows, baseline), ""] if rows else []
        named = {each.role for each in shown}
        absent = [role for role in dict.fromkeys(each.role for each in self.strongest) if role not in named]
        return "\n".join([*lines, *([words.of_absent(absent, baseline)] if absent else []), words.NOT_SHOWN])

    def figure(self) -> Any:
        """Every head's roles as a map."""
        return figures.head_roles({self.name: self.roles.mean}, {self.name: self._controls()})[0]

    def table(self) -> pd.DataFrame:
        """Every head's share of every role, with its interval, and each control's share."""
        frame = self.roles.mean.frame()
        for control, mean in self._controls().items():
            frame[control] = mean.values.reshape(-1)
        return frame

    def json(self) -> str:
        """Every number, and the strongest heads with what is lost without them."""
        strongest = [
            {
                "role": each.role,
                "layer": each.layer,
                "head": each.head,
                **{
                    name: {"value": float(m.values), "interval": m.ends}
                    for name, m in (("share", each.share), ("lost", each.lost), ("lost_there", each.lost_there))
                },
                "baseline": each.baseline,
                "more_than_baseline": each.is_more,
            }
            for each in self.strongest
        ]
        about = {"model": self.name, "n": self.n, "removed_on": self.removed_on, "right": self.right}
        numbers = {NAME: self.roles.mean.to_dict()} | {name: m.to_dict() for name, m in self._controls().items()}
        return as_json({**about, "strongest": strongest, "measurements": numbers})

    def save(self, folder: Path) -> None:
        """Write heads.json, the shares as Parquet, CSV and JSON, and the map as HTML."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "heads.json").write_text(f"{self.json()}\n", encoding="utf-8")
        for stem, measured in {NAME: self.roles.mean, **self._controls()}.items():
            measured.save(folder, stem)
        self.figure().write_html(folder / "heads.html")

    def _controls(self) -> Mapping[str, Measurement]:
        return {name: control.mean for name, control in self.roles.controls.items()}


def _share(m: Measurement) -> words.Share:
    return (float(m.values), *m.ends)


def heads(
    model: Any,
    *,
    text: str | Path | None = None,
    n: int = 128,
    top: int = 2,
    step: int | None = None,
    seed: int = 0,
) -> Heads:
    """Rank every head of a model by its roles, beside re-initialised models, and remove the strongest one by one.

    Args:
        model: a run or its folder; or a model of Hugging Face: loaded, its folder or file, or its name on the hub.
        text: of a model of Hugging Face: a text file in UTF-8, or the name of a prompt set, whose slots are roles too
            (`reads S2`); by default it is given random tokens that come twice.
        n: sequences; of a run as it was trained on, held out.
        top: how many of the strongest heads of each role are removed.
        step: of a run's checkpoint; by default the end.
        seed: of the sequences.

    Raises:
        ValueError: if there is no such model, its attention patterns cannot be seen, or a setting is wrong.
    """
    if n < 2 or top < 1:
        raise ValueError(f"n is 2 or more, and top 1 or more, not {n} and {top}")
    run = _opened(model, text, n, seed, step)
    task, name = run.task(), run.name_at(step)
    by_label: Any = {"only": [NAME], "settings": {NAME: {"by_label": True}}, "causal": False}
    # One condition alone: the sequences of the re-initialised models and those that answers are lost on are alike.
    inspected = inspect_run(run, n=n, seed=seed, name=name, step=step, conditions=[{}], **by_label)
    if NAME not in inspected:
        raise ValueError(f"{name}: {inspected.left_out.get(NAME, 'its attention patterns cannot be seen')}")
    result = inspected[NAME]
    batch = task.sample(min(n, REMOVED_ON), generator(seed, "heads"), split="test")
    subject, hooked = Subject.of(run.model(step), task, name), run.hooked(step)
    keys = head_roles.role_keys(Capture({}, batch, subject), by_label=True)
    strongest = [(role, head) for role in result.mean.coords["role"] for head in _strongest(result, role, top)]

    at = {ALL: torch.ones_like(batch.loss_mask), **{role: keys[role].any(-1) for role, _ in strongest}}
    removed = sorted({head for _, head in strongest})
    lost = fallen_without(hooked, subject, batch, removed, at).mean()
    ranked = tuple(
        RoleHead(
            role,
            *head,
            share=result.mean.select(role=role, layer=head[0], head=head[1]),
            baseline=_baseline(result, role),
            lost=lost.select(removed=head_in_words(*head), at=ALL),
            lost_there=lost.select(removed=head_in_words(*head), at=role),
        )
        for role, head in strongest
    )
    return Heads(
        name, result, ranked, _right(hooked, batch), len(inspected.sample), len(batch), not isinstance(task, Sequences)
    )


def _opened(model: Any, text: str | Path | None, n: int, seed: int, step: int | None) -> Run:
    """The run, or the model of Hugging Face on a text or on repeated random tokens."""
    if means_run(model):
        if text is not None:
            raise ValueError("a run is measured on sequences of its own task: leave the text out")
        return load_run(model)
    if step is not None:
        raise ValueError("step is of a run's checkpoints; leave it out for a model of Hugging Face")
    from workbench.models.pretrained.loading import loaded
    from workbench.models.pretrained.text_file import file_sequences

    opened = loaded(model)
    name = Path(opened.config.module).name
    if text is not None:
        return HeldRun.of(opened, file_sequences(opened, text, n=n), name)
    length = min(REPEATED, opened.config.n_ctx // 2)
    half = torch.randint(opened.config.d_vocab, (n, length), generator=generator(seed, "repeated tokens"))
    tokens = own_sequences(half.repeat(1, 2), opened.config.d_vocab, words=opened.vocabulary)
    return HeldRun.of(opened, tokens, name)


def _strongest(result: Result, role: str, top: int) -> list[Head]:
    """The heads with most of a role, the strongest first; none where no query has such a key, or it is not told of."""
    shares = result.mean.select(role=role)
    if role in UNTOLD or np.isnan(shares.values).all():
        return []
    order = (-shares.values).argsort(None, "stable")[:top]
    layers, heads = np.unravel_index(order, shares.values.shape)
    return [(int(shares.coords["layer"][i]), int(j)) for i, j in zip(layers, heads, strict=True)]


def _baseline(result: Result, role: str) -> float:
    """The largest share that a head of a re-initialised model has; without such models, one that attends at random."""
    mean = result.controls[UNTRAINED if UNTRAINED in result.controls else "random_graph"].mean.select(role=role)
    return float(np.nanmax(mean.values if mean.high is None else mean.high))


def _right(hooked: Any, batch: Batch) -> float:
    """The share of answers that the model has right."""
    right = correct(edited_logits(hooked, batch.tokens, []).cpu(), batch) == 1
    return float((right & batch.loss_mask).sum() / batch.loss_mask.sum())
