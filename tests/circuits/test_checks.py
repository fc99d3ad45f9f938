"""The circuit of exactly what is written is minimal and complete; more edges or fewer are not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.circuits.test_faithfulness import SORTER_FIRST, known
from workbench.circuits import Circuit, Graph
from workbench.circuits.checks import completeness, incompleteness, minimality
from workbench.util.seeds import generator


def test_every_edge_that_pairs_move_is_needed_and_no_other() -> None:
    comparison, written, moved = known("sorter", n=24)
    needed = minimality(comparison, written)
    assert needed.dims == ("edge", "example") and tuple(needed.coords["edge"]) == written.names
    by_name = dict(zip(written.names, abs(needed.values).max(-1), strict=True))
    assert {name for name, value in by_name.items() if value > 1e-3} == moved
    larger = Circuit.of(written.graph, [*written.names, "input->logits"])
    extra = minimality(comparison, larger)
    assert abs(extra.select(edge="input->logits").values).max() < 1e-6


def test_the_written_circuit_is_complete_and_half_of_it_is_not() -> None:
    comparison, written, _ = known("sorter", n=16)
    whole = completeness(comparison, written, generator(0))
    assert whole.dims == ("of", "subset", "example") and incompleteness(whole) < 1e-6
    assert np.nanstd(whole.mean().values[0]) > 0.01  # what is taken away matters
    part = Circuit.of(written.graph, [name for name in SORTER_FIRST if "a1.h0" not in name])
    assert incompleteness(completeness(comparison, part, generator(0), subsets=8, size=2)) > 0.1


def test_what_there_is_not_is_refused_in_words() -> None:
    comparison, written, _ = known("chaser", n=4)
    nothing = Circuit.of(Graph.of(comparison.model), [])
    with pytest.raises(ValueError, match="the circuit has no edge"):
        minimality(comparison, nothing)
    with pytest.raises(ValueError, match="sets are of 1 to 5 edges of the circuit, at least one set, not 16 of 6"):
        completeness(comparison, written, generator(0), size=6)
