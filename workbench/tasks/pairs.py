"""Minimal pairs: two questions that differ in one thing, and the answers that follow from each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from workbench.tasks.batch import Batch, Tokens, before_padding
from workbench.tasks.split import in_question
from workbench.util.lookup import lookup
from workbench.util.memory import check_memory

if TYPE_CHECKING:
    from workbench.tasks.base import Task

TRIES = 24  # changes of one question that are tried: one in ten is on the test side
ROUNDS = 64  # of drawing, until there are enough pairs
HOPELESS = 400  # questions, none of which has such a change


@dataclass(frozen=True)
class Pairs:
    """Questions, and beside each the same question with one thing changed.

    Questions of a pair have the same length. Answers follow from the task's own rules; where they differ in length, the
    shorter sequence is padded on the right.

    Attributes:
        clean, corrupted: the sequences with their right answers, `clean.targets` and `corrupted.targets`.
        asked: `[pair, pos]`, the answers that are looked at. Where the change matters: those that it changes, as long
            as the same tokens of the answer stand before them in both; of `later` pairs those behind. In a control:
            those that it leaves as they are.
        kind: what was changed, one of the task's `pair_kinds`.
        foils: the wrong answers of a control, in the form of targets; None where the corrupted answer is the wrong one.
        later: whether the answers asked for have other answers before them in the two sequences.
        pad: the token that pads the shorter sequences; −1 where there is none.
        slots: what the questions have in common, where that is known, such as `S2` -> `[pair, pos]`, where it is.
    """

    clean: Batch
    corrupted: Batch
    asked: Bool[Tensor, "pair pos"]
    kind: str
    foils: Tensor | None = None
    later: bool = False
    pad: int = -1
    slots: Mapping[str, Bool[Tensor, "pair pos"]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.clean)

    def __getitem__(self, index: slice | Tensor) -> Pairs:
        return self._each(lambda part: part[index])

    def to(self, device: torch.device | str) -> Pairs:
        return self._each(lambda part: part.to(device))

    def _each(self, change: Callable[[Any], Any]) -> Pairs:
        """These pairs with each of their batches and tensors changed alike."""
        foils = None if self.foils is None else change(self.foils)
        slots = {name: change(mask) for name, mask in self.slots.items()}
        clean, corrupted, asked = change(self.clean), change(self.corrupted), change(self.asked)
        return replace(self, clean=clean, corrupted=corrupted, asked=asked, foils=foils, slots=slots)

    @property
    def is_control(self) -> bool:
        """Whether the change leaves the answers asked for as they are."""
        return self.foils is not None

    @property
    def changed(self) -> Bool[Tensor, "pair pos"]:
        """The positions at which the inputs differ: those of the change, and those of answers that are input too."""
        return self.clean.tokens != self.corrupted.tokens

    @property
    def right(self) -> Tensor:
        """The right answers before the change, in the form of `Batch.targets`."""
        return self.clean.targets

    @property
    def wrong(self) -> Tensor:
        """What the right answers are held against: those after the change, or a control's foils."""
        return self.corrupted.targets if self.foils is None else self.foils

    def real(self, side: Batch) -> Bool[Tensor, "pair pos"]:
        """Whether the sequences of one side have a token there, and no padding; what is scored is no padding."""
        scored = side.loss_mask.flip(1).cumsum(1).flip(1) > 0  # a text may end with the token that pads others
        return before_padding(side.tokens, self.pad) | scored

    def halves(self) -> tuple[Pairs, Pairs]:
        """The pairs of even number and those of odd number.

        Raises:
            ValueError: if there are fewer than two pairs.
        """
        if len(self) < 2:
            raise ValueError(f"{len(self)} pair has no two halves: draw more pairs")
        number = torch.arange(len(self))
        return self[number[::2]], self[number[1::2]]


def make_pairs(
    task: Task,
    n: int,
    generator: torch.Generator,
    kind: str | None,
    relevant: bool,
    later: bool,
    condition: Mapping[str, Any],
) -> Pairs:
    """Draw n pairs of a task; see `Task.minimal_pairs` for arguments and errors."""
    kinds = task.pair_kinds
    if not kinds:
        raise ValueError(f"{task.name} has no pairs: nobody has said what a minimal change of its questions is")
    kind = next(iter(kinds)) if kind is None else kind
    lookup(kinds, kind, f"kind of pair of {task.name}")
    if n < 1:
        raise ValueError(f"n must be at least 1, not {n}")
    check_memory(2 * n * TRIES * task.bytes_each, f"drawing {n:,} pairs of {task.name}")
    asking = partial(_asked, task, relevant=relevant, later=later and relevant)
    rows: list[tuple[Batch, Batch]] = []
    drawn = 0
    for _ in range(ROUNDS):
        missing = n - len(rows)
        if missing <= 0 or (drawn >= HOPELESS and not rows):
            break
        drawn += missing + 8
        source = task.sample(missing + 8, generator, split="test", **condition).tokens
        rows += _changes(task, source, kind, generator, asking)[:missing]
    if len(rows) < n:
        what = "that leaves an answer after it as it is"
        if relevant:
            what = "that changes answers behind the first that it changes" if later else "that changes an answer"
        raise ValueError(f"{task.name} has hardly any change of kind {kind!r} {what}; ask for another kind")
    whole = Batch.cat([clean for clean, _ in rows] + [corrupted for _, corrupted in rows], task.pad)
    clean, corrupted = whole[:n], whole[n:]
    asked = asking(clean, corrupted)
    assert asked.any(-1).all()
    return Pairs(clean, corrupted, asked, kind, None if relevant else _foils(task, clean), later and relevant, task.pad)


def _changes(
    task: Task,
    source: Int[Tensor, "batch pos"],
    kind: str,
    generator: torch.Generator,
    asking: Callable[[Batch, Batch], Bool[Tensor, "pair pos"]],
) -> list[tuple[Batch, Batch]]:
    """Each question with its first change that is on the test side, can be answered, and does what is asked for."""
    tokens = source.repeat_interleave(TRIES, dim=0)
    proposed = task.changed_question(tokens, kind, generator)
    usable = task.is_test(proposed) & (proposed != tokens).any(-1)
    usable &= task.question_length(proposed) == task.question_length(tokens)
    rows = []
    for row, candidates, can_be in zip(source, proposed.split(TRIES), usable.split(TRIES), strict=True):
        clean = None
        for candidate in candidates[can_be]:
            try:
                clean, corrupted = clean or task.answered(row), task.answered(candidate)
            except ValueError:  # the change has made it no question of the task
                continue
            both = Batch.cat([clean, corrupted], task.pad)
            if asking(both[:1], both[1:]).any():
                rows.append((clean, corrupted))
                break
    return rows


def _asked(task: Task, clean: Batch, corrupted: Batch, *, relevant: bool, later: bool) -> Bool[Tensor, "pair pos"]:
    """The answers that both sequences have at a position behind the change, and that it changes; of a control, leaves.

    The same answer tokens stand before them in both, or for `later` ones others.
    """
    changed = clean.tokens != corrupted.tokens
    spoilt = (changed & ~in_question(clean.tokens, task.question_length(clean.tokens))).cumsum(-1) > 0
    both = clean.loss_mask & corrupted.loss_mask & (changed.cumsum(-1) > 0)
    return both & (spoilt == later) & (_differ(clean.targets, corrupted.targets) == relevant)


def _foils(task: Task, clean: Batch) -> Tensor:
    """A wrong answer for every position: that of the nearest later pair which has another one there.

    Where all pairs have the same one, the next class; of a set, the set of the next classes.
    """
    foils = clean.targets.roll(1, -1) if clean.targets.ndim == 3 else (clean.targets + 1) % len(task.vocabulary)
    open_ = torch.ones_like(clean.loss_mask)
    for shift in range(1, len(clean)):
        other, scored = clean.targets.roll(-shift, 0), clean.loss_mask.roll(-shift, 0)
        takes = open_ & scored & _differ(clean.targets, other)
        foils = torch.where(takes[..., None] if foils.ndim == 3 else takes, other, foils)
        open_ &= ~takes
        if not (open_ & clean.loss_mask).any():
            break
    return foils


def _differ(first: Tensor, second: Tensor) -> Bool[Tensor, "pair pos"]:
    """Whether targets differ, classes or sets of them."""
    return (first != second).any(-1) if first.ndim == 3 else first != second


def choose(where: Bool[Tensor, "batch pos"], generator: torch.Generator) -> Int[Tensor, "batch 1"]:
    """One of the positions at which the mask is true, drawn for each row; position 0 where there is none."""
    return torch.where(where, torch.rand(where.shape, generator=generator), -1.0).argmax(-1, keepdim=True)


def other_value(
    value: Int[Tensor, "batch 1"], low: int, high: int, generator: torch.Generator
) -> Int[Tensor, "batch 1"]:
    """Another value of low … high − 1 than the given one, each equally likely; the same where there is no other."""
    step = torch.randint(1, max(2, high - low), value.shape, generator=generator)
    return (value - low + step) % (high - low) + low


def with_other_value(
    tokens: Int[Tensor, "batch pos"], where: Bool[Tensor, "batch pos"], low: int, high: int, generator: torch.Generator
) -> Int[Tensor, "batch pos"]:
    """The tokens with one of those at which the mask is true replaced by another of low … high − 1.

    A row whose mask is true nowhere stays as it is.
    """
    at = choose(where, generator)
    value = tokens.gather(1, at)
    new = torch.where(where.gather(1, at), other_value(value, low, high, generator), value)
    return tokens.scatter(1, at, new)


def with_two_of_a_block_exchanged(tokens: Tokens, k: int, generator: torch.Generator) -> Tokens:
    """The tokens with two of one block of k exchanged, not of the first block; as they are where blocks have one."""
    position = torch.arange(tokens.shape[1]).expand_as(tokens)
    first = choose(position >= k, generator)
    second = choose((position // k == first // k) & (position != first), generator)
    second = torch.where(second // k == first // k, second, first)
    return tokens.scatter(1, first, tokens.gather(1, second)).scatter(1, second, tokens.gather(1, first))
