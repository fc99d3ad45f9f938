"""The similarity of every layer of one model with every layer of another, as a map."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from workbench.figures.style import SHADES, framed
from workbench.measurement import Measurement
from workbench.measurement.numbers import number
from workbench.measurement.places import point_name


def layer_similarity(m: Measurement, null: Measurement | None = None) -> go.Figure:
    """CKA of all pairs of layers: rows are layers of the one model, columns of the other.

    Args:
        m: dims `layer`, `of layer` (`similarity.measure`).
        null: the same of shuffled tokens, whose largest value the subtitle says.
    """
    model, other = (str(m.settings[side]) for side in ("model", "other"))
    rows, columns = ([point_name(str(point)) for point in m.coords[dim]] for dim in m.dims)
    figure = go.Figure()
    figure.add_heatmap(
        z=m.values,
        x=columns,
        y=rows,
        colorscale=SHADES,
        zmin=0,
        zmax=1,
        texttemplate="%{z:.2f}" if max(m.values.shape) <= 10 else None,
        colorbar={"title": {"text": m.units, "side": "right"}, "thickness": 12, "outlinewidth": 0},
        hovertemplate=f"{model}, %{{y}}<br>{other}, %{{x}}: %{{z:.3f}}<extra></extra>",
    )
    said = f"{'debiased, ' if m.settings['debiased'] else ''}{m.settings['tokens']:,} tokens"
    if null is not None:
        said += f"; of shuffled tokens at most {number(float(np.nanmax(null.values)))}"
    framed(figure, "CKA of layers", said, height=250 + 34 * len(rows), legend=False)
    figure.update_xaxes(title=other, type="category", showgrid=False)
    return figure.update_yaxes(title=model, type="category", showgrid=False, autorange="reversed", automargin=True)
