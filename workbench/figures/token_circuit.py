"""One head's circuit between tokens as a map whose cells can be chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from workbench.figures.drawing import Drawing, element, pixels, shortened, text
from workbench.figures.style import BLUE, VERMILLION, thinned
from workbench.measurement import Measurement

SIDE, LARGEST_CELL = 520, 26  # pixels: of the map at most, and of a cell
ROOM, SIZE = 13, 11  # pixels that a token's name takes across, and of its letters
LONGEST = 12  # letters of a name
EDGE = "#808080"
SCALE = 12  # pixels: how wide the scale of colours is
MOST_VALUES = 256**2  # of larger maps, hovering names the tokens alone


def token_circuit(m: Measurement, *, chosen: tuple[int, int] | None = None) -> Drawing:
    """One head's circuit as a map: rows are the tokens, or positions, it starts from, columns those it leads to.

    Args:
        m: dims `from`, `to`: `token_circuits.circuit`, or a matrix of `token_circuits.reads`.
        chosen: the row and the column of the cell that is framed.

    Raises:
        ValueError: if there is no such cell.
    """
    rows, columns = (list(map(str, m.coords[dim])) for dim in ("from", "to"))
    down, across = ([shortened(name, LONGEST) for name in names] for names in (rows, columns))
    if chosen is not None and not (0 <= chosen[0] < len(rows) and 0 <= chosen[1] < len(columns)):
        raise ValueError(f"there is no cell {chosen}; the map has {len(rows)} rows and {len(columns)} columns")
    left = 24 + 7 * max(map(len, down))
    cell = min(LARGEST_CELL, SIDE / max(len(rows), len(columns)))
    box: dict[str, Any] = {"x": left, "y": 4, "width": cell * len(columns), "height": cell * len(rows)}
    most = float(np.nanmax(np.abs(m.values))) or 1.0
    below = box["y"] + box["height"] + 7 * max(map(len, across)) + 8  # the columns' names
    parts = [
        pixels(_pooled(m.values / most), **box),
        element("rect", **box, fill_opacity=0, stroke=EDGE, data_grid=f"{len(rows)},{len(columns)}"),
        *_names(down, cell, box, down=True),
        *_names(across, cell, box, down=False),
        *_sides(m, box, below + 10),
        *_scale(m, most, box),
        _frame(chosen, cell, box),
    ]
    grid: dict[str, Any] = {"rows": rows, "columns": columns, "units": m.units}
    if m.values.size <= MOST_VALUES:
        grid["values"] = [[float(f"{value:.4g}") for value in row] for row in m.values.tolist()]
    title = f"{m.name}, layer {m.settings['layer']}, head {m.settings['head']}"
    subtitle, width = f"{m.settings['model']}: what is embedded alone, no input", int(left + box["width"] + 90)
    return Drawing(title, subtitle, "".join(parts), width, int(max(below + 22, 150)), {"grid": grid})


def _sides(m: Measurement, box: dict[str, float], below: float) -> tuple[str, str]:
    """What the rows are, and what the columns are."""
    by_kind = {
        "OV": ("token read", "logit of"),
        "QK token-position": ("query", "position of the key"),
        "QK position-position": ("position of the query", "position of the key"),
    }
    rows, columns = by_kind.get(m.settings["kind"], ("query", "key"))
    across, down = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    return text(rows, 10, down, transform=f"rotate(-90 10 {down})"), text(columns, across, below)


def _pooled(values: Float[np.ndarray, "row column"]) -> Float[np.ndarray, "row column"]:
    """With more entries than pixels: the entry of the largest size in each square of them."""
    step = -(-max(values.shape) // SIDE)
    if step == 1:
        return values
    padded = np.pad(values, [(0, -n % step) for n in values.shape])
    across = padded.shape[1] // step
    squares = padded.reshape(-1, step, across, step).swapaxes(1, 2).reshape(-1, across, step**2)
    largest = np.abs(squares).argmax(-1)
    return np.take_along_axis(squares, largest[..., None], -1)[..., 0]


def _names(names: list[str], cell: float, box: dict[str, float], *, down: bool) -> list[str]:
    """As many of the tokens' names as there is room for, beside the rows or below the columns."""
    drawn = []
    ticks = thinned(names, max(1, int(cell * len(names) / ROOM)))
    for i, name in zip(ticks["tickvals"], ticks["ticktext"], strict=True):
        middle = (i + 0.5) * cell
        if down:
            drawn.append(text(name, box["x"] - 5, box["y"] + middle, SIZE, text_anchor="end"))
            continue
        x, y = box["x"] + middle, box["y"] + box["height"] + 6
        drawn.append(text(name, x, y, SIZE, text_anchor="end", transform=f"rotate(-90 {x:.1f} {y:.1f})"))
    return drawn


def _scale(m: Measurement, most: float, box: dict[str, float]) -> list[str]:
    """What the colours stand for."""
    x, tall = box["x"] + box["width"] + 16, min(box["height"], 160)
    signed = bool((m.values < 0).any())
    fades = [(0.0, BLUE, 1), (0.5 if signed else 1.0, BLUE, 0)]
    fades += [(0.5, VERMILLION, 0), (1.0, VERMILLION, 1)] if signed else []
    colours = "".join(
        element("stop", offset=at, stop_color=colour, stop_opacity=opacity) for at, colour, opacity in fades
    )
    name = "scale-signed" if signed else "scale"
    ends = {0.0: most, 0.5: 0.0, 1.0: -most} if signed else {0.0: most, 1.0: 0.0}
    bar: dict[str, Any] = {"x": x, "y": box["y"], "width": SCALE, "height": tall, "fill": f"url(#{name})"}
    return [
        element("defs", element("linearGradient", colours, id=name, x1=0, y1=0, x2=0, y2=1)),
        element("rect", **bar, stroke=EDGE, stroke_width=0.5),
        *(
            text(f"{value:.3g}", x + SCALE + 5, box["y"] + share * tall, SIZE, text_anchor="start", class_="quiet")
            for share, value in ends.items()
        ),
        text(m.units, x, box["y"] + tall + 16, SIZE, text_anchor="start", class_="quiet"),
    ]


def _frame(chosen: tuple[int, int] | None, cell: float, box: dict[str, float]) -> str:
    """The frame of the chosen cell, which a page's script moves; not seen if there is none."""
    row, column = chosen or (0, 0)
    side = max(cell, 5.0)
    at: dict[str, Any] = {
        "x": box["x"] + (column + 0.5) * cell - side / 2,
        "y": box["y"] + (row + 0.5) * cell - side / 2,
    }
    seen: dict[str, Any] = {
        "stroke_width": 2,
        "stroke_opacity": 0 if chosen is None else 1,
        "fill_opacity": 0,
        "class_": "chosen",
    }
    return element("rect", **at, width=side, height=side, **seen, data_at=f"{row},{column}", pointer_events="none")
