"""A patch grid as maps: residual, attention and MLPs by layer and position, heads by layer; swaps of residuals too.

Also what every head and MLP does at every position, below it the same on pairs that change nothing relevant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.figures.drawing import shortened
from workbench.figures.style import BOTTOM, DIVERGING, PALE, TOP, cells, framed, literal
from workbench.measurement import Measurement
from workbench.measurement.numbers import percent
from workbench.measurement.places import point_name

ROW, LEAST = 14, 130  # pixels: a layer, and a map's least height
FEW, LINE, LETTER = 8, 14, 6  # columns whose labels and shares are written out; pixels of a label's line, and letter
LONGEST = 14  # letters of a label that stands upright
NODE, ROOM = 22, 40  # pixels: a node; above a map of nodes, for its title
TITLES = {
    "resid_pre": "Residual before the layer",
    "head": "Heads, at all positions",
    "attn_out": "What attention writes",
    "mlp_out": "What the MLP writes",
}


def patch_grid(grids: Mapping[str, Measurement], positions: Sequence[str], title: str = "") -> go.Figure:
    """Maps of the share of the answer that each part brings back; blue brings it back, red takes it further away.

    All maps have the same colours, from -100 to 100 %, so that those of a control are pale where it does nothing.

    Args:
        grids: site -> `circuits.PatchGrid.grids`, of each pair or their mean: dims `layer`, `position` or `head`.
        positions: the label of each position.
        title: what stands in place of `What each part brings back`.
    """
    shown = {site: grids[site] for site in TITLES if site in grids}
    first = next(iter(shown.values()))
    n_rows, n_layers = (len(shown) + 1) // 2, len(first.coords["layer"])
    each = max(LEAST, ROW * n_layers)
    columns = _column_labels(positions)
    room = 40 + (LINE * 3 if len(columns) <= FEW else LETTER * max(map(len, columns)))  # below a map, for its labels
    tall = n_rows * each + (n_rows - 1) * room
    figure = make_subplots(
        n_rows,
        2,
        subplot_titles=[TITLES[site] for site in shown],
        vertical_spacing=room / tall,
        horizontal_spacing=0.08,
    )
    figure.update_annotations(font={"size": 12})
    for number, grid in enumerate(shown.values()):
        _add_map(figure, grid, positions, columns, 1 + number // 2, 1 + number % 2)
    brings_back = first.settings["direction"] == "denoise"
    title = title or f"What each part {'brings back' if brings_back else 'loses'}"
    gap = "share of the gap in {metric} between the questions of a pair that ".format_map(first.settings)
    gap = gap.replace("_", " ") + ("comes back" if brings_back else "is lost")
    n = len(first.coords["example"]) if "example" in first.dims else int(np.nanmax(np.asarray(first.n)))
    subtitle = f"{first.settings['model']}: {gap}; means over {n} pairs of kind {first.settings['pairs']}"
    framed(figure, title, subtitle, height=TOP + 30 + tall + room, legend=False)
    figure.update_layout(margin={"t": TOP + 30})
    bar = {"tickformat": ".0%", "thickness": 12, "outlinewidth": 0}
    figure.update_layout(coloraxis={"colorscale": DIVERGING, "cmin": -1, "cmax": 1, "colorbar": bar})
    figure.update_xaxes(showgrid=False)
    return figure.update_yaxes(showgrid=False, title="layer", dtick=max(1, n_layers // 8))


def _column_labels(positions: Sequence[str]) -> list[str]:
    """Few labels in two lines each, many cut short, as they stand upright."""
    if len(positions) <= FEW:
        return ["<br>".join(wrap(label, LONGEST)) for label in positions]
    short = []
    for label in positions:
        what, _, mark = label.partition(" (")  # what is changed or asked stays
        what = shortened(what, LONGEST)
        short.append(f"{what} ({mark}" if mark else what)
    return short


def _add_map(
    figure: go.Figure, grid: Measurement, positions: Sequence[str], columns: Sequence[str], row: int, column: int
) -> None:
    mean = grid.mean() if "example" in grid.dims else grid
    heads = [str(head) for head in mean.coords["head"]] if "head" in mean.dims else []
    named, ticks = ([f"head {head}" for head in heads], heads) if heads else (list(positions), list(columns))
    places = list(range(len(ticks)))
    figure.add_heatmap(
        z=mean.values,
        x=places,
        y=list(mean.coords["layer"]),
        customdata=[named] * len(mean.values),
        coloraxis="coloraxis",
        hovertemplate="layer %{y}, %{customdata}: %{z:.1%}<extra></extra>",
        texttemplate="%{z:.0%}" if len(places) <= FEW else None,
        xgap=1,
        ygap=1,
        row=row,
        col=column,
    )
    upright = {"tickangle": 0 if len(places) <= FEW or heads else 90}
    figure.update_xaxes(
        title="head" if heads else None, tickvals=places, ticktext=ticks, **upright, row=row, col=column
    )


def swap(m: Measurement) -> go.Figure:
    """The probability of the source's answer after each swap, with the target's answer in every cell.

    Args:
        m: `interventions.swap(...)`.
    """
    own, random, untouched = (m.select(run=run) for run in ("swapped", "random", "untouched"))
    assert own.labels is not None and untouched.labels is not None
    points = [point_name(point) for point in m.coords["from"]]
    figure = go.Figure()
    figure.add_heatmap(
        z=own.values,
        x=points,
        y=points,
        text=literal(own.labels),
        customdata=random.values,
        texttemplate="%{text}" if len(points) <= 16 else None,
        **cells(PALE, "probability of the source's answer", share=True, gap=1),
        hovertemplate="from %{y}, into %{x}: says %{text}<br>source's answer: %{z:.3f}; "
        "by random sequences' residuals: %{customdata:.3f}<extra></extra>",
    )
    source, target, read = (
        f"{m.settings[f'{place}_position']}:{literal(m.settings[f'{place}_token'])}"
        for place in ("source", "target", "read")
    )
    said = (
        f"{m.settings['model']}: the source says {literal(m.settings['answer'])} at {source}; the target, untouched, "
        f"{literal(untouched.labels.flat[0])} at {read}; put in at {target}<br>probability of the source's answer: "
        f"untouched {percent(untouched.values.flat[0])}; by random sequences' residuals at most "
        f"{percent(random.values.max())}"
    )
    framed(figure, "The source's residual in the target", said, height=270 + 34 * len(points), legend=False)
    figure.update_layout(margin={"t": 120})
    figure.update_xaxes(title="put into the target", type="category", showgrid=False, tickangle=-45)
    return figure.update_yaxes(title="taken from the source", type="category", showgrid=False, automargin=True)


def node_scores(scores: Measurement, control: Measurement | None = None) -> go.Figure:
    """A map of heads and MLPs (rows, the last layer above) by positions; blue speaks for the right answer, red against.

    Both maps have the same colours, so that a control which does nothing is pale.

    Args:
        scores: `circuits.node_scores`, of each pair or their mean.
        control: the same on pairs that change nothing relevant.

    Raises:
        ValueError: if a measure is not by node and position.
    """
    shown = [("pairs that change the answer", _mean(scores))]
    if control is not None:
        shown.append(("control: pairs that change nothing relevant", _mean(control)))
    titles = [name for name, _ in shown] if control is not None else None
    each = NODE * len(shown[0][1].values)
    tall = len(shown) * each + ROOM * (len(shown) - 1)
    figure = make_subplots(len(shown), 1, subplot_titles=titles, shared_xaxes=True, vertical_spacing=ROOM / tall)
    figure.update_annotations(x=0, xanchor="left", font={"size": 12})
    for row, (_, mean) in enumerate(shown, 1):
        _add_nodes(figure, mean, row)
    about, most = scores.settings, max(float(np.nanmax(abs(mean.values))) for _, mean in shown) or 1.0
    subtitle = f"{about.get('model', 'model')}, pairs of kind {about.get('pairs', '?')}; {scores.name}"
    above = TOP + ROOM * (control is not None)
    framed(figure, "Where heads and MLPs carry the answer", subtitle, height=above + tall + BOTTOM, legend=False)
    figure.update_layout(margin={"t": above})
    figure.update_layout(coloraxis={"cmin": -most, "cmax": most, **cells(DIVERGING, scores.units)})
    figure.update_xaxes(showgrid=False)
    figure.update_xaxes(title="position", row=len(shown))
    return figure.update_yaxes(showgrid=False, automargin=True, type="category")


def _mean(scores: Measurement) -> Measurement:
    mean = scores.mean() if "example" in scores.dims else scores
    if mean.dims != ("node", "position"):
        raise ValueError(f"the map is of scores by node and position, not by {', '.join(mean.dims)}")
    return mean


def _add_nodes(figure: go.Figure, mean: Measurement, row: int) -> None:
    low, high = mean.low, mean.high
    between = None if low is None or high is None else np.stack([low, high], -1)
    hover = "%{y} at position %{x}: %{z:.3g} " + mean.units
    hover += "" if between is None else " (95 % interval %{customdata[0]:.3g} to %{customdata[1]:.3g})"
    figure.add_heatmap(
        z=mean.values,
        x=list(mean.coords["position"]),
        y=list(mean.coords["node"]),
        customdata=between,
        coloraxis="coloraxis",
        hovertemplate=hover + "<extra></extra>",
        xgap=1,
        ygap=1,
        row=row,
        col=1,
    )
