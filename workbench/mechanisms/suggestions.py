"""Suggested edits of one input: of a chosen head, of the task's gold edges, and of what its mechanisms claim."""

from __future__ import annotations

import torch

from workbench.capture import Capture
from workbench.instruments.attention import attention_graph
from workbench.interventions import CutEdge, Edit, RemoveHead, RemoveWrite, writes
from workbench.mechanisms import MECHANISMS
from workbench.util.seeds import generator

POOL = 64  # held-out inputs among which another one is looked for


def suggestions(seen: Capture, layer: int, head: int) -> dict[str, Edit]:
    """Edits that are worth trying on one input, each under a short name for a button.

    Every mechanism that applies to the model and has `suggested_edits` adds its own.

    Args:
        seen: a single sequence, with the attention patterns and the truth (`workbench.see`).
        layer, head: the head whose strongest edge is cut, and which is removed.

    Raises:
        ValueError: if there is no such layer or head.
    """
    edits: dict[str, Edit] = {}
    edge = strongest_edge(seen, layer, head)
    if edge is not None:
        edits["cut this head's strongest edge"] = CutEdge(*edge, layer, head)
    edits["remove this head"] = RemoveHead(layer, head)
    # The gold edge that the last answer needs. Answers with a single gold edge of one hop come first (where there are
    # several, cutting one of them may change nothing), and of these the latest.
    scored, keys = seen.batch.loss_mask[0].tolist(), dict[int, list[int]]()
    for hop, query, key in attention_graph.gold_edges(seen, 0):
        if hop == 1 and query != key and scored[query]:
            keys.setdefault(query, []).append(key)
    if keys:
        query = max(keys, key=lambda query: (len(keys[query]) == 1, query))
        edits["cut a gold edge of the last answer"] = CutEdge(query, keys[query][0])
    for mechanism in MECHANISMS.values():
        if hasattr(mechanism, "suggested_edits") and mechanism.why_not(seen.subject) is None:
            edits |= mechanism.suggested_edits(seen)
    part = "attention" if seen.subject.attention_only else "MLP"
    edits[f"remove the last {part}'s output"] = RemoveWrite(writes(seen.subject)[-1])
    return edits


def strongest_edge(seen: Capture, layer: int, head: int, query: int | None = None) -> tuple[int, int] | None:
    """The query and the key of the largest entry of a head's pattern; a position's attention to itself does not count.

    Args:
        seen: a single sequence, with the attention patterns.
        layer, head: the head.
        query: the position whose edges count; by default every scored position, or if none is scored every position.

    Returns None where no such position has an earlier one to attend to.

    Raises:
        ValueError: if there is no such layer, head or position.
    """
    weight = torch.tensor(attention_graph.matrices(seen, 0, layer, head, n_hops=1).select(matrix="pattern").values)
    n_pos = len(weight)
    if query is not None and not 0 <= query < n_pos:
        raise ValueError(f"there is no position {query}; the input has {n_pos}, from 0")
    rows = seen.batch.loss_mask[0, :n_pos].cpu() if query is None else torch.arange(n_pos) == query
    if query is None and not rows[1:].any():
        rows = torch.ones_like(rows)
    allowed = torch.ones(n_pos, n_pos, dtype=torch.bool).tril(-1) & rows[:, None]
    if not allowed.any():
        return None
    at = int(torch.where(allowed, weight, -1.0).argmax())
    return at // n_pos, at % n_pos


def another(seen: Capture) -> str:
    """Another held-out input to patch from, in the task's own words.

    It is drawn from 64 held-out inputs: of those whose length is nearest to this input's length, one whose first answer
    differs, if there is one.
    """
    task, own = seen.subject.task, seen.batch
    pool = task.sample(POOL, generator(0, "another input"), split="test")
    lengths, question = task.lengths(pool.tokens), task.question(own.tokens[0])
    apart = (lengths - int(task.lengths(own.tokens)[0])).abs().tolist()
    first, *firsts = (
        batch.targets[row][batch.loss_mask[row]][:1] for batch in (own, pool) for row in range(len(batch))
    )
    alike = [torch.equal(answer, first) for answer in firsts]
    order = sorted(range(POOL), key=lambda row: (apart[row], alike[row]))
    others = (task.question(pool.tokens[row, : int(lengths[row])]) for row in order)
    return next((other for other in others if other != question), question)
