"""Matrix entropy: over how many directions a sequence's representations spread, layer by layer (Seq-VCR, §3.3).

Shows: the effective number of directions (its logarithm) that the tokens of one sequence occupy. Low entropy in the
middle layers is the collapse that Seq-VCR works against. Does not show: what the directions mean, or whether later
layers use them; a direction shared by all tokens (a large mean) lowers the number a lot unless it is centred away, and
longer sequences have higher entropy. A few rows that hold most of the squared norm lower it to nearly 0; then the
entropy of the other rows is put beside it (`dominant_rows`). Compare only figures of the same hook point, positions,
kernel, α, centring and normaliser. Control: a re-initialised model of the same shape on the same sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from workbench.capture import Capture
from workbench.instruments.residual.dominant_rows import ASIDE, with_others
from workbench.instruments.residual.gram_matrix import Bandwidth, Kernel
from workbench.instruments.residual.per_sequence import Positions, by_layer
from workbench.instruments.residual.projection import from_embedding
from workbench.instruments.residual.renyi import Normaliser, matrix_entropy
from workbench.instruments.shared import no_reason
from workbench.measurement import Measurement

CONTROLS = ("untrained",)
CAPTION = (
    "Entropy of the spectrum of {} over one sequence's tokens, before the final norm. It says how many directions are "
    "used, not which; a large mean or a longer sequence moves it too."
)
CLAMPED = (
    " As in the code published with Layer by Layer, inner products below 0 were set to 0 first: the spectrum is not "
    "that of Z Zᵀ, and the figure is higher."
)

needs, why_not = from_embedding, no_reason


def measure(
    capture: Capture,
    *,
    alpha: float = 1.0,
    centre: bool = False,
    unit_rows: bool = False,
    normalise: Normaliser | None = None,
    kernel: Kernel = "linear",
    bandwidth: Bandwidth = "median",
    as_published: bool = False,
    positions: Positions = "all",
    points: Sequence[str] | None = None,
) -> Measurement:
    """Matrix entropy of every example at every residual point, before the final norm: dims `layer`, `example`.

    Over the real tokens of a sequence; NaN where it has none in the range. Aside: the same without dominant rows.

    Args:
        capture: activations `[batch, pos, d]` of the points.
        alpha, centre, unit_rows, normalise, kernel, bandwidth, as_published: as for `matrix_entropy`.
        positions: `"all"`; `"input"`, before the first scored one; `"output"`, from there on; or a slice (start, stop).
        points: hook names, by default those of `needs`.

    Raises:
        ValueError: if a setting is unknown, or a point was not captured.
    """
    how: dict[str, Any] = {"alpha": alpha, "centre": centre, "unit_rows": unit_rows, "normalise": normalise}
    how |= {"kernel": kernel, "bandwidth": bandwidth, "as_published": as_published}
    return by_layer(
        capture,
        partial(with_others, measure=matrix_entropy, **how),
        name="Matrix entropy",
        units="nats" if normalise is None else f"share of {normalise.replace('_', ' ')}",
        settings={**how, "bandwidth": None if kernel == "linear" else bandwidth},
        positions=positions,
        points=points,
        aside=ASIDE,
        caption=CAPTION.format("Z Zᵀ" if kernel == "linear" else f"the {kernel} kernel's matrix")
        + (CLAMPED if as_published else ""),
    )
