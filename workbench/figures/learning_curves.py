"""What was logged while runs trained: accuracy above losses, over the same steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.figures.over_training import mark_events, shade_steps, step_axis, steps_drawn, words_at
from workbench.figures.style import DASHES, PALETTE, SYMBOLS, framed, ordered_union
from workbench.measurement import Measurement

Curves = Mapping[str, Measurement]
ROWS = {
    "right answers": ("accuracy", "accuracy/training", "whole_answer", "exact_match"),
    "next-token loss": ("next_token", "test_loss", "test_loss/training"),
    "loss, all objectives": ("loss",),
    "perplexity": ("perplexity",),
}
"""Row of the figure, from above -> the curves in it."""
ON_TRAINING = ("accuracy/training", "test_loss/training")
TRAINING = ("-open", ", dotted: questions trained on")
MARKS = {
    "accuracy": ("", ""),
    "whole_answer": ("-open", ", open: whole answers"),
    "exact_match": ("-open-dot", ", with a dot: decoded"),
    "test_loss": ("", ""),
    **dict.fromkeys(ON_TRAINING, TRAINING),
    "perplexity": ("", ""),
}
"""Curves of evaluations, which have a mark at each -> what the mark's form has, and words for it where they differ."""


def learning_curves(
    runs: Mapping[str, Curves],
    *,
    log: bool = False,
    events: Sequence[tuple[int, str]] = (),
    spans: Sequence[tuple[int, int, str]] = (),
) -> go.Figure:
    """Learning curves of one run or several: accuracy above, losses below.

    Runs with different objectives share a row, that of the next-token loss; the sum of a run's objectives has one of
    its own. Whole answers are drawn where they are not what accuracy counts.

    Args:
        runs: name -> its curves (`workbench.inspection.learning_curves.learning_curves`).
        log: a logarithmic axis of steps.
        events: (step, words), marked by a dotted line.
        spans: (first step, last step, words), shaded.
    """
    shown = {name: _shown(curves) for name, curves in runs.items()}
    rows = [row for row, names in ROWS.items() if any(curve in curves for curves in shown.values() for curve in names)]
    if not rows:
        return framed(go.Figure(), "Learning curves", "nothing was logged")
    figure = make_subplots(rows=len(rows), cols=1, shared_xaxes=True, vertical_spacing=0.14 / len(rows))
    for i, (name, curves) in enumerate(shown.items()):
        for number, row in enumerate(rows, 1):
            for curve in (curve for curve in ROWS[row] if curve in curves):
                figure.add_trace(_line(curves[curve], curve, name, i, log), row=number, col=1)
    drawn = [trace.name for trace in figure.data]
    for i, trace in enumerate(figure.data):
        trace.showlegend = trace.name not in drawn[:i]
    every = ordered_union([list(curve.coords["step"]) for curves in shown.values() for curve in curves.values()])
    _frame(figure, rows, every[-1] if every else 0, log, legend=len(runs) > 1)
    names = {name for curves in shown.values() for name in curves}
    forms = "".join(dict.fromkeys(words for name, (_, words) in MARKS.items() if name in names))
    subtitle = f"as logged; joined marks: held-out sequences{forms}; plain lines: single training batches"
    figure.update_layout(title_subtitle_text=subtitle)
    for start, end, words in spans:
        shade_steps(figure, start, end, words)
    return mark_events(figure, events, log)


def _shown(curves: Curves) -> dict[str, Measurement]:
    """The curves to draw: none twice."""
    kept = dict(curves)
    if "next_token" in kept and "loss" in kept and kept["loss"].units == "nats":  # its only objective
        del kept["loss"]
    same = [kept[name].values.tolist() for name in ("accuracy", "whole_answer") if name in kept]
    if len(same) == 2 and same[0] == same[1]:
        del kept["whole_answer"]
    return kept


def _frame(figure: go.Figure, rows: Sequence[str], last: int, log: bool, legend: bool) -> None:
    """Titles and axes: the rows share the steps, up to the last one."""
    framed(figure, "Learning curves", "", height=180 + 135 * len(rows), legend=legend)
    for i, row in enumerate(rows, 1):
        scale: dict[str, Any] = {"rangemode": "tozero"}
        if row == "right answers":
            scale = {"range": [-0.03, 1.03], "tickformat": ".0%"}
        elif row == "perplexity":
            scale = {"type": "log"}
        figure.update_yaxes(title=row, row=i, col=1, **scale)
    room = 0.02 * words_at(last, log)
    step_axis(figure, last, log).update_xaxes(range=[-room, words_at(last, log) + room])
    for i in range(1, len(rows)):
        figure.update_xaxes(title="", row=i, col=1)


def _line(curve: Measurement, what: str, name: str, number: int, log: bool) -> go.Scatter:
    steps, share, evaluated = list(curve.coords["step"]), curve.units == "share", what in MARKS
    symbol = SYMBOLS[number % len(SYMBOLS)] + (MARKS[what][0] if evaluated else "")
    values = "%{y:.1%}" if share else "%{y:.4g}"
    return go.Scatter(
        x=steps_drawn(steps, log),
        y=curve.values,
        name=name,
        legendgroup=name,
        mode="lines+markers" if evaluated else "lines",
        line={"color": PALETTE[number % len(PALETTE)], "width": 2.5 if what in ("accuracy", "perplexity") else 1.5}
        | {"dash": "dot" if what in ON_TRAINING else DASHES[number // len(PALETTE) % len(DASHES)]},
        marker={"symbol": symbol, "size": 7},
        customdata=steps,
        hovertemplate=f"{curve.name}, step %{{customdata:,}}: {values}",
    )
