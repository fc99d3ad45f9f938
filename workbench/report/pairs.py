"""The pairs on which a model is asked: those of a run's task, or those of a file, of a model of Hugging Face."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from workbench.circuits import Comparison
from workbench.circuits.pairs_file import read_pairs, read_rows
from workbench.circuits.summary import on_pairs
from workbench.runs import Run, load_run
from workbench.util.files import is_run
from workbench.util.messages import Notice

PAIRS = 64

Words = Callable[[Tensor], Sequence[str]]
"""The words of token ids."""


def open_pairs(
    run: Any,
    draws: torch.Generator,
    *,
    kind: str | None,
    pairs: str | Path | None,
    n: int | None,
    later: bool,
    step: int | None,
    **about: Any,
) -> tuple[Comparison, Comparison | None, Words]:
    """A model on pairs, on control pairs where there are any, and the words of its tokens.

    Args:
        run: a run or its folder; with `pairs` a model of Hugging Face: loaded, its folder or file, or its name there.
        draws: draws the pairs of a run.
        kind, n, later, step: of a run: what is changed, by default the task's first kind; how many pairs, by default
            `PAIRS`; whether answers behind the first that changes are asked for; the checkpoint, by default the end.
        pairs: a file of pairs.
        about: metric and more of `Comparison`.

    Raises:
        ValueError: if one of these does not exist or does not fit, or there are too few pairs.
    """
    of_runs = {"kind": kind, "n": n, "step": step, "later": later or None}
    if pairs is not None:
        if given := next((name for name, value in of_runs.items() if value is not None), None):
            raise ValueError(f"{given} is of a run's own pairs; leave it or pairs out")
        from workbench.models.pretrained import Pretrained, load_model

        if isinstance(run, Run) or (isinstance(run, str | Path) and is_run(Path(run))):
            raise ValueError(f"{run} is a run, whose pairs are those of its own task: leave the file of pairs out")
        next(read_rows(Path(pairs)), None)  # a file that cannot be read is said before a model is loaded
        model = run if isinstance(run, Pretrained) else load_model(run, progress=False)
        comparison = Comparison(model.hooked(), read_pairs(pairs, model), name=model.config.module, **about)
        return comparison, None, model.vocabulary.decode
    opened = load_run(run)
    task, count = opened.task(), PAIRS if n is None else n
    about = {"kind": kind, "later": later, "name": opened.name_at(step), **about}
    comparison, control, why = on_pairs(opened.hooked(step), task, count, draws, **about)
    if control is None:
        warnings.warn(f"no control: {why}", Notice, stacklevel=3)
    return comparison, control, task.words
