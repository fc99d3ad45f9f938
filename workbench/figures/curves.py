"""Statistics with their intervals, several runs in one figure: accuracy, mass on gold paths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from workbench.figures.seeds import dots
from workbench.figures.style import BLUE, DASHES, GREEN, PALETTE, SYMBOLS, framed, ordered_union
from workbench.measurement import Measurement
from workbench.measurement.places import point_name
from workbench.tasks import counted

Runs = Mapping[str, Measurement]
"""Run -> its measurement, averaged over examples; of controls: "RUN, NULL" -> the same under that null."""


def own_controls(run: str, controls: Runs) -> dict[str, Measurement]:
    """A run's controls: what it was compared with -> the measurement. A null's words have no comma, a run's may."""
    parted = ((*name.rpartition(", "), m) for name, m in controls.items())
    return {null: m for of, _, null, m in parted if of == run}


def accuracy(runs: Mapping[str, Measurement], controls: Mapping[str, Measurement] | None = None) -> go.Figure:
    """Accuracy by the task's group (`depth`, `length`, `digit`), one line a run.

    Args:
        runs: name -> `accuracy.measure(...)`, joined and averaged over examples.
        controls: "NAME, NULL" -> the same under a null, dashed.
    """
    first = next(iter(runs.values()))
    unit = first.settings.get("unit", "answer")
    subtitle = f"{sample_size(runs)}; bars are 95 % intervals" + ("; dashed: controls" if controls else "")
    return curves(runs, first.name, f"share of {unit}s right", subtitle, controls)


def hops(runs: Mapping[str, Measurement]) -> go.Figure:
    """Mass of A^h on the gold edges h hops away, one line a run.

    Args:
        runs: name -> `attention_hops.measure(...)` averaged over examples, with one layer and head selected.
    """
    subtitle = f"share of the mass of the pattern's h-th power on the true ancestor h hops up; {sample_size(runs)}"
    return curves(runs, "Attention powers on gold hops", "share of mass", subtitle)


def curves(
    runs: Mapping[str, Measurement],
    title: str,
    y_title: str,
    subtitle: str,
    controls: Mapping[str, Measurement] | None = None,
) -> go.Figure:
    """Measurements of one dim as lines over it, with their intervals; controls ("RUN, NULL") dashed, without."""
    dim = next(iter(runs.values())).dims[0]
    figure = go.Figure()
    shown: list[list[Any]] = []
    for i, (run, m) in enumerate(runs.items()):
        assert m.dims == (dim,), f"{run}: one line needs the single dim {dim}, not {m.dims}"
        defined = ~np.isnan(m.values)
        labels = [label for label, keep in zip(m.coords[dim], defined, strict=True) if keep]
        shown.append(labels)
        names = [point_name(label) if dim == "layer" else label for label in labels]
        figure.add_traces(dots(m, names, PALETTE[i % len(PALETTE)], defined))
        figure.add_scatter(
            x=names,
            y=m.values[defined],
            error_y=interval(m, defined),
            name=run,
            mode="lines+markers",
            line={"color": PALETTE[i % len(PALETTE)], "width": 2.5},
            marker={"symbol": SYMBOLS[i % len(SYMBOLS)], "size": 8},
        )
        for dash, (null, control) in zip(DASHES[1:], own_controls(run, controls or {}).items(), strict=False):
            known = ~np.isnan(control.values)
            places = [label for label, keep in zip(control.coords[dim], known, strict=True) if keep]
            figure.add_scatter(
                x=[point_name(label) if dim == "layer" else label for label in places],
                y=control.values[known],
                name=f"{run}, {null}",
                mode="lines",
                line={"color": PALETTE[i % len(PALETTE)], "width": 1.5, "dash": dash},
            )
    framed(figure, title, subtitle)
    figure.update_yaxes(title=y_title)
    if next(iter(runs.values())).units == "share":
        figure.update_yaxes(range=[-0.03, 1.03], tickformat=".0%")
    else:
        figure.update_yaxes(rangemode="tozero")
    labels = ordered_union(shown)
    if dim == "layer":
        names = [point_name(label) for label in labels]
        title_x = "residual: layer · point (mid: after attention, post: after the MLP)"
        figure.update_xaxes(title=title_x, type="category", categoryorder="array", categoryarray=names)
    else:
        figure.update_xaxes(title=dim, **({"tickvals": labels} if len(labels) <= 32 else {}))
    return figure


def gold_mass(measurement: Measurement) -> go.Figure:
    """Each head's mass on gold paths, by its pattern and by what its layer applies, side by side.

    Args:
        measurement: `attention_graph.measure(...)` averaged over examples: dims `matrix`, `layer`, `head`.
    """
    names = [
        f"layer {layer}, head {head}" for layer in measurement.coords["layer"] for head in measurement.coords["head"]
    ]
    figure = go.Figure()
    for i, matrix in enumerate(measurement.coords["matrix"]):
        part = measurement.select(matrix=matrix)
        if i and np.allclose(part.values, measurement.values[0], equal_nan=True):
            continue  # this variant applies its pattern as it is
        figure.add_bar(
            x=names,
            y=part.values.reshape(-1),
            error_y=interval(part),
            name=matrix,
            marker={"color": (BLUE, GREEN)[i]},
        )
    model, n = measurement.settings["model"], sample_size({"": measurement})
    framed(
        figure, "Attention on gold paths", f"{model}: share of mass on true ancestors, all hops; {n}; 95 % intervals"
    )
    figure.update_yaxes(title="share of mass", range=[0, 1.03], tickformat=".0%")
    return figure.update_xaxes(title="head")


def interval(m: Measurement, keep: np.ndarray | None = None) -> dict[str, Any] | None:
    """Plotly's error bars for a measurement's interval, None where it has none."""
    if m.low is None or m.high is None:
        return None
    rows = np.ones_like(m.values, dtype=bool) if keep is None else keep
    above, below = (m.high - m.values)[rows], (m.values - m.low)[rows]
    return {"type": "data", "symmetric": False, "array": above, "arrayminus": below, "thickness": 1.5, "width": 4}


def sample_size(runs: Mapping[str, Measurement]) -> str:
    """How many sequences, or seeds, stand behind the values, in words; where some were drawn twice, how many were."""
    dotted = ", a dot for each" if any(m.each is not None for m in runs.values()) else ""
    words = dict.fromkeys(
        f"{_span([m for m in runs.values() if ('seeds' in m.settings) == over_seeds])} {what}"
        for over_seeds, what in ((False, "sequences"), (True, f"seeds{dotted}"))
    )
    said = [text for text in words if not text.startswith(" ")]
    return f"means over {' or '.join(said)}{_drawn(runs.values())}" if said else "single values"


def _drawn(measured: Iterable[Measurement]) -> str:
    """`; 256 drawn, 139 distinct`; nothing where all are, or the runs are of other sequences."""
    known = [m.settings for m in measured if "drawn" in m.settings and "seeds" not in m.settings]
    counts = {(settings["drawn"], settings["distinct"]) for settings in known}
    if len(counts) != 1 or min(counts)[0] == min(counts)[1]:
        return ""
    return f"; {counted(*counts.pop())}"


def _span(measured: Sequence[Measurement]) -> str:
    counts = np.concatenate([np.ravel(m.n) for m in measured if m.n is not None] or [np.zeros(0, int)])
    counts = counts[counts > 0]
    if not len(counts):
        return ""
    low, high = int(counts.min()), int(counts.max())
    return str(low) if low == high else f"{low} to {high}"
