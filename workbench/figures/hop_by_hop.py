"""What one token reads hop by hop through a head's pattern: its chain as arcs, and where each hop arrives."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from workbench.capture import Capture
from workbench.figures.drawing import Drawing, element
from workbench.figures.style import ORANGE, PURPLE, in_order
from workbench.figures.token_page import ARCS, TokenPage, answer_rows, part_drawn, window
from workbench.instruments.attention import attention_graph, resolvent
from workbench.instruments.residual import projection
from workbench.measurement.numbers import percent

CELL = 20  # height of a row of a hop, in pixels
LEAST = 0.002  # weights below this are not sent to a page
MOST_KEYS = 48  # of a query's keys, the strongest, are sent to a page
THIN = 0.01  # edges of less weight are not drawn
FAINT = 0.05  # what arrives at a position, from which on it is written there


def hop_by_hop(
    seen: Capture,
    *,
    layer: int,
    head: int,
    query: int | None = None,
    gamma: float | None = None,
    n_hops: int = 8,
    start: int = 0,
) -> Drawing:
    """The paths from one query through a head's pattern: an arc for each edge of each hop, thicker the more it weighs.

    Below the tokens a row for each hop says where its paths arrive (`resolvent.steps`), the true ancestor of that hop
    framed; the last row is what all hops together read at γ (Eq. 5's row, scaled to sum to 1). In the explorer the
    token and γ are chosen in the page, which computes the same from `data`.

    Args:
        seen: with the patterns, of which the first sequence's are followed.
        layer, head: whose attention.
        query: the position whose paths are followed; by default `far_query`.
        gamma: the weight of each further hop; by default the layer's own, of layers without one 0.9.
        n_hops: hops drawn, at least 1.
        start: the first of at most `WIDEST` positions drawn.

    Raises:
        ValueError: if γ is not in [0, 1), or there is no such layer, head or position.
    """
    steps = resolvent.steps(seen, 0, layer, head, n_hops=n_hops).values
    own = resolvent.followed(seen, layer, head).gamma
    gamma = own or 0.9 if gamma is None else gamma
    page, query = _input(seen, query, start)
    data = steps_data(seen, page, (layer, head, 0), base=page.height, query=query, n_hops=n_hops)
    data |= {"gamma": gamma, "cells": page.height + ARCS, "clicks": False}
    _draw_hops(page, steps, _pattern(seen, layer, head, 0), data)
    page.rows(answer_rows(seen))
    says = "; " if own else " takes one step; further hops are what its pattern would reach at "
    says = f"{seen.subject.name}{says}γ = {gamma:g}{part_drawn(page.window, len(page.words))}"
    title = f"Layer {layer}, head {head}: what {page.at(query)} reads, hop by hop"
    return Drawing(title, says, page.body(), page.width, page.height, data)


def _input(seen: Capture, query: int | None, start: int) -> tuple[TokenPage, int]:
    """The tokens below the task's edges of one hop; and the query that is followed.

    Raises:
        ValueError: if there is no such position.
    """
    words = projection.sequence(seen, 0)
    query = far_query(seen) if query is None else query
    if not 0 <= query < len(words):
        raise ValueError(f"there is no position {query}; the input has {len(words)} tokens")
    page = TokenPage(words, window(len(words), start), (query,))
    page.focus = query
    edges = attention_graph.gold_edges(seen, 0, most_hops=1)
    if inside := [(hop, q, k) for hop, q, k in edges if page.holds(q, k) and q != k]:
        base = page.height + page.high(inside) + 6
        page.name("task's truth", base - 14, "the edges that the task itself defines; the model never sees them")
        for _, q, k in inside:
            tip = f"truth: {page.at(q)} rests on {page.at(k)}"
            page.arc(q, k, base, -1, class_="edge truth", stroke=ORANGE, stroke_width=1.4, data_tip=tip)
        page.height = base + 4
    page.tokens()
    return page, query


def _draw_hops(page: TokenPage, steps: np.ndarray, pattern: Tensor, data: dict[str, Any]) -> None:
    """An arc for each edge of each hop, and a row for each hop: what a page draws anew by itself."""
    base, query, gamma, eq7 = data["base"], data["query"], data["gamma"], data["form"] == "eq7"
    A, before = np.asarray(pattern.cpu()), len(page.parts)
    page.height = data["cells"]
    page.name("paths, by hop", base + 14, "from the key that is read to the query that reads it; dark hops come first")
    inner, front = A if data["diagonal"] else A - np.diag(np.diag(A)), np.eye(len(A))[query]
    for hop, colour in enumerate(data["colours"]):
        step = A if eq7 or hop == 0 else inner  # the last step of Eq. 7 is the whole pattern; of Eq. 5 it is the first
        flow = gamma**hop * front[:, None] * step  # what flows over each edge, weighed as further hops are
        front = front @ (inner if eq7 else step)
        for q, k in np.argwhere(flow >= THIN).tolist():
            if page.holds(q, k) and q != k:
                style: dict[str, Any] = {"stroke": colour, "stroke_width": 0.8 + 4.2 * min(1.0, float(flow[q, k]))}
                tip = f"hop {hop + 1}: {page.at(q)} reads {page.at(k)}, weight {flow[q, k]:.3f}"
                page.arc(q, k, base, 1, class_="step", opacity=0.9, data_tip=tip, **style)
    for hop, colour in enumerate(data["colours"], 1):
        due = {key for h, at, key in data["gold"] if at == query and h == hop}
        _draw_cells(page, f"hop {hop}", steps[hop - 1, query], colour, due)
    layer = resolvent.chacal(gamma, data["form"], diagonal=data["diagonal"])
    reads = attention_graph.unit_rows(layer.mixing_matrix(pattern))[query]
    _draw_cells(page, "all hops at γ", np.asarray(reads.cpu()), PURPLE, set())
    page.parts[before:] = [element("g", "".join(page.parts[before:]), class_="steps")]
    page.height += 6


def far_query(seen: Capture, example: int = 0) -> int:
    """The position from which the longest way is due, the last of equals; without gold edges the last position."""
    edges = seen.truth.edges[seen.truth.edges[:, 0] == example]
    if not len(edges):
        return len(projection.sequence(seen, example)) - 1
    return int(edges[edges[:, 1] == edges[:, 1].max(), 2].max())


def steps_data(
    seen: Capture, page: TokenPage, place: tuple[int, int, int], *, base: float, query: int | None, n_hops: int
) -> dict[str, Any]:
    """What a page needs to follow any query of the drawing by itself (`scripts/hop_by_hop.js`).

    Args:
        seen: with the patterns.
        page: the tokens' columns.
        place: layer, head and example.
        base: where the arcs hang.
        query: the position that is followed when none is pointed at; None for none.
        n_hops: hops followed.
    """
    layer, head, example = place
    own = resolvent.followed(seen, layer, head)
    geometry = {"first": page.window.start, "n": len(page.window), "x": page.x(page.window.start)}
    geometry |= {"column": page.column, "base": base, "arcs": ARCS, "cell": CELL}
    look = {"colours": in_order(n_hops), "total": PURPLE, "due": ORANGE, "words": list(page.words)}
    layers_own = {"gamma": own.gamma, "own": own.gamma, "form": own.form, "diagonal": own.diagonal}
    gold = [list(edge) for edge in attention_graph.gold_edges(seen, example, n_hops)]
    rows = []  # of each query: key, weight, key, weight, … of its strongest keys
    for row in np.asarray(_pattern(seen, layer, head, example).cpu()):
        keys = np.flatnonzero(row >= LEAST)
        keys = np.sort(keys[np.argsort(-row[keys], kind="stable")[:MOST_KEYS]])
        rows.append([number for key in keys.tolist() for number in (key, round(float(row[key]), 4))])
    followed = {"query": query, "far": far_query(seen, example), "hops": n_hops, "gold": gold, "rows": rows}
    return geometry | look | layers_own | followed


def _pattern(seen: Capture, layer: int, head: int, example: int) -> Float[Tensor, "query key"]:
    """A head's pattern over the example's real tokens."""
    attention_graph.check_place(seen, example, layer, head)
    n = len(projection.position_names(seen, example))
    return attention_graph.pattern(seen, layer)[example, head, :n, :n].detach()


def _draw_cells(page: TokenPage, name: str, row: np.ndarray, colour: str, due: set[int]) -> None:
    """One row: a cell for every position, the shade and the number what arrives there; those that are due framed."""
    y = page.height
    page.name(name, y + CELL / 2)
    for i in page.window:
        box: dict[str, Any] = {"x": page.x(i) - page.column / 2 + 1, "y": y + 1, "width": page.column - 2}
        box |= {"height": CELL - 2, "rx": 3, "fill": colour, "fill_opacity": min(1.0, 0.04 + 0.66 * float(row[i]))}
        box |= {"stroke": ORANGE, "stroke_width": 2} if i in due else {}
        tip = f"{name}: {percent(float(row[i]))} at {page.at(i)}" + (", a true ancestor" if i in due else "")
        page.parts.append(element("rect", **box, data_tip=tip))
        if row[i] >= FAINT:
            page.parts.append(page.word(f"{100 * row[i]:.0f}", i, y + CELL / 2, size=10.5))
    page.height += CELL
