"""Matrix entropy of a whole data set, from sums that add up over its batches."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.instruments.residual.renyi import Normaliser, check_order, gram_entropy, log_size


class EntropyStream:
    """Matrix entropy of all the vectors of a data set, more of them than fit in memory, batch by batch.

    K = Z Zᵀ over n vectors has the eigenvalues of ZᵀZ, whose d² numbers add up over batches: exact for any n, in
    float64. Beside `matrix_entropy`, which is over the tokens of one sequence, this is over everything it was given.

    Args:
        centre: subtract the mean of all vectors; or a mean `[d]` known from elsewhere.
        unit_rows: then scale each to length 1.

    Raises:
        ValueError: if asked to scale rows less their own mean, which is not known before the last batch.
    """

    def __init__(self, *, centre: bool | Float[Tensor, " d"] = False, unit_rows: bool = False) -> None:
        if centre is True and unit_rows:
            raise ValueError(
                "unit_rows after centring needs the mean before the first batch: stream once, "
                "then again with centre=stream.mean"
            )
        self.centre, self.unit_rows = centre, unit_rows
        self.n = 0
        self.mean: Tensor = torch.zeros(())
        self._scatter: Tensor = torch.zeros(())  # of vectors less their mean, so that a large mean cancels nothing

    @torch.no_grad()
    def add(self, z: Float[Tensor, "*batch d"]) -> EntropyStream:
        """Add vectors.

        Raises:
            ValueError: if they are not finite, or not as wide as those before.
        """
        rows = z.reshape(-1, z.shape[-1]).double()
        if self.n and rows.shape[-1] != len(self.mean):
            raise ValueError(f"the vectors so far had {len(self.mean)} features, not {rows.shape[-1]}")
        if not torch.isfinite(rows).all():
            raise ValueError("representations must be finite; these hold NaN or infinity")
        if isinstance(self.centre, Tensor):
            rows = rows - self.centre.to(rows)
        if self.unit_rows:
            length = rows.norm(dim=-1, keepdim=True)
            rows = rows / torch.where(length > 0, length, 1.0)
        if len(rows):
            mean = rows.mean(0)
            rows = rows - mean
            self._merge(len(rows), mean, rows.T @ rows)
        return self

    def merge(self, other: EntropyStream) -> EntropyStream:
        """Add what another stream has seen, for example that of another process."""
        if other.n:
            self._merge(other.n, other.mean, other._scatter)
        return self

    def _merge(self, n: int, mean: Tensor, scatter: Tensor) -> None:
        if not self.n:
            self.n, self.mean, self._scatter = n, mean, scatter
            return
        total, apart = self.n + n, mean - self.mean
        self._scatter = self._scatter + scatter + torch.outer(apart, apart) * (self.n * n / total)
        self.mean = self.mean + apart * (n / total)
        self.n = total

    def entropy(self, *, alpha: float = 1.0, normalise: Normaliser | None = None) -> float:
        """Rényi entropy of order α of everything seen so far, the number of vectors seen standing for `pos`.

        Raises:
            ValueError: if nothing was seen, or a setting is wrong.
        """
        check_order(alpha, normalise)
        if not self.n:
            raise ValueError("there is no entropy of nothing: add vectors first")
        moments = self._scatter
        if self.centre is not True:
            moments = moments + self.n * torch.outer(self.mean, self.mean)
        largest = moments.diagonal().max()
        lower = (moments / largest if largest > 0 else moments.clone())[None]
        return float(gram_entropy(lower, alpha)) / log_size(normalise, self.n, len(self.mean))
