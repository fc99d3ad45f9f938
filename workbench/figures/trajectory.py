"""How chosen tokens fare from the embedding to the last layer, at one position, on both bases."""

from __future__ import annotations

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.figures.projection import normed
from workbench.figures.style import DASHES, GREY, PALETTE, SYMBOLS, framed, literal
from workbench.measurement import Measurement
from workbench.measurement.places import point_name


def token_trajectory(measurement: Measurement) -> go.Figure:
    """One line a token, encoder and decoder basis side by side; those the truth names say so in the legend.

    Args:
        measurement: `trajectory(...)`, or `ranks(...)`, whose axis is logarithmic and has 1 on top.
    """
    m = measurement
    names = {"encoder": "encoder basis (as input)", "decoder": "decoder basis (as output)"}
    figure = make_subplots(rows=1, cols=2, subplot_titles=list(names.values()), horizontal_spacing=0.09)
    for column, basis in enumerate(names, start=1):
        for i, token in enumerate(m.coords["token"]):
            line = m.select(basis=basis, token=token)
            roles = [role for role, word in m.settings["roles"].items() if word == token]
            figure.add_scatter(
                x=[point_name(point) for point in m.coords["point"]],
                y=line.values,
                name=f"{literal(token)} ({', '.join(roles)})" if roles else literal(token),
                legendgroup=str(i),
                showlegend=column == 1,
                mode="lines+markers",
                line={
                    "color": PALETTE[i % len(PALETTE)] if roles or len(m.coords["token"]) <= len(PALETTE) else GREY,
                    "dash": DASHES[i // len(PALETTE) % len(DASHES)],
                    "width": 2.5 if roles else 1.5,
                },
                marker={"symbol": SYMBOLS[i % len(SYMBOLS)], "size": 8 if roles else 6},
                row=1,
                col=column,
            )
    where, words = m.settings["position"], m.settings["input"]
    subtitle = f"{m.settings['model']}, position {where} of {len(words)}{normed(m)}"
    framed(figure, f"{m.name}: {literal(words[where])} at position {where}", subtitle, height=440)
    figure.update_layout(margin={"t": 112})
    figure.update_xaxes(title="point of the residual", type="category")
    figure.update_yaxes(title=m.units, col=1)
    if m.units == "rank":
        ticks = [rank * 10**k for k in range(6) for rank in (1, 2, 5)]
        figure.update_yaxes(title="rank (1 is the largest)", col=1)
        return figure.update_yaxes(type="log", autorange="reversed", tickvals=ticks, matches="y")
    return figure.update_yaxes(zeroline=True, zerolinecolor=GREY)
