"""Every head at a glance: layers by heads, each a small picture of its pattern, framed by how it scores elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor
from torch.nn.functional import adaptive_max_pool2d

from workbench.capture import Capture
from workbench.figures.drawing import Drawing, element, pixels, text
from workbench.figures.style import GREEN, GREY
from workbench.instruments.attention import attention_graph
from workbench.measurement import Measurement
from workbench.measurement.numbers import percent

SIDES = {8: 68, 32: 42}  # heads, at most -> pixels of a pattern
TINY = 24  # pixels of a pattern of more heads; these have no room for numbers below them
WIDE, TITLE, LINE, GAP = 850, 20, 12, 8  # pixels
EDGE = 6  # pixels left of the pictures, so that what shows that the drawing has the keyboard covers none
ON_EDGES = "on the task's edges"
PIXELS = 64  # of a pattern's picture, at most; of a longer input each pixel is the largest weight in its place


def head_grid(
    seen: Capture,
    *,
    scores: Measurement | None = None,
    fallen: Measurement | None = None,
    chosen: tuple[int, int] | None = None,
) -> Drawing:
    """Layers × heads as small patterns: rows of a picture are queries, columns the keys that they read.

    Args:
        seen: with the patterns, of which the first sequence's are drawn.
        scores: the share of each head's mass on the task's edges (dims `layer`, `head`), measured on other sequences; a
            frame is the stronger the higher it is, and it is written below, of many heads in what is shown on hover.
        fallen: the share of right answers that change without each head (the same dims), written below that.
        chosen: the head that is marked.

    Raises:
        ValueError: if patterns were not captured.
    """
    patterns = [attention_graph.pattern(seen, layer)[0] for layer in range(seen.subject.n_layers)]
    n_heads = sum(map(len, patterns))
    side = next((side for most, side in SIDES.items() if n_heads <= most), TINY)
    below = {f"share of mass {ON_EDGES}": scores, "(−) answers lost without it": fallen}
    told = [words for words, m in below.items() if m is not None]
    parts, x, y, width = [], 0, 3, 0
    down = TITLE + side + 4 + LINE * len(told) * (side > TINY) + GAP
    for layer, heads in enumerate(patterns):
        across = len(heads) * (side + GAP) + GAP
        if x and x + across > WIDE:
            x, y = 0, y + down
        parts.append(text(f"layer {layer}", x + EDGE, y + TITLE / 2 - 1, 11, text_anchor="start", class_="quiet"))
        for head, weight in enumerate(heads):
            box = {"x": x + head * (side + GAP) + EDGE, "y": y + TITLE, "width": side, "height": side}
            parts += _head(box, (layer, head), weight.detach(), scores, fallen, marked=(layer, head) == chosen)
        x += across
        width = max(width, x)
    says = "rows are queries, columns keys"
    if told:
        says += f"; {'below' if side > TINY else 'on hover'}: {', '.join(told)}, on other sequences"
    return Drawing("Every head on this input", says, "".join(parts), width, y + down - GAP)


def _head(
    box: dict[str, Any],
    at: tuple[int, int],
    weight: Tensor,
    scores: Measurement | None,
    fallen: Measurement | None,
    *,
    marked: bool,
) -> list[str]:
    """One head: its pattern, its frame, its score, and what it costs to be without it."""
    layer, head = at
    score, cost = (np.nan if m is None else float(m.select(layer=layer, head=head).values) for m in (scores, fallen))
    tip, numbers = f"layer {layer}, head {head}", []
    middle, below = box["x"] + box["width"] / 2, box["y"] + box["height"] + 9
    frame: dict[str, Any] = {"stroke": GREY, "stroke_width": 1}
    if not np.isnan(score):
        tip += f": {percent(score)} {ON_EDGES}"
        numbers.append(text(f"{score:.0%}", middle, below, 10, class_="quiet"))
        frame = {"stroke": GREEN, "stroke_width": 1 + 3 * score, "stroke_opacity": 0.25 + 0.75 * score}
    if not np.isnan(cost):
        tip += f"; without it {percent(cost)} of right answers change"
        lost = f"−{cost:.0%}" if cost >= 0.005 else "0%"
        numbers.append(text(lost, middle, below + LINE * (scores is not None), 10, class_="quiet"))
    if marked:
        frame = {"stroke_width": 4}
    frame |= {"data_cell": f"{layer},{head}", "data_point": str(layer), "data_tip": tip, "data_wraps": ""}
    if max(weight.shape) > PIXELS:
        weight = adaptive_max_pool2d(weight.float()[None], PIXELS)[0]
    shares = np.nan_to_num(weight.cpu().double().numpy())
    shares = (shares / (shares.max() or 1.0)).clip(0, 1) ** 0.6  # so that what is spread out is seen too
    return [
        pixels(shares, **box),
        element("rect", **box, **frame, fill_opacity=0, class_=f"cell{' chosen' if marked else ''}"),
        *(numbers if box["width"] > TINY else []),
    ]
