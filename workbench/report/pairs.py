"""The pairs on which a model is asked: those of a run's task; of a model of Hugging Face, of a file or a prompt set."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from workbench.circuits import Comparison
from workbench.circuits.pairs_file import read_pairs, read_rows
from workbench.circuits.summary import on_pairs
from workbench.judgement.words import patching as words
from workbench.runs import load_run, means_run
from workbench.tasks import Batch
from workbench.tasks.prompt_sets import Prompts, named, prompt_set
from workbench.util.messages import Notice

PAIRS = 64

Words = Callable[[Tensor], Sequence[str]]
"""The words of token ids."""


@dataclass(frozen=True)
class Answers:
    """How a model answers the prompts of pairs before anything is edited, in counts.

    Attributes:
        kind: the prompt set, or the name of the file.
        n: pairs.
        preferred: clean prompts after which the right token has a larger logit than the wrong one.
        likeliest: those after which a right token is the likeliest of all.
        preferred_after, likeliest_after: the same of the corrupted prompts; None where both tokens are right there.
        notes: what is to be said of the set with this tokenizer.
    """

    kind: str
    n: int
    preferred: int
    likeliest: int
    preferred_after: int | None
    likeliest_after: int | None
    notes: tuple[str, ...] = ()

    @property
    def says(self) -> str:
        """The counts, and whether they are more than guessing."""
        after = (self.preferred_after, self.likeliest_after)
        return words.of_answers(self.kind, self.n, (self.preferred, self.likeliest), after, self.notes)

    @staticmethod
    def of(comparison: Comparison, drawn: Prompts | None) -> Answers:
        """Those of a model to the pairs of a file, or of a prompt set."""
        pairs = comparison.pairs
        only = [frozenset([token]) for token in pairs.right[pairs.asked].tolist()]
        clean = _counted(comparison, pairs.clean, pairs.wrong, only if drawn is None else drawn.right)
        after: tuple[int | None, int | None] = (None, None)
        if drawn is None or drawn.made.answers_both:
            only = [frozenset([token]) for token in pairs.wrong[pairs.asked].tolist()]
            after = _counted(comparison, pairs.corrupted, pairs.right, only)
        return Answers(pairs.kind, len(pairs), *clean, *after, () if drawn is None else drawn.notes)


@torch.no_grad()
def _counted(comparison: Comparison, side: Batch, others: Tensor, right: Sequence[frozenset[int]]) -> tuple[int, int]:
    """After how many prompts of one side the target has a larger logit than another, and a right one the largest."""
    preferred = likeliest = 0
    for where, part in comparison.parts():
        asked, tokens = part.asked, side.tokens[where].to(comparison.device)
        logits = comparison.run(tokens, [])[asked]  # [pair, class]
        mine, other = (
            logits.gather(1, targets[where].to(comparison.device)[asked][:, None]) for targets in (side.targets, others)
        )
        preferred += int((mine > other).sum())
        tops = logits.argmax(-1).tolist()
        likeliest += sum(top in tokens for top, tokens in zip(tops, right[where], strict=True))
    return preferred, likeliest


def open_pairs(
    run: Any,
    draws: torch.Generator,
    *,
    kind: str | None,
    pairs: str | Path | None,
    n: int | None,
    later: bool,
    step: int | None,
    seed: int = 0,
    **about: Any,
) -> tuple[Comparison, Comparison | None, Words, Answers | None]:
    """A model on pairs, on control pairs where there are any, the words of its tokens, and how it answers prompts.

    Args:
        run: a run or its folder; with `pairs` a model of Hugging Face: loaded, its folder or file, or its name there.
        draws: draws the pairs of a run.
        kind, n, later, step: of a run: what is changed, by default the task's first kind; how many pairs, by default
            `PAIRS`; whether answers behind the first that changes are asked for; the checkpoint, by default the end.
        pairs, seed: a file of pairs, or the name of a prompt set, of which n are drawn; of a model `kind` may name it.
        about: metric and more of `Comparison`.

    Raises:
        ValueError: if one of these does not exist or does not fit, or there are too few pairs.
    """
    if pairs is None and kind is not None and not means_run(run):
        kind, pairs = (None, kind) if named(kind) else (kind, None)
    if pairs is not None:
        drawn_from = named(pairs)
        of_runs = {"kind": kind, "step": step, "later": later or None, "n": n if drawn_from is None else None}
        if given := next((name for name, value in of_runs.items() if value is not None), None):
            raise ValueError(f"{given} is of a run's own pairs; leave it or pairs out")
        return _of_texts(run, pairs, drawn_from, PAIRS if n is None else n, seed, about)
    opened = load_run(run)
    task, count = opened.task(), PAIRS if n is None else n
    about = {"kind": kind, "later": later, "name": opened.name_at(step), **about}
    comparison, control, why = on_pairs(opened.hooked(step), task, count, draws, **about)
    if control is None:
        warnings.warn(f"no control: {why}", Notice, stacklevel=3)
    return comparison, control, task.words, None


def _of_texts(
    given: Any, pairs: str | Path, drawn_from: str | None, n: int, seed: int, about: Mapping[str, Any]
) -> tuple[Comparison, Comparison | None, Words, Answers]:
    """The same of a model of Hugging Face on the pairs of a file, or on n of a prompt set."""
    from workbench.models.pretrained.loading import loaded

    if means_run(given):
        raise ValueError(f"{given} is a run, whose pairs are those of its own task: leave pairs out")
    if drawn_from is None:
        next(read_rows(Path(pairs)), None)  # a file that cannot be read is said before a model is loaded
    model = loaded(given)
    drawn = None if drawn_from is None else prompt_set(drawn_from, model, n=n, seed=seed)
    of_both = read_pairs(pairs, model) if drawn is None else drawn.pairs
    comparison = Comparison(model.hooked(), of_both, name=model.config.module, **about)
    control = None if drawn is None else comparison.of(drawn.control)
    return comparison, control, model.vocabulary.decode, Answers.of(comparison, drawn)
