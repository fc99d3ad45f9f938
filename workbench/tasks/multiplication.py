"""Multiplication digit by digit: plain, with pause tokens, or with its chain of thought (Seq-VCR, §4.1)."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import torch
from jaxtyping import Int
from pydantic import Field, model_validator
from torch import Tensor

from workbench.tasks.base import LONGEST, Task
from workbench.tasks.batch import Batch, Tokens, Truth
from workbench.tasks.pairs import with_other_value
from workbench.tasks.split import in_question
from workbench.tasks.vocabulary import Vocabulary

_WORDS = (*"0123456789", "*", "####", "||", "+", "(", ")", "</pause_start>", "<pause>", "</pause_end>")
_TIMES, _ANSWER, _THOUGHT, _PLUS, _OPEN, _CLOSE, _PAUSE_START, _PAUSE, _PAUSE_END = range(10, 19)


class Multiplication(Task):
    """Two numbers of exactly `digits` digits and their product, padded to twice as many; lowest digit first.

    12 × 34 = 408 with 2 digits:

        plain               2 1 * 4 3 #### 8 0 4 0
        pause               2 1 * 4 3 </pause_start> <pause> <pause> </pause_end> #### 8 0 4 0
        chain_of_thought    2 1 * 4 3 || 8 4 0 + 0 6 3 0 #### 8 0 4 0

    The chain of thought lists the partial products, each shifted by its place, with the running sum in parentheses
    after each but the first and the last. The loss is on what follows ####, in chain_of_thought on what follows ||;
    pause tokens are never scored. A thought may lack its beginning (`thoughts_removed`), so that a model can learn to
    do without, a few tokens after the other (Deng and others 2024, arXiv 2405.14838): 3 and all 8 of them left out are

        2 1 * 4 3 || + 0 6 3 0 #### 8 0 4 0
        2 1 * 4 3 || #### 8 0 4 0

    Labels, at the position that predicts a digit of the product: `digit` (its place, 0 is the lowest), `carry` (what
    the schoolbook column sum carries into that place), `operations` (how many digit products the column adds, as in
    Figure 1). Arrays: `partial_products` and `running_sums`, `[batch, row, place]`, row i for digit i of the second
    operand, digits lowest first. Gold edges of hop 1: from there to the digits i and j of the operands with i + j equal
    to the place.
    """

    name: ClassVar[str] = "multiplication"
    summary: ClassVar[str] = "two numbers and their product, all with their lowest digit first"
    group: ClassVar[str] = "digit"
    unit: ClassVar[Literal["position"]] = "position"
    answer_mark: ClassVar[str] = "####"
    pair_kinds: ClassVar[dict[str, str]] = {"digit": "one digit of an operand is replaced by another"}
    vocabulary: ClassVar[Vocabulary] = Vocabulary(_WORDS)
    delimiters: ClassVar[tuple[int, ...]] = (_ANSWER, _THOUGHT, _PAUSE_START)

    digits: int = Field(2, ge=1, le=100, description="digits of each operand")
    mode: Literal["plain", "pause", "chain_of_thought"] = Field("plain", description="what stands before the answer")
    n_pause: int = Field(2, ge=0, le=LONGEST, description="pause tokens between their delimiters, in mode pause")
    thoughts_removed: int = Field(
        0, ge=0, description="tokens left out at the beginning of the thought, in mode chain_of_thought"
    )

    @model_validator(mode="after")
    def _thought_is_as_long(self) -> Self:
        if not self.thoughts_removed:
            return self
        if self.mode != "chain_of_thought":
            raise ValueError(f"thoughts_removed is of mode chain_of_thought; in mode {self.mode} there is no thought")
        ones = torch.ones(1, self.digits, dtype=torch.long)
        if self.thoughts_removed > (length := _work(ones, ones)[0].shape[1]):
            raise ValueError(f"thoughts_removed={self.thoughts_removed} is more than the thought's {length} tokens")
        return self

    @cached_property
    def n_ctx(self) -> int:
        """Every sequence has this length."""
        ones = torch.ones(1, self.digits, dtype=torch.long)
        return self._tokens(ones, ones).shape[1]

    @property
    def groups(self) -> tuple[int, ...]:
        return tuple(range(2 * self.digits))

    def draw(self, n: int, generator: torch.Generator, *, head: str = "main", **condition: Any) -> Batch:
        self.refuse(condition)
        digits = torch.randint(0, 10, (2, n, self.digits), generator=generator)
        digits[..., -1] = torch.randint(1, 10, (2, n), generator=generator)  # exactly this many digits
        return self._batch(digits[0], digits[1])

    def changed_question(self, tokens: Tokens, kind: str, generator: torch.Generator) -> Tokens:
        question = in_question(tokens, self.question_length(tokens))
        return with_other_value(tokens, question & (tokens < 10), 0, 10, generator)

    def question_length(self, tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, " batch"]:
        """The length of the operands with their sign: every mode has the same test set."""
        return torch.full((len(tokens),), 2 * self.digits + 1)

    def _batch(self, a: Int[Tensor, "batch digit"], b: Int[Tensor, "batch digit"]) -> Batch:
        tokens = self._tokens(a, b)
        start = 2 * self.digits + 1 if self.mode == "chain_of_thought" else tokens.shape[1] - 2 * self.digits - 1
        return Batch.next_token(tokens, start, tokens.shape[1] - 1)

    def _tokens(self, a: Int[Tensor, "batch digit"], b: Int[Tensor, "batch digit"]) -> Int[Tensor, "batch pos"]:
        def mark(*ids: int) -> Tensor:
            return torch.tensor(ids).expand(len(a), -1)

        thought, _, sums = _work(a, b)
        parts = [a, mark(_TIMES), b]
        if self.mode == "pause":
            parts.append(mark(_PAUSE_START, *[_PAUSE] * self.n_pause, _PAUSE_END))
        if self.mode == "chain_of_thought":
            parts += [mark(_THOUGHT), thought[:, self.thoughts_removed :]]
        return torch.cat([*parts, mark(_ANSWER), sums[:, -1]], dim=1)

    def truth(self, tokens: Int[Tensor, "batch pos"]) -> Truth:
        d, n_pos = self.digits, tokens.shape[1]
        a, b = tokens[:, :d], tokens[:, d + 1 : 2 * d + 1]
        first = self.n_ctx - 2 * d - 1  # predicts the lowest digit
        labels = {name: torch.full_like(tokens, -1) for name in ("digit", "carry", "operations")}
        edges = []
        carry = torch.zeros(len(tokens), dtype=torch.long)
        for place in range(2 * d):
            position = first + place
            if position >= n_pos:
                break
            pairs = [(i, place - i) for i in range(d) if 0 <= place - i < d]
            labels["digit"][:, position] = place
            labels["operations"][:, position] = len(pairs)
            labels["carry"][:, position] = carry
            keys = [key for i, j in pairs for key in (i, d + 1 + j)]
            edges += [(1, position, key) for key in keys]
            carry = (carry + sum((a[:, i] * b[:, j] for i, j in pairs), torch.zeros_like(carry))) // 10
        of_each = torch.tensor(edges, dtype=torch.long).reshape(-1, 3)
        example = torch.arange(len(tokens)).repeat_interleave(len(of_each))
        _, partials, sums = _work(a, b)
        arrays = {"partial_products": partials, "running_sums": sums}
        return Truth(torch.cat([example[:, None], of_each.repeat(len(tokens), 1)], dim=1), labels, arrays)

    def question(self, tokens: Int[Tensor, " pos"]) -> str:
        d, words = self.digits, self.words(tokens)
        return f"{''.join(words[:d][::-1])} * {''.join(words[d + 1 : 2 * d + 1][::-1])}"

    def parse(self, text: str) -> Batch:
        """Ordinary integers, highest digit first as people write them: `12 * 34`."""
        words = text.replace("*", " * ").replace("×", " * ").split()
        numbers = [word for word in words if word.isdecimal() and word[0] != "0" and len(word) == self.digits]
        if len(words) != 3 or words[1] != "*" or len(numbers) != 2:
            wanted = f"two numbers of exactly {self.digits} digits, the first of them not 0, with * between them"
            raise ValueError(f"type {wanted}, not {text!r}")
        a, b = (torch.tensor([[int(digit) for digit in reversed(number)]]) for number in numbers)
        return self._batch(a, b)


def _carried(columns: Int[Tensor, "batch column"]) -> Int[Tensor, "batch column"]:
    """Column sums as digits, lowest first; the carry out of the last column must be 0."""
    digits, carry = [], torch.zeros_like(columns[:, 0])
    for column in columns.unbind(1):
        total = column + carry
        digits.append(total % 10)
        carry = total // 10
    return torch.stack(digits, dim=1)


def _work(a: Int[Tensor, "batch digit"], b: Int[Tensor, "batch digit"]) -> tuple[Tensor, Tensor, Tensor]:
    """The tokens of the chain of thought, the partial products and their running sums (both `[batch, row, place]`)."""
    n, d = a.shape

    def mark(token: int) -> Tensor:
        return torch.full((n, 1), token)

    total = torch.zeros(n, 2 * d, dtype=torch.long)
    thought, partials, sums = [], [], []
    for i in range(d):
        partial = torch.zeros(n, 2 * d + 1, dtype=torch.long)
        partial[:, i : i + d] = a * b[:, i : i + 1]
        partial, width = _carried(partial)[:, : 2 * d], d + 1 + i
        total = _carried(total + partial)
        partials.append(partial)
        sums.append(total)
        thought.append(partial[:, :width] if i == 0 else torch.cat([mark(_PLUS), partial[:, :width]], dim=1))
        if 0 < i < d - 1:
            thought += [mark(_OPEN), total[:, :width], mark(_CLOSE)]
    return torch.cat(thought, dim=1), torch.stack(partials, dim=1), torch.stack(sums, dim=1)
