"""Dispersion of attention: how evenly each head's rows spread, by the number of keys, several runs side by side."""

from __future__ import annotations

import warnings

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.figures.curves import sample_size
from workbench.figures.runs_and_controls import Controls, Drawn, Runs, every_line
from workbench.figures.style import GREY, SYMBOLS, framed, ordered_union
from workbench.measurement import Measurement

EVEN = "uniform attention"


def dispersion(runs: Runs, controls: Controls) -> list[go.Figure]:
    """One panel a layer: each head thin, the mean over heads thick; dotted, the mean of controls and uniform attention.

    Args:
        runs: name -> `dispersion.measure(…)` averaged over examples: dims `layer`, `head`, `keys`.
        controls: name -> control -> the same of that control.
    """
    layers = ordered_union([list(m.coords["layer"]) for m in runs.values()])
    keys = ordered_union([_with_rows(m) for m in runs.values()])
    figure = make_subplots(
        cols=len(layers),
        subplot_titles=[f"layer {layer}" for layer in layers],
        shared_yaxes=True,
        horizontal_spacing=0.04,
    )
    for column, layer in enumerate(layers, 1):
        for number, line in enumerate(every_line(runs, controls)):
            if layer in line.m.coords["layer"]:
                figure.add_traces(_lines(line, line.m.select(layer=layer), number), rows=1, cols=column)
        dots = {"color": GREY, "dash": "dot", "width": 2}
        figure.add_scatter(x=keys, y=[1.0] * len(keys), name=EVEN, mode="lines", line=dots, row=1, col=column)
    names = [trace.name for trace in figure.data]
    for i, trace in enumerate(figure.data):
        first = trace.showlegend is not False and trace.name not in names[:i]
        trace.update(legendgroup=trace.name, showlegend=first)
    said = f"entropy of a row over log of its keys; thick: mean over heads; {sample_size(runs)}"
    framed(figure, "Dispersion of attention", said, height=440).update_layout(margin_t=112)
    figure.update_yaxes(range=[-0.03, 1.06], tickformat=".0%").update_yaxes(title="share of log n", col=1)
    figure.update_xaxes(title="keys that a row may read", type="category", categoryorder="array", categoryarray=keys)
    return [figure]


def _with_rows(m: Measurement) -> list[str]:
    """The numbers of keys that some row has."""
    filled = ~np.isnan(m.values).all(axis=tuple(i for i, dim in enumerate(m.dims) if dim != "keys"))
    return [label for label, has in zip(m.coords["keys"], filled, strict=True) if has]


def _lines(line: Drawn, m: Measurement, number: int) -> list[go.Scatter]:
    """One run's heads and their mean, or a control's mean."""
    keys = list(m.coords["keys"])
    each = {"x": keys, "mode": "lines", "hovertemplate": "%{x} keys: %{y:.1%}"}
    mean = {"color": line.colour, "dash": "dot" if line.control else "solid", "width": 1.5 if line.control else 3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of bins without a row
        over_heads = np.nanmean(m.values, axis=m.dims.index("head"))
    thick = go.Scatter(y=over_heads, name=line.label, line=mean, **each)
    if line.control:
        return [thick]
    thick.update(mode="lines+markers", marker={"symbol": SYMBOLS[number % len(SYMBOLS)], "size": 8})
    thin = [
        go.Scatter(
            y=m.select(head=head).values,
            name=f"{line.label}, head {head}",
            showlegend=False,
            opacity=0.55,
            line={"color": line.colour, "width": 1},
            **each,
        )
        for head in m.coords["head"]
    ]
    return [*thin, thick]
