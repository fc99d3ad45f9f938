"""The canvas: one input with its truth drawn above it, one head's attention below, and the residual at every layer.

Also its thumbnail: the tokens, and what one head reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from workbench.capture import Capture
from workbench.figures.attention import threshold_in_words
from workbench.figures.canvas_page import KINDS, CanvasPage, Kind, kinds_of_edges
from workbench.figures.drawing import Drawing, element, text
from workbench.figures.hop_by_hop import steps_data
from workbench.figures.projection import normed
from workbench.figures.token_page import answer_rows, confidence_row, label_rows, part_drawn, window
from workbench.instruments.attention import attention_graph
from workbench.instruments.residual import projection
from workbench.interventions import CutEdge, Edit, Edited, MoveEdge
from workbench.measurement import Measurement

MOST_LABELS = 6
MOST_HOPS = 8  # that a page follows
SMALL, MARGIN, WORDS = (560, 150), 10, 28  # pixels of a thumbnail, across and down, and of its tokens' height
MOST_WORDS = 64  # positions of a thumbnail; of a longer input the last ones
STRONG = 0.1  # share of a row, in a thumbnail


def canvas(
    seen: Capture,
    *,
    layer: int,
    head: int,
    example: int = 0,
    which: str = "pattern",
    basis: str = "decoder",
    threshold: float = 0.05,
    start: int = 0,
    query: int | None = None,
    cell: tuple[str, int] | None = None,
    points: Sequence[str] | None = None,
    edited: Edited | None = None,
    notes: Mapping[str, str] | None = None,
) -> Drawing:
    """One input, its truth, one head's attention and the residual's top tokens, in one picture.

    From top to bottom: the truth's edges (of the query in focus all hops), the tokens, the truth's labels, attention's
    edges by kind (`KINDS`; in focus alone those of queries of which the task needs no edge), the residual's top token
    at every layer (underlined where it is right), the model's answers, p(right), and the right answers.

    Args:
        seen: with the patterns, the residual and the logits (`workbench.see`).
        layer, head, example: whose attention is drawn, and on which sequence of the capture.
        which, threshold: `pattern`, a power of it such as `A²`, or `resolvent`; the smallest share of a row drawn.
        basis, start: `encoder` or `decoder`, of the residual's top tokens; the first of at most `WIDEST` positions.
        query, cell: the position in focus, whose edges alone are drawn; the (hook name, position) that is marked.
        points: hook names of the residuals that are drawn; by default all, of a deep model some of its layers
            (`projection.some_points`).
        edited: what `try_edit` made of this input: the residual and the answers are those behind the edit, what it
            changed is framed, and edges that it cut or moved are dashed.
        notes: name of a row -> what stands before it, such as the number of a note.

    Raises:
        ValueError: if there is no such example, layer, head, matrix, basis or position.
    """
    weight, gold, edges = _attention(seen, example, (layer, head), which, threshold)
    page = CanvasPage(projection.sequence(seen, example), window(len(weight), start), query, cell)
    _draw_input(page, seen, example, gold, notes or {})
    data = _hops(seen, page, (layer, head, example))
    page.cut = set() if edited is None else _edges_of(edited.edit, len(weight), (layer, head))
    says = f"{seen.subject.name}; {_edges_drawn(page, weight, threshold, page.attention(weight, edges))}"
    if edited is not None:
        says += f"; behind the edit: {edited.in_words()}"
    _draw_residual(page, seen, example, basis, points, edited)
    page.legend(edges)
    title = f"Layer {layer}, head {head}: {attention_graph.matrix_in_words(which)}"
    return Drawing(title, says, page.body(), page.width, page.height, data)


def _hops(seen: Capture, page: CanvasPage, place: tuple[int, int, int]) -> dict[str, Any]:
    """What a page needs to follow a token's paths; nothing where the task has none of several hops."""
    hops = min(seen.truth.n_hops, MOST_HOPS)
    return steps_data(seen, page, place, base=page.height, query=page.query, n_hops=hops) if hops > 1 else {}


def _edges_drawn(page: CanvasPage, weight: np.ndarray, threshold: float, left_out: int) -> str:
    """Which edges are drawn, of which part, and how many are not."""
    text = f"edges of at least {threshold_in_words(weight, threshold)}{part_drawn(page.window, len(weight))}"
    return f"{text}; {left_out} weaker or leaving edges are not drawn" if left_out else text


def _attention(
    seen: Capture, example: int, head: tuple[int, int], which: str, threshold: float
) -> tuple[np.ndarray, list[attention_graph.Edge], dict[Kind, list[tuple[int, int]]]]:
    """A head's matrix `[query, key]` on one example, the gold edges, and the matrix's edges by kind."""
    hop = attention_graph.hop_of(which)
    matrices = attention_graph.matrices(seen, example, *head, n_hops=hop or 1)
    weight, gold = matrices.select(matrix=which).values, attention_graph.gold_edges(seen, example)
    return weight, gold, kinds_of_edges(weight, gold, hop, threshold)


def _draw_input(
    page: CanvasPage, seen: Capture, example: int, gold: Sequence[attention_graph.Edge], notes: Mapping[str, str]
) -> None:
    """The input and what is known of it: the task's states, the truth's edges, the tokens, the truth's labels."""
    page.notes = notes
    task, tokens = seen.subject.task, seen.batch.tokens[example]
    page.focus = next((i for i, right in enumerate(answer_rows(seen, example)[0].right) if right is False), None)
    page.states(task.states(tokens))
    page.truth(gold)
    page.tokens()
    page.rows(label_rows(seen, example)[:MOST_LABELS], quiet=True)


def _edges_of(edit: Edit, n_pos: int, head: tuple[int, int]) -> set[tuple[int, int]]:
    """The edges (query, key) of this head that an edit cuts or moves away."""
    if (
        not isinstance(edit, CutEdge | MoveEdge)
        or edit.layer not in (None, head[0])
        or edit.head not in (None, head[1])
    ):
        return set()
    return set(edit.edges(n_pos)) if isinstance(edit, CutEdge) else {(edit.query, edit.key)}


def _draw_residual(
    page: CanvasPage, seen: Capture, example: int, basis: str, points: Sequence[str] | None, edited: Edited | None
) -> None:
    """The residual's top tokens from the embedding to the last layer, then the model's answers and the right ones."""
    points = projection.some_points(seen.subject) if points is None else points
    runs = [seen] if edited is None else [seen, edited.after]
    tables = [
        projection.top_tokens(run, example=example, top=1, points=points, bases=(basis,)).select(basis=basis, rank=1)
        for run in runs
    ]
    answers = [answer_rows(run, example) for run in runs]
    page.residual(tables[-1], answers[0][-1] if len(answers[0]) == 2 else None, tables[0])
    page.rows([answers[0][0]])
    if edited is not None:
        changed = set(np.flatnonzero(edited.changed).tolist())
        page.rows([replace(answers[1][0], name=f"{answers[1][0].name}, edited", framed=changed)])
    page.rows([confidence_row(runs[-1], example), *answers[0][1:]])


def residual_maps(seen: Capture, table: Measurement, *, start: int = 0, cell: tuple[str, int] | None = None) -> Drawing:
    """The residual's top token at every point and position, in the decoder basis and below it in the encoder basis.

    Args:
        seen: what the table was measured on, for the tokens and the answers.
        table: `projection.top_tokens(...)` of its first sequence.
        start: the first position drawn; at most `WIDEST` are.
        cell: (hook name, position) that is marked.

    Raises:
        ValueError: if there is no such position.
    """
    words = projection.sequence(seen, 0)
    drawn = window(len(words), start)
    page = CanvasPage(words, drawn, cell=cell)
    page.tokens()
    answers = answer_rows(seen)
    right = answers[-1] if len(answers) == 2 else None
    for basis, read in (("decoder", "output"), ("encoder", "input")):
        page.heading(f"read as {read} ({basis} basis)")
        page.residual(table.select(basis=basis, rank=1), right)
    page.rows(answers)
    notes = f"{seen.subject.name}; the largest {table.units}{normed(table)}{part_drawn(drawn, len(words))}"
    return Drawing("Top token of the residual, by layer and position", notes, page.body(), page.width, page.height + 6)


def thumbnail(seen: Capture, *, layer: int, head: int) -> Drawing:
    """The tokens, and below them the strong edges of one head's attention, in the colours of the canvas.

    Its greys are readable on light and on dark paper, so that it can stand in a page as a picture.

    Raises:
        ValueError: if there is no such layer or head.
    """
    weight = attention_graph.matrices(seen, 0, layer, head, n_hops=1).select(matrix="pattern").values
    edges = kinds_of_edges(weight, attention_graph.gold_edges(seen, 0), 1, STRONG)
    words = projection.sequence(seen, 0)
    first = max(0, len(words) - MOST_WORDS)
    column = min(36, (SMALL[0] - 2 * MARGIN) / (len(words) - first))
    start = (SMALL[0] - column * (len(words) - first)) / 2

    def x(position: int) -> float:
        return start + (position - first + 0.5) * column

    parts = []
    kinds: tuple[Kind, ...] = ("idle", "wrong", "shortcut", "right")
    for kind in kinds:
        style = KINDS[kind]
        for q, k in edges[kind]:
            if min(q, k) < first:
                continue
            low = WORDS + min(1.3 * (SMALL[1] - WORDS), 16 + 0.42 * abs(x(q) - x(k)))
            path = f"M{x(k):.1f} {WORDS}C{x(k):.1f} {low:.1f} {x(q):.1f} {low:.1f} {x(q):.1f} {WORDS}"
            line: dict[str, Any] = {
                "fill": "none",
                "stroke": style.colour,
                "stroke_width": 0.8 + 3 * float(weight[q, k]),
            }
            parts.append(element("path", d=path, **line, opacity=0.35 if kind == "idle" else 0.9))
    shown = {i: words[i] if len(words[i]) <= 2 else words[i][:1] for i in range(first, len(words))}
    # A digit is 0.6 of its size wide: two of them leave a gap to the next token.
    size = min(17, column / (1.25 if max(map(len, shown.values())) == 1 else 1.6))
    for i, word in shown.items():
        parts.append(text(word, x(i), WORDS - 14, size, style="fill: #808080"))
    title = f"Layer {layer}, head {head} on one input"
    return Drawing(title, seen.subject.name, "".join(parts), *SMALL)
