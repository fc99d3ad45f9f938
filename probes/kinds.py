"""Kinds of probe, each fitted for every cell (a point and a place) and every label at once, in one batch.

`PROBES` has them by name. Each takes features `[cell, n, d]`, labels `[cell, label, n]` (−1 where there is none) and
the number of classes, and gives back what scores new features: the class with the largest score is what the probe says.
Features are standardised first, each over the rows that have a label.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

NEVER = -1e9  # the score of a class that a label does not have
LARGEST = 1 << 26  # numbers in the largest array made at once


class Fitted(Protocol):
    """A fitted probe of every cell and label."""

    def scores(self, x: Float[Tensor, "cell n d"]) -> Float[Tensor, "cell label n class"]:
        """How much each row speaks for each class."""
        ...


Kind = Callable[..., Fitted]
"""(x, y, n_classes, generator=…, settings) -> Fitted."""


@dataclass(frozen=True)
class Linear:
    """Scores that are linear in the features: `x·weight + bias`.

    Attributes:
        weight: `[cell, label, d, class]`.
        bias: `[cell, label, class]`.
    """

    weight: Float[Tensor, "cell label d class"]
    bias: Float[Tensor, "cell label class"]

    def scores(self, x: Float[Tensor, "cell n d"]) -> Float[Tensor, "cell label n class"]:
        return x[:, None] @ self.weight + self.bias[:, :, None]


@dataclass(frozen=True)
class Network:
    """One hidden layer: `relu(x̂·first + first_bias)·second + second_bias`, x̂ the features as `scale` makes them."""

    scale: Scale
    first: Float[Tensor, "cell label d hidden"]
    first_bias: Float[Tensor, "cell label hidden"]
    second: Float[Tensor, "cell label hidden class"]
    second_bias: Float[Tensor, "cell label class"]

    def scores(self, x: Float[Tensor, "cell n d"]) -> Float[Tensor, "cell label n class"]:
        hidden = (self.scale(x)[:, None] @ self.first + self.first_bias[:, :, None]).relu()
        return hidden @ self.second + self.second_bias[:, :, None]


@dataclass(frozen=True)
class Scale:
    """Features to mean 0 and standard deviation 1 over the rows that have a label; constant ones to 0.

    Attributes:
        mean, by: `[cell, d]`; what is subtracted, and what the rest is multiplied with.
    """

    mean: Float[Tensor, "cell d"]
    by: Float[Tensor, "cell d"]

    @classmethod
    def of(cls, x: Float[Tensor, "cell n d"], y: Int[Tensor, "cell label n"]) -> Scale:
        weight = (y >= 0).any(1).to(x.dtype)[..., None]
        count = weight.sum(1).clamp(min=1)
        mean = (x * weight).sum(1) / count
        variance = ((x - mean[:, None]).square() * weight).sum(1) / count
        largest = (x.abs() * weight).amax(1)
        constant = variance.sqrt() <= 1e-6 * largest + torch.finfo(x.dtype).tiny  # rounding is no signal
        return cls(mean, torch.where(constant, 0.0, variance.clamp(min=1e-30).rsqrt()))

    def __call__(self, x: Float[Tensor, "cell n d"]) -> Float[Tensor, "cell n d"]:
        return (x - self.mean[:, None]) * self.by[:, None]

    def undo(self, weight: Float[Tensor, "cell label d class"], bias: Float[Tensor, "cell label class"]) -> Linear:
        """Weights for features as they are, from those for scaled ones."""
        weight = weight * self.by[:, None, :, None]
        return Linear(weight, bias - torch.einsum("cd,cldk->clk", self.mean, weight))


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
    """Multinomial logistic regressions, all in one batch.

    Minimised is Σ −log softmax(Wx̂ + b)_y + (l2/2)·‖W‖², which is scikit-learn's `LogisticRegression(C=1/l2)` on
    standardised features (two classes have two rows of weights here, which halves what l2 weighs). All Hessians of a
    cell are bounded by ½ x̂ᵀx̂ + l2·I, whatever its labels (Böhning 1992), so that one inverse a cell is the metric of
    Nesterov's accelerated descent for all of them, each restarted when it overshoots (O'Donoghue and Candès 2015).

    Args:
        x, y, n_classes: features, labels and their number of classes.
        generator: takes no part; there is no chance in it.
        l2: weight of the penalty.
        tolerance: stop where the gradient in that metric predicts a fall of less than this a row.
        most_steps: stop there in any case. Where classes can be told apart without an error the optimum lies far out,
            and what is decoded is settled long before.
    """
    at_least("l2", l2, 1e-12)
    scale = Scale.of(x, y)
    rows = torch.cat([scale(x), x.new_ones(*x.shape[:2], 1)], -1) * (y >= 0).any(1)[..., None]
    cells, n, d = rows.shape
    n_labels = y.shape[1]
    penalty = torch.full((d, 1), float(l2), dtype=x.dtype)
    penalty[-1] = 0
    bound = 0.5 * rows.mT @ rows + torch.diag(penalty[:, 0] + 1e-6 * n)
    metric = torch.cholesky_inverse(torch.linalg.cholesky(bound))
    problem = _Logistic(rows, metric, penalty, y, n_classes)
    finished = x.new_zeros(cells, n_labels, d, n_classes)
    for step in range(most_steps):
        problem.step()
        if step % CHECKED == CHECKED - 1 or step == most_steps - 1:
            over = problem.fall < tolerance if step < most_steps - 1 else torch.ones(len(problem.labels)).bool()
            finished[:, problem.labels[over]] = problem.weights()[:, over]
            problem = problem.only(~over)
            if not len(problem.labels):
                break
    absent = torch.where(_one_hot(y, n_classes, x.dtype).any(2), 0.0, NEVER).to(x.dtype)
    return scale.undo(finished[:, :, :-1], finished[:, :, -1] + absent)


CHECKED = 10  # steps from one look at which labels are done to the next


class _Logistic:
    """The descent of `logistic`: the labels that are not done yet, and where each of them is."""

    def __init__(self, rows: Tensor, metric: Tensor, penalty: Tensor, y: Tensor, n_classes: int) -> None:
        self.rows, self.metric, self.penalty, self.n_classes = rows, metric, penalty, n_classes
        cells, n, d = rows.shape
        n_labels = y.shape[1]
        hot = _one_hot(y, n_classes, rows.dtype)
        self.labels = torch.arange(n_labels)
        self.wanted = hot.movedim(1, 2).reshape(cells, n, -1)
        self.counted = (y >= 0).movedim(1, 2)[..., None].to(rows.dtype)
        self.absent = torch.where(hot.any(2), 0.0, NEVER).to(rows.dtype).view(cells, 1, -1)
        self.each = (y >= 0).sum(-1).clamp(min=1)
        self.weight = self.ahead = rows.new_zeros(cells, d, n_labels * n_classes)
        self.momentum = rows.new_ones(cells, 1, n_labels, 1)
        self.fall = rows.new_full((n_labels,), torch.inf)

    def _by_label(self, matrix: Tensor) -> Tensor:
        return matrix.unflatten(-1, (len(self.labels), self.n_classes))

    def weights(self) -> Float[Tensor, "cell label d class"]:
        return self._by_label(self.weight).movedim(2, 1)

    def step(self) -> None:
        said = self._by_label(torch.baddbmm(self.absent, self.rows, self.ahead)).softmax(-1) * self.counted
        gradient = torch.baddbmm(self.penalty * self.ahead, self.rows.mT, said.flatten(-2) - self.wanted)
        step = self.metric @ gradient
        self.fall = (self._by_label(gradient * step).sum((1, 3)) / self.each).amax(0)
        moved = self.ahead - step
        change = moved - self.weight
        overshot = self._by_label(gradient * change).sum((1, 3))[:, None, :, None] > 0
        momentum = torch.where(overshot, 1.0, self.momentum)
        later = (1 + (1 + 4 * momentum.square()).sqrt()) / 2
        self.ahead = moved + (self._by_label(change) * ((momentum - 1) / later)).flatten(-2)
        self.weight, self.momentum = moved, later

    def only(self, kept: Bool[Tensor, " label"]) -> _Logistic:
        """The same with these labels alone."""
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
    """Least squares on one-hot labels with a penalty l2·‖W‖² on standardised features: quick, and nearly as good."""
    at_least("l2", l2, 1e-12)
    scale = Scale.of(x, y)
    wanted = _one_hot(y, n_classes, x.dtype)
    weight, bias, _ = _least_squares(scale(x), y, wanted, l2)
    return scale.undo(weight, torch.where(wanted.any(2), bias, NEVER))


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
    """The class whose mean is nearest, in standardised features: no fitting beyond the means."""
    scale = Scale.of(x, y)
    wanted = _one_hot(y, n_classes, x.dtype)
    count = wanted.sum(2)
    means = wanted.mT @ scale(x)[:, None] / count.clamp(min=1)[..., None]
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
    """A logistic regression that sees only `rank` directions: those of a reduced-rank regression (Izenman 1975)."""
    at_least("rank", rank, 1, whole=True)
    scale = Scale.of(x, y)
    scaled = scale(x)
    cells, n_labels = y.shape[:2]
    weight, _, root = _least_squares(scaled, y, _one_hot(y, n_classes, x.dtype), l2)
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
    """One hidden layer with ReLU, for contrast: what it decodes and a linear probe does not is there, but not as a sum.

    All cells and labels train at once on their whole data with AdamW.
    """
    at_least("hidden", hidden, 1, whole=True)
    at_least("steps", steps, 1, whole=True)
    scale = Scale.of(x, y)
    scaled = scale(x)[:, None]
    shape = y.shape[:2]

    def drawn(*size: int, spread: float) -> Tensor:
        return (torch.randn(*shape, *size, generator=generator).to(x.dtype) * spread).requires_grad_()

    d = x.shape[-1]
    parts = [drawn(d, hidden, spread=(2 / d) ** 0.5), drawn(hidden, spread=0.0)]
    parts += [drawn(hidden, n_classes, spread=hidden**-0.5), drawn(n_classes, spread=0.0)]
    optimiser = torch.optim.AdamW(parts, lr=learning_rate, weight_decay=decay)
    present = y >= 0
    each = present.sum(-1, keepdim=True).clamp(min=1)
    absent = torch.where(_one_hot(y, n_classes, x.dtype).any(2), 0.0, NEVER).to(x.dtype)
    with torch.enable_grad():
        for _ in range(steps):
            first, first_bias, second, second_bias = parts
            inner = (scaled @ first + first_bias[:, :, None]).relu()
            said = (inner @ second + (second_bias + absent)[:, :, None]).log_softmax(-1)
            right = said.gather(-1, y.clamp(min=0)[..., None])[..., 0]
            loss = -(right * present / each).sum()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    first, first_bias, second, second_bias = (part.detach() for part in parts)
    return Network(scale, first, first_bias, second, second_bias + absent)


PROBES: dict[str, Kind] = {
    "logistic": logistic,
    "ridge": ridge,
    "nearest_mean": nearest_mean,
    "low_rank": low_rank,
    "mlp": mlp,
}


def at_least(name: str, value: object, least: float, whole: bool = False) -> None:
    """Raise ValueError if a setting is no number, or less than it may be."""
    right = isinstance(value, int) if whole else isinstance(value, int | float)
    if not right or isinstance(value, bool) or not value >= least:  # type: ignore[operator]
        wanted = f"a whole number of at least {least:g}" if whole else "a number above 0"
        raise ValueError(f"{name} of a probe is {wanted}, not {value!r}")


def _one_hot(y: Int[Tensor, "cell label n"], n_classes: int, dtype: torch.dtype) -> Float[Tensor, "cell label n class"]:
    """Rows without a label are all 0."""
    hot = torch.zeros(*y.shape, n_classes, dtype=dtype)
    return hot.scatter_(-1, y.clamp(min=0)[..., None], (y >= 0).to(dtype)[..., None])


def _least_squares(
    x: Float[Tensor, "cell n d"],
    y: Int[Tensor, "cell label n"],
    wanted: Float[Tensor, "cell label n class"],
    l2: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Weights, bias and the Cholesky root of each label's penalised covariance, over the rows that have the label."""
    present = (y >= 0).to(x.dtype)[..., None]
    count = present.sum(2, keepdim=True).clamp(min=1)
    middle = (wanted * present).sum(2, keepdim=True) / count
    # Labels that are there for the same rows share one covariance: mostly all do.
    mean = (x[:, None] * present).sum(2, keepdim=True) / count
    same = bool((present == present[:, :1]).all())
    kept, about = (present[:, :1], mean[:, :1]) if same else (present, mean)
    centred = (x[:, None] - about) * kept
    root = torch.linalg.cholesky(centred.mT @ centred + l2 * torch.eye(x.shape[-1], dtype=x.dtype))
    weight = torch.cholesky_solve(centred.mT @ ((wanted - middle) * present), root.expand(*y.shape[:2], -1, -1))
    bias = (middle - mean @ weight)[:, :, 0]
    return weight, bias, root.expand(*y.shape[:2], -1, -1)
