"""Methods that say in which subspace of a point a variable lives."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from workbench.benchmark.questions import Answer, Asks, Question
from workbench.circuits.alignment import Search, find_subspace, varying
from workbench.circuits.hypotheses import held
from workbench.util.seeds import generator

FAST = {"steps": 100, "rate": 0.05}  # enough where what varies has few dimensions


def _bases(question: Question, find: Callable[[Tensor, Tensor, int, str], Tensor]) -> Answer | None:
    """An answer from a basis for each point, of as many directions as tell the label's values apart.

    `find` takes what sources hold `[row, d_model]`, their values `[row]`, the rank and the point.
    """
    if question.asks is not Asks.WHERE:
        return None
    assert question.rows is not None
    rows, model = question.rows, question.run.hooked()
    labels = question.run.task().truth(rows.source).labels[question.label]
    values = labels.gather(1, rows.source_at[:, None])[:, 0]
    rank = max(1, len(values.unique()) - 1)
    found = {}
    for point in question.candidates:
        seen = held(model, rows.source, rows.source_at, point)
        found[point] = find(seen, values, rank, point) if _varies(seen) else torch.eye(seen.shape[1], 1)
    return Answer(bases=found)


def _varies(rows: Tensor) -> bool:
    """Whether there is anything to find: where not, any direction will do."""
    return bool((rows - rows.mean(0)).abs().max() > 1e-5)


def mean_difference(question: Question) -> Answer | None:
    """The span of the differences between the means of what holds each value."""

    def find(seen: Tensor, values: Tensor, rank: int, point: str) -> Tensor:
        means = torch.stack([seen[values == value].mean(0) for value in values.unique()])
        return varying(means, 0.999)[:, :rank] if _varies(means) else torch.eye(seen.shape[1], 1)

    return _bases(question, find)


def pca(question: Question) -> Answer | None:
    """The principal components of what is held, whatever it stands for."""
    return _bases(question, lambda seen, values, rank, point: varying(seen, 1 - 1e-6)[:, :rank])


def das(question: Question) -> Answer | None:
    """Distributed alignment search: the subspace whose exchange gives the wanted answers, by gradients."""

    def find(seen: Tensor, values: Tensor, rank: int, point: str) -> Tensor:
        assert question.rows is not None
        draw = generator(question.seed, "das", question.label, point)
        return find_subspace(question.run.hooked(), question.rows, point, Search(rank=rank, **FAST), draw)  # type: ignore[arg-type]

    return _bases(question, find)
