"""A dot for each seed, behind the mean over seeds: if some seeds solve a task and others fail, a mean says little."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from workbench.measurement import Measurement


def dots(
    m: Measurement,
    at: Sequence[Any],
    colour: str,
    keep: np.ndarray | None = None,
    *,
    across: bool = False,
    group: str | None = None,
) -> list[go.Scatter]:
    """A trace with a dot for each seed's value; none where the measurement is not a mean over seeds.

    Args:
        m: the mean over seeds.
        at: the place on the axis of each value that is kept, in the order of `m.values.reshape(-1)`.
        colour: of the line or bar that the dots belong to.
        keep: which values are drawn; by default all.
        across: values go along x, places along y.
        group: the `offsetgroup` of the bars that the dots lie on; the figure then needs the `scattermode` "group".
    """
    if m.each is None:
        return []
    each = m.each.reshape(-1, m.each.shape[-1])
    each = each if keep is None else each[keep.reshape(-1)]
    given = m.settings.get("seeds")
    seeds = list(given) if isinstance(given, Sequence) else list(range(each.shape[-1]))
    values, places = each.reshape(-1), [place for place in at for _ in seeds]
    grouped = {} if group is None else {"offsetgroup": group, "orientation": "h" if across else "v"}
    size = {"size": 6, "opacity": 0.55} if group is None else {"size": 7, "opacity": 0.9}  # on a line, on a bar
    trace = go.Scatter(
        **({"x": values, "y": places} if across else {"x": places, "y": values}),
        **grouped,
        mode="markers",
        marker={"color": colour, "line": {"color": "white", "width": 0.8}, **size},
        customdata=seeds * len(each),
        hovertemplate="seed %{customdata}: " + ("%{x}" if across else "%{y}") + "<extra></extra>",
        showlegend=False,
    )
    return [trace]
