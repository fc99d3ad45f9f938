"""Arithmetic expressions over the integers modulo a prime: growing, writing, reading and reducing them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

OPERATORS = "+-×÷"
Brackets = Literal["needed", "always"]
"""Brackets around an operation inside another: only where the expression would else have another value, or always."""
_TIGHT = "×÷"


@dataclass
class Node:
    """A number, or an operation on two nodes.

    Attributes:
        value: its value, in 0..p−1.
        operator: one of `OPERATORS`, or None for a number.
        end: the position of its last token, its brackets included; set when it is read from tokens.
    """

    value: int
    operator: str | None = None
    left: Node | None = None
    right: Node | None = None
    end: int = -1

    def height(self) -> int:
        """The largest number of nested operations."""
        return 0 if self.left is None or self.right is None else 1 + max(self.left.height(), self.right.height())

    def written(self, brackets: Brackets, done: frozenset[int] = frozenset()) -> list[str]:
        """The tokens of the expression.

        Args:
            brackets: only where needed, or around every operation but the outermost.
            done: the `id`s of operations that are written as numbers.
        """
        if self.left is None or self.right is None or self.operator is None or id(self) in done:
            return [str(self.value)]
        sides = []
        for child, is_right in ((self.left, False), (self.right, True)):
            tokens = child.written(brackets, done)
            is_operation = len(tokens) > 1
            bracketed = is_operation and (brackets == "always" or _needs_brackets(child, self, is_right))
            sides.append(["(", *tokens, ")"] if bracketed else tokens)
        return [*sides[0], self.operator, *sides[1]]

    def nodes(self) -> list[Node]:
        """Every number and operation, operands before what is made of them."""
        below = [] if self.left is None or self.right is None else [*self.left.nodes(), *self.right.nodes()]
        return [*below, self]

    def leftmost(self) -> list[Node]:
        """The operations in the order of a reader who always computes the leftmost one whose operands are numbers."""
        return [node for node in self.nodes() if node.operator is not None]


def _split(value: int, operator: str, p: int, u: float, v: float) -> tuple[int, int]:
    """Operands a and b of an operation with this value, uniform over all such pairs for uniform u, v in [0, 1)."""
    if operator == "+":
        a = int(u * p)
        return a, (value - a) % p
    if operator == "-":
        a = int(u * p)
        return a, (a - value) % p
    if operator == "÷":
        b = 1 + int(u * (p - 1))
        return value * b % p, b
    if value:
        a = 1 + int(u * (p - 1))
        return a, value * pow(a, -1, p) % p
    # 2p − 1 pairs have the product 0: p with a = 0, and p − 1 with b = 0 and a in 1..p−1.
    index = int(u * (2 * p - 1))
    return (0, int(v * p)) if index < p else (index - p + 1, 0)


def grow(answer: int, operators: list[str], chances: list[list[float]], p: int) -> tuple[Node, list[Node]]:
    """An expression of value `answer`, grown by replacing numbers, one by one, by operations of equal value.

    Args:
        answer: the value of the expression.
        operators: the operations, in the order in which they are inserted.
        chances: three numbers in [0, 1) for each operation: they pick the number to replace, and its two operands.
        p: the modulus.

    Returns:
        The expression, and its operations in that order.
    """
    root = Node(answer)
    numbers, history = [root], []
    for operator, (pick, u, v) in zip(operators, chances, strict=True):
        node = numbers.pop(int(pick * len(numbers)))
        a, b = _split(node.value, operator, p, u, v)
        node.operator, node.left, node.right = operator, Node(a), Node(b)
        numbers += [node.left, node.right]
        history.append(node)
    return root, history


def _needs_brackets(operation: Node, outer: Node, is_right: bool) -> bool:
    """Whether an operation is read as an operand of the outer one only with brackets around it."""
    assert operation.operator is not None and outer.operator is not None
    tight = operation.operator in _TIGHT
    if tight != (outer.operator in _TIGHT):
        return not tight
    # a − (b + c) and a ÷ (b × c) need their brackets, a + (b − c) and a × (b ÷ c) do not.
    return is_right and outer.operator in "-÷"


def read(tokens: list[str], p: int) -> Node:
    """Parse an expression into a tree; operations of equal rank associate to the left.

    Raises:
        ValueError: if it is not an expression over the numbers 0..p−1, or divides by 0.
    """
    node, at = _operations(tokens, 0, p)
    if at < len(tokens):
        raise ValueError(f"{tokens[at]!r} at place {at + 1} was not expected")
    return node


def _operations(tokens: list[str], at: int, p: int, ranks: Sequence[str] = ("+-", _TIGHT)) -> tuple[Node, int]:
    """What begins at a place: operations of the first of these ranks on operations of the others; and where it ends."""
    if not ranks:
        return _atom(tokens, at, p)
    node, at = _operations(tokens, at, p, ranks[1:])
    while at < len(tokens) and tokens[at] in ranks[0]:
        operator = tokens[at]
        right, at = _operations(tokens, at + 1, p, ranks[1:])
        if operator == "÷" and right.value == 0:
            raise ValueError("it divides by 0")
        a, b = node.value, pow(right.value, -1, p) if operator == "÷" else right.value  # the modular inverse
        value = {"+": a + b, "-": a - b, "×": a * b, "÷": a * b}[operator] % p
        node = Node(value, operator, node, right, right.end)
    return node, at


def _atom(tokens: list[str], at: int, p: int) -> tuple[Node, int]:
    if at >= len(tokens):
        raise ValueError("it ends where a number was expected")
    if tokens[at] == "(":
        node, at = _operations(tokens, at + 1, p)
        if at >= len(tokens) or tokens[at] != ")":
            raise ValueError("a bracket is not closed")
        node.end = at
        return node, at + 1
    if not tokens[at].isdecimal() or int(tokens[at]) >= p:
        raise ValueError(f"{tokens[at]!r} at place {at + 1} is not a number from 0 to {p - 1}")
    return Node(int(tokens[at]), end=at), at + 1
