"""Measurements over training: one line for each thing measured, checkpoints along the axis, events marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.figures.style import BLUE, DASHES, GREEN, GREY, PALETTE, PURPLE, SHADES, VERMILLION, cells, faint, framed
from workbench.figures.style import in_order as colours_in_order
from workbench.measurement import Measurement

MOST_NAMED = 2  # lines whose controls have a place in the legend
SPREAD = 20.0  # widest gap between checkpoints over the narrowest from which the axis is logarithmic


def over_training(
    lines: Mapping[str, Measurement],
    title: str,
    subtitle: str = "",
    *,
    controls: Mapping[str, Measurement] | None = None,
    in_order: bool = False,
    events: Sequence[tuple[int, str]] = (),
) -> go.Figure:
    """Lines over training steps with their intervals as bands.

    Args:
        lines: label -> a measurement whose only dim is `step`.
        title, subtitle: of the figure.
        controls: the control of some of the lines, under the same labels; dotted, in the legend only of few lines.
        in_order: whether the labels are a sequence (layers, hops, lengths), to be coloured as one.
        events: (step, words), marked by a vertical line.
    """
    figure = go.Figure()
    steps = list(next(iter(lines.values())).coords["step"])
    log = spread_out(steps)
    x = steps_drawn(steps, log)
    few = not in_order and len(lines) <= len(PALETTE)
    colours = PALETTE[: len(lines)] if few else colours_in_order(len(lines))
    for colour, (label, line) in zip(colours, lines.items(), strict=True):
        _add(figure, x, line, label, colour, DASHES[0])
        if controls and label in controls:
            _add(figure, x, controls[label], f"{label}, control", colour, DASHES[2])
            figure.data[-1].showlegend = len(lines) <= MOST_NAMED
    mark_events(figure, events, log)
    framed(figure, title, subtitle).update_layout(legend_traceorder="normal")  # bands would turn it round
    first = next(iter(lines.values()))
    if first.units == "share":
        figure.update_yaxes(range=[-0.03, 1.03], tickformat=".0%", title="share")
    else:
        figure.update_yaxes(rangemode="tozero", title=first.units)
    return step_axis(figure, steps[-1], log)


def spread_out(steps: Sequence[int]) -> bool:
    """Whether the gaps between checkpoints are so uneven that the axis is to be logarithmic."""
    gaps = np.diff(steps)
    return len(gaps) > 1 and bool(gaps.max() / gaps.min() >= SPREAD)


def steps_drawn(steps: Sequence[int], log: bool) -> list[int]:
    """Where steps lie on an axis of steps: on a logarithmic one a step further, so that step 0 has a place."""
    return [step + 1 for step in steps] if log else list(steps)


def step_axis(figure: go.Figure, last: int, log: bool) -> go.Figure:
    """The axis of training steps up to the last one, for what lies where `steps_drawn` says."""
    if not log:
        return figure.update_xaxes(title="training step")
    ticks = [step for step in (0, *(10**k for k in range(16))) if step <= last / 3]  # clear of the last
    return figure.update_xaxes(
        title="training step (logarithmic)",
        type="log",
        tickvals=[tick + 1 for tick in (*ticks, last)],
        ticktext=[f"{tick:,}" for tick in (*ticks, last)],
    )


def words_at(step: int, log: bool) -> float:
    """Where words about a step are put on that axis: plotly takes them by the exponent."""
    return float(np.log10(step + 1)) if log else step


def mark_events(figure: go.Figure, events: Sequence[tuple[int, str]], log: bool) -> go.Figure:
    """A dotted line through a figure over training steps for each (step, words)."""
    for step, words in events:
        _line_at(figure, steps_drawn([step], log)[0], {"color": GREY, "dash": "dot", "width": 1})
        where = {"x": words_at(step, log), "xref": "x", "y": 1, "yref": "paper", "xanchor": "right"}
        figure.add_annotation(text=words, showarrow=False, textangle=-90, **where)
    return figure


def mark_step(figure: go.Figure, step: int, words: str = "") -> go.Figure:
    """One step marked by a line through a figure over training steps, lines or a map."""
    axis = figure.layout.xaxis.type
    log = axis == "log"
    x = f"{step:,}" if axis == "category" else steps_drawn([step], log)[0]
    _line_at(figure, x, {"color": VERMILLION, "width": 2})
    if words and axis != "category":
        where = {"x": words_at(step, log), "xref": "x", "y": 1, "yref": "paper", "yanchor": "bottom"}
        drawn = max((max(trace.x) for trace in figure.data if len(trace.x)), default=step)  # never beyond the edge
        where["xanchor"] = "right" if words_at(step, log) > words_at(drawn, log) / 2 else "left"
        figure.add_annotation(text=words, showarrow=False, font={"color": VERMILLION, "size": 12}, **where)
    return figure


def shade_steps(figure: go.Figure, start: int, end: int, words: str = "") -> go.Figure:
    """A span of steps shaded through a figure over training steps, its words at the foot; a map is left as it is."""
    axis = figure.layout.xaxis.type
    if axis == "category":
        return figure
    log = axis == "log"
    left, right = steps_drawn([start, end], log)
    box = {"x0": left, "x1": right, "xref": "x", "y0": 0, "y1": 1, "yref": "paper"}
    figure.add_shape(type="rect", fillcolor=GREY, opacity=0.2, line_width=0, layer="below", **box)
    if words:
        drawn = max(max(trace.x) for trace in figure.data if len(trace.x))
        late = words_at(start, log) > words_at(drawn, log) / 2
        where = {"x": words_at(start if late else end, log), "xref": "x", "xanchor": "right" if late else "left"}
        where |= {"y": 0.03, "yref": "y domain", "yanchor": "bottom"}
        figure.add_annotation(text=words, showarrow=False, font={"size": 12}, **where)
    return figure


def _line_at(figure: go.Figure, x: int | str, line: dict[str, object]) -> None:
    """A vertical line through every row of a figure."""
    figure.add_shape(type="line", x0=x, x1=x, xref="x", y0=0, y1=1, yref="paper", line=line)


def map_over_training(lines: Mapping[str, Measurement], title: str, subtitle: str = "") -> go.Figure:
    """Many lines over training steps as the rows of a map."""
    first = next(iter(lines.values()))
    figure = go.Figure()
    figure.add_heatmap(
        z=[line.values for line in lines.values()],
        x=[f"{step:,}" for step in first.coords["step"]],
        y=list(lines),
        **cells(SHADES, first.units),
        hovertemplate="%{y}, step %{x}: %{z:.3g}<extra></extra>",
    )
    framed(figure, title, subtitle, height=190 + min(900, 22 * len(lines)), legend=False)
    figure.update_xaxes(title="training step (checkpoints)", type="category")
    return figure.update_yaxes(type="category", autorange="reversed", automargin=True)


def _add(figure: go.Figure, x: Sequence[int], line: Measurement, label: str, colour: str, dash: str) -> None:
    assert line.dims == ("step",), f"{label}: a line over training has the single dim step, not {line.dims}"
    if line.low is not None and line.high is not None and dash == DASHES[0]:
        around = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False}
        figure.add_scatter(x=x, y=line.low, **around)
        figure.add_scatter(x=x, y=line.high, fill="tonexty", fillcolor=faint(colour), **around)
    figure.add_scatter(
        x=x,
        y=line.values,
        name=label,
        mode="lines+markers",
        line={"color": colour, "dash": dash, "width": 2.5 if dash == DASHES[0] else 1.5},
        marker={"size": 5},
        customdata=line.coords["step"],
        hovertemplate="step %{customdata:,}: %{y}",
    )


TITLES = {"RankMe": "RankMe (directions)", "α-ReQ": "α-ReQ (exponent)"}


def rank_over_training(m: Measurement) -> go.Figure:
    """Both measures at every checkpoint, a line for each draw of sequences.

    Args:
        m: `inspection.collapse_phases.rank_over_training(…)`: dims `measure`, `draw`, `step`.
    """
    steps = list(m.coords["step"])
    log = spread_out(steps)
    figure = make_subplots(rows=len(TITLES), cols=1, shared_xaxes=True, vertical_spacing=0.09)
    for row, measure in enumerate(TITLES, 1):
        for draw in m.coords["draw"]:
            line = go.Scatter(
                x=steps_drawn(steps, log),
                y=m.select(measure=measure, draw=draw).values,
                mode="lines+markers",
                line={"color": BLUE, "dash": DASHES[2 * draw % len(DASHES)], "width": 2},
                marker={"size": 5},
                name=f"draw {draw + 1} of {m.settings['n']:,} sequences",
                showlegend=row == 1,
                hovertemplate=f"{measure} %{{y:.2f}}",
            )
            figure.add_trace(line, row=row, col=1)
        figure.update_yaxes(title=TITLES[measure], row=row, col=1)
    said = f"{m.settings['model']}: one vector a sequence, where the answer is asked for, before the final norm"
    framed(figure, "Rank over training", said, height=480, of=m.settings["model"]).update_layout(hovermode="x unified")
    return step_axis(figure, steps[-1], log).update_xaxes(title="", row=1, col=1)


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
