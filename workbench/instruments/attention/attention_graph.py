"""Attention as a graph: the share of each head's mass that lies on the task's gold paths, in one hop and in all.

Shows: whether a head's pattern, or the matrix that its layer really applies to the values (for ChaCAL the resolvent
(1−γ) A (I − γ A_s)⁻¹; ChaCAL, Eq. 5), points from each position to its true ancestors. Does not show: what is read
there (the values may hold nothing of use), paths across layers, or that the model needs the head. Control: the same
score against the gold edges of other examples (`mismatched`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from workbench.capture import Capture, Subject, sample_truth
from workbench.instruments.residual.projection import position_names
from workbench.measurement import Measurement
from workbench.util.lookup import lookup

MATRICES = ("pattern", "resolvent")

Edge = tuple[int, int, int]
"""A gold edge of one example: hop, query position, key position."""

CONTROLS = ("mismatched", "untrained", "random_graph")


def why_not(subject: Subject) -> str | None:
    """The reason, in one line, why nothing can be measured; None if something can."""
    if not sample_truth(subject).n_hops:
        return f"the task {subject.task.name} has no graph"
    return why_no_pattern(subject)


def why_no_pattern(subject: Subject) -> str | None:
    """`why_not` of an instrument that looks at patterns alone, whatever the task."""
    return subject.no_pattern


def n_hops_of(capture: Capture, n_hops: int | None) -> int:
    """The number of hops asked for, or by default that of the truth. Raises ValueError if it is below 1."""
    if n_hops is not None and n_hops < 1:
        raise ValueError(f"n_hops must be at least 1, not {n_hops}")
    return capture.truth.n_hops if n_hops is None else n_hops


def needs(subject: Subject) -> list[str]:
    """The attention pattern of every layer that is looked at."""
    return [f"blocks.{layer}.attn.hook_pattern" for layer in subject.layers]


def pattern(capture: Capture, layer: int) -> Float[Tensor, "batch head query key"]:
    """A layer's pattern A, in float32 or better."""
    A = capture[f"blocks.{layer}.attn.hook_pattern"]
    return A.to(torch.promote_types(A.dtype, torch.float32))


@torch.no_grad()  # a learned γ would carry its gradient along
def resolvent(capture: Capture, layer: int) -> Float[Tensor, "batch head query key"]:
    """The matrix that a layer applies to its values, rows scaled to sum to 1; the pattern, for most variants.

    One that had to be solved for is kept with the capture, as several instruments ask for it: it is not to be changed.
    """
    attention, computed, key = capture.subject.attention[layer], capture.computed, ("resolvent", layer)
    if attention.takes_one_step:
        return unit_rows(pattern(capture, layer))
    if key not in computed:
        computed[key] = unit_rows(attention.mixing_matrix(pattern(capture, layer)))
    return computed[key]


OF_LAYER: dict[str, Callable[[Capture, int], Tensor]] = {"pattern": pattern, "resolvent": resolvent}
"""One of `MATRICES` -> what takes it from a layer of a capture."""


def unit_rows(matrix: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch query key"]:
    """Rows scaled to sum to 1; a row of zeros stays a row of zeros."""
    total = matrix.sum(-1, keepdim=True)
    return matrix / torch.where(total == 0, 1.0, total)


def rows_are_shares(matrix: np.ndarray) -> bool:
    """Whether each row `[…, query, key]` sums to 1, so that its weights are shares; those of a sigmoid need not."""
    return bool(np.allclose(matrix.sum(-1), 1, atol=1e-3))


def mass_on(
    matrix: Float[Tensor, "batch head query key"], gold: Bool[Tensor, "batch query key"]
) -> Float[Tensor, "head batch"]:
    """Each row's mass on gold keys, averaged over the queries that have gold keys; NaN for an example without any."""
    gold = gold.to(matrix.device)
    mass = torch.where(gold[:, None], matrix, 0.0).sum(-1)
    queries = gold.any(-1)[:, None]
    return ((mass * queries).sum(-1) / queries.sum(-1)).transpose(0, 1)


def measure(capture: Capture, matrices: Sequence[str] = MATRICES) -> Measurement:
    """Share of mass on gold ancestors, at any hop: dims `matrix`, `layer`, `head`, `example`.

    Rows are scaled to sum to 1; averaged over query positions of depth 1 or more (those with a gold edge). The
    `resolvent` of a variant that applies its pattern as it is equals its `pattern`.

    Args:
        capture: of what this module `needs`.
        matrices: those of `MATRICES` to measure.

    Raises:
        ValueError: if there is no such matrix.
    """
    n, n_pos = capture.batch.tokens.shape
    gold = capture.truth.adjacency(n, n_pos)
    layers = capture.subject.layers

    def rows(layer: int, matrix: str) -> Float[Tensor, "batch head query key"]:
        scaled = lookup(OF_LAYER, matrix, "matrix")(capture, layer)
        return scaled if matrix == "resolvent" else unit_rows(scaled)  # rows of the resolvent sum to 1 already

    values = [[mass_on(rows(layer, name), gold).cpu().numpy() for layer in layers] for name in matrices]
    return Measurement(
        name="Attention on gold paths",
        values=np.array(values, dtype=float),
        dims=("matrix", "layer", "head", "example"),
        coords={"matrix": matrices, "layer": layers},
        units="share",
        settings={"model": capture.subject.name},
        caption="Share of each query's attention mass on the keys that it depends on in truth, through any number of "
        "edges, over queries that have one. It says where a head looks, not what it reads there nor whether the model "
        "needs it.",
    )


def by_head(
    capture: Capture, of: Callable[[Tensor], Tensor], *, matrix: str = "pattern", name: str, units: str, caption: str
) -> Measurement:
    """One number of each head and example, from the head's pattern: dims `layer`, `head`, `example`.

    Args:
        capture: of what this module `needs`.
        of: from the `[batch, head, query, key]` of a layer to `[batch, head]`.
        matrix: one of `MATRICES`; the resolvent's rows are scaled to sum to 1.
        name, units, caption: of the measurement.

    Raises:
        ValueError: if there is no such matrix.
    """
    layers, of_layer = capture.subject.layers, lookup(OF_LAYER, matrix, "matrix")
    values = np.stack([of(of_layer(capture, layer).cpu()).T.double().numpy() for layer in layers])
    return Measurement(
        name=name,
        values=values,
        dims=("layer", "head", "example"),
        coords={"layer": layers},
        units=units,
        settings={"model": capture.subject.name},
        caption=caption,
    )


def best_head(selection: Measurement) -> tuple[int, int]:
    """The layer and head with the most mass on gold paths, on average over the examples.

    Raises:
        ValueError: if no example has a gold edge, so that no head can be chosen.
    """
    mean = selection.select(matrix="resolvent").mean("example").values
    if np.isnan(mean).all():
        raise ValueError("no head can be chosen: none of these examples has a gold edge")
    layer, head = divmod(int(np.nanargmax(mean)), mean.shape[1])
    return selection.coords["layer"][layer], selection.coords["head"][head]


def gold_edges(capture: Capture, example: int, most_hops: int | None = None) -> list[Edge]:
    """One example's gold edges as (hop, query position, key position); by default of any number of hops."""
    rows = capture.truth.edges[capture.truth.edges[:, 0] == example]
    rows = rows if most_hops is None else rows[rows[:, 1] <= most_hops]
    return [(hop, query, key) for _, hop, query, key in rows.tolist()]


def matrices(capture: Capture, example: int, layer: int, head: int, n_hops: int = 3) -> Measurement:
    """One head's matrices on one example: the pattern, its powers up to `n_hops`, the resolvent.

    Dims `matrix` (`pattern`, `A²`, …, `resolvent`), `query`, `key`; over the example's real tokens, labelled
    `position:word`. The pattern is as the variant has it: its rows need not sum to 1 (`rows_are_shares`). The rows of
    the resolvent are scaled to sum to 1, and so are the pattern's before it is multiplied with itself.

    Raises:
        ValueError: if there is no such example, layer or head.
    """
    check_place(capture, example, layer, head)
    names = position_names(capture, example)
    length = len(names)
    A = pattern(capture, layer)[example : example + 1]
    by_name = {"pattern": A[0, head]}
    for hop in range(2, n_hops + 1):
        by_name[power_name(hop)] = torch.linalg.matrix_power(unit_rows(A[0, head]), hop)
    mixing = unit_rows(capture.subject.attention[layer].mixing_matrix(A))
    by_name["resolvent"] = mixing[0, head]
    return Measurement(
        name=f"Attention of layer {layer}, head {head}",
        values=np.stack([matrix[:length, :length].cpu().numpy() for matrix in by_name.values()]),
        dims=("matrix", "query", "key"),
        coords={"matrix": list(by_name), "query": names, "key": names},
        units="share",
        settings={"model": capture.subject.name, "layer": layer, "head": head, "example": example},
        caption="How much of each key's value a query reads: by the pattern in one step, by its powers in as many, by "
        "the resolvent (rows scaled to sum to 1) in all the layer applies.",
    )


def check_place(capture: Capture, example: int, layer: int, head: int) -> None:
    """Raise ValueError if the capture has no such example, layer or head."""
    n, n_heads = pattern(capture, layer).shape[:2]
    if not 0 <= example < n:
        raise ValueError(f"there is no example {example}; the batch has {n}")
    if not 0 <= head < n_heads:
        raise ValueError(f"there is no head {head}; layer {layer} has {n_heads}, from 0")


def power_name(hop: int) -> str:
    """`A²` for 2, `A¹²` for 12."""
    return "A" + str(hop).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


HOPS_OF = {"pattern": 1, **{power_name(hop): hop for hop in range(2, 100)}, "resolvent": None}
"""Name of one of `matrices` -> how many steps it takes; None for the resolvent, which takes any number."""


def hop_of(matrix: str) -> int | None:
    """How many hops a matrix of `matrices` walks: 1 for the pattern, 2 for `A²`; None for the resolvent (all).

    Raises:
        ValueError: if it is not the name of one.
    """
    if matrix not in HOPS_OF:
        raise ValueError(f"there is no matrix {matrix!r}; there is: pattern, A², A³, …, resolvent")
    return HOPS_OF[matrix]


def matrix_in_words(matrix: str) -> str:
    """`attention pattern A`, `A²: two steps`, … for the name of one of `matrices`."""
    hop = hop_of(matrix)
    if hop is None:
        return "resolvent: all hops at once"
    return "attention pattern A" if hop == 1 else f"{matrix}: {hop} steps at once"
