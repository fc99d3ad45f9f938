"""Streams of vectors over more sequences than fit in memory, one for each layer, and pairs of one answer.

Which vector of a sequence is measured, and which answer it leads to: two questions with one answer are positives.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, Protocol, TypeVar, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from workbench.capture import Subject, visit
from workbench.instruments.residual.projection import from_embedding
from workbench.instruments.streaming import in_parts
from workbench.measurement import Measurement
from workbench.models import AnyHooked, AnyModel
from workbench.tasks import Batch, Task
from workbench.tasks.split import fingerprints

MOST_WAITING = 4096  # vectors without a partner; the oldest goes where answers are more

At = Literal["first", "last"]


class CannotMeasureError(ValueError):
    """These vectors do not allow what is to be measured: too few have the same answer, or they are not finite."""


@dataclass(frozen=True)
class _AnswerPositions:
    """One answer of every sequence of a batch: where it is asked for, which it is, and a hash of the question.

    Attributes:
        example, position: `[asked]`, the sequence and the scored position whose vector is measured.
        answers: what is right there: a token, or the set of tokens that are right.
        questions: equal for equal questions alone.
    """

    example: Int[Tensor, " asked"]
    position: Int[Tensor, " asked"]
    answers: list[Hashable]
    questions: list[int]

    def rows(self, activation: Float[Tensor, "batch pos d"]) -> Float[Tensor, "asked d"]:
        """The vectors, in float64.

        Raises:
            CannotMeasureError: if they hold NaN or infinity.
        """
        rows = activation[self.example.to(activation.device), self.position.to(activation.device)].double().cpu()
        if not torch.isfinite(rows).all():
            raise CannotMeasureError("representations must be finite; these hold NaN or infinity")
        return rows

    def moved(self, before: _AnswerPositions | None) -> _AnswerPositions:
        """The same vectors, each with answer and question of the sequence before it; the first of all is left out."""
        first = int(before is None)
        answers, questions = (
            ([] if before is None else [getattr(before, name)[-1]]) + getattr(self, name)[:-1]
            for name in ("answers", "questions")
        )
        return _AnswerPositions(self.example[first:], self.position[first:], answers, questions)


def _answer_positions(task: Task, batch: Batch, at: At | None = None) -> _AnswerPositions:
    """The first or the last answer of each sequence.

    Args:
        task: which says where the answer is (not the chain of thought before it), and what the question is.
        batch: its sequences.
        at: `"first"` or `"last"` scored position of the answer. By default the first where a sequence has one answer
            of several tokens, so that all of it is yet to come; the last where each position has its own.

    Raises:
        ValueError: if `at` is neither.
    """
    at = at or ("first" if task.unit == "sequence" else "last")
    if at not in get_args(At):
        raise ValueError(f"the answer is looked at where it is asked for {' or '.join(get_args(At))}, not {at!r}")
    mask = task.answer_mask(batch).cpu()
    last = mask.shape[1] - 1
    position = mask.long().argmax(-1) if at == "first" else last - mask.flip(-1).long().argmax(-1)
    targets = batch.targets.cpu()[torch.arange(len(mask)), position]
    answers: list[Hashable] = (
        targets.tolist() if targets.ndim == 1 else [tuple(row.nonzero().flatten().tolist()) for row in targets]
    )
    return _AnswerPositions(
        torch.arange(len(mask)),
        position,
        answers,
        fingerprints(batch.tokens, task.question_length(batch.tokens)).tolist(),
    )


class _Stream(Protocol):
    """Takes vectors as they come, and keeps no more of them than it needs."""

    def add(self, rows: Float[Tensor, "n d"], answers: Sequence[Hashable], questions: Sequence[int]) -> None:
        """Vectors, with the answer and the question of each."""


S = TypeVar("S", bound=_Stream)


def over_sequences(
    make: Callable[[], S],
    model: AnyHooked | AnyModel,
    subject: Subject,
    batches: Iterable[Batch],
    *,
    points: Sequence[str] | None = None,
    at: At | None = None,
    shuffled: bool = False,
) -> dict[str, S]:
    """One stream for every residual point, which has seen one vector of every sequence.

    Args:
        make: a fresh stream.
        model, subject: the decoder, which is fastest, or its hooked copy; and its facts.
        batches: the sequences. In memory are one batch, one activation of it, and what the streams keep.
        points: hook names, by default the embedding and the residuals.
        at: which answer's vector; see `_answer_positions`.
        shuffled: the null: each vector has the answer of the sequence before it, and the first one is left out.

    Raises:
        ValueError: if there is no batch or no point, or the model has not one of the points.
    """
    points = from_embedding(subject) if points is None else list(points)
    if not points:
        raise ValueError("there is nothing to measure: no hook point was asked for")
    streams = {point: make() for point in points}
    last = None

    def see(point: str, activation: Float[Tensor, "batch pos d"]) -> None:
        if chosen.answers:
            streams[point].add(chosen.rows(activation), chosen.answers, chosen.questions)

    for batch in chain.from_iterable(map(in_parts, batches)):
        own = _answer_positions(subject.task, batch, at)
        chosen, last = own.moved(last) if shuffled else own, own
        visit(model, batch.tokens, points, see)
    if last is None:
        raise ValueError("there is nothing to measure: no batch was given")
    return streams


def where_settings(where: Mapping[str, Any]) -> dict[str, Any]:
    """What of the settings of `over_sequences` decides the numbers, for a measurement's own settings."""
    return {"at": where.get("at"), "shuffled": bool(where.get("shuffled"))}


class PairGroups:
    """A stream that makes groups of `pairs` pairs, each pair with an answer of its own, and measures each full group.

    Two vectors of one answer in a group would be each other's negatives, so a vector whose answer the open group
    already has is passed over. Every vector is in one pair at most. In memory are the open group and one vector for
    each answer that waits for its partner.

    Args:
        pairs: how many pairs a group has.
        measure: the number of a full group, from one vector of each pair and the other, `[pair, d]`.
    """

    def __init__(self, pairs: int, measure: Callable[[Tensor, Tensor], float]) -> None:
        if pairs < 2:
            raise ValueError(f"a pair is compared with other pairs of its group: pairs must be 2 or more, not {pairs}")
        self.pairs, self.measure = pairs, measure
        self.values: list[float] = []  # of each full group
        self._waiting: dict[Hashable, tuple[Tensor, int]] = {}
        self._open: dict[Hashable, tuple[Tensor, Tensor]] = {}

    def add(self, rows: Float[Tensor, "n d"], answers: Sequence[Hashable], questions: Sequence[int]) -> None:
        """Rows with their answers and questions."""
        for row, answer, question in zip(rows, answers, questions, strict=True):
            if answer in self._open:
                continue
            first = self._waiting.get(answer)
            if first is None:
                if len(self._waiting) == MOST_WAITING:
                    del self._waiting[next(iter(self._waiting))]
                self._waiting[answer] = (row.clone(), question)
            elif first[1] != question:
                del self._waiting[answer]
                self._open[answer] = (first[0], row.clone())
            if len(self._open) == self.pairs:
                a, b = map(torch.stack, zip(*self._open.values(), strict=True))
                self.values.append(self.measure(a, b))
                self._open = {}

    def why_none(self) -> str:
        """Why no group was full, in one line."""
        return (
            f"no group of {self.pairs} pairs was full: {len(self._open)} answers came with two questions; "
            "give more sequences, or ask for fewer pairs"
        )


def unit_pairs(a: Float[Tensor, "pair d"], b: Float[Tensor, "pair d"], centre: bool) -> tuple[Tensor, Tensor]:
    """Both sides in float64, less the mean of all their rows if `centre`, then of length 1; a zero row stays zero."""
    both = torch.cat([a, b]).double()
    both = both - both.mean(0) if centre else both
    length = both.norm(dim=-1, keepdim=True)
    both = both / torch.where(length > 0, length, 1.0)
    return both[: len(a)], both[len(a) :]


def over_groups(
    name: str, streams: Mapping[str, PairGroups], settings: Mapping[str, object], caption: str
) -> Measurement:
    """The mean over groups of pairs in nats, with its interval over them: dim `layer`.

    Raises:
        CannotMeasureError: if there was no full group.
    """
    values = torch.tensor([stream.values for stream in streams.values()], dtype=torch.float64)  # [layer, group]
    if not values.shape[1]:
        raise CannotMeasureError(next(iter(streams.values())).why_none())
    return Measurement(
        name=name,
        values=values.numpy(),
        dims=("layer", "group"),
        coords={"layer": list(streams)},
        units="nats",
        settings={**settings, "groups": values.shape[1]},
        caption=caption,
    ).mean("group")
