"""Similarity of two sets of representations of the same tokens: centred kernel alignment (Kornblith et al., 2019).

Of two layers, two checkpoints or two runs; widths may differ. Shows: whether tokens that are close in one are close in
the other, up to rotation and scale. Does not show: whether the two hold the same information, nor by which directions;
a few dominant directions decide it. With fewer tokens than dimensions the plain estimate is high even of independent
noise (`debiased=True` is then near 0): hold it beside the same of shuffled tokens (`shuffled=True`).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from workbench.capture import Capture
from workbench.instruments.residual.per_sequence import Positions, spans
from workbench.instruments.residual.projection import from_embedding
from workbench.measurement import Measurement
from workbench.util.seeds import generator

FEWEST = 4  # rows; the debiased estimate divides by n - 3


def cka(x: Float[Tensor, "n d"], y: Float[Tensor, "n e"], *, debiased: bool = False) -> float:
    """Linear CKA: ‖XᵀY‖² / ‖XᵀX‖ ‖YᵀY‖ of centred columns, in float64; 1 for equal geometries.

    Args:
        x, y: the same n items, row by row.
        debiased: from the unbiased estimate of HSIC (Song et al., 2012): 0 on average where x and y are independent,
            and below 0 at times.

    Returns NaN where all rows of one are equal.

    Raises:
        ValueError: if rows do not match, are fewer than four, or hold NaN or infinity.
    """
    if len(x) != len(y) or len(x) < FEWEST:
        raise ValueError(f"CKA compares the same items, {FEWEST} or more of them; these are {len(x)} and {len(y)} rows")
    if not (torch.isfinite(x).all() and torch.isfinite(y).all()):
        raise ValueError("representations must be finite; these hold NaN or infinity")
    x, y = _centred(x), _centred(y)
    both, own, others = (_hsic(a, b, debiased) for a, b in ((x, y), (x, x), (y, y)))
    return both / (own * others) ** 0.5 if min(own, others) > 0 else float("nan")


def _centred(rows: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    """Less their mean, and scaled so that no square over- or underflows; a constant leaves zero, not its rounding."""
    rows = rows.double()
    largest = rows.abs().amax()
    rows = rows / torch.where(largest > 0, largest, 1.0)
    centred = rows - rows.mean(0)
    return torch.where(centred.abs().amax() <= 1e-14, 0.0, centred)


def _hsic(x: Float[Tensor, "n d"], y: Float[Tensor, "n e"], debiased: bool) -> float:
    """The Hilbert-Schmidt independence criterion of linear kernels, up to a factor of n alone; n × n is never made."""
    n = len(x)
    product = (x.T @ y).square().sum()
    if not debiased:
        return product.item()
    of_x, of_y = x.square().sum(-1), y.square().sum(-1)
    own = n / (n - 2) * (of_x @ of_y)
    return (product - own + of_x.sum() * of_y.sum() / ((n - 1) * (n - 2))).item()


def measure(
    one: Capture | Sequence[Capture],
    other: Capture | Sequence[Capture] | None = None,
    *,
    debiased: bool = True,
    shuffled: bool = False,
    positions: Positions = "all",
    points: Sequence[str] | None = None,
) -> Measurement:
    """CKA of every point of one model with every point of another, over all real tokens: dims `layer`, `of layer`.

    Args:
        one: activations `[batch, pos, d]` of the points; several captures of one model are taken together.
        other: another model's or checkpoint's on the same batches; by default the same, to compare a model's layers.
        debiased, shuffled: as for `cka`; the null: the tokens of the other are shuffled first (always by one seed).
        positions: `"all"`, `"input"`, `"output"` or a slice `(start, stop)`, as for `entropy.measure`.
        points: hook names, by default embedding and residuals, which both models must have captured.

    Raises:
        ValueError: if the captures are of different tokens, there are fewer than four, or a point was not captured.
    """
    sides = _sides(one, one if other is None else other)
    subjects = [side[0].subject for side in sides]
    mine, others = (from_embedding(subject) if points is None else list(points) for subject in subjects)
    rows = [_tokens(sides[0], point, positions) for point in mine]
    columns = [_tokens(sides[1], point, positions) for point in others]
    if shuffled:
        columns = _shuffled(columns)
    values = torch.tensor([[cka(x, y, debiased=debiased) for y in columns] for x in rows], dtype=torch.float64)
    which = {"model": subjects[0].name, "other": subjects[1].name}
    return Measurement(
        name="CKA of shuffled tokens" if shuffled else "CKA",
        values=values.numpy(),
        dims=("layer", "of layer"),
        coords={"layer": mine, "of layer": others},
        units="CKA",
        settings={**which, "debiased": debiased, "shuffled": shuffled, "positions": positions, "tokens": len(rows[0])},
        caption=f"Linear CKA{', debiased,' if debiased else ''} over {len(rows[0]):,} tokens, before the final norm: 1 "
        "is the same geometry up to rotation and scale. It does not say that the two hold the same information.",
    )


def _shuffled(points: Sequence[Float[Tensor, "n d"]]) -> list[Float[Tensor, "n d"]]:
    """The same rows of every point in one other order."""
    order = torch.randperm(len(points[0]), generator=generator(0, "similarity"))
    return [rows[order.to(rows.device)] for rows in points]


def _sides(*sides: Capture | Sequence[Capture]) -> list[list[Capture]]:
    """The captures of either side. Raises ValueError if they are of different tokens."""
    captures = [[side] if isinstance(side, Capture) else list(side) for side in sides]
    tokens = [[capture.batch.tokens.cpu() for capture in side] for side in captures]
    if len(tokens[0]) != len(tokens[1]) or not all(map(torch.equal, *tokens)):
        raise ValueError("similarity compares two models on the same batch; these captures are of different tokens")
    return captures


def _tokens(captures: Sequence[Capture], point: str, positions: Positions) -> Float[Tensor, "n d"]:
    """The activations of all real tokens in the range, one row each, of all captures."""
    rows = []
    for capture in captures:
        bounds, n_pos = spans(capture, positions), capture.batch.tokens.shape[1]
        at = torch.arange(n_pos)
        inside = (at >= bounds[:, :1]) & (at < bounds[:, 1:])
        flat = rearrange(capture[point][:, :n_pos], "batch pos d -> (batch pos) d")
        rows.append(flat[inside.flatten().to(flat.device)])
    return torch.cat(rows)
