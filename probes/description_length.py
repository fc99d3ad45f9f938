"""How much a probe has to be told before it decodes: description length by online coding, and the learning curve.

A label that a representation holds plainly is learnt from few sequences; one that a strong enough probe digs out of
everything needs many. Voita and Titov (2020) measure it: the labels are sent in blocks, each with the code of a probe
fitted on the blocks before (§2.2.2), and the bits are counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from workbench.measurement import Measurement
from workbench.probes.conditions import CONTROL, SHUFFLED, TRAINED, UNTRAINED, Asked, Source
from workbench.probes.decoding import Split, columns, tried, varied, whole
from workbench.probes.labels import is_labelled
from workbench.probes.positions import Rule
from workbench.runs import Run
from workbench.util.lookup import lookup
from workbench.util.seeds import generator

FIRST = 16  # sequences in the first block, whose labels are sent as they are; each later block doubles what is known
DOUBT = 0.01  # share of the code kept for classes that were not seen yet


@dataclass(frozen=True)
class Description:
    """What labels cost, and how fast they are learnt.

    Attributes:
        bits: bits a label, dims as the probe's, an interval over sequences.
        curve: share decoded of the sequences held out, with dim `fitted`: on how many sequences the probe was fitted.
        uniform: bits a label if nothing is known: log₂ of the number of classes.
    """

    bits: Measurement
    curve: Measurement
    uniform: float


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
) -> tuple[Float[Tensor, "point place sequence"], dict[int, Float[Tensor, "point place test"]], float]:
    """Bits a label of each fitted sequence, and what is decoded of the tested ones after each block.

    Args:
        x, y: features and one label.
        example: which sequence each row is of.
        split: the sequences that are coded (those to fit on), and those that are tried on.
        kind, settings: of the probe.
        seed: of the order of the blocks, and of the probe.

    Returns bits `[point, place, sequence]`, by number of fitted sequences the share decoded, and the uniform code.
    """
    names = example[split.fit].unique()
    order = names[torch.randperm(len(names), generator=generator(seed, "blocks"))]
    parts = [y] if y.ndim == 2 else list(y.unbind(-1))
    classes = [max(2, int(part[part >= 0].unique().numel())) for part in parts]
    uniform = sum(math.log2(k) for k in classes)
    ends = blocks(len(order))
    cost = torch.full((*x.shape[:2], x.shape[2]), uniform)
    curve = {}
    for begin, end in zip(ends, [*ends[1:], None], strict=True):
        known = torch.isin(example, order[:begin]).nonzero()[:, 0]
        sent = torch.isin(example, order[begin:end] if end else order[:0]).nonzero()[:, 0]
        found = columns([y], known)
        outcome = tried(
            x, found, known, torch.cat([sent, split.test]), kind=kind, generator=generator(seed, "probe"), **settings
        )
        share = torch.tensor(classes)[:, None, None, None]
        mixed = (1 - DOUBT) * outcome.likelihood[..., : len(sent)] + DOUBT / share
        seen = is_labelled(y[:, known]).any(1)
        mixed = torch.where(seen[None, None, :, None], mixed, 1 / share)  # nothing was told of this place yet
        cost[..., sent] = -mixed.log2().sum(0)
        curve[begin] = split.by_sequence(whole(outcome.right[..., len(sent) :], found))[0]
    there = is_labelled(y) & varied(columns([y], split.fit))[:, None]
    coded = torch.where(there, cost, torch.nan)[..., split.fit]
    coding = Split.of(example, torch.isin(example, order))
    assert torch.equal(coding.test, split.fit)
    return coding.by_sequence(coded), curve, uniform


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
    """How many bits a label costs who has the residual, and from how many sequences a probe learns it.

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
    found = Asked.of(source, [label], positions, seed)
    costs, curves, uniforms = [], [], []
    for condition in (TRAINED, *controls):
        x, (y,) = found.data(condition)
        cost, curve, uniform = online_code(x, y, found.sequence, found.split, kind=kind, seed=seed, **settings)
        costs.append(cost)
        uniforms.append(uniform)
        curves.append(torch.stack(list(curve.values())))
    coords = {"condition": [TRAINED, *controls], "point": list(source.points), "place": list(found.where.names)}
    about = {"model": source.name, "label": label, "positions": positions, "kind": kind, **source.counts, "seed": seed}

    def measured(name: str, found_: Tensor, dims: tuple[str, ...], units: str, more: dict[str, Any]) -> Measurement:
        values = found_.double().numpy()
        axes = {**coords, **more, "example": range(values.shape[-1])}
        kept = Measurement(f"{name}: {label.replace('_', ' ')}", values, dims, axes, units, about, caption=CAPTION)
        kept = kept.mean("example")
        kept = kept.select(place=found.where.names[0]) if len(found.where.names) == 1 else kept
        return kept.select(point=points) if isinstance(points, str) else kept

    dims = ("condition", "point", "place", "example")
    bits = measured("Description length", torch.stack(costs), dims, "bits a label", {})
    shares = torch.stack(curves)
    curve_dims = ("condition", "fitted", "point", "place", "example")
    fitted = {"fitted": list(curve)}
    return Description(bits, measured("Learning curve", shares, curve_dims, "share", fitted), uniforms[0])


CODES = ("logistic", "low_rank", "mlp")
CAPTION = (
    "Online coding: labels are sent in blocks, each with a probe fitted on the blocks before, the first as they are. "
    "n counts sequences."
)
