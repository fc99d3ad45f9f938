"""How cost grows: what the benchmarks left in growth.json, drawn on logarithmic axes into growth.png beside it."""

from __future__ import annotations

import json
from itertools import groupby
from operator import itemgetter

import plotly.graph_objects as go
from harness import GROWTH
from plotly.subplots import make_subplots

from workbench.figures.pictures import in_few_colours
from workbench.figures.style import BLUE, GREEN, ORANGE, PURPLE

COLUMNS = 3
LOOKS = {  # one colour for what is compared with, one for the textbook forms, and ours
    "fused standard": (BLUE, "circle"),
    "products alone": (BLUE, "circle"),
    "textbook ChaCAL": (ORANGE, "square"),
    "loop of eigendecompositions, α = 1": (ORANGE, "square"),
    "textbook": (ORANGE, "square"),
    "residuals kept": (ORANGE, "square"),
    "ChaCAL in blocks": (GREEN, "diamond"),
    "workbench": (GREEN, "diamond"),
    "workbench, streamed": (GREEN, "diamond"),
    "workbench, α = 1": (GREEN, "diamond"),
    "workbench, α = 2": (PURPLE, "cross"),
}


def figure() -> go.Figure:
    points = json.loads(GROWTH.read_text(encoding="utf-8"))
    panels = {key: list(rows) for key, rows in groupby(sorted(points, key=itemgetter(0, 1, 2)), itemgetter(0, 1, 2))}
    n_rows = -(-len(panels) // COLUMNS)
    drawn = make_subplots(n_rows, COLUMNS, subplot_titles=[what for what, _, _ in panels], vertical_spacing=0.16)
    shown: set[str] = set()
    for place, ((_, unit, size_name), rows) in enumerate(panels.items()):
        row, column = place // COLUMNS + 1, place % COLUMNS + 1
        for form, own in groupby(sorted(rows, key=itemgetter(3, 4)), itemgetter(3)):
            sizes, values = zip(*((size, value) for *_, size, value in own), strict=True)
            colour, symbol = LOOKS[form]
            line = go.Scatter(
                x=sizes,
                y=values,
                name=form,
                legendgroup=form,
                showlegend=form not in shown,
                mode="lines+markers",
                line={"color": colour},
                marker={"symbol": symbol, "size": 8},
            )
            drawn.add_trace(line, row, column)
            shown.add(form)
        sizes = sorted({size for *_, size, _ in rows})
        drawn.update_xaxes(
            type="log", title=size_name, tickvals=sizes, ticktext=[f"{size:,}" for size in sizes], row=row, col=column
        )
        drawn.update_yaxes(type="log", title=unit, dtick=1, row=row, col=column)
    drawn.update_layout(
        template="plotly_white",
        title="Cost against size, one core, logarithmic axes (medians; memory is the peak beside the inputs)",
        height=380 * n_rows + 150,
        width=1350,
        legend={"orientation": "h", "y": -0.1},
        margin={"t": 110},
    )
    return drawn


if __name__ == "__main__":
    figure().write_image(GROWTH.with_suffix(".png"), scale=1.5)
    in_few_colours(GROWTH.with_suffix(".png"))
