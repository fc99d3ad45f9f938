"""The kinds of probe; each is fitted for every cell (a point and a place) and every label at once, in one batch.

`PROBES` has them by name. Each takes the vectors x `[cell, n, d]`, their labels y `[cell, label, n]` (−1 where there is
none) and the number of classes, and returns a `Fitted` probe, which scores new vectors: the class with the largest
score is its prediction. Each coordinate is standardised first, over the rows that have a label.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from workbench.probes.probe_models import NEVER, Kind, Linear, Network, Scale, absent, at_least, one_hot


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


def ridge(
    x: Float[Tensor, "cell n d"],
    y: Int[Tensor, "cell label n"],
    n_classes: int,
    *,
    generator: torch.Generator | None = None,
    l2: float = 1.0,
) -> Linear:
    """Least squares on one-hot labels with a penalty l2·‖W‖² on standardised coordinates: quick, and nearly as good."""
    at_least("l2", l2, 1e-12)
    scale = Scale.of(x, y)
    target = one_hot(y, n_classes, x.dtype)
    weight, bias, _ = _least_squares(scale(x), y, target, l2)
    return scale.undo(weight, torch.where(target.any(2), bias, NEVER))


def ridge_numbers(
    x: Float[Tensor, "cell n d"], y: Float[Tensor, "cell label n"], present: Tensor, *, l2: float = 1.0
) -> Linear:
    """Ridge regression of numbers; `scores` has one class, the number."""
    at_least("l2", l2, 1e-12)
    marked = torch.where(present, 0, -1)
    scale = Scale.of(x, marked)
    return scale.undo(*_least_squares(scale(x), marked, torch.where(present, y, 0.0)[..., None], l2)[:2])


def nearest_mean(
    x: Float[Tensor, "cell n d"],
    y: Int[Tensor, "cell label n"],
    n_classes: int,
    *,
    generator: torch.Generator | None = None,
) -> Linear:
    """The class whose mean is nearest, in standardised coordinates: nothing is fitted beyond the means."""
    scale = Scale.of(x, y)
    target = one_hot(y, n_classes, x.dtype)
    count = target.sum(2)
    means = target.mT @ scale(x)[:, None] / count.clamp(min=1)[..., None]
    bias = torch.where(count > 0, -0.5 * means.square().sum(-1), NEVER)
    return scale.undo(means.mT, bias)


def low_rank(
    x: Float[Tensor, "cell n d"],
    y: Int[Tensor, "cell label n"],
    n_classes: int,
    *,
    generator: torch.Generator | None = None,
    rank: int = 2,
    l2: float = 0.1,
) -> Linear:
    """A logistic regression on `rank` directions only: those of a reduced-rank regression (Izenman 1975)."""
    at_least("rank", rank, 1, whole=True)
    scale = Scale.of(x, y)
    scaled = scale(x)
    cells, n_labels = y.shape[:2]
    weight, _, root = _least_squares(scaled, y, one_hot(y, n_classes, x.dtype), l2)
    _, _, right = torch.linalg.svd(root.mT @ weight, full_matrices=False)
    directions = weight @ right[..., :rank, :].mT  # [cell, label, d, rank]
    seen = (scaled[:, None] @ directions).flatten(0, 1)
    small = logistic(seen, y.reshape(cells * n_labels, 1, -1), n_classes, l2=l2)
    inner = small.weight.view(cells, n_labels, -1, n_classes)
    return scale.undo(directions @ inner, small.bias.view(cells, n_labels, n_classes))


def mlp(
    x: Float[Tensor, "cell n d"],
    y: Int[Tensor, "cell label n"],
    n_classes: int,
    *,
    generator: torch.Generator,
    hidden: int = 64,
    steps: int = 300,
    learning_rate: float = 1e-2,
    decay: float = 1e-2,
) -> Network:
    """A network with one hidden layer of ReLU, for contrast with linear probes.

    A label that it decodes and a linear probe does not is present, but not linearly. All cells and labels train at once
    on their whole data with AdamW.
    """
    at_least("hidden", hidden, 1, whole=True)
    at_least("steps", steps, 1, whole=True)
    scale = Scale.of(x, y)
    scaled = scale(x)[:, None]
    d = x.shape[-1]  # weights of the two layers with their spread, each followed by its bias of 0
    shapes = [((d, hidden), (2 / d) ** 0.5), ((hidden,), 0.0), ((hidden, n_classes), hidden**-0.5), ((n_classes,), 0.0)]
    parameters = [
        (torch.randn(*y.shape[:2], *shape, generator=generator).to(x.dtype) * spread).requires_grad_()
        for shape, spread in shapes
    ]
    optimiser = torch.optim.AdamW(parameters, lr=learning_rate, weight_decay=decay)
    never = absent(one_hot(y, n_classes, x.dtype))
    with torch.enable_grad():
        for _ in range(steps):
            loss = _network_loss(parameters, scaled, y, never)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    first, first_bias, second, second_bias = (parameter.detach() for parameter in parameters)
    return Network(scale, first, first_bias, second, second_bias + never)


def _network_loss(
    parameters: Sequence[Tensor],
    x: Float[Tensor, "cell 1 n d"],
    y: Int[Tensor, "cell label n"],
    never: Float[Tensor, "cell label class"],
) -> Tensor:
    """The cross-entropy, a mean over the rows of each label, summed over cells and labels."""
    first, first_bias, second, second_bias = parameters
    inner = (x @ first + first_bias[:, :, None]).relu()
    log_probability = (inner @ second + (second_bias + never)[:, :, None]).log_softmax(-1)
    of_class = log_probability.gather(-1, y.clamp(min=0)[..., None])[..., 0]
    present = y >= 0
    return -(of_class * present / present.sum(-1, keepdim=True).clamp(min=1)).sum()


PROBES: dict[str, Kind] = {
    "logistic": logistic,
    "ridge": ridge,
    "nearest_mean": nearest_mean,
    "low_rank": low_rank,
    "mlp": mlp,
}


def _least_squares(
    x: Float[Tensor, "cell n d"], y: Int[Tensor, "cell label n"], target: Float[Tensor, "cell label n class"], l2: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Weights, bias and the Cholesky root of each label's penalised covariance, over the rows that have the label."""
    present = (y >= 0).to(x.dtype)[..., None]
    count = present.sum(2, keepdim=True).clamp(min=1)
    middle = (target * present).sum(2, keepdim=True) / count
    # Labels that are there for the same rows share one covariance: mostly all do.
    mean = (x[:, None] * present).sum(2, keepdim=True) / count
    same = bool((present == present[:, :1]).all())
    kept, about = (present[:, :1], mean[:, :1]) if same else (present, mean)
    centred = (x[:, None] - about) * kept
    root = torch.linalg.cholesky(centred.mT @ centred + l2 * torch.eye(x.shape[-1], dtype=x.dtype))
    weight = torch.cholesky_solve(centred.mT @ ((target - middle) * present), root.expand(*y.shape[:2], -1, -1))
    bias = (middle - mean @ weight)[:, :, 0]
    return weight, bias, root.expand(*y.shape[:2], -1, -1)
