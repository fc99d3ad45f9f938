"""Is a circuit minimal, and is it complete? Both ask what becomes of it when parts of it are taken away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from workbench.circuits.ablation import Ablation
from workbench.circuits.circuit import Circuit
from workbench.circuits.comparison import Comparison
from workbench.circuits.faithfulness import faithfulness
from workbench.measurement import Measurement

COMPARED = ("circuit", "model")


def minimality(comparison: Comparison, circuit: Circuit, ablation: Ablation | None = None) -> Measurement:
    """How far faithfulness moves when one edge of a circuit is taken out of it: dims `edge`, `example`.

    An edge that moves it by nothing is not needed beside the others (Wang et al. 2022, §4.1, there of heads); two edges
    that stand in for each other both move it little. It is the faithfulness with the edge less that without.

    Raises:
        ValueError: as `faithfulness`, or if the circuit has no edge.
    """
    if not len(circuit):
        raise ValueError("the circuit has no edge that could be taken out of it")
    less = [_without(circuit, [name]) for name in circuit.names]
    both = faithfulness(comparison, [circuit, *less], ablation)
    return replace(
        both,
        name="Faithfulness that each edge of the circuit is needed for",
        values=both.values[:1] - both.values[1:],
        dims=("edge", "example"),
        coords={"edge": list(circuit.names), "example": both.coords["example"]},
        caption="The faithfulness of the circuit less its faithfulness without the edge, all other edges kept.",
    )


def completeness(
    comparison: Comparison,
    circuit: Circuit,
    generator: torch.Generator,
    *,
    subsets: int = 16,
    size: int | None = None,
    ablation: Ablation | None = None,
) -> Measurement:
    """What circuit and whole model keep without the same edges: dims `of` (`circuit`, `model`), `subset`, `example`.

    A complete circuit loses by any of its edges what the model loses (Wang et al. 2022, §4.2). Where the model keeps
    more, other edges stand in that the circuit lacks.

    Args:
        comparison, circuit: the model on pairs, and some of its edges.
        generator, subsets: draws so many sets of edges of the circuit.
        size: edges of each set; by default half of the circuit's, rounded up.
        ablation: as for `faithfulness`.

    Raises:
        ValueError: as `faithfulness`, or if the circuit has fewer edges than that.
    """
    size = -(-len(circuit) // 2) if size is None else size
    if not 1 <= size <= len(circuit) or subsets < 1:
        limits = f"1 to {len(circuit)} edges of the circuit, at least one set"
        raise ValueError(f"sets are of {limits}, not {subsets} of {size}")
    whole = Circuit.of(circuit.graph, circuit.graph.names)
    orders = [torch.randperm(len(circuit), generator=generator).tolist() for _ in range(subsets)]
    taken = [[circuit.names[at] for at in order[:size]] for order in orders]
    kept = faithfulness(comparison, [_without(of, names) for of in (circuit, whole) for names in taken], ablation)
    return replace(
        kept,
        name="Faithfulness of the circuit and of the model without the same edges",
        values=kept.values.reshape(len(COMPARED), subsets, -1),
        dims=("of", "subset", "example"),
        coords={"of": COMPARED, "subset": range(subsets), "example": kept.coords["example"]},
        settings={**kept.settings, "size": size},
        caption="What the circuit keeps without some of its edges, beside what the whole model keeps without the same.",
    )


def incompleteness(measured: Measurement) -> float:
    """The mean distance of the two over subsets, |f(C without K) − f(M without K)|: 0 for a complete circuit."""
    mean = np.nanmean(measured.values, axis=-1)
    return float(np.abs(mean[0] - mean[1]).mean())


def _without(circuit: Circuit, names: Sequence[str]) -> Circuit:
    gone = set(names)
    return Circuit(circuit.graph, tuple(name for name in circuit.names if name not in gone))
