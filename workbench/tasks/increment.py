"""Increment: a number plus one, with its carries; the second task of the task-hinting paper (§6)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Int
from pydantic import Field, model_validator
from torch import Tensor

from workbench.tasks.base import LONGEST
from workbench.tasks.batch import Batch, Tokens, Truth
from workbench.tasks.lengths import Skew, TaskWithLengths
from workbench.tasks.pairs import with_other_value
from workbench.tasks.split import in_question
from workbench.tasks.vocabulary import Vocabulary

_DELIMITER, _CARRY, _PAD = 10, 11, 12


class Increment(TaskWithLengths):
    """A number, highest digit first, the delimiter ⊥, then the number plus one, lowest digit first.

        input    1 2 9 ⊥ 0 3 1
        scored         ^ ^ ^      (⊥ predicts the lowest digit, each digit the next)

    The first digit is not 0, the others are uniform. In a share `nines` of the training sequences the last k digits are
    9, k uniform over 1..length (Appendix B); test numbers are all uniform. A number of nines alone has one more digit
    in its answer. The paper counts 14 tokens without listing them; digits, ⊥, ↑ and PAD are 13.

    The hint `carry`, which has an output head of its own, writes after each digit the carry into the next one:

        input    1 2 9 ⊥ 0 ↑ 1 3 ↑ 0 1 ↑ 0

    Labels, at the position that predicts a digit of the answer: `place` (0 is the lowest), `carry` (what is added to
    the digit there, 0 or 1), `length` (digits of the input). Gold edges of hop 1: from there to the input's digit of
    that place.
    """

    name: ClassVar[str] = "increment"
    summary: ClassVar[str] = "a number, a delimiter, then the number plus one with its lowest digit first"
    group: ClassVar[str] = "length"
    unit: ClassVar[Literal["sequence"]] = "sequence"
    pair_kinds: ClassVar[dict[str, str]] = {"digit": "one digit of the number is replaced by another"}
    vocabulary: ClassVar[Vocabulary] = Vocabulary((*"0123456789", "⊥", "↑", "PAD"))
    delimiters: ClassVar[tuple[int, ...]] = (_DELIMITER,)

    min_length: int = Field(2, ge=1, le=LONGEST, description="fewest digits in training")
    max_length: int = Field(10, ge=1, le=LONGEST, description="most digits in training")
    test_max_length: int | None = Field(
        None, ge=1, le=LONGEST, description="most digits in a test; by default max_length"
    )
    skew: Skew = Field("paper", description="80 % of lengths equally in 2..4 and 20 % in the rest, or all equally")
    nines: float = Field(0.1, ge=0, le=1, description="share of training sequences that end in a run of nines")
    reversed: bool = Field(True, description="write the answer lowest digit first, as the paper does")
    hints: tuple[Literal["carry"], ...] = Field((), description="auxiliary tasks to train on too")

    @model_validator(mode="after")
    def _hints_fit(self) -> Increment:
        if self.hints and not self.reversed:
            raise ValueError("increment's carry hint goes from the lowest digit up: it needs reversed=true")
        return self

    @property
    def n_ctx(self) -> int:
        return self.longest + 1 + (3 if self.hints else 1) * (self.longest + 1)

    @property
    def as_tested(self) -> Increment:
        return self.model_copy(update={"nines": 0.0})

    def draw(
        self, n: int, generator: torch.Generator, *, head: str = "main", length: int | None = None, **condition: Any
    ) -> Batch:
        self.refuse(condition, "length")
        lengths = self.draw_lengths(n, length, edge=4, generator=generator)
        width = int(lengths.max())
        digits = torch.randint(0, 10, (n, width), generator=generator)
        digits[:, 0] = torch.randint(1, 10, (n,), generator=generator)
        run = (torch.rand(n, generator=generator) * lengths).long() + 1
        run = torch.where(torch.rand(n, generator=generator) < self.nines, run, 0)
        place = torch.arange(width)
        digits = torch.where((place >= (lengths - run)[:, None]) & (place < lengths[:, None]), 9, digits)
        return self._batch(digits, lengths, head)

    def changed_question(self, tokens: Tokens, kind: str, generator: torch.Generator) -> Tokens:
        return with_other_value(tokens, in_question(tokens, self.question_length(tokens)), 0, 10, generator)

    def _batch(self, digits: Int[Tensor, "batch digit"], lengths: Int[Tensor, " batch"], head: str) -> Batch:
        """A batch from digits, highest first, of which each sequence has its first `lengths`."""
        n, width = digits.shape
        answer, carries = _plus_one(digits, lengths)
        answered = lengths + carries.gather(1, lengths[:, None])[:, 0]  # a last carry is one more digit
        place = torch.arange(width + 1).expand(n, -1)
        if not self.reversed:
            answer = answer.gather(1, (answered[:, None] - 1 - place).clamp(min=0))
        spread = 1
        if head == "carry":
            handed_on = torch.cat([carries[:, 1:], torch.zeros(n, 1, dtype=torch.long)], dim=1)
            answer, spread = torch.stack([answer, torch.full_like(answer, _CARRY), handed_on], dim=2).flatten(1), 3
        tokens = torch.full((n, width + 1 + answer.shape[1]), _PAD)
        position = torch.arange(tokens.shape[1])
        tokens[position < lengths[:, None]] = digits[torch.arange(width) < lengths[:, None]]
        tokens[torch.arange(n), lengths] = _DELIMITER
        end = lengths + 1 + spread * answered
        behind = (position > lengths[:, None]) & (position < end[:, None])
        tokens[behind] = answer[torch.arange(answer.shape[1]) < spread * answered[:, None]]
        return Batch.next_token(tokens[:, : int(end.max())], lengths, end - 1)

    def question_length(self, tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, " batch"]:
        return (tokens == _DELIMITER).long().argmax(-1)

    def truth(self, tokens: Int[Tensor, "batch pos"]) -> Truth:
        lengths, n_pos = self.question_length(tokens), tokens.shape[1]
        position = torch.arange(n_pos)
        width = max(1, int(lengths.max()))
        _, carries = _plus_one(tokens[:, :width].clamp(max=9), lengths)
        written = position - lengths[:, None]  # how many digits of the answer are already there
        answered = lengths + carries.gather(1, lengths[:, None])[:, 0]
        place = written if self.reversed else answered[:, None] - 1 - written
        predicts_digit = (tokens == _DELIMITER).any(-1, keepdim=True) & (written >= 0) & (written < answered[:, None])
        labels = {
            "place": torch.where(predicts_digit, place, -1),
            "carry": torch.where(predicts_digit, carries.gather(1, place.clamp(0, width)), -1),
            "length": torch.where(predicts_digit, lengths[:, None], -1),
        }
        example, query = (predicts_digit & (place < lengths[:, None])).nonzero(as_tuple=True)
        key = lengths[example] - 1 - place[example, query]
        return Truth(torch.stack([example, torch.ones_like(example), query, key], dim=1), labels)

    def parse(self, text: str) -> Batch:
        """One number: `129`, or its digits with spaces."""
        digits = "".join(text.replace("⊥", " ").split())
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= self.longest and digits[0] != "0"):
            raise ValueError(f"type one number of 1 to {self.longest} digits that does not begin with 0, not {text!r}")
        return self._batch(torch.tensor([[int(d) for d in digits]]), torch.tensor([len(digits)]), "main")


def _plus_one(digits: Int[Tensor, "batch digit"], lengths: Int[Tensor, " batch"]) -> tuple[Tensor, Tensor]:
    """The digits of the number plus one and the carry into each of them, `[batch, digit + 1]`, lowest first."""
    n, width = digits.shape
    place = torch.arange(width)
    reversed_digits = digits.gather(1, (lengths[:, None] - 1 - place).clamp(min=0))
    nine = (reversed_digits == 9) & (place < lengths[:, None])
    carries = torch.cat([torch.ones(n, 1, dtype=torch.long), nine.long().cumprod(-1)], dim=1)
    padded = torch.cat([reversed_digits * (place < lengths[:, None]), torch.zeros(n, 1, dtype=torch.long)], dim=1)
    return (padded + carries) % 10, carries
