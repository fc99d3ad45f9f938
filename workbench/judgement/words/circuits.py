"""What is said of circuits: of one and whether it is faithful, of those of all sizes, of edges and their control."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from workbench.judgement.faithful import (
    ENOUGH,
    FEWEST,
    LEAST,
    MOST,
    Agreement,
    CircuitJudgement,
    Faithful,
    Faithfulness,
)
from workbench.measurement import Measurement
from workbench.measurement.numbers import counted, number, percent, percents, share_with_interval, with_interval

SHOWN = 10  # edges
DIGITS = 6  # of shares: smaller ones are rounding in single precision
Pair = tuple[float, float]  # after a change by hand, and as found
BOUNDS = percents((LEAST, MOST))
CUT_SHORT = (
    "Interrupted: the circuit was found and tested, but not held against control pairs. The same command, not "
    "interrupted, measures these too."
)


def ends(mean: Measurement) -> tuple[float, float, float]:
    """A mean and its interval."""
    assert mean.low is not None and mean.high is not None
    return float(mean.values), float(mean.low), float(mean.high)


def of_mean(mean: Measurement) -> str:
    """A mean with its interval: `1.23 [1.10, 1.36]`."""
    return with_interval(*ends(mean))


def of_share(value: float, low: float, high: float) -> str:
    """A share of the metric with its interval: `94.7% [70.6, 134]`; what is 0 but for rounding is 0."""
    value, low, high = (round(end, DIGITS) for end in (value, low, high))
    return percent(value) if low == high else share_with_interval(value, low, high)


def of_circuit(circuit: Faithfulness, metric: str, n_edges: int) -> str:
    """What a circuit keeps, on how many pairs, and whether that is faithful: one sentence."""
    kept = f"keeps {of_share(circuit.kept, circuit.low, circuit.high)} of the {metric}"
    answers = "" if circuit.answers is None else f" and {counted(circuit.answers, circuit.n)} answers"
    pairs = f"{circuit.n} test pair{'s' * (circuit.n != 1)}"
    return (
        f"The circuit of {circuit.edges} of {n_edges} edges {kept}{answers} on {pairs}: {_of_result(circuit, metric)}."
    )


def _of_result(circuit: Faithfulness, metric: str) -> str:
    """What came of it, with the reason."""
    if circuit.result is Faithful.TOO_FEW:
        needed = f"{FEWEST} are the fewest, and {ENOUGH}" if circuit.n < FEWEST else str(ENOUGH)
        return f"too few pairs to call it faithful ({needed} are needed)"
    if circuit.result is Faithful.NO_ANSWERS:
        return f"nothing to be faithful to, {_of_known(circuit)}"
    below, above = circuit.low < LEAST, circuit.high > MOST
    beyond = f"reaches below {percent(LEAST)}" if below else f"reaches above {percent(MOST)}"
    beyond = f"reaches beyond {BOUNDS} on both sides" if below and above else beyond
    return {
        Faithful.FAITHFUL: f"faithful by the {metric}, within {BOUNDS}",
        Faithful.NOT: f"not faithful, less than {percent(LEAST)}",
        Faithful.OVERSHOOTS: f"not faithful, more than {percent(MOST)}: what it leaves out works against the answer",
        Faithful.NOT_SETTLED: f"not settled, the interval {beyond}",
    }[circuit.result]


def _of_known(circuit: Faithfulness) -> str:
    """How often the whole model has both answers of a pair right."""
    return f"since the whole model has both answers right in {counted(circuit.known, circuit.n)} pairs"


def of_rest(left: tuple[float, float, float], halves: Agreement) -> list[str]:
    """What all other edges keep; and how far circuits of two halves of the pairs agree, beside those of random scores.

    Args:
        left: the share of the metric that is kept without the circuit, with its interval.
        halves: the agreement.
    """
    spread = percents((halves.low, halves.high))
    return [
        f"All other edges alone keep {of_share(*left)}.",
        f"Circuits found in the same way on two halves of the pairs share {percent(halves.overlap)} of their edges "
        f"(95% of {halves.splits} halvings: {spread}); circuits grown so from random scores share "
        f"{percent(halves.chance)} (mean of {halves.draws} draws).",
    ]


def of_largest(scores: Measurement, control: Measurement) -> str:
    """The edge of the largest score, and that of the largest on pairs that change nothing relevant; means of both."""
    (first, own), (second, other) = (_largest(mean) for mean in (scores, control))
    return (
        f"The largest score is {own} {scores.units} of {first}; on pairs that change nothing relevant it is {other}, "
        f"of {second}."
    )


def _largest(mean: Measurement) -> tuple[str, str]:
    name = str(mean.coords["edge"][int(abs(mean.values).argmax())])
    return name.replace("->", " → "), of_mean(mean.select(edge=name))


def of_sizes(
    judgement: CircuitJudgement, without: Measurement, performance: Measurement, distance: Measurement
) -> list[str]:
    """A line for each size: what its circuit keeps, what is left without it, whether it is faithful; then all together.

    Args:
        judgement: of the circuits.
        without: what all other edges keep by size, mean over pairs.
        performance, distance: the area under the curve of faithfulness by size, and that between it and 1, likewise.
    """
    areas = f"under this curve (CPR) is {of_mean(performance)}, between it and 1 (CMD) {of_mean(distance)}"
    rows = [("of all edges", "edges", "kept by the circuit", "by all others", "")]
    for share, circuit in zip(judgement.shares, judgement.sizes, strict=True):
        kept, left = of_share(circuit.kept, circuit.low, circuit.high), of_share(*ends(without.select(share=share)))
        rows.append((percent(share), str(circuit.edges), kept, left, circuit.result.value))
    return [
        f"Circuits by size, as shares of the {judgement.metric}:",
        *in_columns(rows),
        _of_smallest(judgement),
        f"Over the share of edges, the area {areas}.",
    ]


def in_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as indented lines, each column as wide as its longest entry."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _of_smallest(judgement: CircuitJudgement) -> str:
    """From which size on circuits are faithful."""
    smallest, last = judgement.smallest, judgement.sizes[-1]
    if last.result is Faithful.TOO_FEW:
        return f"{last.n} test pairs are too few to call any part of the model faithful ({ENOUGH} are needed)."
    if last.result is Faithful.NO_ANSWERS:
        return f"No circuit has anything to be faithful to, {_of_known(last)}."
    if smallest is None or smallest == 1:
        any_is = any(circuit.result is Faithful.FAITHFUL for circuit in judgement.sizes[:-1])
        return f"No circuit smaller than the whole model is faithful{' as all larger ones are' * any_is}."
    return f"Circuits are faithful from {percent(smallest)} of the edges on."


def of_edges(scores: Measurement, control: Measurement | None) -> list[str]:
    """The edges of the largest scores, each beside its control.

    Args:
        scores, control: of every edge, mean over pairs; and on pairs that change nothing relevant, where there are any.
    """
    order = abs(scores.values).argsort()[::-1][:SHOWN]
    rows = [("edge", f"score, {scores.units}", *(["control"] if control is not None else []))]
    for name in (scores.coords["edge"][at] for at in order):
        each = [mean.select(edge=name) for mean in (scores, control) if mean is not None]
        rows.append((str(name), *map(of_mean, each)))
    lines = [f"{scores.name}, the {len(order)} largest of {len(scores.values)} edges:", *in_columns(rows)]
    if control is not None:
        name, score = _largest(control)
        lines.append(f"Control, pairs that change nothing relevant: the largest of all edges is {name}, {score}.")
    return lines


def of_nodes(nodes: Measurement, control: Measurement | None, why: str) -> str:
    """Which head or MLP does most, where, and what it does on the control's pairs.

    Args:
        nodes, control: of every node and position, mean over pairs; None where there are no control pairs.
        why: the reason then.
    """
    assert nodes.n is not None
    sizes = np.where(nodes.n >= min(FEWEST, nodes.n.max()), abs(nodes.values), -1.0)
    at = np.unravel_index(int(np.nan_to_num(sizes, nan=-1.0).argmax()), sizes.shape)
    where = {dim: nodes.coords[dim][int(index)] for dim, index in zip(nodes.dims, at, strict=True)}
    words = (
        f"{where['node']} does most, at position {where['position']}: {of_mean(nodes.select(**where))} {nodes.units}"
    )
    if control is None:
        return f"{words}. No control: {why}"
    largest = number(float(np.nanmax(abs(control.values))))
    same = control.select(**where) if where["position"] in control.coords["position"] else None
    beside = "" if same is None or np.isnan(same.values) else f" it does {of_mean(same)} there, and"
    return f"{words}; where pairs change nothing relevant{beside} nothing does more than {largest}."


def of_answers(same: int, right: int, n: int) -> str:
    """What a circuit answers by itself."""
    return f"The circuit alone gives the whole model's answer to {counted(same, n)} pairs, and {right} are right."


def of_change(change: str, n: int, same: Pair, right: Pair, kept: Pair, rest: float, metric: str) -> str:
    """What edges that are changed by hand do to a circuit.

    Args:
        change: which edges, in words.
        n: test pairs.
        same, right: the whole model's answers, and the right ones: after the change, and of the circuit as found.
        kept: the share of the metric likewise.
        rest: what all edges keep that the changed circuit lacks.
        metric: its name.
    """
    after, before = map(percent, kept)
    return (
        f"{change}: the whole model's answer to {counted(same[0], n)} pairs (as found {same[1]}), {right[0]} right (as "
        f"found {right[1]}). {after} of the {metric} is kept (as found {before}), and without these edges "
        f"{percent(rest)} is left."
    )


def of_pairs(means: Measurement, known: Faithfulness, about: Mapping[str, object]) -> str:
    """What the pairs are and how the whole model answers them.

    Args:
        means: the metric by `run`, mean over pairs.
        known: of any circuit on these pairs.
        about: the settings of a measurement of pairs: `metric`, `pairs`, `later`.
    """
    later = ", later answers" if about["later"] else ""
    clean, corrupted = (of_mean(means.select(run=run)) for run in ("clean", "corrupted"))
    return (
        f"The whole model on the {known.n} test pairs (kind {about['pairs']}{later}): {about['metric']} {clean} on the "
        f"clean questions and {corrupted} on the corrupted ones; both answers right in {counted(known.known, known.n)}."
    )
