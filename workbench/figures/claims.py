"""Causal tests: what an edit of the claimed thing does to the answer, beside the same edit elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

import plotly.graph_objects as go

from workbench.figures.graph import knockout
from workbench.figures.mechanisms import causal_tests
from workbench.measurement import Measurement

Tests = Mapping[str, Mapping[str, Measurement]]
"""Run -> mechanism -> its causal test, averaged over examples."""


def causal(runs: Tests) -> list[go.Figure]:
    """Every run's tests in one figure; of chains, which have one for each hop, all runs in another."""
    plain = {run: [test for test in tests.values() if test.dims == ("edit", "outcome")] for run, tests in runs.items()}
    hops = {run: test for run, tests in runs.items() for test in tests.values() if "hop" in test.dims}
    drawn = causal_tests({run: tests for run, tests in plain.items() if tests})
    return drawn + (knockout(hops, {}) if hops else [])
