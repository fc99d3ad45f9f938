"""Description length of a label given the residual (online coding), and the learning curve of its probe.

A label that is easy to read is learnt from few sequences; one that the probe has to compute itself needs many. Voita
and Titov (2020) measure this: the labels are sent in blocks, each encoded by a probe fitted on the blocks before
(§2.2.2), and the bits are counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from workbench.judgement.decodable import CONTROL, SHUFFLED, TRAINED, UNTRAINED
from workbench.measurement import Measurement
from workbench.probes.baselines_and_controls import ProbeData, Source
from workbench.probes.fitting import Predicted, Split, columns, fit_and_test, varied, whole
from workbench.probes.positions import Rule
from workbench.runs import Run
from workbench.tasks.labels import is_labelled
from workbench.util.lookup import lookup
from workbench.util.seeds import generator

FIRST = 16  # sequences in the first block, which is sent with the uniform code; each later block doubles what is known
DOUBT = 0.01  # share of the probability kept for classes that were not seen yet


@dataclass(frozen=True)
class Description:
    """The description length of a label, and its learning curve.

    Attributes:
        bits: bits per label, dims as the probe's, with an interval over sequences.
        curve: share decoded of the test sequences, with dim `fitted`: the number of sequences the probe was fitted on.
        uniform: bits per label of the uniform code, which knows nothing: log₂ of the number of classes.
    """

    bits: Measurement
    curve: Measurement
    uniform: float


Code = tuple[Float[Tensor, "point place sequence"], dict[int, Float[Tensor, "point place test"]], float]


def blocks(n: int) -> list[int]:
    """The ends of the blocks: 16, 32, 64, … and all.

    Raises:
        ValueError: if there are not more sequences than the first block takes.
    """
    if n <= FIRST:
        raise ValueError(f"online coding needs more than {FIRST} sequences to fit on, not {n}")
    ends = [FIRST]
    while ends[-1] < n:
        ends.append(min(n, 2 * ends[-1]))
    return ends


def online_code(
    x: Float[Tensor, "point place n d"],
    y: Int[Tensor, "place n *class"],
    example: Int[Tensor, " n"],
    split: Split,
    *,
    kind: str,
    seed: int,
    **settings: Any,
) -> Code:
    """Encode the labels block by block, each with a probe fitted on the blocks before it.

    Args:
        x, y, example: the vectors that the probe reads; one label, −1 where a row has none; each row's sequence.
        split: the sequences that are coded (those to fit on), and those to test on.
        kind, settings, seed: of the probe; the seed is that of the order of the sequences, too.

    Returns each fitted sequence's bits a label; number fitted -> share decoded of each test sequence; uniform bits.
    """
    names = example[split.fit].unique()
    order = names[torch.randperm(len(names), generator=generator(seed, "blocks"))]
    parts = [y] if y.ndim == 2 else list(y.unbind(-1))  # of a set each of its classes
    n_classes = [max(2, len(part[part >= 0].unique())) for part in parts]
    uniform = sum(math.log2(k) for k in n_classes)
    ends = blocks(len(order))
    # The labels of the first block are sent with the uniform code.
    cost = torch.full(x.shape[:3], uniform)
    curve = {}
    for begin, end in zip(ends, [*ends[1:], len(order)], strict=True):
        known, sent = (torch.isin(example, part).nonzero()[:, 0] for part in (order[:begin], order[begin:end]))
        problems, test = columns([y], known), torch.cat([sent, split.test])
        predicted = fit_and_test(x, problems, known, test, kind=kind, generator=generator(seed, "probe"), **settings)
        cost[..., sent] = _bits(predicted, len(sent), n_classes, is_labelled(y[:, known]).any(1))
        curve[begin] = split.by_sequence(whole(predicted.right[..., len(sent) :], problems))[0]
    there = is_labelled(y) & varied(columns([y], split.fit))[:, None]
    coded = torch.where(there, cost, torch.nan)[..., split.fit]
    coding = Split.of(example, torch.isin(example, order))
    assert torch.equal(coding.test, split.fit)
    return coding.by_sequence(coded), curve, uniform


def _bits(
    predicted: Predicted, n_sent: int, n_classes: Sequence[int], seen: Bool[Tensor, " place"]
) -> Float[Tensor, "point place sent"]:
    """The bits of the labels sent, which are the first rows predicted.

    A little probability is left to every class (`DOUBT`), so that a wrong prediction does not cost without end. At a
    place of which no label is known yet (not `seen`), the code is uniform.
    """
    k = torch.tensor(n_classes)[:, None, None, None]
    mixed = (1 - DOUBT) * predicted.likelihood[..., :n_sent] + DOUBT / k
    mixed = torch.where(seen[None, None, :, None], mixed, 1 / k)
    return -mixed.log2().sum(0)


def description_length(
    run: Run,
    label: str,
    *,
    points: str | Sequence[str] | None = None,
    positions: Rule = "labelled",
    kind: str = "logistic",
    n: int = 1024,
    seed: int = 0,
    step: int | None = None,
    controls: Sequence[str] = (UNTRAINED, SHUFFLED, CONTROL),
    **settings: Any,
) -> Description:
    """Measure how many bits a label costs given the residual, and from how many sequences a probe learns it.

    Args:
        run, label, points, positions, n, seed, step, settings: as for `probes.probe`.
        kind: of probe; its scores have to be logits (`logistic`, `low_rank`, `mlp`).
        controls: of those that fit a probe.

    Raises:
        ValueError: as `probe` does, and if there are too few sequences, or the kind has no logits.
    """
    if kind not in CODES:
        raise ValueError(f"a code needs probabilities, which {kind} has not; there is: {', '.join(CODES)}")
    for control in controls:
        lookup(dict.fromkeys((UNTRAINED, SHUFFLED, CONTROL)), control, "control that fits a probe")
    source = Source.of_run(run, points, n=n, seed=seed, step=step)
    data = ProbeData.of(source, [label], positions, seed)
    codes = {}
    for condition in (TRAINED, *controls):
        x, (y,) = data.data(condition)
        codes[condition] = online_code(x, y, data.sequence, data.split, kind=kind, seed=seed, **settings)
    about = {"model": source.name, "label": label, "positions": positions, "kind": kind, **source.counts, "seed": seed}
    described = _described(codes, source.points, data.where.names, about)
    if not isinstance(points, str):
        return described
    return replace(described, bits=described.bits.select(point=points), curve=described.curve.select(point=points))


def _described(
    codes: Mapping[str, Code], points: Sequence[str], places: Sequence[str], about: dict[str, Any]
) -> Description:
    """The codes of a label under each condition, as means over sequences; a single place is no dim."""
    (_, curve, uniform), label = codes[TRAINED], str(about["label"]).replace("_", " ")
    coords = {"condition": list(codes), "fitted": list(curve), "point": list(points), "place": list(places)}

    def averaged(name: str, values: Tensor, dims: tuple[str, ...], units: str) -> Measurement:
        axes: dict[str, Any] = {**{dim: coords[dim] for dim in dims}, "example": range(values.shape[-1])}
        array = values.double().numpy()
        mean = Measurement(f"{name}: {label}", array, (*dims, "example"), axes, units, about, caption=CAPTION).mean()
        return mean.select(place=places[0]) if len(places) == 1 else mean

    bits = torch.stack([each for each, _, _ in codes.values()])
    shares = torch.stack([torch.stack(list(each.values())) for _, each, _ in codes.values()])
    return Description(
        averaged("Description length", bits, ("condition", "point", "place"), "bits a label"),
        averaged("Learning curve", shares, ("condition", "fitted", "point", "place"), "share"),
        uniform,
    )


CODES = ("logistic", "low_rank", "mlp")
CAPTION = (
    "Description length by online coding: labels are sent in blocks, each encoded by a probe fitted on the blocks "
    "before, the first with the uniform code."
)
