"""How many layers of standard attention chains of so many hops need, beside the bound of Theorem 1 (ChaCAL, §4.2)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.studies.contrasts import Reaches, StaysBelow
from workbench.studies.measures import Logged
from workbench.studies.study import PAPER, SMALL, Figure, Groups, Source, Study

K = 4  # chains, so that a chain of h hops lies in K (h + 1) tokens
ACCURACY = "accuracy"


def group(hops: int, layers: int) -> str:
    """The name of a group of standard models."""
    return f"standard, n {K * (hops + 1)}, n_layers {layers}"


def chacal(hops: int) -> str:
    """The name of a group of one ChaCAL layer."""
    return f"chacal, n {K * (hops + 1)}"


def layers_needed(hops: int) -> int:
    """Theorem 1: ⌈log2(hops + 1)⌉ layers."""
    return math.ceil(math.log2(hops + 1))


def sweep(prefix: str, hops: tuple[int, ...], layers: tuple[int, ...], settings: dict[str, Any]) -> dict[str, Any]:
    """Every length of chains with every number of layers, and one ChaCAL layer, from the presets with this prefix."""
    lengths = [K * (hop + 1) for hop in hops]
    return {
        "settings": settings,
        "grid": {"task.n": lengths},
        "variants": [
            {"name": "standard", "preset": f"{prefix}chain-standard", "grid": {"model.n_layers": list(layers)}},
            {"name": "chacal", "preset": f"{prefix}chain-chacal"},
        ],
    }


HOPS, LAYERS = (1, 3, 7), (1, 2, 3)  # of the small scale
MOST_HOPS, MOST_LAYERS = (1, 3, 7, 15), (1, 2, 3, 4, 5)  # of the paper's


def draw(groups: Groups) -> Figure:
    """Accuracy by hops and layers as a map, with the bound framed; ChaCAL's single layer as the lowest row."""
    import plotly.graph_objects as go

    from workbench.figures.style import SHADES, VERMILLION, framed

    shown = {key: value for key in _keys(groups) if (value := groups.get(_name(*key), {}).get(ACCURACY)) is not None}
    hops = sorted({hop for hop, _ in shown})
    rows = sorted({layers for _, layers in shown})
    values = np.array([[_value(shown.get((hop, layers))) for hop in hops] for layers in rows])
    names = ["ChaCAL, 1" if layers == 0 else str(layers) for layers in rows]
    text = np.where(np.isnan(values), "", np.char.mod("%.0f %%", 100 * values))
    figure = go.Figure()
    figure.add_heatmap(
        x=[str(hop) for hop in hops],
        y=names,
        z=values,
        zmin=0,
        zmax=1,
        colorscale=SHADES,
        text=text,
        texttemplate="%{text}",
        colorbar={"title": "accuracy", "tickformat": ".0%"},
    )
    needed = [str(layers_needed(hop)) for hop in hops]
    frame = {"symbol": "square-open", "size": 52, "color": VERMILLION, "line": {"width": 3}}
    figure.add_scatter(x=[str(hop) for hop in hops], y=needed, mode="markers", marker=frame, name="Theorem 1")
    framed(figure, "Accuracy by hops and layers", "means over seeds; framed: the layers that Theorem 1 asks for")
    figure.update_layout(legend={"itemsizing": "constant"})
    figure.update_xaxes(title="hops of the longest chain", type="category")
    return figure.update_yaxes(title="layers", type="category", categoryorder="array", categoryarray=names)


def _name(hops: int, layers: int) -> str:
    return group(hops, layers) if layers else chacal(hops)


def _keys(groups: Groups) -> list[tuple[int, int]]:
    """(hops, layers) of every group; layers 0 stand for ChaCAL."""
    every = ((hops, layers) for hops in MOST_HOPS for layers in (0, *MOST_LAYERS))
    return [key for key in every if _name(*key) in groups]


def _value(mean: Any) -> float:
    return math.nan if mean is None else float(mean.values)


STUDY = Study(
    question="Do chains of more hops than 2^L − 1 defeat L layers of standard attention, and one ChaCAL layer never?",
    source=Source("ChaCAL", "Theorem 1"),
    runs={
        SMALL: sweep("", HOPS, LAYERS, {"steps": 600}),
        PAPER: sweep("paper/", MOST_HOPS, MOST_LAYERS, {"task": {"k": K}}),
    },
    measure=Logged((ACCURACY,)),
    contrasts=(
        *(Reaches(ACCURACY, chacal(hops), 0.99) for hops in HOPS),
        *(
            StaysBelow(ACCURACY, group(hops, layers), 0.99)
            for hops in HOPS
            for layers in LAYERS
            if layers < layers_needed(hops)
        ),
        *(Reaches(ACCURACY, group(hops, layers_needed(hops)), 0.99) for hops in HOPS),
    ),
    draw=draw,
    seeds={SMALL: 3, PAPER: 4},
    tune={"learning_rate": [1e-3, 1e-2], "steps": [1200]},
)
