"""`over_sequences`: streams of vectors, one for each layer, over more sequences than fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from jaxtyping import Float
from torch import Tensor

from workbench.capture import Subject, visit
from workbench.instruments.residual.projection import from_embedding
from workbench.instruments.sets.answers import Asked, At, asked
from workbench.instruments.streaming import in_parts
from workbench.models import AnyModel
from workbench.tasks import Batch

if TYPE_CHECKING:
    from workbench.models.hooked import AnyHooked


class Stream(Protocol):
    """Takes vectors as they come, and keeps no more of them than it needs."""

    def add(self, rows: Float[Tensor, "n d"], answers: Sequence[Hashable], questions: Sequence[int]) -> None:
        """Vectors, with the answer and the question of each."""


S = TypeVar("S", bound=Stream)


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

    In memory are one batch, one activation of it, and what the streams keep.

    Args:
        make: a fresh stream.
        model: the decoder, which is fastest, or its hooked copy.
        subject: the model's facts.
        batches: the sequences; an iterator is drawn from one batch at a time.
        points: hook names, by default the embedding and the residuals.
        at: which answer's vector; see `asked`.
        shuffled: the null: each vector has the answer of the sequence before it, and the first one is left out.

    Raises:
        ValueError: if there is no batch or no point, or the model has not one of the points.
    """
    points = from_embedding(subject) if points is None else list(points)
    if not points:
        raise ValueError("there is nothing to measure: no hook point was asked for")
    streams = {point: make() for point in points}
    last = None
    for batch in chain.from_iterable(map(in_parts, batches)):
        own = asked(subject.task, batch, at)
        seen, last = (own.moved(last), own) if shuffled else (own, own)
        visit(model, batch.tokens, points, partial(_add, streams, seen))
    if last is None:
        raise ValueError("there is nothing to measure: no batch was given")
    return streams


def _add(streams: Mapping[str, Stream], seen: Asked, point: str, activation: Float[Tensor, "batch pos d"]) -> None:
    """Give one layer's stream the vectors of a batch, with answers and questions."""
    if seen.answers:
        streams[point].add(seen.rows(activation), seen.answers, seen.questions)


def where_settings(where: Mapping[str, Any]) -> dict[str, Any]:
    """What of the settings of `over_sequences` decides the numbers, for a measurement's own settings."""
    return {"at": where.get("at"), "shuffled": bool(where.get("shuffled"))}
