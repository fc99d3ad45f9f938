"""Two models through the logit lens: how far what one decodes from each layer is from what the other does.

Both saw the same tokens; each residual is decoded by its own model's final norm and unembedding (see `logit_lens`), and
the two distributions are compared with each other, point by point. Shows: from which layer on two runs, or two
checkpoints, say different things, in the basis of the output. Does not show: which of them is right, or what differs in
another basis; the residuals themselves cannot be compared, since each run has directions of its own. Control: two runs
that differ in their seed alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from workbench.capture import Capture
from workbench.instruments.lens.logit_lens import decode, divergence
from workbench.instruments.residual.projection import from_embedding
from workbench.instruments.shared import by_rows, positions_read, said_of_sample
from workbench.measurement import Measurement
from workbench.util.lookup import lookup
from workbench.util.ties import agreement
from workbench.util.words import capitalised

HOW: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], str, str]] = {
    "kl": (divergence, "nats", "KL(first ‖ second)"),
    "same_top": (lambda a, b: agreement(a, b).double(), "share", "positions with the same likeliest token"),
    "cosine": (
        lambda a, b: cosine_similarity(a.softmax(-1), b.softmax(-1), dim=-1),
        "cosine",
        "cosine of the two distributions",
    ),
}
"""Way of comparing -> the function of two sets of logits, its units, and what it is in words."""


def shared_points(first: Capture, second: Capture) -> list[str]:
    """The residual points that two models have which saw the same tokens, from the embedding up.

    Raises:
        ValueError: if they were not captured on the same tokens of one vocabulary.
    """
    tasks = (first.subject.task, second.subject.task)
    if tasks[0].vocabulary != tasks[1].vocabulary:
        raise ValueError(f"{first.subject.name} and {second.subject.name} have different vocabularies")
    if not torch.equal(first.batch.tokens, second.batch.tokens):
        raise ValueError(f"{first.subject.name} and {second.subject.name} were not captured on the same tokens")
    others = from_embedding(second.subject)
    return [point for point in from_embedding(first.subject) if point in others]


@torch.no_grad()
def measure(first: Capture, second: Capture, *, how: str = "kl", points: Sequence[str] | None = None) -> Measurement:
    """The difference of what two models decode, averaged over scored positions: dims `point`, `example`.

    Args:
        first, second: captures of two models on the same batch.
        how: `kl`: KL(first ‖ second) in nats; `_same_top`: the share of positions with the same likeliest token;
            `cosine`: of the two distributions.
        points: hook names of residuals, by default all that both have.

    Raises:
        ValueError: if there is no such way, or the two were not captured on the same tokens.
    """
    function, units, words = lookup(HOW, how, "way to compare")
    shared = shared_points(first, second)
    points = shared if points is None else list(points)
    read = positions_read(first, first.batch.loss_mask)
    each = torch.full((len(points), *read.shape), torch.nan, dtype=torch.float64)

    def compared(*residuals: Tensor) -> Tensor:
        logits = (decode(seen.subject, x).double() for seen, x in zip((first, second), residuals, strict=True))
        return function(*logits)  # of logits [row, token]

    for values, point in zip(each, points, strict=True):
        residuals = (seen[point][read] for seen in (first, second))
        values[read] = by_rows(compared, *residuals, width=len(first.subject.decoder)).cpu()
    measured = Measurement(
        name="Lens: first against second",
        values=each.nanmean(-1).numpy(),
        dims=("point", "example"),
        coords={"point": points},
        units=units,
        settings={"model": f"{first.subject.name} and {second.subject.name}", "how": how},
        caption=f"{capitalised(words)}: of what both models decode from the same layer, each by its own "
        "final norm and unembedding, at scored positions. It does not say which of the two is right.",
    )
    return said_of_sample(measured, first)
