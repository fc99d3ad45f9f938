"""Causal tests: what an edit of the claimed thing does to the answer, beside the same edit elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

import plotly.graph_objects as go

from workbench.figures.generic import any_measure
from workbench.instruments import Measurement


def causal(runs: Mapping[str, Mapping[str, Measurement]]) -> list[go.Figure]:
    """A figure for each mechanism: run -> mechanism -> its causal test, averaged over examples."""
    names = dict.fromkeys(name for tests in runs.values() for name in tests)
    return [
        figure
        for name in names
        for figure in any_measure({run: tests[name] for run, tests in runs.items() if name in tests}, {})
    ]
