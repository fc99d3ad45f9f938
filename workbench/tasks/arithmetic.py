"""Arithmetic expressions modulo a prime, with their chain of thought (Seq-VCR, §4.1; data after Feng et al.)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Int
from pydantic import Field, model_validator
from torch import Tensor

from workbench.tasks.base import LONGEST, Task
from workbench.tasks.batch import Batch, Tokens, Truth, after_mark
from workbench.tasks.expressions import OPERATORS, Brackets, Node, grow, read
from workbench.tasks.pairs import with_other_value
from workbench.tasks.split import in_question
from workbench.tasks.vocabulary import Vocabulary
from workbench.util.seeds import numpy_generator

_MARKS = (*OPERATORS, "(", ")", "=", "</pause_start>", "<pause>", "</pause_end>", "PAD")


class Arithmetic(Task):
    """An expression over the integers modulo p, then its value; the loss is on the answer.

    Modulo 11, with 3 operators:

        plain               ( 7 - 2 ) × 3 + 9 = 2
        pause               ( 7 - 2 ) × 3 + 9 = </pause_start> <pause> <pause> </pause_end> 2
        chain_of_thought    ( 7 - 2 ) × 3 + 9 = 5 × 3 + 9 = 4 + 9 = 2

    An expression is grown from a uniform answer: as often as there are operators, a number, picked uniformly, is
    replaced by an operation of the same value (+ − × ÷ equally likely, uniform over the operands that give the value).
    Brackets are written only where needed, or (`brackets="always"`) around every operation but the outermost, as in
    `( ( 7 - 2 ) × 3 ) + 9`. An expression of k operators then has 4k tokens with its =, and between that and the answer
    stand 2k(k − 1) tokens of thought: for 4, 5 and 6 operators the 24, 40 and 60 of the paper's Table 3. The chain of
    thought undoes the replacements in reverse order (`thought="history"`), or always the leftmost possible operation;
    its loss is on everything after the first =.

    Labels: `value` (at the last token of a sub-expression, of the largest that ends there; at the first =, of the
    whole), `operators` (how many, where scored). Arrays: `tree` `[batch, node, 5]`: operator (0..3 for + − × ÷, −1 for
    a number), left and right node, value, position of the last token, children before parents, −1 throughout where
    there is no node; `height` `[batch]`. The tree is that of the text: equal ranks go from the left. Gold edges:
    hop h leads from the last token of a sub-expression (and from the first =) to the last tokens of the operands h
    levels below it.
    """

    name: ClassVar[str] = "arithmetic"
    summary: ClassVar[str] = "an expression modulo a prime, and its value"
    group: ClassVar[str] = "operators"
    unit: ClassVar[Literal["sequence"]] = "sequence"
    pair_kinds: ClassVar[dict[str, str]] = {
        "number": "one number of the expression is replaced by another",
        "operator": "one operator is replaced by another, where the brackets stay as they are needed",
    }

    p: int = Field(11, ge=2, le=1009, description="the modulus, a prime")
    operators: int = Field(4, ge=1, le=64, description="most operators in an expression")
    min_operators: int | None = Field(None, ge=1, description="fewest; by default all have as many")
    mode: Literal["plain", "pause", "chain_of_thought"] = Field("plain", description="what stands before the answer")
    thought: Literal["history", "leftmost"] = Field("history", description="order of the chain of thought")
    brackets: Brackets = Field("needed", description="only where needed, or around every operation but the outermost")
    n_pause: int = Field(7, ge=0, le=LONGEST, description="pause tokens between their delimiters, in mode pause")

    @model_validator(mode="after")
    def _settings_fit(self) -> Arithmetic:
        if not all(self.p % d for d in range(2, int(self.p**0.5) + 1)):
            raise ValueError(f"arithmetic divides by every number but 0, so p must be a prime, not {self.p}")
        if self.fewest > self.operators:
            raise ValueError(f"arithmetic needs min_operators <= operators, not {self.fewest} > {self.operators}")
        return self

    @property
    def fewest(self) -> int:
        return self.min_operators or self.operators

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary((*map(str, range(self.p)), *_MARKS))

    @property
    def n_ctx(self) -> int:
        # Every operation but the outermost has, or may have, brackets.
        longest = [2 * k + 1 + 2 * max(0, k - 1) for k in range(self.operators + 1)]
        if self.mode == "chain_of_thought":
            return sum(longest) + self.operators
        return longest[-1] + 2 + (self.n_pause + 2 if self.mode == "pause" else 0)

    @property
    def delimiters(self) -> tuple[int, ...]:
        return (self.vocabulary.id("="),)

    @property
    def groups(self) -> tuple[int, ...]:
        return tuple(range(1, self.operators + 1))

    @property
    def conditions(self) -> tuple[dict[str, Any], ...]:
        return tuple({"operators": k} for k in range(self.fewest, self.operators + 1))

    def draw(
        self, n: int, generator: torch.Generator, *, head: str = "main", operators: int | None = None, **condition: Any
    ) -> Batch:
        self.refuse(condition, "operators")
        if operators is not None and not 1 <= operators <= self.operators:
            raise ValueError(f"operators must be between 1 and {self.operators}, not {operators}")
        rng = numpy_generator(generator)
        low, high = (self.fewest, self.operators) if operators is None else (operators, operators)
        counts = rng.integers(low, high + 1, n).tolist()
        answers = rng.integers(0, self.p, n).tolist()
        kinds = rng.integers(0, len(OPERATORS), (n, high)).tolist()
        chances = rng.random((n, high, 3)).tolist()
        rows = []
        for count, answer, kind, chance in zip(counts, answers, kinds, chances, strict=True):
            root, history = grow(answer, [OPERATORS[k] for k in kind[:count]], chance[:count], self.p)
            if self.thought == "leftmost":
                root = read(root.written(self.brackets), self.p)
            rows.append(self._row(root, history[::-1] if self.thought == "history" else root.leftmost()))
        return self._batch(rows)

    def changed_question(self, tokens: Tokens, kind: str, generator: torch.Generator) -> Tokens:
        low, high = (0, self.p) if kind == "number" else (self.p, self.p + len(OPERATORS))
        question = in_question(tokens, self.question_length(tokens))
        return with_other_value(tokens, question & (tokens >= low) & (tokens < high), low, high, generator)

    def answered(self, tokens: Int[Tensor, " pos"]) -> Batch:
        words = self.words(tokens[: int(self.question_length(tokens[None])) - 1])
        if read(words, self.p).written(self.brackets) != words:
            raise ValueError(f"{' '.join(words)!r} has other brackets than this task writes")
        return super().answered(tokens)

    def _row(self, root: Node, order: list[Node]) -> list[str]:
        row = [*root.written(self.brackets), "="]
        if self.mode == "chain_of_thought":
            # The expression after each of its operations is replaced by its value, in this order.
            for n_done in range(1, len(order) + 1):
                row += [*root.written(self.brackets, frozenset(map(id, order[:n_done]))), "="]
            return row[:-1]
        pauses = ["</pause_start>", *["<pause>"] * self.n_pause, "</pause_end>"] if self.mode == "pause" else []
        return [*row, *pauses, str(root.value)]

    def _batch(self, rows: list[list[str]]) -> Batch:
        ends = torch.tensor([len(row) for row in rows])
        width = int(ends.max())
        tokens = torch.tensor([self.vocabulary.encode(row + ["PAD"] * (width - len(row))) for row in rows])
        start = self.question_length(tokens) - 1 if self.mode == "chain_of_thought" else ends - 2
        return Batch.next_token(tokens, start, ends - 1)

    def question_length(self, tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, " batch"]:
        """The length of the expression with its =: every mode has the same test set."""
        return (tokens == self.vocabulary.id("=")).long().argmax(-1) + 1

    def answer_mask(self, batch: Batch) -> Bool[Tensor, "batch pos"]:
        """The value alone, the last token."""
        position = torch.arange(batch.tokens.shape[1], device=batch.tokens.device)
        return batch.loss_mask & (position == self.lengths(batch.tokens)[:, None] - 2)

    def answer_start(
        self, questions: Sequence[Int[Tensor, " pos"]], written: Int[Tensor, "batch new"]
    ) -> Int[Tensor, " batch"]:
        """Behind as many = as there are operators, the question's own counted: every step undoes one of them.

        A model may undo them in another order than the batch does, and with other brackets, and still be right.
        """
        if self.mode != "chain_of_thought":
            return super().answer_start(questions, written)
        operators = torch.tensor([self.vocabulary.id(operator) for operator in OPERATORS], device=written.device)
        steps = torch.stack([torch.isin(question, operators).sum() for question in questions])
        return after_mark(written, self.vocabulary.id("="), steps - 1)

    def truth(self, tokens: Int[Tensor, "batch pos"]) -> Truth:
        labels = {name: torch.full_like(tokens, -1) for name in ("value", "operators")}
        question_ends, ends = self.question_length(tokens).tolist(), self.lengths(tokens).tolist()
        edges, trees, heights = [], [], []
        for i, row in enumerate(tokens.tolist()):
            question = question_ends[i] - 1
            root = read(self.vocabulary.decode(row[:question]), self.p)
            nodes = root.nodes()
            where = {id(node): at for at, node in enumerate(nodes)}
            tree = []
            for node in nodes:
                labels["value"][i, node.end] = node.value
                operands = [where.get(id(operand), -1) for operand in (node.left, node.right)]
                tree.append([OPERATORS.index(node.operator) if node.operator else -1, *operands, node.value, node.end])
            labels["value"][i, question] = root.value
            first = question if self.mode == "chain_of_thought" else ends[i] - 2
            labels["operators"][i, first : ends[i] - 1] = len(root.leftmost())
            whole = Node(root.value, root.operator, root.left, root.right, question)
            edges += [(i, *edge) for edge in sorted({edge for node in [*nodes, whole] for edge in _edges(node)})]
            trees.append(tree)
            heights.append(root.height())
        most = max(map(len, trees))
        table = [tree + [[-1] * 5] * (most - len(tree)) for tree in trees]
        arrays = {"tree": torch.tensor(table), "height": torch.tensor(heights)}
        return Truth(torch.tensor(edges, dtype=torch.long).reshape(-1, 4), labels, arrays)

    def parse(self, text: str) -> Batch:
        """An expression, with or without =; * and / stand for × and ÷. Its chain of thought goes from the left.

        The question stays as it was typed, with needless brackets; `brackets="always"` adds those that are missing.
        """
        typed = text.replace("*", "×").replace("/", "÷").replace("−", "-")
        tokens = re.findall(rf"\d+|[{re.escape(OPERATORS)}()=]|\S", typed)
        tokens = [str(int(token)) if token.isdecimal() else token for token in tokens]
        tokens = tokens[: tokens.index("=")] if "=" in tokens else tokens
        try:
            root = read(tokens, self.p)
        except ValueError as error:
            raise ValueError(f"{text!r} is not an expression modulo {self.p}: {error}") from None
        order = root.leftmost()
        if not 1 <= len(order) <= self.operators:
            raise ValueError(f"type an expression with 1 to {self.operators} operators, not {len(order)}")
        row = self._row(root, order)
        if self.brackets == "needed":
            row = [*tokens, *row[row.index("=") :]]
        if len(row) > self.n_ctx:
            raise ValueError(f"with its answer the expression has {len(row)} tokens, but at most {self.n_ctx} fit")
        return self._batch([row])


def _edges(node: Node) -> list[tuple[int, int, int]]:
    """(hop, query, key) from a sub-expression's last token to those of the operands below it."""
    edges, level, hop = [], [node], 1
    while level := [child for parent in level for child in (parent.left, parent.right) if child is not None]:
        edges += [(hop, node.end, child.end) for child in level if child.end != node.end]
        hop += 1
    return edges
