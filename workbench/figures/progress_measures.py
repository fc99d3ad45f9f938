"""Progress measures of grokking: accuracy above, losses below, over the checkpoints of one run."""

from __future__ import annotations

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.figures.over_training import spread_out, step_axis, steps_drawn
from workbench.figures.style import BLUE, GREEN, PURPLE, framed
from workbench.measurement import Measurement

ACCURACIES = ("train accuracy", "test accuracy")
LOSSES = ("train loss", "test loss", "restricted loss", "excluded loss")
LINES = {
    "train": (BLUE, "dot", "questions trained on"),
    "test": (BLUE, "solid", "held-out questions"),
    "restricted": (GREEN, "solid", "restricted: key waves alone"),
    "excluded": (PURPLE, "solid", "excluded: without key waves"),
}
"""First word of a curve -> its colour, its dash and its name."""
CONTROLLED = ("restricted loss", "excluded loss")
LEAST_LOSS = 1e-4  # nats, at the foot of the logarithmic axis


def progress_measures(m: Measurement, control: Measurement | None = None) -> go.Figure:
    """Accuracy and losses of a run of modular addition; the restricted and the excluded loss beside their control.

    Args:
        m: `inspection.progress_measures.progress_measures(…)`: dims `curve`, `step`.
        control: the same of `other_frequencies(m)`, of which the two losses are drawn, dotted.
    """
    steps = list(m.coords["step"])
    log = spread_out(steps)
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.07, row_heights=[0.36, 0.64])
    for row, curves in enumerate((ACCURACIES, LOSSES), 1):
        for curve in curves:
            figure.add_trace(_line(m, curve, log), row=row, col=1)
    for trace in figure.data[: len(ACCURACIES)]:  # named by the losses below
        trace.showlegend = False
    named = ", ".join(map(str, m.settings["frequencies"]))
    said = f"{m.settings['model']}, all {m.settings['p'] ** 2:,} questions; key frequencies {named}"
    if control is not None:
        figure.add_traces([_line(control, curve, log, "other frequencies") for curve in CONTROLLED], rows=2, cols=1)
        said += f"; control: {', '.join(map(str, control.settings['frequencies']))}"
    framed(figure, "Progress measures", said, height=560, of=m.settings["model"]).update_layout(hovermode="x unified")
    figure.update_yaxes(title="right answers", range=[-0.03, 1.03], tickformat=".0%", row=1, col=1)
    figure.update_yaxes(title="loss (nats)", type="log", dtick=1, row=2, col=1)
    return step_axis(figure, steps[-1], log).update_xaxes(title="", row=1, col=1)


def _line(m: Measurement, curve: str, log: bool, control: str = "") -> go.Scatter:
    """One curve; a loss too small for the axis lies at its foot."""
    colour, dash, name = LINES[curve.split()[0]]
    values, loss = m.select(curve=curve).values, curve.endswith("loss")
    return go.Scatter(
        x=steps_drawn(list(m.coords["step"]), log),
        y=values.clip(min=LEAST_LOSS) if loss else values,
        name=f"{name.split(':')[0]}, {control}" if control else name,
        mode="lines" if control else "lines+markers",
        line={"color": colour, "dash": "dot" if control else dash, "width": 1.5 if control else 2.5},
        marker={"size": 5, "symbol": "circle-open" if dash == "dot" else "circle"},
        customdata=values,
        hovertemplate="%{customdata:.3g} nats" if loss else "%{customdata:.1%}",
    )
