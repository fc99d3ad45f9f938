"""The directions in which a label can be read, and how to take along them what is another's: erase, steer, interchange.

`Subspace.of` finds the least projector that takes a label out of a residual for every linear probe: LEACE (Belrose et
al. 2023). In whitened coordinates it is the orthogonal projection on the directions that the label correlates with; so
in the residual's own it is oblique, and moves a vector no further than it must.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

SHUFFLES = 20
SMALLEST = 1e-7  # variance, as a share of the largest, below which a direction counts as unused


@dataclass(frozen=True)
class Subspace:
    """Directions of a residual, in which something can be read.

    Attributes:
        projector: `[d, d]`, Q: `x @ Q` is what of a row x lies in them.
        mean: `[d]`, of the rows it was found on.
        rank: how many directions.
        correlations: `[rank]`, how well the label is told along each (canonical correlations), falling.
        rest: the projector on as many other directions, or all that are left, drawn at random among those in which the
            rows differ.
        outside: `[d, free]`, orthonormal: all directions but the label's, whether rows differ in them or not.
    """

    projector: Float[Tensor, "d d"]
    mean: Float[Tensor, " d"]
    rank: int
    correlations: Float[Tensor, " rank"]
    rest: Float[Tensor, "d d"]
    outside: Float[Tensor, "d free"]

    @classmethod
    def of(
        cls,
        x: Float[Tensor, "n d"],
        y: Int[Tensor, "n *class"],
        chance: torch.Generator,
        *,
        rank: int | None = None,
        group: Int[Tensor, " n"] | None = None,
    ) -> Subspace:
        """The directions of a label.

        Kept are those along which it correlates more than any of twenty shuffles of it does along its best.

        Args:
            x: rows that all have the label.
            y: their class, or set of classes.
            chance: for that shuffle and for the other directions.
            rank: keep at most so many, the best.
            group: which sequence each row is of; what a sequence holds stays together in a shuffle.
        """
        x, z = x.double(), _indicators(y)
        mean = x.mean(0)
        centred = x - mean
        variances, axes = torch.linalg.eigh(centred.mT @ centred / len(x))
        used = variances > SMALLEST * variances[-1].clamp(min=1e-300)
        into, out = axes[:, used] / variances[used].sqrt(), axes[:, used] * variances[used].sqrt()
        white = centred @ into
        z = _whitened(z)
        found, strength, _ = torch.linalg.svd(white.mT @ z / len(z), full_matrices=False)
        group = torch.arange(len(x)) if group is None else group
        shuffles = [torch.linalg.svdvals(white.mT @ z[_shuffled(group, chance)] / len(z)) for _ in range(SHUFFLES)]
        noise = max((float(shuffle.max()) for shuffle in shuffles if len(shuffle)), default=0.0)
        most = int((strength > noise).sum())
        kept = found[:, : most if rank is None else min(rank, most)]
        free = torch.randn(white.shape[1], white.shape[1], generator=chance, dtype=torch.float64)
        free, _ = torch.linalg.qr(free - kept @ (kept.mT @ free))
        free = free - kept @ (kept.mT @ free)
        free = free[:, : min(kept.shape[1], white.shape[1] - kept.shape[1])]
        own = torch.linalg.qr(out @ kept, mode="complete").Q
        return cls(
            projector=into @ kept @ kept.mT @ out.mT,
            mean=mean,
            rank=kept.shape[1],
            correlations=strength[: kept.shape[1]],
            rest=into @ free @ free.mT @ out.mT,
            outside=own[:, kept.shape[1] :],
        )

    def moved(self, x: Float[Tensor, "*n d"], to: Float[Tensor, "*n d"], *, rest: bool = False) -> Tensor:
        """Rows with what lies in the directions replaced by what of `to` lies there; or in the other directions.

        `to` another row of vectors is an interchange, a class's mean steers there, `mean` erases.
        """
        projector = (self.rest if rest else self.projector).to(x)
        return x - (x - to.to(x)) @ projector


def _indicators(y: Int[Tensor, "n *class"]) -> Float[Tensor, "n class"]:
    if y.ndim == 2:
        return y.double()
    classes, at = y.unique(return_inverse=True)
    return torch.nn.functional.one_hot(at, len(classes)).double()


def _shuffled(group: Int[Tensor, " n"], chance: torch.Generator) -> Int[Tensor, " n"]:
    """Which row's label each row is given: one of another sequence, which gives all of its labels to that one."""
    names, own, size = group.unique(return_inverse=True, return_counts=True)
    order = (own + torch.rand(len(group), generator=chance)).argsort()  # within a sequence in any order
    first = size.cumsum(0) - size
    giver = torch.randperm(len(names), generator=chance)[own]
    place = torch.empty_like(own)
    place[order] = torch.arange(len(group)) - first[own[order]]
    return order[first[giver] + place % size[giver]]


def _whitened(z: Float[Tensor, "n class"]) -> Float[Tensor, "n dim"]:
    """The labels as uncorrelated columns of variance 1: products with white features are then correlations."""
    centred = z - z.mean(0)
    variances, axes = torch.linalg.eigh(centred.mT @ centred / len(z))
    used = variances > 1e-9
    return centred @ (axes[:, used] / variances[used].sqrt())
