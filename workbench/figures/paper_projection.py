"""Figures 4.12 to 4.14 of the task-hinting paper for any input: one position on both bases, at every layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.figures.projection import normed
from workbench.figures.style import GREEN, GREY, ORANGE, PURPLE, framed, literal, thinned
from workbench.measurement import Measurement

COLUMNS = (
    ("encoder", "mid", "encoder, before the MLP"),
    ("encoder", "post", "encoder, after the MLP"),
    ("decoder", "mid", "decoder, before the MLP"),
    ("decoder", "post", "decoder, after the MLP"),
)
MOST_PEAKS = 3
PLACES = {  # of their names, from left to right, so that neighbours do not write over each other
    0: (),
    1: ("middle right",),
    2: ("middle left", "middle right"),
    3: ("middle left", "top center", "middle right"),
}
SHARE = 0.4  # of the largest component, from which another is a peak too
KINDS = {
    "own": ("own token", ORANGE),
    "truth": ("target, or named by the truth", GREEN),
    "other": ("another token", PURPLE),
}
NARROW = "\u2009\u2009"  # spaces between a peak's head and its name
LONGEST = 24  # tokens of the input that the subtitle shows


def paper_projection(every: Measurement) -> go.Figure:
    """One position's residual on every token of both bases: a row for each layer, the columns of the paper's figures.

    Columns are the encoder basis before and after the MLP, then the decoder basis before and after it; where the blocks
    have no residual before the MLP, after it alone, and where they have no MLP, after attention alone. Peaks are the
    largest component, if it is positive, and up to two more of at least two fifths of it; their colour says what they
    are. Every panel has its own scale.

    Args:
        every: `trajectory(capture, example, position, tokens=range(d_vocab))`.
    """
    after = ("hook_resid_mid", "hook_resid_post")
    layers = sorted({int(point.split(".")[1]) for point in every.coords["point"] if point.endswith(after)})
    figure = _panels(every, layers)
    where, words = every.settings["position"], literal(every.settings["input"])
    title = f"Token {words[where]} at position {where} on both bases"
    start = max(0, min(where - LONGEST // 2, len(words) - LONGEST))  # of a long input the part around the position
    shown = [f"<b>{word}</b>" if i == where else word for i, word in enumerate(words)][start : start + LONGEST]
    around = " ".join(["…"] * (start > 0) + shown + ["…"] * (start + LONGEST < len(words)))
    subtitle = f"{every.settings['model']}: {every.units}s with every token{normed(every)}; input {around}"
    framed(figure, title, subtitle, height=190 + 170 * len(layers))
    figure.update_layout(margin={"t": 112}, bargap=0.15, barmode="overlay")
    figure.update_annotations(font={"size": 13})
    tokens = literal(every.coords["token"])
    margin = 1 + 0.1 * len(tokens)  # names stand beside the outermost peaks
    figure.update_xaxes(showgrid=False, tickangle=0, range=[-margin, len(tokens) - 1 + margin], **thinned(tokens, 8))
    figure.update_xaxes(title="token", row=len(layers))
    return figure.update_yaxes(zeroline=True, zerolinecolor=GREY, nticks=5, title_standoff=4)


def _panels(every: Measurement, layers: list[int]) -> go.Figure:
    """A grid of panels, layers down and those of `COLUMNS` across that there are, each with its own scale."""
    columns = [column for column in COLUMNS if f"blocks.{layers[0]}.hook_resid_{column[1]}" in every.coords["point"]]
    has_mlp = any(after == "post" for _, after, _ in columns)
    figure = make_subplots(
        rows=len(layers),
        cols=len(columns),
        column_titles=[
            title if has_mlp else title.replace("before the MLP", "after attention") for *_, title in columns
        ],
        shared_xaxes=True,
        horizontal_spacing=0.05,
        vertical_spacing=min(0.08, 0.4 / len(layers)),
    )
    shown: set[str] = set()
    for row, layer in enumerate(layers, start=1):
        for column, (basis, point, _) in enumerate(columns, start=1):
            part = every.select(basis=basis, point=f"blocks.{layer}.hook_resid_{point}")
            for trace in _panel(part, shown):
                figure.add_trace(trace, row=row, col=column)
            low, high = min(part.values.min(), 0), max(part.values.max(), 0)
            room = high - low or 1
            figure.update_yaxes(range=[low - 0.05 * room, high + 0.2 * room], row=row, col=column)
        figure.update_yaxes(title=f"depth {layer}<br>{every.units}", row=row, col=1)
    return figure


def _panel(part: Measurement, shown: set[str]) -> list[Any]:
    """A bar for every token, the peaks in the colour of what they are, with a head and a name; each legend once."""
    tokens = literal(part.coords["token"])
    roles, kinds = part.settings["roles"], {}
    for index in peaks(part.values):
        token = part.coords["token"][index]
        kinds[index] = "own" if token == roles["own"] else "truth" if token in roles.values() else "other"
    colours = [KINDS[kinds[i]][1] if i in kinds else GREY for i in range(len(tokens))]
    hover = "%{customdata}: %{y:.3g}<extra></extra>"
    marker = {"color": colours, "line": {"width": 0}}
    x = list(range(len(tokens)))
    bars = go.Bar(x=x, y=part.values, customdata=tokens, hovertemplate=hover, marker=marker, showlegend=False)
    traces: list[Any] = [bars]
    for place, (index, kind) in zip(PLACES[len(kinds)], sorted(kinds.items()), strict=True):
        label, colour = KINDS[kind]
        traces.append(
            go.Scatter(
                x=[index],
                y=[part.values[index]],
                customdata=[tokens[index]],
                hovertemplate=hover,
                mode="markers+text",
                cliponaxis=False,
                text=[f"<b>{NARROW}{tokens[index]}{NARROW}</b>"],
                textposition=place,
                textfont={"color": colour, "size": 13},
                marker={"color": colour, "size": 8},
                name=label,
                legendgroup=kind,
                showlegend=kind not in shown,
            )
        )
        shown.add(kind)
    return traces


def peaks(values: np.ndarray) -> list[int]:
    """The index of the largest value, if it is positive, and of up to two more that are at least two fifths of it."""
    order = [int(i) for i in np.argsort(-values, kind="stable")[:MOST_PEAKS]]
    return [i for i in order if values[i] > 0 and values[i] >= SHARE * values[order[0]]]
