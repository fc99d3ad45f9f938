"""Measures at every point of the residual (projection, bases, lenses), each run beside its controls; CKA of layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.figures.curves import interval, sample_size
from workbench.figures.projection import normed
from workbench.figures.runs_and_controls import Controls, Drawn, Runs, dots, each_control, every_line
from workbench.figures.style import DASHES, PALETTE, SHADES, SYMBOLS, cells, framed, ordered_union
from workbench.measurement import Measurement
from workbench.measurement.numbers import number
from workbench.measurement.places import point_name

BASIS_NAMES = {"encoder": "encoder basis", "decoder": "decoder basis", "both": "both together"}
AGAINST_NAMES = {"final": "with the final output", "target": "with the target"}


def projection(runs: Runs, controls: Controls) -> list[go.Figure]:
    """How often the top token is the position's own, and its target: a figure each, a panel a basis.

    Args:
        runs: name -> `projection.measure(...)` averaged over examples.
        controls: name -> control -> the same of that control.
    """
    first = next(iter(runs.values()))
    titles = {"own": "Top token is the position's own", "target": "Top token is the target"}
    how = f"largest {first.settings['how']} component{normed(first)}"
    return [
        panels(
            {name: m.select(token=token) for name, m in runs.items()},
            each_control(controls, lambda m, token=token: m.select(token=token)),  # type: ignore[misc]
            ("basis", BASIS_NAMES),
            titles[token],
            how,
        )
        for token in first.coords["token"]
    ]


def unexplained(runs: Runs, controls: Controls) -> list[go.Figure]:
    """The share of the residual outside the span of each basis, and of both, a panel each.

    Args:
        runs: name -> `unexplained.measure(...)` averaged over examples.
        controls: name -> control -> the same of that control.
    """
    settings = next(iter(runs.values())).settings
    rank = ", ".join(f"{name} {found}" for name, found in settings["rank"].items())
    note = f"share of the squared norm, {'after' if settings['final_norm'] else 'before'} the final norm"
    if len(runs) == 1:
        note += f"; ranks: {rank} of {settings['d_model']}"
    return [panels(runs, controls, ("basis", BASIS_NAMES), "Residual outside the span of the bases", note)]


def agreement(runs: Runs, controls: Controls) -> list[go.Figure]:
    """How often the token seen through the lens is the final one, and the right one, a panel each.

    Args:
        runs: name -> `lens_agreement.measure(...)` averaged over examples.
        controls: name -> control -> the same of that control.
    """
    lens = next(iter(runs.values())).settings["lens"]
    return [panels(runs, controls, ("against", AGAINST_NAMES), f"Agreement of the {lens} lens", "scored positions")]


def lenses(runs: Runs, controls: Controls) -> list[go.Figure]:
    """KL from the final output to what each point decodes to; of a tuned lens, with the logit lens beside it, dashed.

    Args:
        runs: name -> `logit_lens.measure(...)` or `tuned_lens.measure(...)` averaged over examples.
        controls: name -> control -> the same of that control.
    """
    figure = go.Figure()
    for line in every_line(runs, controls):
        kinds = list(line.m.coords.get("lens", ()))
        for kind in kinds[::-1] or [None]:
            part, dash = (line.m, DASHES[0]) if kind is None else (line.m.select(lens=kind), DASHES[kind == "logit"])
            label = line.label if kind is None else f"{line.label}: {kind} lens"
            figure.add_traces(_traces(line, part, label, dash))
    first = next(iter(runs.values()))
    subtitle = f"KL(final || lens) at scored positions; {sample_size(runs, bars=True)}"
    framed(figure, f"{first.name}: how far each layer is from the output", subtitle, height=460)
    figure.update_yaxes(title="KL to the final output (nats)", rangemode="tozero")
    return [_over_points(figure, [line.m for line in every_line(runs, controls)])]


def panels(runs: Runs, controls: Controls, facets: tuple[str, Mapping[str, str]], title: str, what: str) -> go.Figure:
    """Shares by layer, one panel for each label of a dim; runs are solid, their controls dotted and faint.

    Args:
        runs, controls: measurements of two dims, one of them `point`.
        facets: the other dim, and the words for its labels.
        title: of the figure.
        what: begins the subtitle.
    """
    dim, words = facets
    labels = list(next(iter(runs.values())).coords[dim])
    names = [words[label] for label in labels]
    figure = make_subplots(rows=1, cols=len(labels), subplot_titles=names, shared_yaxes=True, horizontal_spacing=0.04)
    for line in every_line(runs, controls):
        for column, label in enumerate(labels, start=1):
            traces = _traces(line, line.m.select(**{dim: label}), line.label, DASHES[0])
            traces[-1].update(showlegend=column == 1)
            figure.add_traces(traces, rows=1, cols=column)
    framed(figure, title, f"{what}; {sample_size(runs, bars=True)}", height=440)
    figure.update_layout(margin={"t": 112})
    figure.update_yaxes(range=[-0.03, 1.03], tickformat=".0%")
    figure.update_yaxes(title="share", col=1)
    return _over_points(figure, [line.m for line in every_line(runs, controls)])


def _traces(line: Drawn, m: Measurement, name: str, dash: str) -> list[go.Scatter]:
    """A measure over the points of the residual as a line, and each seed's dots behind it; a control is faint."""
    x, is_control = [point_name(point) for point in m.coords["point"]], bool(line.control)
    symbol = SYMBOLS[PALETTE.index(line.colour) % len(SYMBOLS)]
    trace = go.Scatter(
        x=x,
        y=m.values,
        error_y=interval(m),
        name=name,
        legendgroup=name,
        mode="lines+markers",
        opacity=0.75 if is_control else 1.0,
        line={"color": line.colour, "dash": "dot" if is_control and dash == DASHES[0] else dash}
        | {"width": 1.5 if is_control else 2.5},
        marker={"symbol": symbol + "-open" if is_control else symbol, "size": 8},
    )
    return [trace] if is_control else [*dots(m, x, line.colour), trace]


def _over_points(figure: go.Figure, measured: Sequence[Measurement]) -> go.Figure:
    """The axis of residual points, those of the deepest model in order."""
    names = ordered_union([[point_name(point) for point in m.coords["point"]] for m in measured])
    figure.update_xaxes(type="category", categoryorder="array", categoryarray=names, tickangle=-45 * (len(names) > 6))
    return figure.update_xaxes(title="point of the residual")


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
        texttemplate="%{z:.2f}" if max(m.values.shape) <= 10 else None,
        **cells(SHADES, m.units, share=True),
        hovertemplate=f"{model}, %{{y}}<br>{other}, %{{x}}: %{{z:.3f}}<extra></extra>",
    )
    said = f"{'debiased, ' if m.settings['debiased'] else ''}{m.settings['tokens']:,} tokens"
    if null is not None:
        said += f"; of shuffled tokens at most {number(float(np.nanmax(null.values)))}"
    framed(figure, "CKA of layers", said, height=250 + 34 * len(rows), legend=False)
    figure.update_xaxes(title=other, type="category", showgrid=False)
    return figure.update_yaxes(title=model, type="category", showgrid=False, autorange="reversed", automargin=True)
