"""What a task is: sequences to learn from (`Batch`), and the truth about them that the model never sees (`Truth`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from workbench.tasks.split import SPLITS, TEST_ONE_IN, Split, is_test
from workbench.util.checked import Checked
from workbench.util.lookup import lookup
from workbench.util.memory import check_memory
from workbench.util.ties import exactly, hit, level, on_top

MAX_ROUNDS = 64
LONGEST = 2**16  # tokens, symbols, numbers: a setting decides how much a task makes at once


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

    def __getitem__(self, index: slice | Tensor) -> Batch:
        return Batch(self.tokens[index], self.targets[index], self.loss_mask[index], self.head)

    @staticmethod
    def next_token(
        tokens: Int[Tensor, "batch pos"], start: Int[Tensor, " batch"] | int, end: Int[Tensor, " batch"] | int
    ) -> Batch:
        """Sequences whose targets are their own next tokens, scored from position `start` up to `end`, left out."""
        position = torch.arange(tokens.shape[1])
        first, last = (torch.as_tensor(bound).reshape(-1, 1) for bound in (start, end))
        scored = ((position >= first) & (position < last)).expand_as(tokens)
        return Batch(tokens, torch.where(scored, tokens.roll(-1, dims=1), 0), scored)

    @staticmethod
    def cat(parts: Sequence[Batch], pad: int) -> Batch:
        """Batches one below the other, the shorter ones padded with the token `pad` on the right."""
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
    def ids(self) -> dict[str, int]:
        """The id of each word."""
        return {word: i for i, word in enumerate(self.words)}

    def id(self, word: str) -> int:
        """The id of one word.

        Raises:
            ValueError: if the word is not in the vocabulary; the message shows what is.
        """
        if word not in self.ids:
            shown = " ".join(self.words[:12]) + (" …" if len(self) > 12 else "")
            raise ValueError(f"token {word!r} is not in the vocabulary of {len(self)} tokens: {shown}")
        return self.ids[word]

    def encode(self, text: str | Iterable[str]) -> list[int]:
        """Ids of whitespace-separated words. Raises ValueError as `id` does."""
        return [self.id(word) for word in (text.split() if isinstance(text, str) else text)]

    def decode(self, ids: Sequence[int] | Tensor) -> list[str]:
        return [self.words[int(i)] for i in ids]


class Task(Checked, ABC):
    """A task: its fields are its settings (frozen; an unknown one is an error), its methods make the data.

    To add one: subclass in a file of its own under `workbench/tasks/` and add one entry to `TASKS`.
    """

    name: ClassVar[str]
    """The task's entry in `TASKS`."""
    summary: ClassVar[str]
    """One line for people: what is given, what is asked."""
    group: ClassVar[str]
    """What accuracy is broken down by (`depth`, `length`, `digit`)."""
    former_groups: ClassVar[dict[str, str]] = {}
    """Group -> what it was called in the logs of runs trained before it was renamed."""
    unit: ClassVar[Literal["sequence", "position"]]
    """What counts as one answer: a whole sequence, or each scored position."""
    token_labels: ClassVar[tuple[str, ...]] = ()
    """The labels of the truth whose values are token ids."""
    files: ClassVar[tuple[str, ...]] = ()
    """Settings that name files on this machine."""

    @property
    @abstractmethod
    def vocabulary(self) -> Vocabulary: ...

    @property
    @abstractmethod
    def n_ctx(self) -> int:
        """The longest sequence this task makes, in tokens."""

    @property
    def group_label(self) -> str:
        """The label of the truth that says in which group an answer is; by default it has the group's name."""
        return self.group

    @property
    def heads(self) -> dict[str, int]:
        """Extra output heads beside `main`, each with an auxiliary task (a hint): name -> number of classes."""
        return {}

    @property
    def bytes_each(self) -> int:
        """Memory that drawing one sequence takes, at least: its tokens, targets and mask."""
        return 17 * self.n_ctx

    @property
    def conditions(self) -> tuple[dict[str, Any], ...]:
        """Keyword arguments for `sample` that make this task's test sets, one set each."""
        return ({},)

    def sample(
        self,
        n: int,
        generator: torch.Generator,
        *,
        split: Split | None = None,
        head: str = "main",
        **condition: Any,
    ) -> Batch:
        """Draw n sequences from `generator` alone.

        Args:
            n: how many.
            generator: the only source of chance.
            split: draw from this side of the split alone; by default from both. Which side an example is on is decided
                by a fingerprint of its question (`asked`), so no example is ever on both.
            head: the output head whose task to draw: `main`, or one of `heads`.
            condition: narrows the draw (see `conditions`).

        Raises:
            ValueError: if there is no such head, split or condition, if they cannot be met together, or if so many
                do not fit in memory.
        """
        if n < 1:
            raise ValueError(f"n must be at least 1, not {n}")
        if head != "main":
            lookup(self.heads, head, f"{self.name} hint")
        share = {"train": 1 - 1 / TEST_ONE_IN, "test": 1 / TEST_ONE_IN}.get(split or "", 1.0)
        check_memory(int(n / share) * self.bytes_each, f"drawing {n:,} sequences of {self.name}")
        if split is None:
            return replace(self.draw(n, generator, head=head, **condition), head=head)
        if split not in SPLITS:
            raise ValueError(f"unknown split {split!r}; there is: {', '.join(SPLITS)}")
        parts: list[Batch] = []
        for _ in range(MAX_ROUNDS):
            missing = n - sum(map(len, parts))
            if missing <= 0:
                break
            drawn = self.draw(int(missing / share * 1.1) + 8, generator, head=head, **condition)
            parts.append(drawn[self.is_test(drawn.tokens) == (split == "test")][:missing])
        else:
            given = "".join(f", {name}={value}" for name, value in condition.items())
            raise ValueError(f"{self.name} has hardly any {split} example{given}; ask for larger ones")
        batch = parts[0] if len(parts) == 1 else Batch.cat(parts, self.pad)
        if self.pad < 0:
            return replace(batch, head=head)
        width = int(self.lengths(batch.tokens).max())
        return Batch(batch.tokens[:, :width], batch.targets[:, :width], batch.loss_mask[:, :width], head)

    @abstractmethod
    def draw(self, n: int, generator: torch.Generator, *, head: str = "main", **condition: Any) -> Batch:
        """Draw n sequences of either side of the split; what `sample` draws from.

        Raises:
            ValueError: if the task has no such condition, or the condition cannot be met.
        """

    def refuse(self, condition: dict[str, Any], *known: str) -> None:
        """For `draw`: raise ValueError, naming the `known` ones, if any other condition is left."""
        if condition:
            there_is = ", ".join(known) or "none"
            raise ValueError(f"{self.name} has no condition {next(iter(condition))!r}; there is: {there_is}")

    def asked(self, tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, " batch"]:
        """How many leading tokens of each sequence are its question; by default all."""
        return self.lengths(tokens)

    def is_test(self, tokens: Int[Tensor, "batch pos"]) -> Bool[Tensor, " batch"]:
        """Whether each sequence belongs to the test set; what is answered, and how, has no say."""
        return is_test(tokens, self.asked(tokens))

    @abstractmethod
    def truth(self, tokens: Int[Tensor, "batch pos"]) -> Truth:
        """The truth about these sequences, computed from the tokens alone. Positions after an input's end
        (padding) carry no label and no edge.
        """

    def states(self, tokens: Int[Tensor, " pos"]) -> dict[str, list[tuple[int, int, str]]]:
        """What holds over stretches of one sequence, in words for people: row -> (first position, last, words).

        By default nothing; a task whose truth is a state that changes (the contents of boxes) says it here.
        """
        return {}

    @abstractmethod
    def parse(self, text: str) -> Batch:
        """One example from what a person types, in the task's own words; the answer is filled in.

        Raises:
            ValueError: if the text is not an input of this task; the message says what was expected.
        """

    def question(self, tokens: Int[Tensor, " pos"]) -> str:
        """What `parse` reads back into this sequence: what is asked, in the task's own words, without the answer."""
        return " ".join(self.words(tokens[: int(self.asked(tokens[None]))]))

    def lengths(self, tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, " batch"]:
        """The number of real tokens of each sequence: what comes before the padding on its right."""
        if self.pad < 0:
            return torch.full(tokens.shape[:1], tokens.shape[1], device=tokens.device)
        real = (tokens != self.pad).long()
        return (real * torch.arange(1, tokens.shape[1] + 1, device=tokens.device)).amax(-1)

    @property
    def pad(self) -> int:
        """The id of the padding token; −1, which no token is, where all sequences have one length."""
        return self.vocabulary.ids.get("PAD", -1)

    @property
    @abstractmethod
    def groups(self) -> tuple[int, ...]:
        """The values of `group` by which accuracy is broken down."""

    def accuracy_by_group(
        self, logits: Float[Tensor, "batch pos class"], batch: Batch, truth: Truth
    ) -> Float[Tensor, "batch group"]:
        """How right each example is in each of `groups`, in [0, 1]; NaN where the example has no answer there.

        Counting positions, it is the mean over the scored positions of a group; counting sequences, it is 1 where the
        whole sequence is right (see `whole`), at the sequence's group.
        """
        label = truth.labels[self.group_label]
        member = torch.stack([(label == value) & batch.loss_mask for value in self.groups], dim=-1)
        if self.unit == "sequence":
            return torch.where(member.any(1), whole(logits, batch)[:, None], torch.nan)
        return (correct(logits, batch).unsqueeze(-1) * member).sum(1) / member.sum(1)

    def words(self, tokens: Int[Tensor, " pos"]) -> list[str]:
        """The tokens of one sequence as people read them."""
        return self.vocabulary.decode(tokens)


def correct(logits: Float[Tensor, "batch pos class"], batch: Batch) -> Float[Tensor, "batch pos"]:
    """How right each scored position is, in [0, 1]; 0 where the loss mask is false.

    One class: whether it has the largest logit. A set of m classes: the share of the set found among the m largest
    logits, which is the reading of the pointer-chain accuracy nearest to Table 1 of the ChaCAL paper. Level logits are
    put in random order: a class that shares the top with k − 1 others counts 1/k (`workbench.util.ties`).
    """
    if batch.targets.ndim == 2:
        return torch.where(batch.loss_mask, hit(logits, batch.targets), 0.0)
    size = batch.targets.sum(-1)
    found = (on_top(logits, size) * batch.targets).sum(-1)
    return torch.where(batch.loss_mask, found / size.clamp(min=1), 0.0)


def whole(logits: Float[Tensor, "batch pos class"], batch: Batch) -> Float[Tensor, " batch"]:
    """Whether every scored position of each sequence is right, its whole set where one is asked for: 1 or 0.

    With ties it is the product of what its positions count, which is how often all come out right together when each
    position's ties are broken on their own: the same rule as for one position, so that neither can look better by it.
    """
    right = hit(logits, batch.targets) if batch.targets.ndim == 2 else exactly(logits, batch.targets)
    return torch.where(batch.loss_mask, right, 1.0).prod(-1)


def said(logits: Float[Tensor, "*lead class"], targets: Tensor) -> Bool[Tensor, "*lead class"]:
    """Which classes a model may say: the likeliest; where a set is asked for, as many of the likeliest as it has.

    Of classes that tie for the last places all are named, so that what is said changes with a tie made or broken.
    """
    return level(logits) if targets.ndim < logits.ndim else on_top(logits, targets.sum(-1)) > 0
