"""What a task is: sequences to learn from (`Batch`), and the truth about them that the model never sees (`Truth`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import BaseModel, ConfigDict
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """What training sees, and nothing else.

    Attributes:
        tokens: `[batch, pos]`, int64, padded on the right where lengths differ.
        targets: what the logits at each position should predict. `[batch, pos]` int64 holds one class;
            `[batch, pos, class]` bool holds a set of classes. Already shifted: position t's target is at t.
        loss_mask: `[batch, pos]` bool, true where a position is scored.
        head: the output head that predicts the targets.
    """

    tokens: Int[Tensor, "batch pos"]
    targets: Tensor
    loss_mask: Bool[Tensor, "batch pos"]
    head: str = "main"

    def __len__(self) -> int:
        return self.tokens.shape[0]

    def to(self, device: torch.device | str) -> Batch:
        return Batch(self.tokens.to(device), self.targets.to(device), self.loss_mask.to(device), self.head)

    def __getitem__(self, index: slice) -> Batch:
        return Batch(self.tokens[index], self.targets[index], self.loss_mask[index], self.head)


@dataclass(frozen=True)
class Truth:
    """What is true of a batch's sequences: overlays, mechanism scores and probes read it, the model never does.

    Attributes:
        edges: `[edge, 4]` int64, one row `(example, hop, query position, key position)` per gold edge: the key
            holds what the query needs, `hop` (1, 2, ...) steps away. Empty where the task has no graph.
        labels: name -> `[batch, pos]` int64, −1 where the label means nothing. The task's docstring says what each
            name means, and whether its values are token ids.
    """

    edges: Int[Tensor, "edge 4"] = field(default_factory=lambda: torch.zeros(0, 4, dtype=torch.long))
    labels: dict[str, Int[Tensor, "batch pos"]] = field(default_factory=dict)

    @property
    def n_hops(self) -> int:
        return int(self.edges[:, 1].max()) if len(self.edges) else 0

    def adjacency(self, batch: int, pos: int, hop: int | None = None) -> Bool[Tensor, "batch pos pos"]:
        """Gold edges as a dense mask `[batch, query, key]`; of one hop, or of all hops together."""
        rows = self.edges if hop is None else self.edges[self.edges[:, 1] == hop]
        dense = torch.zeros(batch, pos, pos, dtype=torch.bool)
        dense[rows[:, 0], rows[:, 2], rows[:, 3]] = True
        return dense


@dataclass(frozen=True)
class Vocabulary:
    """Token ids and the words people read for them; id i is `words[i]`."""

    words: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    def id(self, word: str) -> int:
        """The id of one word.

        Raises:
            ValueError: if the word is not in the vocabulary; the message shows what is.
        """
        if word not in self._ids:
            shown = " ".join(self.words[:12]) + (" …" if len(self) > 12 else "")
            raise ValueError(f"token {word!r} is not in the vocabulary of {len(self)} tokens: {shown}")
        return self._ids[word]

    def encode(self, text: str | Iterable[str]) -> list[int]:
        """Ids of whitespace-separated words. Raises ValueError as `id` does."""
        return [self.id(word) for word in (text.split() if isinstance(text, str) else text)]

    def decode(self, ids: Sequence[int] | Tensor) -> list[str]:
        return [self.words[int(i)] for i in ids]


class Task(BaseModel, ABC):
    """A task: its fields are its settings (frozen; an unknown one is an error), its methods make the data.

    To add one: subclass in a file of its own under `workbench/tasks/` and add one entry to `TASKS`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: ClassVar[str]
    """The task's entry in `TASKS`."""
    summary: ClassVar[str]
    """One line for people: what is given, what is asked."""
    group: ClassVar[str]
    """The label by which accuracy is broken down (`hop`, `length`, `digit`)."""
    unit: ClassVar[Literal["sequence", "position"]]
    """What counts as one answer: a whole sequence, or each scored position."""

    @property
    @abstractmethod
    def vocabulary(self) -> Vocabulary: ...

    @property
    @abstractmethod
    def n_ctx(self) -> int:
        """The longest sequence this task makes, in tokens."""

    @property
    def heads(self) -> dict[str, int]:
        """Extra output heads beside `main`: name -> number of classes."""
        return {}

    @property
    def conditions(self) -> tuple[dict[str, Any], ...]:
        """Keyword arguments for `sample` that make this task's test sets, one set each."""
        return ({},)

    @abstractmethod
    def sample(self, n: int, generator: torch.Generator, **condition: Any) -> Batch:
        """Draw n sequences from `generator` alone. `condition` narrows the draw (see `conditions`).

        Raises:
            ValueError: if the task has no such condition, or the condition cannot be met.
        """

    def refuse(self, condition: dict[str, Any], *known: str) -> None:
        """For `sample`: raise ValueError, naming the `known` ones, if any other condition is left."""
        if condition:
            there_is = ", ".join(known) or "none"
            raise ValueError(f"{self.name} has no condition {next(iter(condition))!r}; there is: {there_is}")

    @abstractmethod
    def truth(self, tokens: Int[Tensor, "batch pos"]) -> Truth:
        """The truth about these sequences, computed from the tokens alone. Positions after an input's end
        (padding) carry no label and no edge.
        """

    @abstractmethod
    def parse(self, text: str) -> Batch:
        """One example from what a person types, in the task's own words; the answer is filled in.

        Raises:
            ValueError: if the text is not an input of this task; the message says what was expected.
        """

    def question(self, tokens: Int[Tensor, " pos"]) -> str:
        """What `parse` reads back into this sequence: what is asked, in the task's own words, without the answer."""
        return " ".join(self.words(tokens[: int(self.lengths(tokens[None]))]))

    def lengths(self, tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, " batch"]:
        """The number of real tokens of each sequence: what comes before the padding on its right."""
        if "PAD" not in self.vocabulary.words:
            return torch.full((len(tokens),), tokens.shape[1])
        real = (tokens != self.vocabulary.id("PAD")).long()
        return (real * torch.arange(1, tokens.shape[1] + 1, device=tokens.device)).amax(-1)

    @property
    @abstractmethod
    def groups(self) -> tuple[int, ...]:
        """The values of the label `group` by which accuracy is broken down."""

    def accuracy_by_group(
        self, logits: Float[Tensor, "batch pos class"], batch: Batch, truth: Truth
    ) -> Float[Tensor, "batch group"]:
        """How right each example is in each of `groups`, in [0, 1]; NaN where the example has no answer there.

        Counting positions, it is the mean over the scored positions of a group; counting sequences, it is 1 where the
        whole sequence is right, at the sequence's group.
        """
        right, label = correct(logits, batch), truth.labels[self.group]
        member = torch.stack([(label == value) & batch.loss_mask for value in self.groups], dim=-1)
        if self.unit == "sequence":
            whole = ((right == 1) | ~batch.loss_mask).all(-1, keepdim=True).float()
            return torch.where(member.any(1), whole, torch.nan)
        return (right.unsqueeze(-1) * member).sum(1) / member.sum(1)

    def words(self, tokens: Int[Tensor, " pos"]) -> list[str]:
        """The tokens of one sequence as people read them."""
        return self.vocabulary.decode(tokens)


def correct(logits: Float[Tensor, "batch pos class"], batch: Batch) -> Float[Tensor, "batch pos"]:
    """How right each scored position is, in [0, 1]; 0 where the loss mask is false.

    One class: whether it has the largest logit. A set of m classes: the share of the set found among the m largest
    logits, which is the reading of the pointer-chain accuracy nearest to Table 1 of the ChaCAL paper.
    """
    if batch.targets.ndim == 2:
        return ((logits.argmax(-1) == batch.targets) & batch.loss_mask).float()
    rank = logits.argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)
    size = batch.targets.sum(-1, keepdim=True)
    found = ((rank < size) & batch.targets).sum(-1)
    return torch.where(batch.loss_mask, found / size.squeeze(-1).clamp(min=1), 0.0)
