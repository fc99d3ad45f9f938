"""Fit probes on some sequences and test them on others: the share decoded, for every point, place and label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from workbench.probes.probe_kinds import PROBES, ridge_numbers
from workbench.probes.probe_models import Kind
from workbench.util.lookup import lookup
from workbench.util.ties import hit

REGRESSION = "regression"  # of the label as a number; every other kind decodes classes
KINDS = (*PROBES, REGRESSION)
R2 = "R²"  # the unit of a regression; all other kinds give a share
AT_ONCE = 1 << 20  # scores made at once: more do not fit a core's cache, and one cell alone may have more
TEST_SHARE = 0.3


@dataclass(frozen=True)
class Split:
    """The split of rows for a probe, into those to fit and those to test on: a sequence is never on both sides.

    Attributes:
        fit: indices of the rows to fit on.
        test: indices of the rows to test on.
        sequence: the number of each test row's sequence, among those tested.
        n_test: number of sequences tested.
    """

    fit: Int[Tensor, " fit"]
    test: Int[Tensor, " test"]
    sequence: Int[Tensor, " test"]
    n_test: int

    @classmethod
    def by_example(cls, example: Int[Tensor, " n"], generator: torch.Generator) -> Split:
        """A random split of the sequences: three in ten are for the test.

        Raises:
            ValueError: if there are not two sequences.
        """
        names = example.unique()
        if len(names) < 2:
            raise ValueError(
                f"a probe is tested on other sequences than it is fitted on: it needs 2 that differ, not {len(names)}"
            )
        n_test = max(1, round(TEST_SHARE * len(names)))
        chosen = names[torch.randperm(len(names), generator=generator)[:n_test]]
        return cls.of(example, torch.isin(example, chosen))

    @classmethod
    def of(cls, example: Int[Tensor, " n"], held_out: Bool[Tensor, " n"]) -> Split:
        """The split whose test rows are those held out."""
        test = held_out.nonzero()[:, 0]
        names, sequence = example[test].unique(return_inverse=True)
        return cls((~held_out).nonzero()[:, 0], test, sequence, len(names))

    def by_sequence(self, values: Float[Tensor, "*lead test"]) -> Float[Tensor, "*lead sequence"]:
        """The mean over each test sequence's rows, leaving out NaN; NaN where it has none."""
        there = ~values.isnan()
        shape = (*values.shape[:-1], self.n_test)
        total = torch.zeros(shape, dtype=values.dtype).index_add_(-1, self.sequence, values.nan_to_num())
        count = torch.zeros(shape, dtype=values.dtype).index_add_(-1, self.sequence, there.to(values.dtype))
        return total / count  # 0/0 is NaN, as it should be


UNSEEN = 1 << 40  # a class that no fitted row has: no probe can predict it


@dataclass(frozen=True)
class Column:
    """One classification problem at every place: a label's class, or whether its set contains one class.

    Attributes:
        label: index of the label among those asked for.
        y: the class of each row, numbered at each place by its frequency among the rows to fit on, the most frequent 0;
            `UNSEEN` for a class that none of these has, −1 where the row has no label.
        n_classes: number of classes among the rows to fit on.
    """

    label: int
    y: Int[Tensor, "place n"]
    n_classes: Int[Tensor, " place"]

    @classmethod
    def of(cls, label: int, values: Int[Tensor, "place n"], fit: Int[Tensor, " fit"]) -> Column:
        """Number the classes of a label that has one class a row."""
        y, sizes = torch.full_like(values, -1), []
        for place, row in enumerate(values):
            classes, counts = row[fit][row[fit] >= 0].unique(return_counts=True)
            by_count = classes[counts.argsort(descending=True, stable=True)]
            y[place] = torch.where(row < 0, -1, UNSEEN)
            for number, which in enumerate(by_count.tolist()):
                y[place][row == which] = number
            sizes.append(len(classes))
        return cls(label, y, torch.tensor(sizes))


def columns(labels: Sequence[Int[Tensor, "place n *class"]], fit: Int[Tensor, " fit"]) -> list[Column]:
    """The classification problems of these labels: a set has one for each of its classes."""
    parts = [[values] if values.ndim == 2 else values.unbind(-1) for values in labels]
    return [Column.of(i, part, fit) for i, of_label in enumerate(parts) for part in of_label]


class Predicted(NamedTuple):
    """How well probes predict rows that they were not fitted on, `[column, point, place, test]` each.

    Attributes:
        right: 1 where the row's class has the largest score, 1/k where k classes share it, else 0; NaN where the row
            has no label.
        likelihood: the probability (softmax of the scores) of the row's class; 0 where no fitted row had it.
    """

    right: Tensor
    likelihood: Tensor


def fit_and_test(
    x: Float[Tensor, "point place n d"],
    problems: Sequence[Column],
    fit: Int[Tensor, " fit"],
    test: Int[Tensor, " test"],
    *,
    kind: str,
    generator: torch.Generator,
    **settings: Any,
) -> Predicted:
    """Fit a probe at every point and place for every problem on some rows, and test it on others.

    Args:
        x: the vectors.
        problems: the classes of the rows.
        fit, test: indices of the rows to fit and to test on.
        kind, generator, settings: as for `decode`, which says what is raised.
    """
    make = probe_of_kind(kind, settings)
    points, places, _, d = x.shape
    cells = x.flatten(0, 1)
    right, likelihood = (torch.empty(len(problems), points * places, len(test)) for _ in range(2))
    # Problems of about as many classes (the next power of 2) are fitted together, so that little is computed in vain.
    sizes = [1 << (int(problem.n_classes.amax()) - 1).bit_length() for problem in problems]
    for size in sorted(set(sizes)):
        group = [i for i, each in enumerate(sizes) if each == size]
        y = torch.stack([problems[i].y for i in group], 1)  # [place, column, n]
        at_once = max(1, AT_ONCE // (max(len(fit), len(test)) * max(len(group) * size, d)))
        for part in torch.arange(len(cells)).split(at_once):
            classes = y[part % places]
            fitted = make(cells[part][:, fit], classes[..., fit], size, generator=generator, **settings)
            scores, wanted = fitted.scores(cells[part][:, test]), classes[..., test]
            probability = scores.softmax(-1).gather(-1, wanted.clamp(0, size - 1)[..., None])[..., 0]
            where = (torch.tensor(group)[:, None], part)
            right[where] = torch.where(wanted < 0, torch.nan, hit(scores, wanted)).movedim(0, 1)
            likelihood[where] = torch.where(wanted < size, probability, 0.0).float().movedim(0, 1)
    return Predicted(right.unflatten(1, (points, places)), likelihood.unflatten(1, (points, places)))


def probe_of_kind(kind: str, settings: Mapping[str, Any]) -> Kind:
    """The kind of probe with this name. Raises ValueError if there is none, or it does not take these settings."""
    make = lookup({**PROBES, REGRESSION: ridge_numbers}, kind, "kind of probe")
    data = ("x", "y", "n_classes", "present", "generator")
    existing = [name for name in signature(make).parameters if name not in data]
    for name in settings:
        if name not in existing:
            raise ValueError(f"the probe {kind} has no setting {name!r}; there is: {', '.join(existing) or 'none'}")
    return make


def decode(
    x: Float[Tensor, "point place n d"],
    labels: Sequence[Int[Tensor, "place n *class"]],
    split: Split,
    *,
    kind: str = "logistic",
    generator: torch.Generator,
    **settings: Any,
) -> Float[Tensor, "label point place sequence"]:
    """Fit probes at every point and place for every label, and test them on the sequences held out.

    Args:
        x: the vectors that the probe reads.
        labels: each row's value of each label, −1 where it has none.
        split: which rows to fit on, and which to test on.
        kind: one of `KINDS`.
        generator: for probes whose weights start at random.
        settings: those of the kind (`l2`, `rank`, `hidden`, …).

    Returns:
        The share of each test sequence's rows whose label is decoded (of a set: the whole set); for `regression` what
        each sequence adds to R², so that their mean is R². NaN where there is no label, or it has one value only.

    Raises:
        ValueError: if there is no such kind, it has no such setting, or it cannot decode sets.
    """
    if kind == REGRESSION:
        probe_of_kind(kind, settings)
        return torch.stack([_regressed(x, values, split, **settings) for values in labels])
    problems = columns(labels, split.fit)
    right = fit_and_test(x, problems, split.fit, split.test, kind=kind, generator=generator, **settings).right
    return split.by_sequence(whole(right, problems))


def by_token(
    tokens: Int[Tensor, "place n"] | None, labels: Sequence[Int[Tensor, "place n *class"]], split: Split
) -> Float[Tensor, "label place sequence"]:
    """The share right if the answer is the most frequent class of the current token: all that the token alone tells.

    The answer for a token that no fitted sequence has at this place is the most frequent class of all, and so it is
    throughout where tokens are None.
    """
    problems, n_tokens = columns(labels, split.fit), 0 if tokens is None else int(tokens.amax()) + 1
    right = []
    for column in problems:
        answer = torch.zeros_like(column.y)  # the most frequent class is 0
        for place, (token, y) in enumerate(() if tokens is None else zip(tokens, column.y, strict=True)):
            known = split.fit[y[split.fit] >= 0]
            counts = torch.zeros(n_tokens, int(column.n_classes[place]) or 1)
            counts.index_put_((token[known], y[known]), torch.ones(len(known)), accumulate=True)
            answer[place] = counts.argmax(-1)[token.clamp(min=0)]
        right.append(torch.where(column.y < 0, torch.nan, (answer == column.y).float())[:, split.test])
    return split.by_sequence(whole(torch.stack(right), problems))


def whole(right: Float[Tensor, "column *place test"], problems: Sequence[Column]) -> Float[Tensor, "label *place test"]:
    """Whether all columns of each label are right; NaN at places where none has two classes.

    Where scores tie (`workbench.util.ties`), the probability that all are right, each tie broken on its own.
    """
    by_label = []
    for label in dict.fromkeys(column.label for column in problems):
        members = [i for i, column in enumerate(problems) if column.label == label]
        two_classes = varied([problems[i] for i in members])
        by_label.append(torch.where(two_classes[:, None], right[members].prod(0), torch.nan))
    return torch.stack(by_label)


def varied(problems: Sequence[Column]) -> Bool[Tensor, " place"]:
    """The places at which any of these columns has two classes."""
    return torch.stack([column.n_classes > 1 for column in problems]).any(0)


def _regressed(
    x: Float[Tensor, "point place n d"], values: Int[Tensor, "place n"], split: Split, **settings: Any
) -> Float[Tensor, "point place sequence"]:
    """R² by sequence: 1 − n·(squared error of a sequence) / (sum of squares about the fitted mean), n sequences."""
    if values.ndim > 2:
        raise ValueError("a regression decodes numbers, and this label is a set; take logistic")
    points, places = x.shape[:2]
    cells = x.flatten(0, 1)
    y = values.to(x.dtype).repeat(points, 1)
    there = values.repeat(points, 1) >= 0
    fitted = ridge_numbers(cells[:, split.fit], y[:, None, split.fit], there[:, None, split.fit], **settings)
    predicted = fitted.scores(cells[:, split.test])[:, 0, :, 0]
    count = there[:, split.fit].sum(-1, keepdim=True)
    mean = (y * there)[:, split.fit].sum(-1, keepdim=True) / count

    def squares(about: Tensor) -> Tensor:
        """The sum over each test sequence's rows of the squared distance to some values."""
        error = ((y[:, split.test] - about).square()) * there[:, split.test]
        return torch.zeros(len(y), split.n_test, dtype=x.dtype).index_add_(-1, split.sequence, error)

    labelled = torch.zeros(len(y), split.n_test, dtype=x.dtype)
    labelled.index_add_(-1, split.sequence, there[:, split.test].to(x.dtype))
    total, n = squares(mean).sum(-1, keepdim=True), (labelled > 0).sum(-1, keepdim=True)
    share = 1 - n * squares(predicted) / total
    share = torch.where((labelled > 0) & (total > 0), share, torch.nan)
    return share.unflatten(0, (points, places))
