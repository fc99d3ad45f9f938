"""A small picture of one input: its tokens, and what one head reads."""

from __future__ import annotations

from typing import Any

from workbench.capture import Capture
from workbench.figures.canvas_page import KINDS, kinds_of_edges
from workbench.figures.drawing import Drawing, element, text
from workbench.instruments.attention import attention_graph
from workbench.instruments.residual import projection

WIDE, TALL, MARGIN = 560, 150, 10  # pixels
WORDS = 28  # height of the tokens
MOST = 64  # positions; of a longer input the last ones
STRONG = 0.1  # share of a row


def thumbnail(seen: Capture, *, layer: int, head: int) -> Drawing:
    """The tokens, and below them the strong edges of one head's attention, in the colours of the canvas.

    Its greys are readable on light and on dark paper, so that it can stand in a page as a picture.

    Raises:
        ValueError: if there is no such layer or head.
    """
    weight = attention_graph.matrices(seen, 0, layer, head, n_hops=1).select(matrix="pattern").values
    edges = kinds_of_edges(weight, attention_graph.gold_edges(seen, 0), 1, STRONG)
    words = projection.sequence(seen, 0)
    first = max(0, len(words) - MOST)
    column = min(36, (WIDE - 2 * MARGIN) / (len(words) - first))
    start = (WIDE - column * (len(words) - first)) / 2

    def x(position: int) -> float:
        return start + (position - first + 0.5) * column

    parts = []
    for kind in ("idle", "wrong", "shortcut", "right"):
        style = KINDS[kind]  # type: ignore[index]
        for q, k in edges[kind]:  # type: ignore[index]
            if min(q, k) < first:
                continue
            low = WORDS + min(1.3 * (TALL - WORDS), 16 + 0.42 * abs(x(q) - x(k)))
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
    return Drawing(title, seen.subject.name, "".join(parts), WIDE, TALL)
