"""Attribution to edges: path patching, edge attribution patching (EAP), with integrated gradients, and by GIM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.circuits.comparison import Comparison, gradients
from workbench.circuits.gim import interaction_hooks
from workbench.circuits.graph import LOGITS, Graph
from workbench.circuits.rewired import check_graph, own_inputs, reader_hooks, writes
from workbench.interventions import Hooks
from workbench.measurement import Measurement
from workbench.tasks import Pairs
from workbench.util.lookup import lookup
from workbench.util.progress import steps as told

STEPS = 5  # points on the way, as Hanna et al. (2024) take


def path_patching(comparison: Comparison, names: Sequence[str] | None = None) -> Measurement:
    """The exact effect of every edge: one edge carries what its writer wrote in the other run (Wang et al. 2022).

    Every other reader sees the run as it is; what comes after the edge's reader changes with it. LayerNorm belongs to
    the reader and is computed anew. A pass for each edge, many at once; the logits' edges share one.

    Args:
        comparison: the model, the pairs, the metric and the direction.
        names: the edges, such as `a0.h1->a1.h0<q>`; by default all.

    Returns the change of the metric: dims `edge` (their names), `example` (a pair each).

    Raises:
        ValueError: if there is no such edge, or the model's readers cannot have inputs of their own.
    """
    graph = Graph.of(comparison.model)
    chosen = list(graph.names if names is None else names)
    graph.mask(chosen)  # raises for a name that is no edge
    check_graph(comparison)
    parts = []
    for where, part in comparison.parts():
        values = np.zeros((len(chosen), len(part)))
        for at, scored in _one_by_one(comparison, graph, chosen, part):
            values[at] = scored
        parts.append((values - comparison.unedited(where)) * comparison.sign())
    caption = (
        f"The change of the {comparison.measure.name} when one edge carries what its writer wrote in the other run. It "
        "tells what one edge does while all others stay, so edges that stand in for each other show little."
    )
    return comparison.measurement("Path patching", np.concatenate(parts, -1), {"edge": chosen}, caption)


@torch.no_grad()
def _one_by_one(
    comparison: Comparison, graph: Graph, chosen: Sequence[str], part: Pairs
) -> Iterator[tuple[list[int], Float[np.ndarray, "edge pair"]]]:
    """The metric of each pair with one edge edited: which of the chosen edges, and their values, some at a time.

    Before an edge's reader nothing changes. So what its writer wrote in the other run, less what it writes in this one,
    is known before, and added to what the reader reads; edges into the logits need no layer to run again.
    """
    base, source = comparison.sides(part)
    clean, change = comparison.clean_logits(part), writes(comparison, source) - writes(comparison, base)
    writers = {name: at for at, name in enumerate(graph.writers)}
    ends = [name.split("->") for name in chosen]
    at_once = max(1, comparison.rows_at_once // len(part))
    for hook, layer, kind in reader_hooks(graph):
        readers = graph.readers[graph.columns(layer, kind)]
        here = [number for number, (_, reader) in enumerate(ends) if reader in readers]
        for start in range(0, len(here), at_once):
            some = here[start : start + at_once]
            places = [(writers[ends[number][0]], readers.index(ends[number][1])) for number in some]
            read = partial(_with_changes, change=change, places=places, grows=kind == LOGITS)
            with own_inputs(comparison.model):
                logits = comparison.run(base if kind == LOGITS else base.repeat(len(some), 1), [(hook, read)])
            by_edge = logits.unflatten(0, (len(some), len(part)))
            yield some, torch.stack([comparison.score(each, part, clean) for each in by_edge]).double().cpu().numpy()


def _with_changes(
    residual: Tensor,
    hook: Any,
    *,
    change: Float[Tensor, "writer pair pos d_model"],
    places: Sequence[tuple[int, int]],
    grows: bool,
) -> Tensor:
    """What readers read, `[row, pos, (reader), d_model]`, when at each place a writer's change goes to one of them.

    Args:
        residual: of the rows of all places, one place after the other; where `grows`, of the pairs, and it is repeated.
        change: what each writer wrote in the other run, less what it writes in this one.
        places: writer and reader, by number.
        grows: whether nothing but the logits follows, so that there may be more rows than before.
    """
    edited = (residual.repeat(len(places), 1, 1) if grows else residual).unflatten(0, (len(places), -1)).clone()
    for row, (writer, reader) in enumerate(places):
        target = edited[row, :, :, reader] if residual.ndim == 4 else edited[row]
        target += change[writer]
    return edited.flatten(0, 1)


def eap(comparison: Comparison) -> Measurement:
    """Edge attribution patching (Syed et al. 2023): (clean − corrupted write) · gradient at the reader's input.

    The gradient is that of the run that is edited, at the input of each reader before its LayerNorm: it goes through
    the LayerNorm, whose scale is not held. One pass forward and back for all edges.

    Args:
        comparison: the model, the pairs, the metric and the direction.

    Returns the estimated change of the metric: dims `edge`, `example` (a pair each).

    Raises:
        ValueError: if the model's readers cannot have inputs of their own.
    """

    def slopes(part: Pairs, clean: Tensor) -> dict[str, Tensor]:
        return _reader_slopes(comparison, comparison.sides(part)[0], part, clean)

    about = "Estimated from the gradient of the run that is edited: far from it the model may do something else."
    return _edge_scores(comparison, "Edge attribution patching (EAP)", slopes, about)


def eap_ig(comparison: Comparison, *, steps: int = STEPS) -> Measurement:
    """EAP with integrated gradients (Hanna et al. 2024): the mean gradient over inputs between corrupted and clean.

    The input is the embedding with its position, z' + k/m (z − z') for k = 1 … m, where z is the clean one; so the
    direction makes no difference, and m = 1 is EAP in the direction `noise`. Each of the m points is a pass forward and
    back. Tokens that decide lengths (tempered attention) are those of the clean run.

    Args:
        comparison: the model, the pairs and the metric.
        steps: m.

    Returns as `eap`.

    Raises:
        ValueError: as `eap`, or if steps is below 1.
    """
    if steps < 1:
        raise ValueError(f"steps must be at least 1, not {steps}")

    def slopes(part: Pairs, clean: Tensor) -> dict[str, Tensor]:
        ends = [writes(comparison, side.tokens)[0] for side in (part.corrupted, part.clean)]
        total: dict[str, Tensor] = {}
        for k in told(range(1, steps + 1), "scoring edges"):
            point = ends[0] + (ends[1] - ends[0]) * (k / steps)
            slopes_there = _reader_slopes(comparison, part.clean.tokens, part, clean, point)
            total = {name: slope / steps + total.get(name, 0.0) for name, slope in slopes_there.items()}
        return total

    about = f"Estimated from the gradients at {steps} inputs between the corrupted and the clean one."
    return _edge_scores(comparison, "EAP with integrated gradients (EAP-IG)", slopes, about)


def gim(comparison: Comparison) -> Measurement:
    """EAP with the gradient of GIM (Edin et al. 2025), which sees keys that stand in for each other: `circuits.gim`.

    The scale of LayerNorms is held, unlike in `eap`. One pass forward and back for all edges; the scores are shares of
    gradients, so their size is no estimate of an effect.

    Args:
        comparison: the model, the pairs, the metric and the direction.

    Returns as `eap`.

    Raises:
        ValueError: as `eap`, or if a pattern is not the softmax of its scores.
    """

    def slopes(part: Pairs, clean: Tensor) -> dict[str, Tensor]:
        with interaction_hooks(comparison.model) as hooks:
            return _reader_slopes(comparison, comparison.sides(part)[0], part, clean, hooks=hooks)

    about = "Scored by a gradient in which softmax is softer and products are shared out: an order, not an effect."
    return _edge_scores(comparison, "EAP with gradient interaction modifications (GIM)", slopes, about)


def _reader_slopes(
    comparison: Comparison,
    tokens: Tensor,
    part: Pairs,
    clean: Tensor,
    start: Tensor | None = None,
    hooks: Hooks | None = None,
) -> dict[str, Tensor]:
    """The gradient of the metric at the input of every reader, by hook name."""
    names = [name for name, _, _ in reader_hooks(Graph.of(comparison.model))]
    with own_inputs(comparison.model):
        return gradients(comparison, tokens, part, clean, names, start, hooks)[1]


def _edge_scores(
    comparison: Comparison, name: str, slopes: Callable[[Pairs, Tensor], dict[str, Tensor]], about: str
) -> Measurement:
    """Every writer's change times every later reader's slope, as a measurement."""
    graph = Graph.of(comparison.model)
    check_graph(comparison)
    valid = graph.edges.nonzero()
    parts = []
    for _, part in comparison.parts():
        clean = comparison.clean_logits(part)
        change = writes(comparison, part.clean.tokens) - writes(comparison, part.corrupted.tokens)
        change = change.transpose(0, 1).flatten(2)  # [pair, writer, pos d_model], laid out once for all readers
        slope_of = slopes(part, clean)
        table = change.new_zeros(len(part), len(graph.writers), len(graph.readers))
        for reader, layer, kind in reader_hooks(graph):
            slope = slope_of[reader] if slope_of[reader].ndim == 4 else slope_of[reader][:, :, None]
            columns = graph.columns(layer, kind)
            before = int(graph.edges[:, columns.start].sum())  # writers, which are the first
            table[:, :before, columns] = change[:, :before] @ slope.transpose(2, 3).flatten(1, 2)
        parts.append(table[:, valid[:, 0], valid[:, 1]].T.double().cpu().numpy())
    caption = f"The change of the {comparison.measure.name} when one edge carries what the other run wrote. {about}"
    return comparison.measurement(name, np.concatenate(parts, -1), {"edge": graph.names}, caption)


METHODS: dict[str, Callable[[Comparison], Measurement]] = {
    "path_patching": path_patching,
    "eap": eap,
    "eap_ig": eap_ig,
    "gim": gim,
}
"""Ways to score edges, the exact one first."""


def score_edges(comparison: Comparison, method: str = "eap_ig") -> Measurement:
    """The score of every edge by one of `METHODS`: dims `edge`, `example`.

    Raises:
        ValueError: if there is no such method, or as it does.
    """
    return lookup(METHODS, method, "method")(comparison)
