"""`PairGroups`: pairs of vectors of different questions with the same answer, in groups of different answers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.instruments.sets.answers import CannotMeasureError
from workbench.measurement import Measurement

MOST_WAITING = 4096  # vectors without a partner; the oldest goes where answers are more


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
