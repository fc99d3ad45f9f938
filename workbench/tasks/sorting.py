"""Sorting: the task of the task-hinting paper, where length generalisation and its mechanism are studied."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Int
from pydantic import Field
from torch import Tensor, nn

from workbench.tasks.base import LONGEST
from workbench.tasks.batch import Batch, Tokens, Truth
from workbench.tasks.lengths import Skew, TaskWithLengths
from workbench.tasks.pairs import with_other_value
from workbench.tasks.split import in_question
from workbench.tasks.vocabulary import Vocabulary


class Sorting(TaskWithLengths):
    """Symbols, the delimiter ⊥, then the same symbols in ascending order; the loss is on the output alone.

        input    5 3 3 9 ⊥ 3 3 5 9
        scored           ^ ^ ^ ^      (⊥ predicts the first output, each output the next)

    Token ids: symbol s is s − 1, ⊥ is q, PAD is q + 1. Draws are uniform with replacement; in training a share
    `repetition` of the sequences draws from only ⌊length/2⌋ distinct symbols, at least one (Appendix B). Test sequences
    are all uniform. The test sets `rep(i, r)` (§3.1) are `length=i, repeats=r`: ⌊i/r⌋ symbols without replacement, r
    times each, and the rest uniform, in random order.

    Hints (§3.1 and Appendix B), each with an output head of its own and answered after ⊥ (scored at ^):

        successor    5 3 3 9 ⊥ 5         → 9: the next larger symbol; ⊥ after the largest
                               ^
        count        4 7 4 ⊥             → 7: the symbol that occurs less often; see `tie`
                           ^
        fill         6 6 6 ⊥ 6 6         → the rest of the copies, after a prefix of them
                             ^

    The paper does not define the successor of a symbol that has copies (`copies`) or of the largest one (⊥ here), nor
    the answer where two symbols are equally frequent (`tie`).

    Labels (the first three are token ids): `minimum` (at ⊥), `identity` (at output positions: their own token),
    `successor` (at output positions but the last: the next output), `copies_left` (at output positions: how many
    more of that symbol are still to come), `length` (at ⊥ and output positions: the number of symbols). Gold edges of
    hop 1: from ⊥ to every input position that holds the minimum, from an output to those that hold the next output.
    """

    name: ClassVar[str] = "sorting"
    summary: ClassVar[str] = "symbols, a delimiter, then the same symbols sorted"
    group: ClassVar[str] = "length"
    unit: ClassVar[Literal["sequence"]] = "sequence"
    token_labels: ClassVar[tuple[str, ...]] = ("minimum", "identity", "successor")
    pair_kinds: ClassVar[dict[str, str]] = {"symbol": "one symbol of the input is replaced by another"}

    q: int = Field(32, ge=2, le=LONGEST, description="alphabet size: symbols are 1..q")
    skew: Skew = Field(
        "uniform", description="lengths equally likely, or 80 % equally in the shortest quarter and 20 % in the rest"
    )
    repetition: float = Field(
        0.1, ge=0, le=1, description="share of training sequences with at most half as many distinct symbols as places"
    )
    hints: tuple[Literal["successor", "count", "fill"], ...] = Field((), description="auxiliary tasks to train on too")
    copies: Literal["larger", "itself"] = Field(
        "larger", description="hint successor: what follows a symbol with copies: the next larger one, or itself"
    )
    tie: Literal["delimiter", "smaller", "larger"] = Field(
        "delimiter", description="hint count: the answer if both occur equally often (half of the samples)"
    )

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary((*(str(s) for s in range(1, self.q + 1)), "⊥", "PAD"))

    @property
    def n_ctx(self) -> int:
        return 2 * self.longest + 1

    @property
    def delimiters(self) -> tuple[int, ...]:
        return (self.q,)

    @property
    def as_tested(self) -> Sorting:
        return self.model_copy(update={"repetition": 0.0})

    def draw(
        self,
        n: int,
        generator: torch.Generator,
        *,
        head: str = "main",
        length: int | None = None,
        repeats: int | None = None,
        **condition: Any,
    ) -> Batch:
        """Draw n sequences; all of one `length` if it is given, of the test set `rep(length, repeats)` if both are.

        Raises:
            ValueError: if the length does not fit the context, or another condition is given.
        """
        self.refuse(condition, "length", "repeats")
        lengths = self.draw_lengths(n, length, edge=-(-self.max_length // 4), generator=generator)
        if repeats is not None:
            if head != "main":
                raise ValueError(f"repeats={repeats} is a test set of sorting itself, not of its hint {head!r}")
            if length is None or not 1 <= repeats <= length or length // repeats > self.q:
                raise ValueError(f"repeats={repeats} needs a length it divides into at most {self.q} symbols")
            return self._batch(self._repeated(n, length, repeats, generator), lengths)
        if head in ("count", "fill"):
            return (self._count if head == "count" else self._fill)(lengths, generator)
        symbols = self._symbols(lengths, generator)
        return self._batch(symbols, lengths) if head == "main" else self._successor(symbols, lengths, generator)

    def changed_question(self, tokens: Tokens, kind: str, generator: torch.Generator) -> Tokens:
        return with_other_value(tokens, in_question(tokens, self.question_length(tokens)), 0, self.q, generator)

    def _symbols(self, lengths: Int[Tensor, " batch"], generator: torch.Generator) -> Int[Tensor, "batch length"]:
        n, width = len(lengths), int(lengths.max())
        symbols = torch.randint(0, self.q, (n, width), generator=generator)
        few = (torch.rand(n, generator=generator) < self.repetition).nonzero()[:, 0]
        # Half as many symbols: each place takes one of the first ⌊length/2⌋ of a random order of the alphabet.
        order = torch.rand(len(few), self.q, generator=generator).argsort(-1)
        half = (lengths[few] // 2).clamp(1, self.q)
        choice = (torch.rand(len(few), width, generator=generator) * half[:, None]).long()
        symbols[few] = order.gather(1, choice)
        return symbols

    def _repeated(self, n: int, length: int, repeats: int, generator: torch.Generator) -> Int[Tensor, "batch length"]:
        distinct = torch.rand(n, self.q, generator=generator).argsort(-1)[:, : length // repeats]
        rest = torch.randint(0, self.q, (n, length % repeats), generator=generator)
        symbols = torch.cat([distinct.repeat_interleave(repeats, dim=1), rest], dim=1)
        return symbols.gather(1, torch.rand(n, length, generator=generator).argsort(-1))

    def _successor(
        self, symbols: Int[Tensor, "batch length"], lengths: Int[Tensor, " batch"], generator: torch.Generator
    ) -> Batch:
        pick = (torch.rand(len(lengths), generator=generator) * lengths).long()[:, None]
        element = symbols.gather(1, pick)
        inside = torch.arange(symbols.shape[1]) < lengths[:, None]
        larger = torch.where(inside & (symbols > element), symbols, self.q).amin(-1, keepdim=True)
        has_copy = (inside & (symbols == element)).sum(-1, keepdim=True) > 1
        answer = torch.where(has_copy, element, larger) if self.copies == "itself" else larger
        return self._answered(symbols, lengths, torch.cat([element, answer], dim=1), given=torch.ones_like(lengths))

    def _count(self, lengths: Int[Tensor, " batch"], generator: torch.Generator) -> Batch:
        """Two symbols: one ⌈length/2⌉ times, the other as often, or 1 to 5 times less often, but at least once."""
        n = len(lengths)
        more = (lengths + 1) // 2
        most = (more - 1).clamp(max=5)
        under = (torch.rand(n, generator=generator) * most).long() + 1
        tie = (torch.rand(n, generator=generator) < 0.5) | (most == 0)
        less = torch.where(tie, more, more - under)
        pair = torch.rand(n, self.q, generator=generator).argsort(-1)[:, :2]
        total = less + more
        place = torch.arange(int(total.max()))
        symbols = torch.where(place < less[:, None], pair[:, :1], pair[:, 1:])
        shuffle = torch.rand(symbols.shape, generator=generator).masked_fill(place >= total[:, None], 2.0)
        symbols = symbols.gather(1, shuffle.argsort(-1))
        equal = {"delimiter": torch.full((n,), self.q), "smaller": pair.amin(-1), "larger": pair.amax(-1)}[self.tie]
        answer = torch.where(tie, equal, pair[:, 0])[:, None]
        return self._answered(symbols, total, answer, given=torch.zeros_like(total))

    def _fill(self, lengths: Int[Tensor, " batch"], generator: torch.Generator) -> Batch:
        """One symbol 1 to ⌊length/2⌋ times, then a prefix of that (not all of it), to be completed."""
        n = len(lengths)
        copies = (torch.rand(n, generator=generator) * (lengths // 2).clamp(min=1)).long() + 1
        given = (torch.rand(n, generator=generator) * copies).long()
        symbol = torch.randint(0, self.q, (n, 1), generator=generator).expand(n, int(copies.max()))
        return self._answered(symbol, copies, symbol, given=given, answered=copies)

    def _answered(
        self,
        symbols: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        after: Int[Tensor, "batch answer"],
        *,
        given: Int[Tensor, " batch"],
        answered: Int[Tensor, " batch"] | None = None,
    ) -> Batch:
        """Sequences of symbols, ⊥ and what follows it, whose last token is only a target.

        Args:
            symbols, lengths: the symbols before ⊥, and how many of them there are.
            after: what follows ⊥.
            given: how many tokens of `after` belong to the question, and are not scored.
            answered: how many tokens of `after` there are; by default all.
        """
        ends = torch.full_like(lengths, after.shape[1]) if answered is None else answered
        whole = self._joined(symbols, lengths, after, ends)
        batch = Batch.next_token(whole, lengths + given, lengths + ends)
        tokens = whole.scatter(1, (lengths + ends)[:, None], self.pad)  # nothing is predicted from the last token
        return Batch(tokens[:, :-1], batch.targets[:, :-1], batch.loss_mask[:, :-1])

    def _joined(
        self,
        symbols: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        after: Int[Tensor, "batch answer"],
        ends: Int[Tensor, " batch"],
    ) -> Int[Tensor, "batch pos"]:
        """The first `lengths` symbols of each, ⊥, and the first `ends` of what comes after it."""
        place = torch.arange(symbols.shape[1] + 1 + after.shape[1]) - lengths[:, None]  # from ⊥ on
        before = nn.functional.pad(symbols, (0, 1 + after.shape[1]))
        behind = after.gather(1, (place - 1).clamp(0, after.shape[1] - 1))
        tokens = torch.where(place < 0, before, torch.where(place == 0, self.q, behind))
        return torch.where(place <= ends[:, None], tokens, self.pad)

    def question_length(self, tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, " batch"]:
        """The number of tokens before ⊥, so that a sequence and its hints are on the same side of the split."""
        return (tokens == self.q).long().argmax(-1)

    def _batch(self, symbols: Int[Tensor, "batch length"], lengths: Int[Tensor, " batch"]) -> Batch:
        inside = torch.arange(symbols.shape[1]) < lengths[:, None]
        ordered = torch.where(inside, symbols, self.pad).sort(-1).values
        return Batch.next_token(self._joined(symbols, lengths, ordered, lengths), lengths, 2 * lengths)

    def truth(self, tokens: Int[Tensor, "batch pos"]) -> Truth:
        position = torch.arange(tokens.shape[1], device=tokens.device)
        delimiter = tokens == self.q
        length = delimiter.long().argmax(-1, keepdim=True)
        real = delimiter.any(-1, keepdim=True) & (tokens <= self.q)
        is_input = real & (position < length)
        is_output = real & (position > length)
        minimum = torch.where(is_input, tokens, self.q + 1).amin(-1, keepdim=True)
        following = tokens.roll(-1, dims=1)
        has_next = is_output & is_output.roll(-1, dims=1)  # the first position, which comes around, is no output
        same = tokens[:, :, None] == tokens[:, None, :]
        later = position[None, :] > position[:, None]
        copies_left = (same & later & is_output[:, None, :]).sum(-1)
        wanted = torch.where(delimiter, minimum, torch.where(has_next, following, -1))
        example, query, key = (is_input[:, None, :] & (tokens[:, None, :] == wanted[:, :, None])).nonzero(as_tuple=True)
        labels = {
            "minimum": torch.where(delimiter & real, minimum, -1),
            "identity": torch.where(is_output, tokens, -1),
            "successor": torch.where(has_next, following, -1),
            "copies_left": torch.where(is_output, copies_left, -1),
            "length": torch.where((delimiter & real) | is_output, length, -1),
        }
        return Truth(torch.stack([example, torch.ones_like(example), query, key], dim=1), labels)

    def parse(self, text: str) -> Batch:
        words = text.replace("⊥", " ⊥ ").replace(",", " ").split()
        words = words[: words.index("⊥")] if "⊥" in words else words
        if not 1 <= len(words) <= self.longest:
            raise ValueError(f"type 1 to {self.longest} numbers between 1 and {self.q}, not {len(words)}")
        for word in words:
            if not (word.isdecimal() and 1 <= int(word) <= self.q):
                raise ValueError(f"{word!r} is not a number between 1 and {self.q}")
        symbols = torch.tensor([[int(word) - 1 for word in words]])
        return self._batch(symbols, torch.tensor([len(words)]))
