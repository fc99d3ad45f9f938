"""Statistics with their intervals, several runs in one figure: accuracy, mass on gold paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from workbench.figures.runs_and_controls import Controls, Runs, controls_of, dots
from workbench.figures.style import BLUE, DASHES, GREEN, PALETTE, SYMBOLS, framed, ordered_union
from workbench.interventions import head_in_words
from workbench.measurement import Measurement
from workbench.measurement.places import POINTS, point_name

NARROWEST = 32  # numbers that can stand side by side under an axis


def accuracy(runs: Runs, controls: Controls | None = None) -> go.Figure:
    """Accuracy by the task's group (`depth`, `length`, `digit`), one line for each run.

    Args:
        runs: name -> `accuracy.measure(...)`, joined and averaged over examples.
        controls: name -> control -> the same of that control, dashed.
    """
    first = next(iter(runs.values()))
    unit = first.settings.get("unit", "answer")
    subtitle = f"{sample_size(runs, bars=True)}" + ("; dashed: controls" if controls else "")
    return curves(runs, first.name, f"share of {unit}s right", subtitle, controls)


def hops(runs: Runs) -> go.Figure:
    """Mass of A^h on the gold edges h hops away, one line for each run.

    Args:
        runs: name -> `attention_hops.measure(...)` averaged over examples, with one layer and head selected.
    """
    subtitle = f"share of the mass of the pattern's h-th power on the true ancestor h hops up; {sample_size(runs)}"
    return curves(runs, "Attention powers on gold hops", "share of mass", subtitle)


def curves(runs: Runs, title: str, y_title: str, subtitle: str, controls: Controls | None = None) -> go.Figure:
    """Measurements of one dim as lines over it, with their intervals; controls dashed, without."""
    dim = next(iter(runs.values())).dims[0]
    figure = go.Figure()
    for i, (run, m) in enumerate(runs.items()):
        assert m.dims == (dim,), f"{run}: one line needs the single dim {dim}, not {m.dims}"
        colour = PALETTE[i % len(PALETTE)]
        defined = ~np.isnan(m.values)
        ticks = _ticks(m, defined)
        add_line(figure, m, ticks, run, colour, keep=defined, symbol=SYMBOLS[i % len(SYMBOLS)])
        for dash, (words, control) in zip(DASHES[1:], controls_of(run, controls or {}).items(), strict=False):
            defined, line = ~np.isnan(control.values), {"color": colour, "width": 1.5, "dash": dash}
            x, y = _ticks(control, defined), control.values[defined]
            figure.add_scatter(x=x, y=y, name=f"{run}, {words}", mode="lines", line=line)
    framed(figure, title, subtitle)
    scaled(figure.update_yaxes(title=y_title), next(iter(runs.values())))
    labels = ordered_union([_labels(m, ~np.isnan(m.values)) for m in runs.values()])
    if dim not in POINTS:
        return figure.update_xaxes(title=dim, **({"tickvals": _apart(labels)} if len(labels) <= 32 else {}))
    title, names = "point of the residual" if dim == "layer" else dim, [point_name(label) for label in labels]
    return figure.update_xaxes(title=title, type="category", categoryorder="array", categoryarray=names)


def add_line(
    figure: go.Figure,
    m: Measurement,
    at: Sequence[Any],
    name: str,
    colour: str,
    *,
    keep: np.ndarray | None = None,
    main: bool = True,
    width: float = 2.5,
    dash: str | None = None,
    symbol: str | None = None,
    size: int = 8,
    mode: str = "lines+markers",
    hovertemplate: str | None = None,
) -> None:
    """Draw values as marks on a line, with intervals and each seed's dot behind them; without both if not `main`."""
    if main:
        figure.add_traces(dots(m, at, colour, keep))
    look = {"line": {"color": colour, "width": width, "dash": dash}, "marker": {"symbol": symbol, "size": size}}
    look |= {"mode": mode, "hovertemplate": hovertemplate, "error_y": interval(m, keep) if main else None}
    figure.add_scatter(x=at, y=m.values if keep is None else m.values[keep], name=name, **look)


def scaled(figure: go.Figure, m: Measurement) -> go.Figure:
    """The figure with a share's axis from 0 to 1, and any other's from 0."""
    if m.units == "share":
        return figure.update_yaxes(range=[-0.03, 1.03], tickformat=".0%")
    return figure.update_yaxes(rangemode="tozero")


def _labels(m: Measurement, keep: np.ndarray) -> list[Any]:
    return [label for label, kept in zip(m.coords[m.dims[0]], keep, strict=True) if kept]


def _ticks(m: Measurement, keep: np.ndarray) -> list[Any]:
    """The labels on the axis; hook points by their names."""
    return [point_name(label) if m.dims[0] in POINTS else label for label in _labels(m, keep)]


def _apart(labels: Sequence[Any]) -> list[Any]:
    """The labels, without numbers that would be written over their neighbour to the left."""
    if not all(isinstance(label, (int, float)) for label in labels):
        return list(labels)
    ticks: list[Any] = []
    for label in sorted(labels):
        if not ticks or label - ticks[-1] >= (max(labels) - min(labels)) / NARROWEST:
            ticks.append(label)
    return ticks


def gold_mass(measurement: Measurement) -> go.Figure:
    """Each head's mass on gold paths, by its pattern and by what its layer applies, side by side.

    Args:
        measurement: `attention_graph.measure(...)` averaged over examples: dims `matrix`, `layer`, `head`.
    """
    names, figure = every_head(measurement), go.Figure()
    for i, matrix in enumerate(measurement.coords["matrix"]):
        part = measurement.select(matrix=matrix)
        if i and np.allclose(part.values, measurement.values[0], equal_nan=True):
            continue  # this variant applies its pattern as it is
        figure.add_bar(
            x=names, y=part.values.reshape(-1), error_y=interval(part), name=matrix, marker={"color": (BLUE, GREEN)[i]}
        )
    model, n = measurement.settings["model"], sample_size({"": measurement})
    subtitle = f"{model}: share of mass on true ancestors, all hops; {n}; 95 % intervals"
    framed(figure, "Attention on gold paths", subtitle, of=model)
    figure.update_yaxes(title="share of mass", range=[0, 1.03], tickformat=".0%")
    return figure.update_xaxes(title="head")


def every_head(m: Measurement) -> list[str]:
    """The names of all heads of a measurement, layer by layer."""
    return [head_in_words(layer, head) for layer in m.coords["layer"] for head in m.coords["head"]]


def interval(m: Measurement, keep: np.ndarray | None = None) -> dict[str, Any] | None:
    """Plotly's error bars for a measurement's interval, of all dims in a row; None where it has none."""
    if m.low is None or m.high is None:
        return None
    rows = np.ones_like(m.values, dtype=bool) if keep is None else keep
    above, below = (m.high - m.values)[rows], (m.values - m.low)[rows]
    return {"type": "data", "symmetric": False, "array": above, "arrayminus": below, "thickness": 1.5, "width": 4}


def sample_size(runs: Mapping[str, Measurement], each: str = "", *, bars: bool = False) -> str:
    """How many sequences, or seeds, stand behind the values, in words; where some were drawn twice, how many were.

    A measurement of many sequences together, whose settings say so, is no mean over them.

    Args:
        runs: what is drawn.
        each: what each value is of, such as a `length`; the sequences drawn are those of all of them.
        bars: whether to say what bars are, where any value has an interval.
    """
    dotted = ", a dot for each" if any(m.each is not None for m in runs.values()) else ""
    counts = {
        "sequences": _span([m for m in runs.values() if not {"seeds", "groups", "together"} & {*m.settings}]),
        f"seeds{dotted}": _span([m for m in runs.values() if "seeds" in m.settings]),
        "groups of pairs": _span([m for m in runs.values() if "groups" in m.settings and "seeds" not in m.settings]),
    }
    parts = [f"{span} {what}" for what, span in counts.items() if span]
    said = f"means over {' or '.join(parts)}{f' at each {each}' if each else ''}" if parts else "single values"
    if parts == ["1 sequences"]:
        said = "one sequence"
    if together := _span([m for m in runs.values() if "together" in m.settings and "seeds" not in m.settings]):
        said = f"of {together} sequences together"
    known = any(m.low is not None and not np.isnan(m.low).all() for m in runs.values())
    return f"{said}; bars are 95 % intervals" if bars and known else said


def _span(measured: Sequence[Measurement]) -> str:
    counts = np.concatenate([np.ravel(m.n) for m in measured if m.n is not None] or [np.zeros(0, int)])
    counts = counts[counts > 0]
    if not len(counts):
        return ""
    low, high = int(counts.min()), int(counts.max())
    return str(low) if low == high else f"{low} to {high}"
