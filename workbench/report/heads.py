"""Every head of a model by its role: what it attends to, beside re-initialised models, and what is lost without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from workbench import figures
from workbench.capture import Subject
from workbench.inspection import inspect_run
from workbench.inspection.baseline_models import Model
from workbench.inspection.head_claims import RoleHead, judged_heads
from workbench.inspection.result import Result
from workbench.inspection.uninformed_heads import Prompted, answered
from workbench.judgement.against_controls import Against
from workbench.judgement.claim import JudgedClaim
from workbench.judgement.words import claims as claim_words
from workbench.judgement.words import heads as words
from workbench.measurement import Measurement
from workbench.runs import HeldRun, Run, load_run, means_run
from workbench.tasks import Sequences, own_sequences
from workbench.tasks.prompt_sets import FEWEST, named, prompt_set
from workbench.util.seeds import generator
from workbench.util.settings import as_json
from workbench.util.words import as_it_says

REPEATED = 32  # random tokens, each of which comes twice
REMOVED_ON = 64  # sequences
NAME = "head_roles"
UNTOLD = ("gold recall", "own position")  # the first has the keys of gold precision


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
        prompts: whether these are the prompts of a set.
    """

    name: str
    roles: Result
    strongest: tuple[RoleHead, ...]
    right: float
    n: int
    removed_on: int
    others: bool
    prompts: bool = False
    __repr__ = as_it_says

    @property
    def says(self) -> str:
        """The strongest heads of each role beyond their controls, the best of each judged, and the roles of none."""
        unknown = (None, Against.TOO_FEW)  # where Ctrl-C has left too few models to hold it against
        shown = [each for each in self.strongest if each.is_more or each.judgement.against in unknown]
        rows = [
            (
                _in_words(each.role),
                f"{each.layer}.{each.head}",
                _share(each.share),
                each.baseline,
                _share(each.lost),
                _share(each.lost_there),
            )
            for each in shown
        ]
        mean = self.roles.mean
        n_heads = len(mean.coords["layer"]) * len(mean.coords["head"])
        lines = [words.of_sample(self.n, n_heads, self.removed_on, self.right, self.others), ""]
        lines += [*words.of_roles(rows, self.prompts), ""] if rows else []
        best: dict[str, RoleHead] = {}
        for each in shown:
            best.setdefault(each.role, each)
        for each in best.values():
            (first, *below), *_ = claim_words.lines(JudgedClaim(places=(each.judgement,)))
            below += [] if each.pairs is None else [words.of_pairs(*each.pairs)]
            lines += [first.replace("Gold precision", "The task's true edges"), *(f"  {line}" for line in below)]
        absent = [_in_words(role) for role in dict.fromkeys(each.role for each in self.strongest) if role not in best]
        lines += [words.of_absent(absent)] if absent else []
        return "\n".join([*lines, words.NOT_SHOWN, *([] if self.others else [words.BY_PROBABILITY])])

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
                "judgement": each.judgement.model_dump(mode="json"),
                "pairs": None if each.pairs is None else [float(m.values) for m in each.pairs],
            }
            for each in self.strongest
        ]
        counts = {"n": self.n, "removed_on": self.removed_on, "right": self.right}
        about = {"format": "heads/1", "model": self.name, **counts}
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


def _in_words(role: str) -> str:
    return role.replace("gold precision", "the task's true edges")


def _share(m: Measurement) -> words.Share:
    return (float(m.values), *m.ends)


def heads(
    model: Any, *, text: str | Path | None = None, n: int = 128, top: int = 2, step: int | None = None, seed: int = 0
) -> Heads:
    """Rank every head of a model by its roles, beside re-initialised models, and remove the strongest one by one.

    Args:
        model: a run or its folder; or a model of Hugging Face: loaded, its folder or file, or its name on the hub.
        text: of a model of Hugging Face: a text file in UTF-8, or the name of a prompt set, whose slots are roles too
            (`reads S2`); by default it is given random tokens that come twice.
        n: sequences; of a run as it was trained on, held out.
        top: how many of the strongest heads of each role are removed.
        step, seed: of a run's checkpoint, by default the end; of the sequences.

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
    bare: Any = run.model(step)  # of a prompt set a pretrained one
    batch = task.sample(min(n, REMOVED_ON), generator(seed, "heads"), split="test")
    own = Model(Subject.of(bare, task, name), None, run.hooked(step))
    prompted = None
    if (set_of_prompts := None if text is None else named(text)) is not None:
        drawn = prompt_set(set_of_prompts, bare, n=max(len(batch), FEWEST), seed=seed)
        prompted = Prompted(drawn.pairs, drawn.control, drawn.made.key)
    shares = {role: result.examples.select(role=role) for role in result.mean.coords["role"] if role not in UNTOLD}
    about: Any = {"top": top, "seeds": (seed, run.config.seed)}
    ranked = judged_heads(own, batch, shares, result.controls, prompted, **about)
    right, others = answered(own.hooked, batch)[0].sum() / batch.loss_mask.sum(), not isinstance(task, Sequences)
    return Heads(name, result, ranked, float(right), len(inspected.sample), len(batch), others, prompted is not None)


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
