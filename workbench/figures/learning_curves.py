"""What was logged while runs trained: accuracy above loss, over the same steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.figures.over_training import mark_events, shade_steps, step_axis, steps_drawn, words_at
from workbench.figures.style import DASHES, PALETTE, SYMBOLS, framed, ordered_union
from workbench.measurement import Measurement

Curves = Mapping[str, Measurement]
ROWS = {"accuracy": "right answers", "loss": "loss"}


def learning_curves(
    runs: Mapping[str, Curves],
    *,
    log: bool = False,
    events: Sequence[tuple[int, str]] = (),
    spans: Sequence[tuple[int, int, str]] = (),
) -> go.Figure:
    """Learning curves of one run or several: accuracy above, loss below.

    Args:
        runs: name -> its curves (`workbench.inspection.learning_curves.learning_curves`).
        log: a logarithmic axis of steps.
        events: (step, words), marked by a dotted line.
        spans: (first step, last step, words), shaded.
    """
    named = [row for row in ROWS if any(row in curves for curves in runs.values())]
    if not named:
        return framed(go.Figure(), "Learning curves", "nothing was logged")
    figure = make_subplots(rows=len(named), cols=1, shared_xaxes=True, vertical_spacing=0.07)
    for i, (name, curves) in enumerate(runs.items()):
        for row, curve in ((named.index(row) + 1, curve) for row, curve in curves.items() if row in named):
            figure.add_trace(_line(curve, name, i, log), row=row, col=1)
    drawn = [trace.name for trace in figure.data]
    for i, trace in enumerate(figure.data):
        trace.showlegend = trace.name not in drawn[:i]
    every = ordered_union([list(curve.coords["step"]) for curves in runs.values() for curve in curves.values()])
    _frame(figure, named, every[-1] if every else 0, log, legend=len(runs) > 1)
    for start, end, words in spans:
        shade_steps(figure, start, end, words)
    return mark_events(figure, events, log)


def _frame(figure: go.Figure, named: Sequence[str], last: int, log: bool, legend: bool) -> None:
    """Titles and axes: the rows share the steps, up to the last one."""
    subtitle = "as logged: accuracy on held-out sequences, the loss of single training batches"
    framed(figure, "Learning curves", subtitle, height=200 + 160 * len(named), legend=legend)
    for i, what in enumerate(named, 1):
        figure.update_yaxes(title=ROWS[what], row=i, col=1)
    if "accuracy" in named:
        figure.update_yaxes(range=[-0.03, 1.03], tickformat=".0%", row=1, col=1)
    if "loss" in named:
        figure.update_yaxes(rangemode="tozero", row=len(named), col=1)
    room = 0.02 * words_at(last, log)
    step_axis(figure, last, log).update_xaxes(range=[-room, words_at(last, log) + room])
    if len(named) > 1:
        figure.update_xaxes(title="", row=1, col=1)


def _line(curve: Measurement, name: str, number: int, log: bool) -> go.Scatter:
    steps, share = list(curve.coords["step"]), curve.units == "share"
    return go.Scatter(
        x=steps_drawn(steps, log),
        y=curve.values,
        name=name,
        legendgroup=name,
        mode="lines+markers" if share else "lines",
        line={"color": PALETTE[number % len(PALETTE)], "width": 2.5 if share else 1.5}
        | {"dash": DASHES[number // len(PALETTE) % len(DASHES)]},
        marker={"symbol": SYMBOLS[number % len(SYMBOLS)], "size": 7},
        customdata=steps,
        hovertemplate="step %{customdata:,}: %{y:.1%}" if share else "step %{customdata:,}: %{y:.4g}",
    )
