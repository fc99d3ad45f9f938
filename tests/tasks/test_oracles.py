"""Ten thousand samples of every task against an independent way of knowing the answer."""

from __future__ import annotations

import ast
import json
import operator
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from workbench import tasks
from workbench.tasks import Batch, Task, boxes
from workbench.tasks.boxes_story import read
from workbench.util.seeds import generator

N = 10_000
DATA = Path(__file__).parents[1] / "data"


def answers(task: Task, batch: Batch) -> list[tuple[list[str], list[str]]]:
    """(question, all after it) of each sequence, as words."""
    lengths, asked = task.lengths(batch.tokens).tolist(), task.question_length(batch.tokens).tolist()
    rows = batch.tokens.tolist()
    words = task.vocabulary.words
    return [
        ([words[t] for t in row[:a]], [words[t] for t in row[a:n]])
        for row, a, n in zip(rows, asked, lengths, strict=True)
    ]


@pytest.mark.parametrize(
    "case", json.loads((DATA / "boxes_tables.json").read_text()), ids=lambda c: f"table {c['table']}"
)
def test_the_simulator_gives_the_answers_printed_in_the_paper(case: dict[str, Any]) -> None:
    assert read(case["text"]).answers(case["style"]) == case["answer"]


def plain_boxes(text: str, style: str) -> str:
    """The boxes by splitting at words, without the library's grammar."""
    held: dict[str, list[str]] = {}
    first, *rest = [sentence.strip() for sentence in text.split(".") if sentence.strip()]
    for clause in first.split(","):
        where = clause.split()[-1]
        said = clause.lower().split(" is in ")[0].split(" are in ")[0]
        held[where] = [] if "nothing" in said else [part.split()[-1] for part in said.split(" and ")]
    for sentence in rest:
        words = sentence.split()
        boxes_named = [words[i + 1] for i, word in enumerate(words) if word == "Box"]
        for box in boxes_named:
            held.setdefault(box, [])
        items = [words[i + 1] for i, word in enumerate(words) if word == "the" and words[i + 1] != "contents"]
        items = items or list(held[boxes_named[0]])
        if words[0] in ("Remove", "Move"):
            for item in items:
                held[boxes_named[0]].remove(item)
        if words[0] in ("Put", "Move"):
            held[boxes_named[-1]].extend(items)
    said = []
    for box in sorted(held):
        if held[box]:
            said.append(f"Box {box} contains " + " and ".join(f"the {item}" for item in sorted(held[box])))
        elif style == "default":
            said.append(f"Box {box} is empty")
    return ", ".join(said) + "."


@pytest.mark.parametrize("style", ["default", "advanced"])
def test_boxes_against_a_plain_state_machine(style: str) -> None:
    task = tasks.make("boxes", style=style)
    batch = task.sample(N // 2, generator(1))
    assert isinstance(task, boxes.Boxes)
    asked, lengths = task.question_length(batch.tokens).tolist(), task.lengths(batch.tokens).tolist()
    for row, a, n in zip(batch.tokens, asked, lengths, strict=True):
        text, ending = task.words_of(row[:a]), task.words_of(row[a:n])
        assert plain_boxes(text, style) == read(text).answers(style) == ending  # type: ignore[arg-type]


@pytest.mark.parametrize("settings", [{}, {"n_boxes": 4, "n_filled": 1}, {"n_boxes": 3, "n_filled": 2, "min_moves": 1}])
def test_box_moves_against_the_reader_of_boxes(settings: dict[str, Any]) -> None:
    """Contents and depth of every clause as `boxes` reads them; gold edges as its graph of clauses has them."""
    task = tasks.make("box_moves", **settings)
    batch = task.sample(60, generator(2))
    truth = task.truth(batch.tokens)
    for i, (row, length) in enumerate(zip(batch.tokens, task.lengths(batch.tokens).tolist(), strict=True)):
        words = task.words(row[:length])
        story = read(" ".join(words))
        ends = [at for at, word in enumerate(words) if word in ",."]
        moves = range(task.n_filled, len(ends))
        assert batch.loss_mask[i].nonzero()[:, 0].tolist() == ends[task.n_filled :]
        for clause in moves:
            source = words[ends[clause] - 4]
            moved = task.vocabulary.words[int(batch.targets[i, ends[clause]])]
            assert story.contents[clause - 1][source] == (moved,)
            assert truth.labels["moves"][i, ends[clause]] == story.depth[clause]
        due = {(1, ends[clause], ends[need]) for clause in moves for need in story.depends[clause]}
        assert {tuple(edge[1:]) for edge in truth.edges.tolist() if edge[0] == i and edge[1] == 1} == due
        assert truth.arrays["layers"][i] == story.layers


class Mod:
    """An integer modulo 11, for Python's own expressions."""

    p = 11

    def __init__(self, value: int) -> None:
        self.value = value % self.p

    def __truediv__(self, other: Mod) -> Mod:
        return next(Mod(x) for x in range(self.p) if x * other.value % self.p == self.value)


def python_value(expression: list[str]) -> int:
    """By Python's own parser and precedence."""
    apply: dict[type, Callable[[int, int], int]] = {
        ast.Add: operator.add,
        ast.Sub: operator.sub,
        ast.Mult: operator.mul,
    }

    def value(node: ast.AST) -> Mod:
        if isinstance(node, ast.Constant):
            return Mod(int(str(node.value)))
        assert isinstance(node, ast.BinOp)
        left, right = value(node.left), value(node.right)
        if isinstance(node.op, ast.Div):
            assert right.value != 0
            return left / right
        return Mod(apply[type(node.op)](left.value, right.value))

    text = " ".join(expression).replace("×", "*").replace("÷", "/")
    return value(ast.parse(text, mode="eval").body).value


@pytest.mark.parametrize(
    "settings",
    [
        {"operators": 6},
        {"operators": 5, "min_operators": 1, "mode": "chain_of_thought"},
        {"operators": 5, "min_operators": 1, "mode": "chain_of_thought", "brackets": "always"},
    ],
)
def test_arithmetic_against_pythons_own_parser(settings: dict[str, Any]) -> None:
    task = tasks.make("arithmetic", **settings)
    for question, rest in answers(task, task.sample(N, generator(2))):
        want = python_value(question[:-1])
        steps = " ".join(rest).split(" = ")
        assert [python_value(step.split()) for step in steps] == [want] * len(steps)
        operators = [sum(token in "+-×÷" for token in step.split()) for step in steps]
        assert operators == list(range(len(steps) - 1, -1, -1))


def test_arithmetic_brackets_only_where_they_change_the_value_of_some_expression() -> None:
    """Taking out any pair of brackets gives another tree, unless it only re-associates a sum or a product."""
    from workbench.tasks.expressions import read as parsed

    task = tasks.make("arithmetic", operators=6)
    for question, _ in answers(task, task.sample(500, generator(3))):
        assert parsed(question[:-1], 11).written("needed") == question[:-1]


@pytest.mark.parametrize("thought", ["history", "leftmost"])
def test_arithmetic_brackets_always_stand_around_every_operation_but_the_outermost(thought: str) -> None:
    """Each expression of the chain of thought too; without brackets the draws are those of brackets where needed."""
    settings = {"operators": 6, "min_operators": 1, "mode": "chain_of_thought", "thought": thought}
    task = tasks.make("arithmetic", brackets="always", **settings)
    fewer = tasks.make("arithmetic", **settings)
    inner = re.compile(r"\( \d+ [-+×÷] \d+ \)")
    both = (answers(one, one.draw(300, generator(4))) for one in (task, fewer))
    for (question, rest), (with_fewer, same) in zip(*both, strict=True):
        for text in " ".join([*question, *rest]).split(" = "):
            while inner.search(text):
                text = inner.sub("0", text)
            assert re.fullmatch(r"\d+( [-+×÷] \d+)?", text), "one operation is left outside all brackets"
        assert [word for word in question if word not in "()"] == [word for word in with_fewer if word not in "()"]
        assert rest[-1] == same[-1]


@pytest.mark.parametrize(("operators", "question", "thought"), [(4, 16, 24), (5, 20, 40), (6, 24, 60)])
def test_arithmetic_with_all_its_brackets_has_the_tokens_of_thought_of_table_3(
    operators: int, question: int, thought: int
) -> None:
    task = tasks.make("arithmetic", operators=operators, mode="chain_of_thought", brackets="always")
    batch = task.sample(200, generator(5))
    assert task.question_length(batch.tokens).unique().tolist() == [question]
    assert (task.lengths(batch.tokens) - question - 1).unique().tolist() == [thought]
    assert batch.loss_mask.sum(1).unique().tolist() == [thought + 1], "the thought and the answer"
    assert task.n_ctx == question + thought + 1 == batch.tokens.shape[1]


def test_lis_against_the_quadratic_definition() -> None:
    task = tasks.make("lis", length=30, min_length=2, values=90, mode="chain_of_thought")
    for question, rest in answers(task, task.sample(N, generator(4))):
        numbers = [int(word) for word in question]
        best: list[int] = []
        for i, x in enumerate(numbers):
            best.append(1 + max((best[j] for j in range(i) if numbers[j] < x), default=0))
        assert rest == ["||", *map(str, best), "####", str(max(best))]


def test_the_witness_of_lis_is_an_increasing_subsequence_of_the_answers_length() -> None:
    task = tasks.make("lis", length=20, values=60)
    batch = task.sample(500, generator(5))
    truth = task.truth(batch.tokens)
    for row, witness, dp in zip(
        batch.tokens, truth.labels["witness"], truth.labels["longest_ending_here"], strict=True
    ):
        chosen = row[witness == 1].tolist()
        assert chosen == sorted(set(chosen)) and len(chosen) == int(dp.max()) == int(row[-1])


@pytest.mark.parametrize(
    "settings", [{}, {"mode": "pause"}, *({"mode": "chain_of_thought", "thoughts_removed": n} for n in (0, 9, 46))]
)
def test_multiplication_against_python_integers(settings: dict[str, Any]) -> None:
    task = tasks.make("multiplication", digits=4, **settings)
    batch = task.sample(N, generator(6))
    truth = task.truth(batch.tokens)
    for i, (question, rest) in enumerate(answers(task, batch)):
        a, b = (int("".join(reversed(part))) for part in (question[:4], question[5:9]))
        assert "".join(rest[-8:]) == f"{a * b:08d}"[::-1]
        if i < 500:
            for row, digit in enumerate(question[5:9]):
                partial = a * int(digit) * 10**row
                assert "".join(map(str, truth.arrays["partial_products"][i, row].tolist())) == f"{partial:08d}"[::-1]
                running = a * (b % 10 ** (row + 1))
                assert "".join(map(str, truth.arrays["running_sums"][i, row].tolist())) == f"{running:08d}"[::-1]


@pytest.mark.parametrize("settings", [{}, {"reversed": False}, {"nines": 1.0, "test_max_length": 20}])
def test_increment_against_python_integers(settings: dict[str, Any]) -> None:
    task = tasks.make("increment", **settings)
    for question, rest in answers(task, task.sample(N, generator(7))):
        written = "".join(rest[1:])
        want = str(int("".join(question)) + 1)
        assert rest[0] == "⊥" and written == (want if settings.get("reversed") is False else want[::-1])


def test_the_carry_hint_hands_on_each_carry() -> None:
    task = tasks.make("increment", hints="carry", nines=0.5)
    for question, rest in answers(task, task.sample(N, generator(8), head="carry")):
        carry, digits = 1, [int(word) for word in reversed(question)]
        want = ["⊥"]
        while digits or carry:
            total = (digits.pop(0) if digits else 0) + carry
            carry = total // 10
            want += [str(total % 10), "↑", str(carry)]
        assert rest == want


def test_sorting_against_sorted_and_its_hints_against_their_definitions() -> None:
    task = tasks.make("sorting", hints="successor,count,fill", q=30)
    for question, rest in answers(task, task.sample(N, generator(9))):
        assert list(map(int, rest[1:])) == sorted(map(int, question))
    words = task.vocabulary.words

    def asked(head: str) -> list[tuple[list[int], list[str], list[str]]]:
        """(symbols, given after ⊥, answer)"""
        batch = task.sample(N, generator(9, head), head=head)
        found = []
        for (question, rest), targets, mask in zip(answers(task, batch), batch.targets, batch.loss_mask, strict=True):
            first = int(mask.float().argmax()) - len(question)
            given = rest[1 : first + 1]
            found.append((list(map(int, question)), given, [words[t] for t in targets[mask].tolist()]))
        return found

    for symbols, given, answer in asked("successor"):
        larger = [s for s in symbols if s > int(given[0])]
        assert int(given[0]) in symbols and answer == ([str(min(larger))] if larger else ["⊥"])
    for symbols, given, answer in asked("count"):
        less, more = sorted(set(symbols), key=symbols.count)
        tie = symbols.count(less) == symbols.count(more)
        assert not given and answer == (["⊥"] if tie else [str(less)])
        assert symbols.count(more) - symbols.count(less) <= 5
    for symbols, given, answer in asked("fill"):
        assert len(set(symbols)) == 1 and answer and given + answer == [str(s) for s in symbols]


def test_pointer_chains_by_walking_them() -> None:
    task = tasks.make("pointer_chain", n=24, k=4, reading="chain")
    batch = task.sample(500, generator(10))
    ancestors = task.truth(batch.tokens).arrays["ancestors"]
    for row, targets, up in zip(batch.tokens.tolist(), batch.targets, ancestors, strict=True):
        for position in range(4, 24):
            chain, here = [], position
            while here >= 4:
                here = row[here]
                chain.append(here)
            assert sorted(chain) == targets[position].nonzero()[:, 0].tolist()
            assert up[position].tolist() == chain + [-1] * (5 - len(chain))


@pytest.mark.parametrize("properties", [1, 2, 4])
def test_property_chains_by_walking_them(properties: int) -> None:
    task = tasks.make("property_chain", n=12, k=3, properties=properties)
    batch = task.sample(N // 10, generator(0))
    truth = task.truth(batch.tokens)
    edges: dict[int, set[tuple[int, int, int]]] = {}
    for example, *edge in truth.edges.tolist():
        edges.setdefault(example, set()).add((edge[0], edge[1], edge[2]))
    assert len(truth.edges) == sum(map(len, edges.values()))  # none is given twice
    for row, tokens in enumerate(batch.tokens):
        records, walked = task.words(tokens), set()
        for query in range(3, 12):
            answer = set()
            for number, letter in enumerate("ABCD"[:properties]):
                at, hop = query, 0
                while at >= 3:
                    at, hop = (at // 3 - 1) * 3 + int(records[at][number]), hop + 1
                    walked.add((hop, query, at))
                answer.add(letter + records[at][number])
            assert {task.vocabulary.words[i] for i in batch.targets[row, query].nonzero().flatten()} == answer
        assert edges[row] == walked


def test_the_commonest_value_of_block_0_is_right_as_often_as_the_docstring_says() -> None:
    task = tasks.make("property_chain", n=12, k=3, properties=1)
    targets = task.sample(N, generator(1)).targets[:, :, -3:].float()  # the classes of the values
    commonest = targets[:, :3].sum(1).argmax(-1)
    right = targets[:, 3:].gather(2, commonest[:, None, None].expand(-1, 9, 1))
    assert right.mean().item() == pytest.approx(0.63, abs=0.01)


def test_boxes_truth_says_what_is_where_after_each_clause_and_what_it_took() -> None:
    task = tasks.make("boxes", style="advanced", n_boxes=4)
    text = "The tea is in Box A, the cup is in Box B. Move the contents of Box A to Box C. Put the hat into Box C. "
    text += "Move the contents of Box C to Box D. Put the ice into Box B."
    batch = task.parse(text)
    truth = task.truth(batch.tokens)
    names = boxes.OBJECTS

    def held(clause: int) -> list[list[str]]:
        return [[names[i] for i in row.nonzero()[:, 0].tolist()] for row in truth.arrays["contents"][0, clause]]

    assert held(1) == [["tea"], ["cup"], [], []]
    assert held(3) == [[], ["cup"], ["hat", "tea"], []]
    assert held(5) == [[], ["cup", "ice"], [], ["hat", "tea"]]
    ends = [i for i, word in enumerate(task.words(batch.tokens[0])) if word in ",."][:6]
    assert truth.labels["depth"][0, ends].tolist() == [0, 0, 1, 2, 3, 1]
    assert (int(truth.arrays["graph_depth"][0]), int(truth.arrays["layers"][0])) == (3, 2)
    edges = {tuple(edge) for edge in truth.edges[:, 1:].tolist()}
    assert {(1, ends[4], ends[3]), (2, ends[4], ends[2]), (3, ends[4], ends[0]), (1, ends[5], ends[1])} <= edges
    assert (1, ends[5], ends[4]) not in edges


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("The tea is in Box A. Remove the cup from Box A.", "clause 2: the cup is not in Box A, which holds the tea"),
        ("The tea is in Box A. Put the tea into Box B.", "the tea is in Box A already"),
        ("The tea is in Box A. Eat the tea.", "'Eat the tea' is not a sentence about boxes"),
        ("The tea is in Box A, the cup is in Box A.", "given twice"),
        ("The tea is in Box A. Move the contents of Box A to Box A.", "to itself"),
        ("", "has no clause"),
    ],
)
def test_a_text_that_cannot_be_is_explained(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(text)


def test_arithmetic_truth_is_the_tree_of_the_text() -> None:
    task = tasks.make("arithmetic", operators=3)
    batch = task.parse("(7 - 2) * 3 + 9")
    truth = task.truth(batch.tokens)
    assert task.words(batch.tokens[0])[-1] == "2"
    assert truth.labels["value"][0].tolist() == [-1, 7, -1, 2, 5, -1, 4, -1, 2, 2, -1]
    assert truth.arrays["tree"][0].tolist() == [
        [-1, -1, -1, 7, 1],
        [-1, -1, -1, 2, 3],
        [1, 0, 1, 5, 4],
        [-1, -1, -1, 3, 6],
        [2, 2, 3, 4, 6],
        [-1, -1, -1, 9, 8],
        [0, 4, 5, 2, 8],
    ]
    edges = {tuple(edge) for edge in truth.edges[:, 1:].tolist()}
    hop_1 = {(1, 4, 1), (1, 4, 3), (1, 6, 4), (1, 8, 6), (1, 9, 6), (1, 9, 8)}
    hop_2 = {(2, 6, 1), (2, 6, 3), (2, 8, 4), (2, 8, 6), (2, 9, 4), (2, 9, 6)}
    hop_3 = {(3, 8, 1), (3, 8, 3), (3, 9, 1), (3, 9, 3)}
    assert edges == hop_1 | hop_2 | hop_3
    assert int(truth.arrays["height"][0]) == 3
    assert torch.equal(task.parse("(7-2)×3+9 =").tokens, batch.tokens)


def test_arithmetic_truth_counts_the_brackets_to_their_operation() -> None:
    """With all brackets, a sub-expression ends at the bracket that closes it, and its value is read there."""
    task = tasks.make("arithmetic", operators=3, brackets="always")
    batch = task.parse("(7 - 2) * 3 + 9")
    assert task.question(batch.tokens[0]) == "( ( 7 - 2 ) × 3 ) + 9 ="
    truth = task.truth(batch.tokens)
    assert truth.labels["value"][0].tolist() == [-1, -1, 7, -1, 2, 5, -1, 3, 4, -1, 2, 2, -1]
    assert truth.arrays["tree"][0].tolist() == [
        [-1, -1, -1, 7, 2],
        [-1, -1, -1, 2, 4],
        [1, 0, 1, 5, 5],
        [-1, -1, -1, 3, 7],
        [2, 2, 3, 4, 8],
        [-1, -1, -1, 9, 10],
        [0, 4, 5, 2, 10],
    ]
    hop_1 = {(5, 2), (5, 4), (8, 5), (8, 7), (10, 8), (11, 8), (11, 10)}
    assert {(query, key) for hop, query, key in truth.edges[:, 1:].tolist() if hop == 1} == hop_1
    assert torch.equal(task.parse("(((7-2)×3))+9 =").tokens, batch.tokens)


def test_a_repetition_test_set_is_of_sorting_alone() -> None:
    task = tasks.make("sorting", hints="successor")
    with pytest.raises(ValueError, match="not of its hint 'successor'"):
        task.sample(3, generator(0), head="successor", length=8, repeats=2)
