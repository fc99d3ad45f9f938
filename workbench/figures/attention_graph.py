"""Attention as a graph, in numbers: mass by hop, head roles, graph measures, knockouts; each run beside its controls.

Every function takes runs and their controls as measurements averaged over examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.colors import sample_colorscale
from plotly.subplots import make_subplots

from workbench.figures.curves import add_line, every_head, sample_size
from workbench.figures.runs_and_controls import Controls, Runs, controls_of, dots, every_line
from workbench.figures.style import DASHES, GREY, PALE, PALETTE, SYMBOLS, VERMILLION, cells, framed
from workbench.instruments.attention.path_mass import REST
from workbench.measurement import Measurement
from workbench.measurement.numbers import percent, share_with_interval

REST_COLOURS = {"further": "#B8A9C9", "own": "rgba(128,128,128,0.55)", "elsewhere": "rgba(128,128,128,0.22)"}
REST_NAMES = {"own": "own position"}
MOST_ROWS, MAPS_ACROSS = 40, 3  # heads that have a row each in a map of roles; and maps beside each other of more
AROUND_MAPS, BETWEEN_MAPS = 150, 60  # pixels above and below all maps, and between two rows of them
NUMBERS = 140  # pixels right of the bars, for a share with its interval


def hop_ladder(runs: Runs, controls: Controls) -> list[go.Figure]:
    """How mass divides between the hops of the gold chain and the rest: one stacked bar a run, its controls below it.

    The mark is the mass on the whole chain, with its interval where there is one.

    Args:
        runs: `path_mass.measure(...)` or `rollout.measure(...)`, averaged over examples or of a single one; of path
            mass, one head may be selected, and otherwise each run is drawn by its best, chosen on these same examples.
        controls: the same of each control; the run's head is drawn.
    """
    rows = [row for run, m in runs.items() for row in _with_controls(run, m, controls)]
    labels, measured = [name for name, _ in rows], [m for _, m in rows]
    figure = go.Figure()
    for part, colour in _parts(measured).items():
        values = [float(m.select(hop=part).values) if part in m.coords["hop"] else 0.0 for m in measured]
        if part not in REST or np.any(np.nan_to_num(values) > 0):
            figure.add_bar(
                y=labels,
                x=values,
                orientation="h",
                name=REST_NAMES.get(part, part) if part in REST else f"hop {part}",
                marker={"color": colour, "line": {"width": 0}},
                hovertemplate="%{y}: %{x:.1%}",
            )
    chain = [m.select(hop="chain") for m in measured]
    _add_whole_chain(figure, labels, chain)
    with_interval = ", with 95 % interval" if any(m.low is not None for m in chain) else ""
    what = f"share of a query's attention on its ancestor h hops up; beside each bar: on all ancestors{with_interval}"
    settings = list(dict.fromkeys(_settings(m) for m in runs.values()))
    by_best = [run for run, m in runs.items() if "head" in m.dims]
    whose = "each run's head" if len(by_best) == len(runs) else f"of {', '.join(by_best)} the head"
    best = f"{whose} with the most such mass on these sequences; " if by_best else ""
    note = f"{settings[0] if len(settings) == 1 else ''}{best}{sample_size(runs)}"
    framed(figure, next(iter(runs.values())).name, f"{what}<br>{note}", height=230 + 36 * len(rows))
    figure.update_layout(margin={"t": 104, "r": NUMBERS})
    figure.update_layout(barmode="stack", bargap=0.35, legend_traceorder="normal")
    figure.update_xaxes(title="share of mass", range=[0, 1.02], tickvals=[0, 0.2, 0.4, 0.6, 0.8, 1], tickformat=".0%")
    return [figure.update_yaxes(autorange="reversed", automargin=True, showgrid=False)]


def _add_whole_chain(figure: go.Figure, labels: Sequence[str], chain: Sequence[Measurement]) -> None:
    """On every bar a mark at the mass on the whole chain, with its interval, and right of it the same in numbers."""
    for label, m in zip(labels, chain, strict=True):
        figure.add_traces(dots(m, [label], VERMILLION, across=True))
    figure.add_scatter(
        x=[float(m.values) for m in chain],
        y=labels,
        mode="markers",
        name="whole chain",
        marker={"color": VERMILLION, "size": 13, "symbol": "line-ns", "line": {"color": VERMILLION, "width": 3}},
        error_x=_error(chain, VERMILLION),
        hoverinfo="skip",
    )
    figure.add_scatter(
        x=[1.02] * len(chain),
        y=labels,
        mode="text",
        cliponaxis=False,
        text=[share_with_interval(float(m.values), *m.ends) for m in chain],
        textposition="middle right",
        showlegend=False,
        hoverinfo="skip",
    )


def head_roles(runs: Runs, controls: Controls) -> list[go.Figure]:
    """Each head's roles as a heat map, one figure a run; below each share, in brackets, what random attention has.

    Args:
        runs: `head_roles.measure(...)`.
        controls: the same of each control; shown is the run's `random_graph`, the chance level, and the others on
            hovering.
    """
    figures = []
    for run, m in runs.items():
        roles, heads = list(m.coords["role"]), every_head(m)
        if len(heads) > MOST_ROWS:
            figures.append(_role_maps(run, m, controls))
            continue
        words = [[percent(value) for value in row] for row in _by_head(m)]
        chance = controls.get(run, {}).get("random_graph")
        if chance is not None:
            words = [
                [f"{word}<br>({percent(value)})" for word, value in zip(*both, strict=True)]
                for both in zip(words, _by_head(chance), strict=True)
            ]
        figure = go.Figure()
        figure.add_heatmap(
            z=_by_head(m),
            x=["<br>".join(role.split()) for role in roles],
            y=heads,
            text=words,
            texttemplate="%{text}",
            textfont={"color": "#222222", "size": 12},
            **cells(PALE, "share", share=True, gap=2, tickformat=".0%", outlinewidth=1),
            customdata=_role_hover(m, controls_of(run, controls)),
            hovertemplate="%{customdata}<extra></extra>",
        )
        note = "; in brackets: attention drawn at random" if chance is not None else ""
        subtitle = f"{run}: share of a query's attention, over queries with such a key{note}; {sample_size({run: m})}"
        framed(figure, "Head roles", subtitle, height=210 + 44 * len(heads), legend=False, of=run)
        figure.update_xaxes(title="role", showgrid=False, side="bottom")
        figures.append(figure.update_yaxes(title="head", showgrid=False, autorange="reversed", automargin=True))
    return figures


def _role_maps(run: str, m: Measurement, controls: Controls) -> go.Figure:
    """One run's roles as maps side by side, each with a row a layer and a column a head."""
    hover = dict(zip(m.coords["role"], np.array(_role_hover(m, controls_of(run, controls))).T, strict=True))
    roles = [role for role in m.coords["role"] if not np.isnan(m.select(role=role).values).all()]
    layers, columns = list(m.coords["layer"]), min(len(roles), MAPS_ACROSS)
    rows = -(-len(roles) // columns)
    height = AROUND_MAPS + rows * (BETWEEN_MAPS + 9 * len(layers))
    spacing = BETWEEN_MAPS / (height - AROUND_MAPS)
    figure = make_subplots(
        rows=rows, cols=columns, subplot_titles=roles, shared_yaxes=True, vertical_spacing=spacing if rows > 1 else 0
    )
    for at, role in enumerate(roles):
        shares = m.select(role=role).values
        figure.add_heatmap(
            z=shares,
            x=list(m.coords["head"]),
            y=layers,
            coloraxis="coloraxis",
            xgap=1,
            ygap=1,
            customdata=hover[role].reshape(shares.shape),
            hovertemplate="%{customdata}<extra></extra>",
            row=1 + at // columns,
            col=1 + at % columns,
        )
    subtitle = f"{run}: share of a query's attention, over queries with such a key; {sample_size({run: m})}"
    framed(figure, "Head roles", subtitle, height=height, legend=False, of=run)
    scale = {
        "tickformat": ".0%",
        "lenmode": "pixels",
        "len": 9 * len(layers),
        "yanchor": "top",
        "y": 1,
        "thickness": 14,
    }
    figure.update_layout(coloraxis={"colorscale": PALE, "cmin": 0, "cmax": 1, "colorbar": scale})
    figure.update_annotations(font={"size": 13})
    figure.update_xaxes(showgrid=False).update_xaxes(title="head", row=rows)
    return figure.update_yaxes(showgrid=False).update_yaxes(title="layer", col=1)


def _by_head(m: Measurement) -> np.ndarray:
    """The values of all heads as `[head, role]`."""
    return m.values.reshape(len(m.coords["role"]), -1).T


def _role_hover(m: Measurement, controls: Runs) -> list[list[str]]:
    """What hovering over each cell shows: the share, and that of every control."""
    shares, baselines = _by_head(m), {name: _by_head(control) for name, control in controls.items()}
    return [
        [
            "<br>".join(
                [
                    f"{head}, {role}: {percent(shares[i, j])}",
                    *(f"{name}: {percent(values[i, j])}" for name, values in baselines.items()),
                ]
            )
            for j, role in enumerate(m.coords["role"])
        ]
        for i, head in enumerate(every_head(m))
    ]


def graph_measures(runs: Runs, controls: Controls) -> list[go.Figure]:
    """Reach, gathering and path length of every head, side by side, one figure a run; controls as open marks.

    Args:
        runs: `graph_measures.measure(...)`.
        controls: the same of each control.
    """
    return [_graph_panels(run, m, controls_of(run, controls)) for run, m in runs.items()]


def _graph_panels(run: str, m: Measurement, controls: Runs) -> go.Figure:
    """One run's graph measures, a panel each over the same heads."""
    measures, heads = list(m.coords["measure"]), every_head(m)
    figure = make_subplots(
        rows=1, cols=len(measures), shared_yaxes=True, subplot_titles=measures, horizontal_spacing=0.035
    )
    for column, name in enumerate(measures, start=1):
        part = m.select(measure=name)
        panel = {"row": 1, "col": column, "showlegend": column == 1}
        figure.add_bar(
            y=heads,
            x=part.values.reshape(-1),
            error_x=_error([part]),
            orientation="h",
            name=run,
            legendgroup=run,
            marker={"color": PALETTE[0]},
            **panel,
        )
        for i, (control, measured) in enumerate(controls.items(), start=1):
            figure.add_scatter(
                y=heads,
                x=measured.select(measure=name).values.reshape(-1),
                mode="markers",
                name=control,
                legendgroup=control,
                marker={"color": PALETTE[i], "symbol": SYMBOLS[i] + "-open", "size": 9, "line": {"width": 2}},
                **panel,
            )
        figure.update_xaxes(title=m.settings["units"][name], rangemode="tozero", row=1, col=column)
    subtitle = f"{run}: reach over edges of at least {m.settings['threshold']:g}; {sample_size({run: m})}; 95 % bars"
    framed(figure, "Graph measures by head", subtitle, height=250 + 32 * len(heads), of=run)
    figure.update_layout(margin={"t": 110}, bargap=0.35)
    figure.update_annotations(font={"size": 13})
    return figure.update_yaxes(autorange="reversed", automargin=True).update_yaxes(title="head", col=1)


def knockout(runs: Runs, controls: Controls) -> list[go.Figure]:
    """Share of right answers lost when the edge of hop h is cut, by hop: those that should be lost, and those that not.

    Args:
        runs: `chain_following.causal(...)`.
        controls: the same of each control, drawn as runs of their own. What an edit by chance would do is in the
            measurement itself (edges elsewhere).
    """
    figure = go.Figure()
    counted = {
        "cases in which all answers that need the edge are lost, and no others": ("claimed", "as claimed"),
        "answers that need the edge": ("claimed", "changed"),
        "the same answers, another edge cut": ("elsewhere", "changed"),
    }
    lines = [
        (i, j, drawn.label, what, drawn.m.select(edit=edit, outcome=outcome))
        for i, drawn in enumerate(every_line(runs, controls))
        for j, (what, (edit, outcome)) in enumerate(counted.items())
    ]
    shifts = np.linspace(-0.03, 0.03, len(lines)) * len(lines)  # so that intervals do not lie on one another
    for shift, (i, j, run, what, line) in zip(shifts, lines, strict=True):
        at, colour = list(np.array(line.coords["hop"]) + shift), PALETTE[i % len(PALETTE)]
        look: dict[str, Any] = {"dash": DASHES[j], "symbol": SYMBOLS[j], "width": 2.5 if j == 0 else 1.8}
        add_line(figure, line, at, f"{run}: {what}", colour, hovertemplate="%{y:.1%}", **look)
    edited = {run: str(m.settings.get("edited", "every head")) for run, m in runs.items()}
    places = dict.fromkeys(edited.values())
    where = next(iter(places)) if len(places) == 1 else "; ".join(f"{run}: {place}" for run, place in edited.items())
    subtitle = f"share of right answers lost when the edge of hop h is cut in {where}; {sample_size(runs)}; 95 % bars"
    framed(figure, "Knockout by hop", subtitle, height=440 + 12 * len(lines))
    hops = next(iter(runs.values())).coords["hop"]
    figure.update_xaxes(title="hop of the edge that is cut", tickvals=list(hops))
    return [figure.update_yaxes(title="share of answers lost", range=[-0.04, 1.04], tickformat=".0%")]


def _with_controls(run: str, m: Measurement, controls: Controls) -> list[tuple[str, Measurement]]:
    """(name on the axis, mass by hop) of a run and of each of its controls, at the run's best head."""
    # Of a measure of every head, the head with the most mass on the whole chain.
    place: dict[str, Any] = {}
    if "head" in m.dims:
        chain = m.select(hop="chain")
        layer, head = np.unravel_index(int(np.nanargmax(chain.values)), chain.values.shape)
        place = {"layer": m.coords["layer"][int(layer)], "head": m.coords["head"][int(head)]}
    drawn = place or {dim: m.settings[dim] for dim in ("layer", "head") if dim in m.settings}
    one_head = len(drawn) == 2 and "all" not in drawn.values()
    where = f", layer {drawn['layer']} head {drawn['head']}" if one_head else ""
    rows = [(f"{run}: {name} ", control.select(**place)) for name, control in controls_of(run, controls).items()]
    return [(f"<b>{run}</b>{where} ", m.select(**place)), *rows]


def _parts(measured: Sequence[Measurement]) -> dict[Any, str]:
    """The parts that bars are stacked of -> their colours: the hops in order, then the rest."""
    hops = max((m.coords["hop"] for m in measured), key=len)[: -len(REST)]
    colours = sample_colorscale("Viridis", list(np.linspace(0.12, 0.92, len(hops)))) if len(hops) else []
    return dict(zip(hops, colours, strict=True)) | REST_COLOURS


def _error(parts: Sequence[Measurement], colour: str = GREY) -> dict[str, Any] | None:
    """Error bars for several measurements in a row; None where one has no interval."""
    above, below = [], []
    for m in parts:
        if m.low is None or m.high is None:
            return None
        above.append(np.ravel(m.high - m.values))
        below.append(np.ravel(m.values - m.low))
    widths = {"array": np.concatenate(above), "arrayminus": np.concatenate(below)}
    return {"type": "data", "symmetric": False, "thickness": 1.5, "color": colour, **widths}


def _settings(m: Measurement) -> str:
    """The settings of rollout or of path mass, in words."""
    if "residual" in m.settings:
        return f"residual's share {m.settings['residual']:g}, {m.settings['heads']} of heads; "
    return f"γ = {m.settings['gamma']}; " if "gamma" in m.settings else ""
