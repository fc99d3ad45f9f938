"""The bases themselves: every cosine between tokens' vectors, and how they overlap beside random directions."""

from __future__ import annotations

from collections.abc import Mapping

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.figures.curves import interval
from workbench.figures.style import DIVERGING, PALETTE, framed, literal, thinned
from workbench.measurement import Measurement

# Vermillion, nothing, blue: zero takes the page's own colour, light or dark.
PANELS = {
    "encoder": "encoder with encoder",
    "decoder": "decoder with decoder",
    "across": "encoder (rows) with decoder (columns)",
}


def basis_cosines(cosines: Measurement) -> go.Figure:
    """Cosines within each basis and across the two, as three heat maps.

    Args:
        cosines: `basis_overlap.basis_cosines(...)`.
    """
    titles = list(PANELS.values())
    figure = make_subplots(rows=1, cols=3, subplot_titles=titles, shared_yaxes=True, horizontal_spacing=0.03)
    words = literal(cosines.coords["first"])
    for column, pair in enumerate(PANELS, start=1):
        figure.add_heatmap(
            z=cosines.select(pair=pair).values,
            customdata=[[f"{first} with {second}" for second in words] for first in words],
            hovertemplate="%{customdata}: %{z:.3f}<extra></extra>",
            coloraxis="coloraxis",
            row=1,
            col=column,
        )
    subtitle = f"{cosines.settings['model']}: between the vectors of two tokens, d_model {cosines.settings['d_model']}"
    framed(figure, "How nearly orthogonal the bases are", subtitle, height=500, legend=False)
    bar = {"title": {"text": "cosine", "side": "top"}, "thickness": 12, "outlinewidth": 0}
    figure.update_layout(margin={"t": 112, "r": 80})
    figure.update_layout(coloraxis={"colorscale": DIVERGING, "cmin": -1, "cmax": 1, "colorbar": bar}, width=1180)
    figure.update_annotations(font={"size": 13})
    figure.update_xaxes(title="token", showgrid=False, tickangle=-90, constrain="domain", **thinned(words, 24))
    figure.update_yaxes(autorange="reversed", showgrid=False, constrain="domain", **thinned(words, 24))
    for column in (1, 2, 3):
        figure.update_yaxes(scaleanchor=f"x{column if column > 1 else ''}", row=1, col=column)
    return figure.update_yaxes(title="token", col=1)


def basis_overlap(runs: Mapping[str, Measurement]) -> go.Figure:
    """Mean |cosine| within and across the bases, runs side by side, the last group what random directions have.

    Args:
        runs: name -> `basis_overlap.measure(...)`, or its mean over seeds.
    """
    figure = go.Figure()
    for i, (name, m) in enumerate(runs.items()):
        figure.add_bar(
            x=list(m.coords["pair"]),
            y=m.values,
            name=f"{name} (d_model {m.settings['d_model']})" if "d_model" in m.settings else name,
            error_y=interval(m),
            marker={"color": PALETTE[i % len(PALETTE)]},
            text=[f"{value:.3f}" for value in m.values],
            textposition="outside",
            cliponaxis=False,
        )
    over_seeds = any(m.low is not None for m in runs.values())
    bars = "bars are 95 % intervals over seeds" if over_seeds else "no sampling, so no intervals"
    subtitle = f"mean |cosine| between the vectors of two tokens, every pair; {bars}"
    framed(figure, "Overlap of the bases", subtitle)
    return figure.update_yaxes(title="mean |cosine|", rangemode="tozero").update_xaxes(title="pairs of vectors")
