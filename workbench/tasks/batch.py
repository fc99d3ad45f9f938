"""What a task makes: a `Batch` to learn from, and the `Truth` about it that the model never sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

Tokens = Int[Tensor, "batch pos"]


@dataclass(frozen=True)
class Batch:
    """What training sees, and nothing else.

    Attributes:
        tokens: `[batch, pos]`, int64, padded on the right where lengths differ.
        targets: what the logits at each position should predict. `[batch, pos]` int64 holds one class;
            `[batch, pos, class]` bool holds a set of classes. Already shifted: position t's target is at t.
        loss_mask: `[batch, pos]` bool, true where a position is scored.
        head: the output head that predicts the targets.
        start: the position at which each sequence begins, where training shifts them; by default all begin at 0.
    """

    tokens: Int[Tensor, "batch pos"]
    targets: Tensor
    loss_mask: Bool[Tensor, "batch pos"]
    head: str = "main"
    start: Int[Tensor, " batch"] | None = None

    def __len__(self) -> int:
        return self.tokens.shape[0]

    def to(self, device: torch.device | str) -> Batch:
        """The batch on a device. To a GPU it goes from pinned memory, so that nobody waits for the copy."""
        device = torch.device(device)

        def sent(x: Tensor) -> Tensor:
            pinned = device.type == "cuda" and x.device.type == "cpu"
            return x.pin_memory().to(device, non_blocking=True) if pinned else x.to(device)

        start = None if self.start is None else sent(self.start)
        return Batch(sent(self.tokens), sent(self.targets), sent(self.loss_mask), self.head, start)

    def __getitem__(self, index: slice | Tensor) -> Batch:
        start = None if self.start is None else self.start[index]
        return Batch(self.tokens[index], self.targets[index], self.loss_mask[index], self.head, start)

    @staticmethod
    def next_token(
        tokens: Int[Tensor, "batch pos"], start: Int[Tensor, " batch"] | int, end: Int[Tensor, " batch"] | int
    ) -> Batch:
        """Sequences whose targets are their next tokens, scored from position `start` up to, not including, `end`."""
        position = torch.arange(tokens.shape[1])
        first, last = (torch.as_tensor(bound).reshape(-1, 1) for bound in (start, end))
        scored = ((position >= first) & (position < last)).expand_as(tokens)
        return Batch(tokens, torch.where(scored, tokens.roll(-1, dims=1), 0), scored)

    @staticmethod
    def cat(parts: Sequence[Batch], pad: int) -> Batch:
        """Batches concatenated along the batch; shorter ones are padded with the token `pad` on the right."""
        width = max(part.tokens.shape[1] for part in parts)

        def column(name: str, fill: int) -> Tensor:
            tensors = [getattr(part, name) for part in parts]
            gaps = [width - tensor.shape[1] for tensor in tensors]
            padded = [
                nn.functional.pad(tensor, (*(0, 0) * (tensor.ndim - 2), 0, gap), value=fill) if gap else tensor
                for tensor, gap in zip(tensors, gaps, strict=True)
            ]
            return torch.cat(padded)

        return Batch(column("tokens", pad), column("targets", 0), column("loss_mask", False), parts[0].head)


def before_padding(tokens: Int[Tensor, "batch pos"], pad: int) -> Bool[Tensor, "batch pos"]:
    """Whether each token is real: before the padding with the token `pad` on the right of its sequence."""
    return (tokens != pad).flip(1).cumsum(1).flip(1) > 0


def after_mark(written: Int[Tensor, "batch new"], mark: int, which: Int[Tensor, " batch"]) -> Int[Tensor, " batch"]:
    """How many tokens come up to and with an occurrence of a mark; all of them if it does not occur so often.

    Args:
        written: what was written.
        mark: the token.
        which: of each sequence the occurrence, counted from 1; 0 is before the first token.
    """
    seen = (written == mark).cumsum(1)
    before = (seen < which[:, None]).sum(1)
    return torch.where(which == 0, 0, (before + 1).clamp(max=written.shape[1]))


@dataclass(frozen=True)
class Truth:
    """What is true of a batch's sequences: overlays, mechanism scores and probes read it, the model never does.

    Attributes:
        edges: `[edge, 4]` int64, one row `(example, hop, query position, key position)` per gold edge: the key
            holds what the query needs, `hop` (1, 2, ...) steps away. Empty where the task has no graph.
        labels: name -> `[batch, pos]` int64, −1 where the label means nothing. The task's docstring says what each
            name means, and whether its values are token ids.
        arrays: name -> truth of any other shape, first dim batch (the contents of boxes, the sums of a
            multiplication). The task's docstring gives the shapes.
    """

    edges: Int[Tensor, "edge 4"] = field(default_factory=lambda: torch.zeros(0, 4, dtype=torch.long))
    labels: dict[str, Int[Tensor, "batch pos"]] = field(default_factory=dict)
    arrays: dict[str, Tensor] = field(default_factory=dict)

    @property
    def n_hops(self) -> int:
        """The largest hop of any gold edge; 0 if there is none."""
        return int(self.edges[:, 1].max()) if len(self.edges) else 0

    def adjacency(self, batch: int, pos: int, hop: int | None = None) -> Bool[Tensor, "batch pos pos"]:
        """Gold edges as a dense mask `[batch, query, key]`; of one hop, or of all hops together."""
        rows = self.edges if hop is None else self.edges[self.edges[:, 1] == hop]
        dense = torch.zeros(batch, pos, pos, dtype=torch.bool)
        dense[rows[:, 0], rows[:, 2], rows[:, 3]] = True
        return dense
