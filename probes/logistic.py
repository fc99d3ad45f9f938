"""Logistic regression, the default kind of probe: those of many cells and labels are fitted in one batch."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from workbench.probes.fitted import Linear, Scale, absent, at_least, one_hot


def logistic(
    x: Float[Tensor, "cell n d"],
    y: Int[Tensor, "cell label n"],
    n_classes: int,
    *,
    generator: torch.Generator | None = None,
    l2: float = 0.1,
    tolerance: float = 1e-6,
    most_steps: int = 300,
) -> Linear:
    """Fit multinomial logistic regressions, all in one batch.

    Minimised is Σ −log softmax(Wx̂ + b)_y + (l2/2)·‖W‖², which is scikit-learn's `LogisticRegression(C=1/l2)` on
    standardised features (two classes have two rows of weights here, which halves what l2 weighs). All Hessians of a
    cell are bounded by ½ x̂ᵀx̂ + l2·I, whatever its labels (Böhning 1992), so that one inverse a cell is the metric of
    Nesterov's accelerated descent for all of them, each restarted when it overshoots (O'Donoghue and Candès 2015).

    Args:
        x: the vectors that the probe reads.
        y: the class of each row, −1 where a label has none.
        n_classes: number of classes.
        generator: not used; nothing is random here.
        l2: weight of the penalty.
        tolerance: stop where the gradient in that metric predicts a fall of the loss of less than this per row.
        most_steps: stop there in any case. Where classes can be separated without an error, the optimum lies far out,
            and the predictions are settled long before.
    """
    at_least("l2", l2, 1e-12)
    scale = Scale.of(x, y)
    weight = _minimum(scale(x), y, n_classes, l2, tolerance, most_steps)
    never = absent(one_hot(y, n_classes, x.dtype))
    return scale.undo(weight[:, :, :-1], weight[:, :, -1] + never)


CHECKED = 10  # steps between two checks of which labels have converged


def _minimum(
    x: Float[Tensor, "cell n d"],
    y: Int[Tensor, "cell label n"],
    n_classes: int,
    l2: float,
    tolerance: float,
    most_steps: int,
) -> Float[Tensor, "cell label d+1 class"]:
    """The weights at the minimum, the bias as their last row."""
    rows = torch.cat([x, x.new_ones(*x.shape[:2], 1)], -1) * (y >= 0).any(1)[..., None]
    cells, n, d = rows.shape
    penalty = torch.full((d, 1), float(l2), dtype=x.dtype)
    penalty[-1] = 0  # the bias has none
    bound = 0.5 * rows.mT @ rows + torch.diag(penalty[:, 0] + 1e-6 * n)
    metric = torch.cholesky_inverse(torch.linalg.cholesky(bound))
    descent = _Descent(rows, metric, penalty, y, n_classes)
    weight = x.new_zeros(cells, y.shape[1], d, n_classes)
    for step in range(most_steps):
        descent.step()
        last = step == most_steps - 1
        if step % CHECKED == CHECKED - 1 or last:
            converged = (descent.fall < tolerance) | last
            weight[:, descent.labels[converged]] = descent.weights()[:, converged]
            descent = descent.only(~converged)
            if not len(descent.labels):
                break
    return weight


class _Descent:
    """The state of the accelerated descent, for the labels that have not converged."""

    def __init__(self, rows: Tensor, metric: Tensor, penalty: Tensor, y: Tensor, n_classes: int) -> None:
        self.rows, self.metric, self.penalty, self.n_classes = rows, metric, penalty, n_classes
        cells, n, d = rows.shape
        n_labels = y.shape[1]
        hot = one_hot(y, n_classes, rows.dtype)
        self.labels = torch.arange(n_labels)
        self.wanted = hot.movedim(1, 2).reshape(cells, n, -1)
        self.counted = (y >= 0).movedim(1, 2)[..., None].to(rows.dtype)
        self.absent = absent(hot).view(cells, 1, -1)
        self.each = (y >= 0).sum(-1).clamp(min=1)
        self.weight = self.ahead = rows.new_zeros(cells, d, n_labels * n_classes)
        self.momentum = rows.new_ones(cells, 1, n_labels, 1)
        self.fall = rows.new_full((n_labels,), torch.inf)

    def _by_label(self, matrix: Tensor) -> Tensor:
        return matrix.unflatten(-1, (len(self.labels), self.n_classes))

    def weights(self) -> Float[Tensor, "cell label d class"]:
        return self._by_label(self.weight).movedim(2, 1)

    def step(self) -> None:
        """One step of every label, restarted (momentum 1) where it overshot."""
        probability = self._by_label(torch.baddbmm(self.absent, self.rows, self.ahead)).softmax(-1) * self.counted
        gradient = torch.baddbmm(self.penalty * self.ahead, self.rows.mT, probability.flatten(-2) - self.wanted)
        step = self.metric @ gradient
        self.fall = (self._by_label(gradient * step).sum((1, 3)) / self.each).amax(0)
        moved = self.ahead - step
        change = moved - self.weight
        overshot = self._by_label(gradient * change).sum((1, 3))[:, None, :, None] > 0
        momentum = torch.where(overshot, 1.0, self.momentum)
        later = (1 + (1 + 4 * momentum.square()).sqrt()) / 2
        self.ahead = moved + (self._by_label(change) * ((momentum - 1) / later)).flatten(-2)
        self.weight, self.momentum = moved, later

    def only(self, kept: Bool[Tensor, " label"]) -> _Descent:
        """The same with these labels only."""
        if bool(kept.all()):
            return self
        for name in ("wanted", "absent", "weight", "ahead"):
            setattr(self, name, self._by_label(getattr(self, name))[:, :, kept].flatten(-2))
        self.counted, self.momentum = self.counted[:, :, kept], self.momentum[:, :, kept]
        self.each, self.fall, self.labels = self.each[:, kept], self.fall[kept], self.labels[kept]
        return self
