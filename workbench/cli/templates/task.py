"""The task `template_name`: digits, and the same digits from last to first."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field

from workbench.tasks import Batch, Task, Truth, Vocabulary


class TemplateName(Task):
    """Digits, a bar, and the digits from last to first: `3 1 4 | 4 1 3`.

    Labels: `place` (of each answer, from 1). Gold edges: from where a digit is predicted to the digit that it repeats.
    """

    name: ClassVar[str] = "template_name"
    summary: ClassVar[str] = "digits, and the same digits from last to first"
    group: ClassVar[str] = "place"  # accuracy is broken down by the label of this name
    unit: ClassVar[Literal["sequence", "position"]] = "position"  # what counts as one answer

    length: int = Field(6, ge=2, le=32, description="digits in a number")

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary((*"0123456789", "|"))

    @property
    def n_ctx(self) -> int:
        return 2 * self.length + 1

    @property
    def groups(self) -> tuple[int, ...]:
        return tuple(range(1, self.length + 1))

    def draw(self, n: int, generator: torch.Generator, *, head: str = "main", **condition: Any) -> Batch:
        self.refuse(condition)  # this task has no test conditions
        return self.batch(torch.randint(10, (n, self.length), generator=generator))

    def batch(self, digits: torch.Tensor) -> Batch:
        """Whole sequences, scored from the bar on."""
        bar = torch.full_like(digits[:, :1], 10)
        return Batch.next_token(torch.cat([digits, bar, digits.flip(1)], dim=1), self.length, 2 * self.length)

    def question_length(self, tokens: torch.Tensor) -> torch.Tensor:
        """The question decides whether a sequence is for training or for testing: the digits and the bar."""
        return torch.full((len(tokens),), self.length + 1)

    def truth(self, tokens: torch.Tensor) -> Truth:
        place = torch.arange(self.length)
        labels = torch.full_like(tokens, -1)
        labels[:, self.length + place] = place + 1
        example, place = torch.arange(len(tokens)).repeat_interleave(self.length), place.repeat(len(tokens))
        columns = [example, torch.ones_like(example), self.length + place, self.length - 1 - place]
        return Truth(torch.stack(columns, dim=1), {"place": labels})

    def parse(self, text: str) -> Batch:
        digits = self.vocabulary.encode(text.strip().removesuffix("|"))
        if len(digits) != self.length or 10 in digits:
            raise ValueError(f"type {self.length} digits, not {text!r}")
        return self.batch(torch.tensor([digits]))


TASKS = {"template_name": TemplateName}
