"""Edits worth trying on an input: those that the task's truth and mechanisms point at, and those of one head."""

from __future__ import annotations

import torch
from torch import Tensor

from workbench.capture import Capture
from workbench.instruments.attention import attention_graph
from workbench.instruments.residual import projection
from workbench.interventions import CutEdge, Edit, Exchange, Patch, RemoveHead, RemoveWrite
from workbench.mechanisms import identity_removed, minimum, partial_product, successor
from workbench.tasks import Batch
from workbench.util.seeds import generator

POOL = 64  # held-out inputs that another one is looked for among


def suggestions(seen: Capture, layer: int, head: int) -> dict[str, Edit]:
    """Edits of one input, by what they are called; as many as the input allows.

    Args:
        seen: the input, with its patterns and its truth (`workbench.see`), of a single sequence.
        layer, head: whose strongest edge is cut, and which is removed.

    Raises:
        ValueError: if there is no such layer or head.
    """
    found: dict[str, Edit] = {}
    edge = strongest_edge(seen, layer, head)
    if edge is not None:
        found["cut this head's strongest edge"] = CutEdge(*edge, layer, head)
    found["remove this head"] = RemoveHead(layer, head)
    found |= _of_the_truth(seen) | _of_sorting(seen) | _of_multiplication(seen)
    found["silence the last MLP"] = RemoveWrite(f"blocks.{seen.subject.n_layers - 1}.hook_mlp_out")
    return found


def strongest_edge(seen: Capture, layer: int, head: int, query: int | None = None) -> tuple[int, int] | None:
    """The query and key of the largest entry of a head's pattern, a position's own left out; None where there is none.

    Args:
        seen: with the patterns, of a single sequence.
        layer, head: whose.
        query: the one whose edges count; by default all that are asked for an answer, if any is.

    Raises:
        ValueError: if there is no such layer, head or position.
    """
    weight = torch.tensor(attention_graph.matrices(seen, 0, layer, head, n_hops=1).select(matrix="pattern").values)
    n_pos = len(weight)
    if query is not None and not 0 <= query < n_pos:
        raise ValueError(f"there is no position {query}; the input has {n_pos}, from 0")
    scored = seen.batch.loss_mask[0, :n_pos].cpu()
    rows = torch.arange(n_pos) == query if query is not None else scored
    rows = rows & (torch.arange(n_pos) > 0)
    if query is None and not rows.any():
        rows = torch.arange(n_pos) > 0
    if not rows.any():
        return None
    allowed = torch.ones(n_pos, n_pos, dtype=torch.bool).tril(-1) & rows[:, None]
    at = int(torch.where(allowed, weight, -1.0).argmax())
    return at // n_pos, at % n_pos


def another(seen: Capture) -> str:
    """Another held-out input to patch from, in the task's own words.

    Of 64 one whose length is nearest to this one's, if there is one with another first answer.
    """
    task, own = seen.subject.task, seen.batch
    pool = task.sample(POOL, generator(0, "another input"), split="test")
    lengths, question, answer = task.lengths(pool.tokens), task.question(own.tokens[0]), _first_answer(own, 0)
    apart = (lengths - int(task.lengths(own.tokens)[0])).abs().tolist()
    alike = [torch.equal(_first_answer(pool, row), answer) for row in range(POOL)]
    order = sorted(range(POOL), key=lambda row: (apart[row], alike[row]))
    others = (task.question(pool.tokens[row, : int(lengths[row])]) for row in order)
    return next((other for other in others if other != question), question)


def _first_answer(batch: Batch, row: int) -> Tensor:
    """The target of the first position that is scored; nothing where none is."""
    return batch.targets[row][batch.loss_mask[row]][:1]


def _of_the_truth(seen: Capture) -> dict[str, Edit]:
    """The true edge under the last answer that has one; one of several keys only where none has a single one."""
    scored = seen.batch.loss_mask[0].tolist()
    keys: dict[int, list[int]] = {}
    for hop, query, key in attention_graph.gold_edges(seen, 0):
        if hop == 1 and query != key and scored[query]:
            keys.setdefault(query, []).append(key)
    if not keys:
        return {}
    query = max(keys, key=lambda query: (len(keys[query]) == 1, query))
    return {"cut a true edge of the last answer": CutEdge(query, keys[query][0])}


def _of_sorting(seen: Capture) -> dict[str, Edit]:
    """What the causal tests of sorting exchange, here with the largest symbol of the input that takes no part."""
    subject, labels, found = seen.subject, seen.truth.labels, dict[str, Edit]()
    if minimum.why_not(subject) is not None or not (labels["minimum"] >= 0).any():
        return found
    delimiter = int(labels["minimum"][0].argmax())
    smallest, symbols = int(labels["minimum"][0, delimiter]), sorted(set(seen.batch.tokens[0, :delimiter].tolist()))
    if len(symbols) > 1:
        found["exchange the minimum and another"] = Exchange(minimum.POINT, smallest, symbols[-1], delimiter)
    own, following = labels["identity"][0].tolist(), labels["successor"][0].tolist()
    differs = [i for i, (a, b) in enumerate(zip(own, following, strict=True)) if b >= 0 and a != b]
    if not differs:
        return found
    at = differs[0]
    others = [symbol for symbol in symbols if symbol not in (own[at], following[at])]
    if successor.why_not(subject) is None and others:
        found["exchange the next token and another"] = Exchange(successor.POINT, following[at], others[-1], at)
    if identity_removed.why_not(subject) is None:
        write = f"blocks.{subject.n_layers - 1}.hook_mlp_out"
        found["let the last MLP remove the wrong token"] = Exchange(write, own[at], following[at], at)
    return found


def _of_multiplication(seen: Capture) -> dict[str, Edit]:
    """Another lowest digit of the first operand, in what the last layer reads."""
    subject = seen.subject
    if partial_product.why_not(subject) is not None:
        return {}
    first, second = subject.task.question(seen.batch.tokens[0]).split(" * ")
    other = f"{first[:-1]}{(int(first[-1]) + 1) % 10} * {second}"
    point = projection.from_embedding(subject)[2 * subject.n_layers - 2]
    return {"replace a digit in the last layer's input": Patch(point, other, position=0)}
