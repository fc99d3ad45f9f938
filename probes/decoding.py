"""Probes fitted on some sequences and tried on others: for every point, place and label, what share is decoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from workbench.probes.fitted import Kind
from workbench.probes.kinds import PROBES, ridge_numbers
from workbench.util.lookup import lookup
from workbench.util.ties import hit

REGRESSION = "regression"  # of the label as a number; every other kind decodes classes
KINDS = (*PROBES, REGRESSION)
AT_ONCE = 1 << 20  # scores made at once: more do not fit a core's cache, and one cell alone may have more
TEST_SHARE = 0.3


@dataclass(frozen=True)
class Split:
    """Which rows a probe is fitted on, and which it is tried on: never two of one sequence on both sides.

    Attributes:
        fit, test: `[n]`, the rows of either side.
        sequence: `[n_test]`, the number of each tested row's sequence among the tested ones.
        n_test: how many sequences those are.
    """

    fit: Int[Tensor, " fit"]
    test: Int[Tensor, " test"]
    sequence: Int[Tensor, " test"]
    n_test: int

    @classmethod
    def by_example(cls, example: Int[Tensor, " n"], generator: torch.Generator) -> Split:
        """Three sequences in ten are tried on.

        Raises:
            ValueError: if there are not two sequences.
        """
        names = example.unique()
        if len(names) < 2:
            raise ValueError(f"a probe is tried on other sequences than it is fitted on: it needs 2, not {len(names)}")
        n_test = max(1, round(TEST_SHARE * len(names)))
        chosen = names[torch.randperm(len(names), generator=generator)[:n_test]]
        return cls.of(example, torch.isin(example, chosen))

    @classmethod
    def of(cls, example: Int[Tensor, " n"], held_out: Bool[Tensor, " n"]) -> Split:
        """The split whose tested rows are those held out."""
        test = held_out.nonzero()[:, 0]
        names, sequence = example[test].unique(return_inverse=True)
        return cls((~held_out).nonzero()[:, 0], test, sequence, len(names))

    def by_sequence(self, values: Float[Tensor, "*lead test"]) -> Float[Tensor, "*lead sequence"]:
        """The mean of each tested sequence's rows, leaving out NaN; NaN where it has none."""
        there = ~values.isnan()
        shape = (*values.shape[:-1], self.n_test)
        total = torch.zeros(shape, dtype=values.dtype).index_add_(-1, self.sequence, values.nan_to_num())
        count = torch.zeros(shape, dtype=values.dtype).index_add_(-1, self.sequence, there.to(values.dtype))
        return total / count  # 0/0 is NaN, as it should be


UNSEEN = 1 << 40  # a class that no fitted row has: no probe says it


@dataclass(frozen=True)
class Column:
    """One thing to tell apart at every place: a label's classes, or whether one class is in its set.

    Attributes:
        label: its number among the labels.
        y: `[place, n]`, each place's classes that are there for fitting, from 0, the commonest first; `UNSEEN` for any
            other, −1 where there is none.
        n_classes: `[place]`, how many are there.
    """

    label: int
    y: Int[Tensor, "place n"]
    n_classes: Int[Tensor, " place"]

    @classmethod
    def of(cls, label: int, values: Int[Tensor, "place n"], fit: Int[Tensor, " fit"]) -> Column:
        """The column of one class a row."""
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
    """What there is to tell apart in these labels; a set has a column for each of its classes."""
    parts = [(i, part) for i, values in enumerate(labels) for part in _parts(values)]
    return [Column.of(i, part, fit) for i, part in parts]


def _parts(values: Int[Tensor, "place n *class"]) -> Sequence[Int[Tensor, "place n"]]:
    return [values] if values.ndim == 2 else values.unbind(-1)


class Tried(NamedTuple):
    """What probes say of rows that they were not fitted on, `[column, point, place, test]` each.

    Attributes:
        right: 1 where the row's class has the largest score, 1/k where k classes share it, else 0; NaN where the row
            has no label.
        likelihood: the share that the softmax of the scores gives the row's class; 0 where no fitted row had it.
    """

    right: Tensor
    likelihood: Tensor


def tried(
    x: Float[Tensor, "point place n d"],
    found: Sequence[Column],
    fit: Int[Tensor, " fit"],
    test: Int[Tensor, " test"],
    *,
    kind: str,
    generator: torch.Generator,
    **settings: Any,
) -> Tried:
    """Fit probes at every point and place for every column on some rows, and try them on others.

    See `decode` for the arguments, and for what is raised.
    """
    make = _probe(kind, settings)
    points, places, _, d = x.shape
    cells = x.flatten(0, 1)
    right, likelihood = (torch.empty(len(found), points * places, len(test)) for _ in range(2))
    sizes = [1 << (int(column.n_classes.amax()) - 1).bit_length() for column in found]
    for size in sorted(set(sizes)):  # of much the same number of classes, so that little is computed in vain
        group = [i for i, own in enumerate(sizes) if own == size]
        y = torch.stack([found[i].y for i in group], 1)  # [place, column, n]
        step = max(1, AT_ONCE // (max(len(fit), len(test)) * max(len(group) * size, d)))
        for start in range(0, len(cells), step):
            part = torch.arange(start, min(len(cells), start + step))
            own = y[part % places]
            fitted = make(cells[part][:, fit], own[..., fit], size, generator=generator, **settings)
            scores, wanted = fitted.scores(cells[part][:, test]), own[..., test]
            said = scores.softmax(-1).gather(-1, wanted.clamp(0, size - 1)[..., None])[..., 0]
            where = (torch.tensor(group)[:, None], part)
            right[where] = torch.where(wanted < 0, torch.nan, hit(scores, wanted)).movedim(0, 1)
            likelihood[where] = torch.where(wanted < size, said, 0.0).float().movedim(0, 1)
    return Tried(right.unflatten(1, (points, places)), likelihood.unflatten(1, (points, places)))


def _probe(kind: str, settings: Mapping[str, Any]) -> Kind:
    """The kind of probe of this name, which takes these settings; else ValueError."""
    make = lookup({**PROBES, REGRESSION: ridge_numbers}, kind, "kind of probe")
    own = [name for name in signature(make).parameters if name not in ("x", "y", "n_classes", "present", "generator")]
    for name in settings:
        if name not in own:
            raise ValueError(f"the probe {kind} has no setting {name!r}; there is: {', '.join(own) or 'none'}")
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
    """Fit probes at every point and place for every label, and try them on the sequences held out.

    Args:
        x: features.
        labels: what each row's label is, −1 where there is none.
        split: which rows are fitted on.
        kind: one of `KINDS`.
        generator: for probes that begin at random.
        settings: those of the kind (`l2`, `rank`, `hidden`, …).

    Returns the share of each tested sequence's rows whose label is decoded (of a set: the whole set); for `regression`
    what each sequence adds to R², so that their mean is R². NaN where there is no label, or nothing to tell apart.

    Raises:
        ValueError: if there is no such kind, it has no such setting, or it cannot decode sets.
    """
    if kind == REGRESSION:
        _probe(kind, settings)
        return torch.stack([_regressed(x, values, split, **settings) for values in labels])
    found = columns(labels, split.fit)
    rows = tried(x, found, split.fit, split.test, kind=kind, generator=generator, **settings).right
    return split.by_sequence(whole(rows, found))


def majority(labels: Sequence[Int[Tensor, "place n *class"]], split: Split) -> Float[Tensor, "label place sequence"]:
    """What the most frequent class of the fitted sequences gets of each tested one; see `decode`."""
    found = columns(labels, split.fit)
    commonest = [torch.where(c.y[:, split.test] < 0, torch.nan, (c.y[:, split.test] == 0).float()) for c in found]
    return split.by_sequence(whole(torch.stack(commonest), found))


def by_token(
    tokens: Int[Tensor, "place n"], labels: Sequence[Int[Tensor, "place n *class"]], split: Split
) -> Float[Tensor, "label place sequence"]:
    """What each token's most frequent class gets: all that one can say who sees the token there, and nothing else.

    A token that no fitted sequence has there is given the most frequent class of all.
    """
    found = columns(labels, split.fit)
    outcome = []
    for column in found:
        said = torch.zeros_like(column.y)  # the commonest class is 0
        for place, (token, y) in enumerate(zip(tokens, column.y, strict=True)):
            known = split.fit[y[split.fit] >= 0]
            counts = torch.zeros(int(tokens.amax()) + 1, int(column.n_classes[place]) or 1)
            counts.index_put_((token[known], y[known]), torch.ones(len(known)), accumulate=True)
            said[place] = counts.argmax(-1)[token.clamp(min=0)]
        outcome.append(torch.where(column.y < 0, torch.nan, (said == column.y).float())[:, split.test])
    return split.by_sequence(whole(torch.stack(outcome), found))


def whole(rows: Float[Tensor, "column *place test"], found: Sequence[Column]) -> Float[Tensor, "label *place test"]:
    """Whether all columns of each label are right; NaN at places where none has two classes to tell apart.

    Where columns tie (`workbench.util.ties`), how likely all are, each tie broken on its own.
    """
    parts = []
    for label in dict.fromkeys(column.label for column in found):
        own = [i for i, column in enumerate(found) if column.label == label]
        told_apart = varied([found[i] for i in own])
        parts.append(torch.where(told_apart[:, None], rows[own].prod(0), torch.nan))
    return torch.stack(parts)


def varied(found: Sequence[Column]) -> Bool[Tensor, " place"]:
    """The places at which any of these columns has two classes to tell apart."""
    return torch.stack([column.n_classes > 1 for column in found]).any(0)


def _regressed(
    x: Float[Tensor, "point place n d"], values: Int[Tensor, "place n"], split: Split, **settings: Any
) -> Float[Tensor, "point place sequence"]:
    """1 − n·(the squared error of a sequence) / (all squares about the fitted mean), over n sequences."""
    if values.ndim > 2:
        raise ValueError("a regression decodes numbers, and this label is a set; take logistic")
    points, places = x.shape[:2]
    cells = x.flatten(0, 1)
    y = values.to(x.dtype).repeat(points, 1)
    there = values.repeat(points, 1) >= 0
    fitted = ridge_numbers(cells[:, split.fit], y[:, None, split.fit], there[:, None, split.fit], **settings)
    said = fitted.scores(cells[:, split.test])[:, 0, :, 0]
    count = there[:, split.fit].sum(-1, keepdim=True)
    mean = (y * there)[:, split.fit].sum(-1, keepdim=True) / count

    def squares(about: Tensor) -> Tensor:
        error = ((y[:, split.test] - about).square()) * there[:, split.test]
        return torch.zeros(len(y), split.n_test, dtype=x.dtype).index_add_(-1, split.sequence, error)

    asked = torch.zeros(len(y), split.n_test, dtype=x.dtype)
    asked.index_add_(-1, split.sequence, there[:, split.test].to(x.dtype))
    total, n = squares(mean).sum(-1, keepdim=True), (asked > 0).sum(-1, keepdim=True)
    share = 1 - n * squares(said) / total
    share = torch.where((asked > 0) & (total > 0), share, torch.nan)
    return share.unflatten(0, (points, places))
