"""RankMe and the exponent of α-ReQ over the checkpoints of one run, in which phases of collapse are looked for."""

from __future__ import annotations

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.figures.over_training import spread_out, step_axis, steps_drawn
from workbench.figures.style import BLUE, DASHES, framed
from workbench.measurement import Measurement

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
