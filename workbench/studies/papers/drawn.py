"""The figures of two studies that show more than their quantity: a theorem's bound, and the operations of a digit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.studies.figures import by_dim
from workbench.studies.study import Figure, Groups
from workbench.tasks import make
from workbench.util.seeds import generator

ACCURACY = "accuracy"
K = 4  # chains of `chain-hops`, so that a chain of h hops lies in K (h + 1) tokens


def hops_by_layers(groups: Groups) -> Figure:
    """Accuracy by hops and layers as a map, with the bound framed; ChaCAL's single layer as the lowest row."""
    import plotly.graph_objects as go

    from workbench.figures.style import SHADES, VERMILLION, framed

    accuracy: dict[tuple[str, int], float] = {}
    for name, own in groups.items():
        variant, n, *layers = name.split(", ")
        row = "ChaCAL, 1" if variant == "chacal" else layers[0].removeprefix("n_layers ")
        accuracy[row, int(n.removeprefix("n ")) // K - 1] = float(own[ACCURACY].values)
    hops = sorted({hop for _, hop in accuracy})
    rows = sorted({row for row, _ in accuracy}, key=lambda row: (row.isdigit(), row))
    values = np.array([[accuracy.get((row, hop), math.nan) for hop in hops] for row in rows])
    figure = go.Figure()
    figure.add_heatmap(
        x=[str(hop) for hop in hops],
        y=rows,
        z=values,
        zmin=0,
        zmax=1,
        colorscale=SHADES,
        text=np.where(np.isnan(values), "", np.char.mod("%.0f %%", 100 * values)),
        texttemplate="%{text}",
        colorbar={"title": "accuracy", "tickformat": ".0%"},
    )
    needed = [str(math.ceil(math.log2(hop + 1))) for hop in hops]  # layers by Theorem 1 of the ChaCAL paper
    frame = {"symbol": "square-open", "size": 52, "color": VERMILLION, "line": {"width": 3}}
    figure.add_scatter(x=[str(hop) for hop in hops], y=needed, mode="markers", marker=frame, name="Theorem 1")
    framed(figure, "Accuracy by hops and layers", "means over seeds; framed: the layers that Theorem 1 asks for")
    figure.update_layout(legend={"itemsizing": "constant"})
    figure.update_xaxes(title="hops of the longest chain", type="category")
    return figure.update_yaxes(title="layers", type="category", categoryorder="array", categoryarray=rows)


def accuracy_and_operations(groups: Groups) -> Figure:
    """Accuracy by digit as lines, the operations behind each digit as bars on an axis of their own."""
    from workbench.figures.style import GREY

    figure = by_dim(groups, ACCURACY, "Multiplication: accuracy and operations by digit", "share of digits right")
    n_digits = max(len(own[ACCURACY].coords["digit"]) for own in groups.values() if ACCURACY in own)
    task: Any = make("multiplication", digits=n_digits // 2)
    labels = task.truth(task.sample(1, generator(0, "operations")).tokens).labels
    added = zip(*(labels[name][0].tolist() for name in ("digit", "operations")), strict=True)
    counts = {digit: count for digit, count in added if digit >= 0}  # how many digit products a digit's column adds
    bars = {"marker": {"color": GREY, "opacity": 0.35}, "yaxis": "y2", "name": "digit products added"}
    figure.add_bar(x=list(counts), y=list(counts.values()), **bars)
    axis = {"overlaying": "y", "side": "right", "title": "digit products added", "showgrid": False}
    axis |= {"range": [-0.06 * max(counts.values()), 2.1 * max(counts.values())], "tickmode": "linear", "dtick": 1}
    return figure.update_layout(yaxis2=axis)
