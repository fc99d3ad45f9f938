"""Spectra of the residual by layer: entropy, effective rank and anisotropy, their distributions, groups and history.

Every figure but `entropy` is drawn by `draw(runs, controls) -> list of figures`: `runs` maps a run's name to a
measurement, `controls` a run's name and a control to the same measurement of it, which is drawn dotted in the run's
colour.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from workbench.figures.curves import curves, interval, sample_size
from workbench.figures.over_training import over_training
from workbench.figures.runs_and_controls import Controls, Drawn, Runs, controls_of, dots, every_line
from workbench.figures.style import DASHES, SYMBOLS, VERMILLION, faint, framed, in_order, ordered_union
from workbench.measurement import Measurement
from workbench.measurement.places import point_name

MOST_STEPS = 8  # checkpoints in one figure by layer
SMALLEST = 1e-12  # share of the trace that is drawn; smaller ones are near the rounding of single precision, squared
HEIGHT, TOP = 470, 106  # pixels, the second above the plot: a title and two lines
KERNELS = {"linear": "linear kernel", "gaussian": "Gaussian kernel", "laplacian": "Laplacian kernel"}


def entropy(runs: Runs) -> go.Figure:
    """Matrix entropy from the embedding up through the layers, one line for each run.

    Args:
        runs: name -> `entropy.measure(...)` of one set of settings, joined and averaged over examples.
    """
    return by_layer(runs, {})[0]


def by_layer(runs: Runs, controls: Controls) -> list[go.Figure]:
    """A measure from the embedding up through the layers, in one figure: one line for each run, its controls dotted.

    Args:
        runs, controls: `entropy`, `effective_rank` or `anisotropy` measured with one set of settings and averaged over
            examples: the single dim `layer`.
    """
    first = next(iter(runs.values()))
    lines = {line.label: line for line in every_line(runs, controls)}
    measured = {label: line.m for label, line in lines.items()}
    kinds = list(dict.fromkeys(line.control for line in lines.values() if line.control))
    subtitle = f"{conventions(first)}<br>{sample_size(measured, bars=True)}"
    figure = curves(measured, f"{first.name} by layer", axis_title(first), subtitle)
    for trace in figure.data:
        line = lines.get(trace.name)  # dots of seeds have no name
        if line is not None and line.control:
            kind = kinds.index(line.control)
            trace.update(line={"color": line.colour, "dash": DASHES[2 + kind % 2], "width": 1.5})
            trace.update(marker={"size": 6, "color": line.colour, "symbol": f"{SYMBOLS[kind % len(SYMBOLS)]}-open"})
    height = HEIGHT + 7 * max(0, len(figure.data) - 6)  # a long legend takes no room from the plot
    return [figure.update_layout(margin_t=TOP, height=height).update_yaxes(rangemode="normal")]


def distributions_by_layer(runs: Runs, controls: Controls, marks: Runs | None = None) -> list[go.Figure]:
    """A measure's distribution over examples at every layer, the runs over each other (Seq-VCR, Fig. 4): one figure.

    Densities are kernel estimates that end where the examples end, each as high as the next; controls are outlines.

    Args:
        runs, controls: `entropy`, `effective_rank` or `anisotropy` of one set of settings *per example*: dims `layer`,
            `example`.
        marks: name -> the same of a single example, dim `layer`: where it lies among the others.
    """
    first = next(iter(runs.values()))
    figure = go.Figure()
    lines = every_line(runs, controls)
    for line in lines:
        _add_densities(figure, line)
    for i, (name, m) in enumerate((marks or {}).items()):
        figure.add_scatter(
            x=m.values,
            y=[point_name(point) for point in m.coords["layer"]],
            mode="markers",
            name=name,
            marker={"symbol": SYMBOLS[2 + i % 4], "size": 11, "color": VERMILLION}
            | {"line": {"width": 1, "color": "white"}},
            hovertemplate="%{y}: %{x:.3f}",
        )
    n = sorted({len(line.m.coords["example"]) for line in lines})
    counted = f"{n[0]} sequences" if len(n) == 1 else f"{n[0]} to {n[-1]} sequences"
    subtitle = f"{conventions(first)}<br>densities over {counted}, all drawn to one height"
    layers = [point_name(label) for label in ordered_union([list(m.coords["layer"]) for m in runs.values()])]
    framed(figure, f"{first.name}: distribution by layer", subtitle, height=230 + 62 * len(layers))
    figure.update_layout(violinmode="overlay", margin={"t": TOP, "l": 96})
    figure.update_xaxes(title=axis_title(first))
    in_order_of_layers = {"type": "category", "categoryorder": "array", "categoryarray": layers}
    return [figure.update_yaxes(title="point of the residual", showgrid=True, **in_order_of_layers)]


def _add_densities(figure: go.Figure, line: Drawn) -> None:
    """A density for each layer; a control's is an outline."""
    m, control = line.m, bool(line.control)
    assert m.dims == ("layer", "example"), f"{line.label}: a distribution needs each example's value, not {m.dims}"
    for i, point in enumerate(m.coords["layer"]):
        values = m.values[i][~np.isnan(m.values[i])]
        figure.add_violin(
            x=values,
            y=[point_name(point)] * len(values),
            orientation="h",
            side="positive",
            width=1.7,
            spanmode="hard",
            points=False,
            name=line.label,
            legendgroup=line.label,
            showlegend=i == 0,
            line={"color": line.colour, "width": 1.5 if control else 2},
            fillcolor="rgba(0,0,0,0)" if control else faint(line.colour, 0.25),
            opacity=0.8 if control else 1.0,
            hoverinfo="name+x",
        )


def spectrum(runs: Runs, controls: Controls) -> list[go.Figure]:
    """Eigenvalues over the trace on a logarithmic axis, largest first, one line a layer: a figure for each run.

    Args:
        runs, controls: `spectrum` of one set of settings averaged over examples: dims `layer`, `rank`.
    """
    figures = []
    for run, m in runs.items():
        figure = go.Figure()
        layered(figure, m, controls_of(run, controls), "rank")
        cut = f"; shares below {SMALLEST:g} are not drawn" if (m.values < SMALLEST).any() else ""
        framed(figure, f"Spectrum by layer: {run}", two_lines(m, run, controls) + cut, HEIGHT)
        figure.update_layout(margin_t=TOP)
        figure.update_xaxes(title="eigenvalue, largest first", dtick=1 if len(m.coords["rank"]) <= 20 else None)
        figures.append(figure.update_yaxes(title=m.units, type="log", dtick=1, exponentformat="power"))
    return on_one_scale(figures)


def by_layer_and_group(runs: Runs, controls: Controls) -> list[go.Figure]:
    """A measure over a group that sequences belong to, one line a layer: a figure for each run.

    Args:
        runs, controls: `entropy`, `effective_rank` or `anisotropy` by `by_group(...)`: the dims are the group
            (`length`), then `layer`.
    """
    figures = []
    for run, m in runs.items():
        group, figure = m.dims[0], go.Figure()
        layered(figure, m, controls_of(run, controls), group)
        framed(figure, f"{m.name} by {group}: {run}", two_lines(m, run, controls), HEIGHT).update_layout(margin_t=TOP)
        labels = list(m.coords[group])
        figure.update_xaxes(title=group, **({"tickvals": labels} if len(labels) <= 32 else {}))
        figures.append(figure.update_yaxes(title=axis_title(m)))
    return on_one_scale(figures)


def by_layer_over_training(runs: Runs, controls: Controls) -> list[go.Figure]:
    """A measure over training: the layers over steps and the steps over layers (Seq-VCR, Fig. 2): two figures a run.

    Args:
        runs, controls: `entropy`, `effective_rank` or `anisotropy` averaged over examples: dims `step`, `layer`; of
            several controls of a run the first is drawn.
    """
    over_steps, over_layers = [], []
    for run, m in runs.items():
        lines, dotted = (
            {point_name(point): one.select(layer=point) for one in found for point in one.coords["layer"]}
            for found in ([m], list(controls_of(run, controls).values())[:1])
        )
        subtitle = two_lines(m, run, controls, intervals="bands")
        figure = over_training(lines, f"{m.name} over training: {run}", subtitle, controls=dotted, in_order=True)
        over_steps.append(figure.update_layout(margin_t=TOP, height=HEIGHT).update_yaxes(title=axis_title(m)))
        # By layer, one line for each of some checkpoints, from dark to light.
        steps = list(m.coords["step"])
        kept = [steps[i] for i in np.linspace(0, len(steps) - 1, min(MOST_STEPS, len(steps))).round().astype(int)]
        lines = {f"step {step:,}": m.select(step=step) for step in kept}
        subtitle = f"{conventions(m)}<br>{sample_size(lines, bars=True)}"
        profiles = curves(lines, f"{m.name} by layer over training: {run}", axis_title(m), subtitle)
        for colour, trace in zip(in_order(len(lines)), profiles.data, strict=True):
            trace.update(line_color=colour, marker={"color": colour, "symbol": "circle", "size": 6})
        over_layers.append(profiles.update_layout(margin_t=TOP, height=HEIGHT))
    return on_one_scale([*over_steps, *over_layers])


def layered(figure: go.Figure, m: Measurement, controls: Runs, over: str) -> None:
    """One line a layer over another dim, coloured in the order of the layers; controls dotted, in the same colours."""
    for which, one in {"": m, **controls}.items():
        for i, (colour, point) in enumerate(zip(in_order(len(one.coords["layer"])), one.coords["layer"], strict=True)):
            line, label = one.select(layer=point), point_name(point)
            keep = line.values > (SMALLEST if over == "rank" else -np.inf)
            at = [x for x, there in zip(line.coords[over], keep, strict=True) if there]
            if not which:
                figure.add_traces(dots(line, at, colour, keep))
            bars = None if which else interval(line, keep)
            if bars and over == "rank":  # the axis is logarithmic
                bars["arrayminus"] = np.minimum(bars["arrayminus"], line.values[keep] * 0.9)
            figure.add_scatter(
                x=at,
                y=line.values[keep],
                error_y=bars,
                name=f"{label}, {which}" if which else label,
                mode="lines" if which else "lines+markers",
                line={"color": colour, "width": 1.5 if which else 2, "dash": DASHES[2 if which else 0]},
                marker={"symbol": SYMBOLS[i % len(SYMBOLS)], "size": 6},
                opacity=0.7 if which else 1.0,
                showlegend=not which,
            )


def on_one_scale(figures: Sequence[go.Figure]) -> list[go.Figure]:
    """The same range of y in each, so that runs can be compared by eye."""
    drawn = [np.asarray(trace.y, dtype=float) for figure in figures for trace in figure.data]
    values = np.concatenate(drawn)[np.isfinite(np.concatenate(drawn))]
    if not len(values):
        return list(figures)
    low, high = float(values.min()), float(values.max())
    if figures[0].layout.yaxis.type == "log":
        low, high = np.log10(low), 0.0
    room = 0.06 * (high - low) or 0.5
    return [figure.update_yaxes(range=[low - room, high + room]) for figure in figures]


def conventions(m: Measurement) -> str:
    """The settings that decide the numbers, in words."""
    settings, words = m.settings, []
    if "alpha" in settings:
        words.append(f"α = {'∞' if np.isinf(settings['alpha']) else format(settings['alpha'], 'g')}")
    if "of" in settings:
        words.append(f"of {settings['of'].replace('_', ' ')}")
    if "centre" in settings:
        words += ["centred" if settings["centre"] else "not centred"]
        if "unit_rows" in settings:
            words += ["unit rows" if settings["unit_rows"] else "rows not normalised"]
        if settings.get("first", 1) > 1 or settings.get("last") is not None:
            words += [f"eigenvalues {settings['first']} to {settings['last'] or 'the last'}"]
    if "kernel" in settings:
        words.append(KERNELS.get(settings["kernel"], "Laplacian kernel of L1 distances"))
        if settings["bandwidth"] is not None:
            words[-1] += f", σ = {settings['bandwidth']}{' distance' * (settings['bandwidth'] == 'median')}"
    positions = settings.get("positions", "all")
    if "shuffled" in settings and "positions" not in settings:  # of many sequences
        words.append("one vector a sequence, where its answer is asked for")
    elif isinstance(positions, str):
        words.append(f"{positions} tokens")
    else:
        start, stop = positions
        words.append(f"tokens {start or 0} to {'the end' if stop is None else f'{stop} (left out)'}")
    return ", ".join([*words, "before the final norm"])


def two_lines(m: Measurement, run: str, controls: Controls, *, intervals: str = "bars") -> str:
    """A subtitle: the conventions, then n, how the intervals are drawn, and what is dotted."""
    dotted = controls_of(run, controls)
    note = f"; dotted: {', '.join(dotted)}" if dotted else ""
    return f"{conventions(m)}<br>{sample_size({run: m})}; {intervals} are 95 % intervals{note}"


def axis_title(m: Measurement) -> str:
    """The measure and its units."""
    name = m.name if any(letter.isupper() for letter in m.name[1:]) else m.name.lower()  # α-ReQ is a name
    return f"{name} ({m.units})"
