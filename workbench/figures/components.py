"""Principal components of residuals as points, coloured by a label of the task's truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from workbench.figures.style import PALETTE, SEQUENCE, SYMBOLS, framed, literal
from workbench.instruments.residual.components import SHUFFLED, TRUE, Components
from workbench.measurement.numbers import percent
from workbench.measurement.places import point_name

MOST_DRAWN = 2000  # rows, evenly spaced; the numbers are of all
MOST_TICKS = 8  # of the scale, in words


def components(found: Components, x: int = 1, y: int = 2) -> go.Figure:
    """Rows on two principal components: few classes in colours of their own, more of them on a scale of numbers.

    Args:
        found: `inspection.components.components(…)`.
        x, y: the components, from 1.
    """
    m, classes = found.scores, np.array(found.scores.settings["class"])
    assert m.labels is not None, "every row has a class"
    drawn, classed = _spaced(len(classes), MOST_DRAWN), literal(m.labels[0])
    across, up, words = m.select(component=x).values[drawn], m.select(component=y).values[drawn], classed[drawn]
    label, figure = str(m.settings["label"]), go.Figure()
    each: dict[str, Any] = {"mode": "markers", "hovertemplate": f"{label} %{{text}}<extra></extra>"}
    known = np.unique(classes)
    if len(known) <= len(PALETTE):
        for number, one in enumerate(known):
            of_class = classes[drawn] == one
            name = str(classed[int((classes == one).argmax())])
            marker = {"color": PALETTE[number], "symbol": SYMBOLS[number], "size": 6, "opacity": 0.7}
            figure.add_scatter(
                x=across[of_class], y=up[of_class], text=words[of_class], name=f"{label} {name}", marker=marker, **each
            )
    else:
        ticks = known[_spaced(len(known), MOST_TICKS)]
        names = [str(classed[int((classes == one).argmax())]) for one in ticks]
        bar = {
            "tickvals": ticks,
            "ticktext": names,
            "title": {"text": label, "side": "right"},
            "thickness": 12,
            "outlinewidth": 0,
        }
        marker = {"color": classes[drawn], "colorscale": SEQUENCE, "colorbar": bar, "size": 6, "opacity": 0.7}
        figure.add_scatter(x=across, y=up, text=words, marker=marker, **each)
    some = f", {len(drawn):,} of them drawn" if len(drawn) < len(classes) else ""
    said = f"{m.settings['model']}, {point_name(m.settings['point'])}; {len(classes):,} rows{some}; {_between(found)}"
    framed(figure, f"Principal components by {label}", said, height=520, legend=len(known) <= len(PALETTE))
    for update, axis in ((figure.update_xaxes, x), (figure.update_yaxes, y)):
        update(title=f"component {axis} ({percent(float(found.explained.select(component=axis).values))} of variance)")
    return figure


def _spaced(n: int, most: int) -> np.ndarray:
    """Indices of `n` things, evenly spaced, `most` of them at most."""
    return np.linspace(0, n - 1, min(n, most)).round().astype(int)


def _between(found: Components) -> str:
    """How much of all variance lies between the classes, and how much where labels are shuffled."""
    own, shuffled = (float(found.between.select(within="all", labels=labels).values) for labels in (TRUE, SHUFFLED))
    return f"between classes {percent(own)} of variance, shuffled labels {percent(shuffled)}"
