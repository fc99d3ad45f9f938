"""Causal tests: what an edit of the claimed thing does to the answer, beside the same edit elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from workbench.figures.attention_graph import knockout
from workbench.figures.seed_dots import dots
from workbench.figures.style import BLUE, CHANGED, framed
from workbench.measurement import Measurement

Tests = Mapping[str, Mapping[str, Measurement]]
"""Run -> mechanism -> its causal test, averaged over examples."""


def causal(runs: Tests) -> list[go.Figure]:
    """Every run's tests in one figure; of chains, which have one for each hop, all runs in another."""
    plain = {run: [test for test in tests.values() if test.dims == ("edit", "outcome")] for run, tests in runs.items()}
    hops = {run: test for run, tests in runs.items() for test in tests.values() if "hop" in test.dims}
    drawn = causal_tests({run: tests for run, tests in plain.items() if tests})
    return drawn + (knockout(hops, {}) if hops else [])


def causal_tests(runs: Mapping[str, Sequence[Measurement]]) -> list[go.Figure]:
    """What edits of the claimed thing do to answers, and edits elsewhere: one figure a run, its mechanisms in rows.

    A true claim has all answers as claimed after the claimed edit, and none changed after the one elsewhere.

    Args:
        runs: run -> `causal(...)` of its mechanisms, averaged over examples: dims `edit`, `outcome`.
    """
    return [_causal(run, tests) for run, tests in runs.items()]


def _causal(run: str, tests: Sequence[Measurement]) -> go.Figure:
    figure = go.Figure()
    rows = [(test, edit) for test in tests for edit in test.coords["edit"]]
    above = np.repeat(range(1, 1 + len(tests)), [len(test.coords["edit"]) for test in tests])  # headings, a row each
    height = np.arange(len(rows)) + above
    for outcome, colour, symbol, shift in (
        ("as claimed", BLUE, "circle", -0.15),
        ("changed", CHANGED, "diamond", 0.15),
    ):
        parts = [test.select(edit=edit, outcome=outcome) for test, edit in rows]
        values, low, high = (np.array([getattr(part, name) for part in parts]) for name in ("values", "low", "high"))
        for part, at in zip(parts, height + shift, strict=True):
            figure.add_traces(dots(part, [at], colour, across=True))
        figure.add_scatter(
            x=values,
            y=height + shift,
            error_x={"type": "data", "symmetric": False, "array": high - values, "arrayminus": values - low},
            name=f"answer {outcome}",
            mode="markers",
            marker={"color": colour, "symbol": symbol, "size": 10},
            customdata=[f"{test.name}, {edit}" for test, edit in rows],
            hovertemplate="%{customdata}: %{x:.1%}",
        )
    subtitle = (
        f"{run}: answers that were right, after edits of the claimed thing and elsewhere; bars are 95 % intervals"
    )
    framed(figure, "Causal tests of mechanisms", subtitle, height=190 + 30 * (len(rows) + len(tests)), of=run)
    for i, test in enumerate(tests):
        top = height[above == i + 1].min() - 0.85
        heading = {"x": 0, "xref": "paper", "xanchor": "left", "y": top, "showarrow": False, "font": {"size": 13}}
        figure.add_annotation(text=f"<b>{test.name}</b>", **heading)
    labels = [f"{edit}{_count(test, edit)}" for test, edit in rows]
    figure.update_yaxes(tickvals=height, ticktext=labels, range=[height.max() + 0.6, -0.4], automargin=True)
    return figure.update_xaxes(title="share of the answers tested", range=[-0.03, 1.03], tickformat=".0%")


def _count(test: Measurement, edit: str) -> str:
    part = test.select(edit=edit, outcome="changed")
    return "" if part.n is None else f" (n = {int(part.n)})"
