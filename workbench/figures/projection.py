"""Tokens in the residual: maps of the top one, on either basis or through a lens, and the bars behind one cell."""

from __future__ import annotations

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.figures.style import BLUE, GREEN, GREY, framed, point_name, thinned
from workbench.instruments import Measurement


def projection_map(table: Measurement, basis: str = "decoder") -> go.Figure:
    """The top token at every residual point (rows) and position (columns) on one basis.

    A cell's marker carries `customdata = [point, position index]`, which is what a click in the explorer returns.

    Args:
        table: `projection.top_tokens(...)`.
        basis: `encoder` or `decoder`.
    """
    subtitle = f"{table.settings['model']}: the token with the largest {table.units}{normed(table)}"
    return token_map(table.select(basis=basis, rank=1), f"Top token in the {basis} basis", subtitle)


def token_map(best: Measurement, title: str, subtitle: str) -> go.Figure:
    """A token in every cell, over points (rows) and positions (columns), the shade its value.

    Args:
        best: dims `point`, `position`, the tokens in its labels.
        title, subtitle: of the figure.
    """
    assert best.labels is not None
    points, positions = list(best.coords["point"]), list(best.coords["position"])
    figure = go.Figure()
    figure.add_heatmap(
        z=best.values,
        text=best.labels,
        texttemplate="%{text}" if len(positions) <= 72 else None,
        textfont={"size": 13 if len(positions) <= 32 else 10},
        colorscale=[[0, "#EDF4FA"], [1, "#4FA3D8"]],  # opaque and light, so that dark text reads on any page
        colorbar={"title": {"text": best.units, "side": "right"}, "thickness": 12, "outlinewidth": 0},
        hoverinfo="skip",
        xgap=1,
        ygap=1,
    )
    cells = [(row, column) for row in range(len(points)) for column in range(len(positions))]
    figure.add_scatter(  # a heat map returns no clicks, markers do
        x=[column for _, column in cells],
        y=[row for row, _ in cells],
        mode="markers",
        marker={"size": 16, "color": "rgba(0,0,0,0)"},
        customdata=[[points[row], column] for row, column in cells],
        text=[
            f"{points[row]} at {positions[column]}: {best.labels[row, column]} ({best.values[row, column]:.3g})"
            for row, column in cells
        ],
        hovertemplate="%{text}<extra></extra>",
    )
    framed(figure, title, subtitle, height=190 + 34 * len(points), legend=False)
    figure.update_xaxes(title="position:token", showgrid=False, tickangle=-90, **thinned(positions, 64))
    figure.update_xaxes(range=[-0.5, len(positions) - 0.5])
    figure.update_yaxes(title="layer · point", showgrid=False, automargin=True, range=[-0.5, len(points) - 0.5])
    return figure.update_yaxes(tickvals=list(range(len(points))), ticktext=[point_name(point) for point in points])


def lens_map(table: Measurement) -> go.Figure:
    """The token that each residual decodes to (rows: points, columns: positions), the shade its probability.

    Args:
        table: `logit_lens.lens_tokens(...)`.
    """
    lens, model = table.settings["lens"], table.settings["model"]
    subtitle = f"{model}: the most probable token when each residual is decoded; the top row is the model's output"
    figure = token_map(table, f"What each layer says through the {lens} lens", subtitle)
    return figure.update_traces(zmin=0, zmax=1, selector={"type": "heatmap"})


def projection_bars(table: Measurement, point: str, position: int) -> go.Figure:
    """The largest components at one residual point and position, encoder and decoder basis side by side.

    Args:
        table: `projection.top_tokens(...)`.
        point: hook name, for example `blocks.0.hook_resid_mid`.
        position: index of the position.

    Raises:
        ValueError: if the table has no such point.
    """
    names = {"encoder": "encoder basis (as input)", "decoder": "decoder basis (as output)"}
    figure = make_subplots(rows=1, cols=2, subplot_titles=list(names.values()), horizontal_spacing=0.14)
    where = table.coords["position"][position]
    for column, (basis, colour) in enumerate({"encoder": GREEN, "decoder": BLUE}.items(), start=1):
        part = table.select(basis=basis, point=point, position=where)
        assert part.labels is not None
        ranks = list(range(len(part.values)))
        figure.add_bar(x=part.values, y=ranks, orientation="h", marker={"color": colour}, row=1, col=column)
        figure.update_yaxes(tickvals=ranks, ticktext=[f"{word} " for word in part.labels], row=1, col=column)
    title = f"Tokens at position {where}, {point_name(point)}"
    height = 210 + 30 * len(table.coords["rank"])
    framed(figure, title, f"{point}: largest {table.units}s{normed(table)}", height, legend=False)
    figure.update_layout(margin={"t": 110})
    figure.update_xaxes(title=table.units, zeroline=True, zerolinecolor=GREY)
    figure.update_yaxes(autorange="reversed", automargin=True, showgrid=False, tickfont={"size": 14})
    return figure.update_yaxes(title="token", col=1)


def normed(table: Measurement) -> str:
    return ", after the final norm" if table.settings["final_norm"] else ", before the final norm"
