"""The directions of a residual in which a label can be read (LEACE), for edits that erase, steer or interchange it.

`Subspace.of` finds the smallest projector that removes a label from a residual for every linear probe: LEACE (Belrose
et al. 2023). In whitened coordinates it is the orthogonal projection on the directions that the label correlates with;
so in the residual's own coordinates it is oblique, and moves a vector no further than it must.
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
    """The directions of a residual in which a label can be read.

    Attributes:
        projector: Q: `x @ Q` is the part of a row x in these directions.
        mean: the mean of the rows on which they were found.
        rank: number of directions.
        correlations: canonical correlation of the label with each direction, falling.
        rest: the projector on as many other directions, or all that are left, drawn at random among those in which the
            rows differ.
        outside: orthonormal basis of all directions but the label's, whether rows differ in them or not.
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
        """Find the directions of a label.

        Kept are those along which it correlates more than any of `SHUFFLES` shuffles of it does along its best.

        Args:
            x: rows that all have the label.
            y: their class, or set of classes.
            chance: for the shuffles and for the other directions.
            rank: most directions to keep; by default all.
            group: which sequence each row is of; the labels of a sequence stay together in a shuffle.
        """
        x, labels = x.double(), _white_labels(y)
        mean = x.mean(0)
        white, into, out = _whitening(x - mean)
        # Singular values of the product of white features and white labels are canonical correlations.
        directions, strength, _ = torch.linalg.svd(white.mT @ labels / len(labels), full_matrices=False)
        group = torch.arange(len(x)) if group is None else group
        above_noise = int((strength > _strongest_shuffle(white, labels, group, chance)).sum())
        kept = directions[:, : above_noise if rank is None else min(rank, above_noise)]
        other = _other_directions(kept, chance)
        n_kept = kept.shape[1]
        return cls(
            projector=into @ kept @ kept.mT @ out.mT,
            mean=mean,
            rank=n_kept,
            correlations=strength[:n_kept],
            rest=into @ other @ other.mT @ out.mT,
            outside=torch.linalg.qr(out @ kept, mode="complete").Q[:, n_kept:],
        )

    def moved(self, x: Float[Tensor, "*n d"], to: Float[Tensor, "*n d"], *, rest: bool = False) -> Tensor:
        """Rows whose part in the label's directions (or, with `rest`, in the other ones) is replaced by that of `to`.

        With another row of vectors as `to` this is an interchange, with a class's mean steering, with `mean` erasing.
        """
        projector = (self.rest if rest else self.projector).to(x)
        return x - (x - to.to(x)) @ projector


def _whitening(centred: Float[Tensor, "n d"]) -> tuple[Tensor, Tensor, Tensor]:
    """White rows `[n, used]`, and the maps `[d, used]` into white coordinates and (transposed) out of them.

    Directions in which the rows hardly differ are left out.
    """
    variances, axes = torch.linalg.eigh(centred.mT @ centred / len(centred))
    used = variances > SMALLEST * variances[-1].clamp(min=1e-300)
    into, out = axes[:, used] / variances[used].sqrt(), axes[:, used] * variances[used].sqrt()
    return centred @ into, into, out


def _strongest_shuffle(
    white: Float[Tensor, "n used"], labels: Float[Tensor, "n dim"], group: Int[Tensor, " n"], chance: torch.Generator
) -> float:
    """The largest correlation of any direction with shuffled labels."""
    shuffles = (labels[_shuffled(group, chance)] for _ in range(SHUFFLES))
    strengths = [torch.linalg.svdvals(white.mT @ shuffled / len(labels)) for shuffled in shuffles]
    return max((float(strength.max()) for strength in strengths if len(strength)), default=0.0)


def _other_directions(kept: Float[Tensor, "used rank"], chance: torch.Generator) -> Float[Tensor, "used other"]:
    """As many random white directions orthogonal to those kept, or as many as there are."""
    width, n_kept = kept.shape
    free = torch.randn(width, width, generator=chance, dtype=torch.float64)
    free, _ = torch.linalg.qr(free - kept @ (kept.mT @ free))
    free = free - kept @ (kept.mT @ free)
    return free[:, : min(n_kept, width - n_kept)]


def _shuffled(group: Int[Tensor, " n"], chance: torch.Generator) -> Int[Tensor, " n"]:
    """The row whose label each row is given. Sequences are paired, and one gives all of its labels to the other."""
    names, number, size = group.unique(return_inverse=True, return_counts=True)
    order = (number + torch.rand(len(group), generator=chance)).argsort()  # within a sequence in any order
    first = size.cumsum(0) - size
    giver = torch.randperm(len(names), generator=chance)[number]
    place = torch.empty_like(number)
    place[order] = torch.arange(len(group)) - first[number[order]]
    return order[first[giver] + place % size[giver]]


def _white_labels(y: Int[Tensor, "n *class"]) -> Float[Tensor, "n dim"]:
    """The labels as uncorrelated columns of variance 1: products with white features are then correlations."""
    z = (y if y.ndim == 2 else torch.nn.functional.one_hot(y.unique(return_inverse=True)[1])).double()  # [n, class]
    centred = z - z.mean(0)
    variances, axes = torch.linalg.eigh(centred.mT @ centred / len(z))
    used = variances > 1e-9
    return centred @ (axes[:, used] / variances[used].sqrt())
