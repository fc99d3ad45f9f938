"""Attribution to edges: path patching, edge attribution patching (EAP), and EAP with integrated gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.circuits.comparison import Comparison, gradients
from workbench.circuits.graph import Graph
from workbench.circuits.rewired import check_graph, own_inputs, reader_hooks, rewired_logits, writes
from workbench.measurement import Measurement
from workbench.tasks import Pairs
from workbench.util.lookup import lookup

STEPS = 5  # points on the way, as Hanna et al. (2024) take


def path_patching(comparison: Comparison, names: Sequence[str] | None = None) -> Measurement:
    """The exact effect of every edge: one edge carries what its writer wrote in the other run (Wang et al. 2022).

    Every other reader sees the run as it is; what comes after the edge's reader changes with it. LayerNorm belongs to
    the reader and is computed anew. A pass for each edge, many at once.

    Args:
        comparison: the model, the pairs, the metric and the direction.
        names: the edges, such as `a0.h1->a1.h0<q>`; by default all.

    Returns the change of the metric: dims `edge` (their names), `example` (a pair each).

    Raises:
        ValueError: if there is no such edge, or the model's readers cannot have inputs of their own.
    """
    graph = Graph.of(comparison.model)
    chosen = list(graph.names if names is None else names)
    check_graph(comparison)
    keep = torch.stack([~graph.mask([name]) for name in chosen])
    parts = []
    for where, part in comparison.parts():
        base, source = comparison.sides(part)
        clean, other = comparison.clean_logits(part), writes(comparison, source)
        at_once = max(1, comparison.rows_at_once // len(part))
        rows = []
        for start in range(0, len(chosen), at_once):
            some = keep[start : start + at_once]
            logits = rewired_logits(
                comparison,
                base.repeat(len(some), 1),
                some.repeat_interleave(len(part), 0),
                other.repeat(1, len(some), 1, 1),
            ).unflatten(0, (len(some), len(part)))
            rows += [comparison.score(each, part, clean) for each in logits]
        parts.append((torch.stack(rows).double().cpu().numpy() - comparison.unedited(where)) * comparison.sign())
    caption = (
        f"The change of the {comparison.measure.name} when one edge carries what its writer wrote in the other run. It "
        "tells what one edge does while all others stay, so edges that stand in for each other show little."
    )
    return comparison.measurement("Path patching", np.concatenate(parts, -1), {"edge": chosen}, caption)


def eap(comparison: Comparison, *, by_position: bool = False) -> Measurement:
    """Edge attribution patching (Syed et al. 2023): (clean − corrupted write) · gradient at the reader's input.

    The gradient is that of the run that is edited, at the input of each reader before its LayerNorm: it goes through
    the LayerNorm, whose scale is not held. One pass forward and back for all edges.

    Args:
        comparison: the model, the pairs, the metric and the direction.
        by_position: whether each position of the residual is told apart.

    Returns the estimated change of the metric: dims `edge`, perhaps `position`, `example` (a pair each).

    Raises:
        ValueError: if the model's readers cannot have inputs of their own.
    """

    def slopes(part: Pairs, clean: Tensor) -> dict[str, Tensor]:
        return _reader_slopes(comparison, comparison.sides(part)[0], part, clean)

    about = "Estimated from the gradient of the run that is edited: far from it the model may do something else."
    return _edge_scores(comparison, "Edge attribution patching (EAP)", slopes, by_position, about)


def eap_ig(comparison: Comparison, *, steps: int = STEPS, by_position: bool = False) -> Measurement:
    """EAP with integrated gradients (Hanna et al. 2024): the mean gradient over inputs between corrupted and clean.

    The input is the embedding with its position, z' + k/m (z − z') for k = 1 … m, where z is the clean one; so the
    direction makes no difference, and m = 1 is EAP in the direction `noise`. Each of the m points is a pass forward and
    back. Tokens that decide lengths (tempered attention) are those of the clean run.

    Args:
        comparison: the model, the pairs and the metric.
        steps: m.
        by_position: whether each position of the residual is told apart.

    Returns as `eap`.

    Raises:
        ValueError: as `eap`, or if steps is below 1.
    """
    if steps < 1:
        raise ValueError(f"steps must be at least 1, not {steps}")

    def slopes(part: Pairs, clean: Tensor) -> dict[str, Tensor]:
        ends = [writes(comparison, side.tokens)[0] for side in (part.corrupted, part.clean)]
        total: dict[str, Tensor] = {}
        for k in range(1, steps + 1):
            start = partial(_at, point=ends[0] + (ends[1] - ends[0]) * (k / steps))
            found = _reader_slopes(comparison, part.clean.tokens, part, clean, start)
            total = {name: slope / steps + total.get(name, 0.0) for name, slope in found.items()}
        return total

    about = f"Estimated from the gradients at {steps} inputs between the corrupted and the clean one."
    return _edge_scores(comparison, "EAP with integrated gradients (EAP-IG)", slopes, by_position, about)


def _at(residual: Tensor, *, point: Tensor) -> Tensor:
    """Another point in place of the residual."""
    return point


def _reader_slopes(
    comparison: Comparison,
    tokens: Tensor,
    part: Pairs,
    clean: Tensor,
    start: Callable[[Tensor], Tensor] | None = None,
) -> dict[str, Tensor]:
    """The gradient of the metric at the input of every reader, by hook name."""
    names = [name for name, _, _ in reader_hooks(Graph.of(comparison.model))]
    with own_inputs(comparison.model):
        return gradients(comparison, tokens, part, clean, names, start)[1]


def _edge_scores(
    comparison: Comparison,
    name: str,
    slopes: Callable[[Pairs, Tensor], dict[str, Tensor]],
    by_position: bool,
    about: str,
) -> Measurement:
    """Every writer's change times every later reader's slope, as a measurement."""
    graph = Graph.of(comparison.model)
    check_graph(comparison)
    valid = graph.edges.nonzero()
    parts = []
    for _, part in comparison.parts():
        clean = comparison.clean_logits(part)
        change = writes(comparison, part.clean.tokens) - writes(comparison, part.corrupted.tokens)
        found = slopes(part, clean)
        table = _products(graph, change, found, by_position)
        parts.append(table[valid[:, 0], valid[:, 1]].double().cpu().numpy())
    coords: dict[str, Sequence[Any]] = {"edge": graph.names}
    if by_position:
        coords["position"] = range(parts[0].shape[1])
    caption = f"The change of the {comparison.measure.name} when one edge carries what the other run wrote. {about}"
    return comparison.measurement(name, np.concatenate(parts, -1), coords, caption)


def _products(
    graph: Graph, change: Float[Tensor, "writer pair pos d_model"], slopes: dict[str, Tensor], by_position: bool
) -> Float[Tensor, "writer reader *pos pair"]:
    """Inner products of what writers change and readers' slopes, summed over positions or not; pairs last."""
    columns = []
    to = "whpr" if by_position else "whr"
    for name, _, _ in reader_hooks(graph):
        slope = slopes[name] if slopes[name].ndim == 4 else slopes[name][:, :, None]
        columns.append(torch.einsum(f"wrpd,rphd->{to}", change, slope))
    return torch.cat(columns, dim=1)


METHODS: dict[str, Callable[[Comparison], Measurement]] = {
    "path_patching": path_patching,
    "eap": eap,
    "eap_ig": eap_ig,
}
"""Ways to score edges, the exact one first."""


def score_edges(comparison: Comparison, method: str = "eap_ig") -> Measurement:
    """The score of every edge by one of `METHODS`: dims `edge`, `example`.

    Raises:
        ValueError: if there is no such method, or as it does.
    """
    return lookup(METHODS, method, "method")(comparison)
