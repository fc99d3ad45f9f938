"""What a figure of many places shows, in a sentence: where it is least and most, what changed, what differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.instruments.attention import attention_graph
from workbench.judgement.extremes import extreme, half_way, largest_difference
from workbench.judgement.words.extremes import at, at_places
from workbench.measurement import Measurement, numbers
from workbench.measurement.numbers import between, number, percent
from workbench.measurement.places import at_point, point_name
from workbench.tasks import Task
from workbench.util.words import capitalised

FEW = 3  # places, of each of which a comparison tells


def extremes(m: Measurement) -> str | None:
    """Where a measure is least and where it is most, as far as that can be told; None where it has no number."""
    least, most = extreme(m, "least"), extreme(m, "most")
    if least is None or most is None:
        return None
    if least.anywhere:
        where = "" if m.dims == () else f" {at_places(least)}" if least.n == 1 else " throughout"
        apart = number(least.value, m.units) != number(most.value, m.units)
        clear = ", and no place is clearly above or below all others" if apart else ""
        return f"{m.name}: {between((least.value, most.value), m.units)}{where}{clear}."
    said = [f"{end.which} {at_places(end)} ({between((end.value, end.reach), m.units)})" for end in (least, most)]
    return f"{m.name} is {' and '.join(said)}."


def at_last(m: Measurement, controls: Mapping[str, Measurement]) -> str:
    """What a measure is at the last layer, and what it is there in each control: the single dim `layer`."""
    last = m.coords["layer"][-1]
    beside = [f"{name} {number(float(control.select(layer=last).values))}" for name, control in controls.items()]
    own = number(float(m.select(layer=last).values), m.units)
    return f"{m.name} is {'; '.join([own, *beside])} {at({'layer': last})}."


def least_of_all(runs: Mapping[str, Measurement]) -> str | None:
    """Which of several runs has the least, and where it may be; None where none has a number."""
    found = {name: least for name, m in runs.items() if (least := extreme(m, "least")) is not None}
    if not found:
        return None
    ordered = sorted(found, key=lambda name: found[name].value)
    name = runs[ordered[0]].name
    if len(found) == 1:
        (run,) = found
        return extremes(runs[run])
    said = [f"{run} {between((found[run].value, found[run].reach), runs[run].units)}" for run in ordered]
    told = "; ".join(f"{value} {at_places(found[run])}" for value, run in zip(said, ordered, strict=True))
    return f"The least {name.lower()} of each, lowest first: {told}."


def widest_spread(each: Measurement) -> str | None:
    """At which place single sequences differ most: the one with the widest range.

    Args:
        each: with the dim `example`.
    """
    axis = each.dims.index("example")
    if np.isnan(each.values).all():
        return None
    rest = tuple(dim for dim in each.dims if dim != "example")
    values = np.where(np.isnan(each.values), np.inf, each.values)
    low, high = values.min(axis), np.where(np.isinf(values), -np.inf, values).max(axis)
    index = np.unravel_index(int((high - low).argmax()), high.shape)
    where = {dim: each.coords[dim][int(i)] for dim, i in zip(rest, index, strict=True)}
    return f"Sequences differ most {at(where)}: {between((low[index], high[index]), each.units)}."


def changed(m: Measurement, dim: str, control: Measurement | None = None) -> str | None:
    """From what to what a measure went along a dim such as `step`, at the place where it changed most.

    Args:
        m: the measure.
        dim: what it is followed along.
        control: the same measure of a control.

    Returns None where there are fewer than two labels on the dim, or no number.
    """
    labels = m.coords[dim]
    if len(labels) < 2:
        return None
    first, last = m.select(**{dim: labels[0]}), m.select(**{dim: labels[-1]})
    change = np.abs(last.values - first.values)
    if np.isnan(change).all():
        return None
    index = np.unravel_index(int(np.nanargmax(change)), change.shape) if change.shape else ()
    where = {d: first.coords[d][int(i)] for d, i in zip(first.dims, index, strict=True)}
    ends = [number(float(end.values[index]), m.units) for end in (first, last)]
    name = " ".join(filter(None, (m.name, at(where))))
    text = f"{name}: {ends[0]} {at({dim: labels[0]})}, {ends[1]} {at({dim: labels[-1]})}"
    if control is not None and control.dims == m.dims:
        ends = [
            number(float(control.select(**{dim: label}).values[index]), m.units) for label in (labels[0], labels[-1])
        ]
        text += f"; its control {ends[0]} and {ends[1]}"
    if (reached := half_way(m, dim, index)) is not None:
        before, there = (
            f"{at({dim: label}).removeprefix('at ')} ({number(float(m.select(**{dim: label}).values[index]), m.units)})"
            for label in reached
        )
        text += f"; half of that change was passed between {before} and {there}"
    return f"{text}."


def differs(difference: Measurement, sides: Sequence[Measurement] = ()) -> str | None:
    """Where B differs from A most and by how much, and at how many places; of few places each.

    Args:
        difference: B less A, with intervals where there are any.
        sides: A and B, of which the sentence then begins with the two numbers.
    """
    most, sure = largest_difference(difference)
    if most is None:
        return None
    values = [float(difference.select(**place).values) for place in most.places]
    ends = " to ".join(
        dict.fromkeys(numbers.difference(end, units=difference.units) for end in (min(values), max(values)))
    )
    largest = f"{at_places(most)} ({ends})" if difference.dims else f"by {ends}"
    if sure is None:
        return f"B less A is largest {largest}; of single inputs there is no interval."
    few = None  # what A and B are at each of few places, and by how much they differ there; the largest first
    if sides and len(difference.dims) == 1 and most.n <= FEW:
        (dim,) = difference.dims
        order = np.argsort(-np.abs(difference.values), kind="stable")
        places = [{dim: difference.coords[dim][int(i)]} for i in order if not np.isnan(difference.values[i])]
        few = capitalised("; ".join(f"{at(place)}: {both_at(difference, sides, place)}" for place in places))
    if not sure:
        if few is not None:
            return f"{few}. No such difference can be told from none."
        return f"No difference between A and B can be told from none: {ends if most.anywhere else largest}."
    if most.n == 1:
        return f"B differs from A {largest}."
    text = f"B differs from A at {sure} of {most.n} places, by intervals that exclude 0"
    if few is not None:
        return f"{few}."
    if len(most.places) == 1 and sides:
        return f"{capitalised(at_places(most))}: {both_at(difference, sides, most.places[0])}. {text}."
    return f"{text}: by {ends}." if most.anywhere else f"{text}; most {largest}."


def both_at(difference: Measurement, sides: Sequence[Measurement], place: Mapping[str, Any]) -> str:
    """What A and B are at a place, and by how much they differ there."""
    first, second = (numbers.number(float(side.select(**place).values), side.units) for side in sides)
    own = difference.select(**place)
    return f"{first} in A, {second} in B, {numbers.difference(float(own.values), *own.ends, difference.units)}"


def each(what: str, numbers: Mapping[str, Measurement]) -> str | None:
    """Several single numbers by name.

    Args:
        what: they are all of.
        numbers: name -> a measurement without dims.
    """
    said = [f"{name} {number(float(m.values), m.units)}" for name, m in numbers.items()]
    return f"{what}: {'; '.join(said)}." if said else None


def on_ancestors(matrices: Mapping[str, Measurement], gold: Sequence[tuple[int, int, int]]) -> str | None:
    """How much of a query's row lies on its true ancestors, on average over queries that have one.

    Args:
        matrices: in words -> a matrix of a head: dims `query`, `key`.
        gold: the task's edges as (hop, query, key).

    Returns None where no query has an ancestor.
    """
    edges = {(query, key) for _, query, key in gold}
    queries = {query for query, _ in edges}
    if not queries:
        return None
    shares = {
        name: sum(float(m.values[query, key]) for query, key in edges) / len(queries) for name, m in matrices.items()
    }
    said = "; ".join(f"{name} {percent(share)}" for name, share in shares.items())
    return f"On the task's true edges, of an average query's row: {said}."


def by_hop(matrices: Measurement, gold: Sequence[tuple[int, int, int]]) -> str | None:
    """How much each power of a pattern lays on the true ancestors as many hops up.

    Args:
        matrices: `attention_graph.matrices(…)`: dims `matrix`, `query`, `key`.
        gold: the task's edges as (hop, query, key).

    Returns None where none of these hops has an edge.
    """
    said = []
    for matrix in matrices.coords["matrix"]:
        hop = attention_graph.hop_of(matrix)
        edges = [(query, key) for h, query, key in gold if h == hop]
        if edges:
            values = matrices.select(matrix=matrix).values
            said.append(f"hop {hop}: {percent(float(np.mean([values[query, key] for query, key in edges])))}")
    return f"On the task's true edges of as many hops, on average: {'; '.join(said)}." if said else None


def last_values(curves: Mapping[str, Measurement]) -> str | None:
    """The last value of each of several curves, the highest first.

    Args:
        curves: run -> a curve over `step`.
    """
    last = {name: curve.select(step=curve.coords["step"][-1]) for name, curve in curves.items() if len(curve.values)}
    ordered = sorted(last.items(), key=lambda pair: -float(pair[1].values))
    return each(f"{ordered[0][1].name} at last", dict(ordered)) if last else None


def leads(path: Measurement) -> str | None:
    """Which token ends on top in each basis, and from which point on it is there.

    Args:
        path: `trajectory(…)` or `ranks(…)`: dims `basis`, `point`, `token`.
    """
    said = []
    for basis in path.coords["basis"]:
        values = path.select(basis=basis).values
        if np.isnan(values).any() or values.shape[-1] == 0:
            continue
        top = values.argmin(-1) if path.units == "rank" else values.argmax(-1)
        since = len(top) - int(np.argmin((top == top[-1])[::-1])) if (top != top[-1]).any() else 0
        token, point = path.coords["token"][int(top[-1])], path.coords["point"][since]
        said.append(
            f"in the {basis} basis {token} ends ahead of the tokens drawn, and is so from {point_name(point)} on"
        )
    return f"{capitalised('; '.join(said))}." if said else None


def tops(table: Measurement, point: str, position: int) -> str | None:
    """The top token of one cell on each basis.

    Args:
        table: `projection.top_tokens(…)`: dims `basis`, `point`, `position`, `rank`.
        point: of the cell.
        position: its index.
    """
    cell = table.select(point=point, position=table.coords["position"][position], rank=1)
    if cell.labels is None:
        return None
    said = [f"{word} ({basis})" for word, basis in zip(cell.labels.tolist(), cell.coords["basis"], strict=True)]
    return f"On top {at_point(point)}: {', '.join(said)}."


def named_from(table: Measurement, asked: Sequence[int]) -> str | None:
    """From which point on half of the answers or more are the token that the model says, and stay it.

    Args:
        table: `logit_lens.lens_tokens(…)`: dims `point`, `position`, the tokens in its labels.
        asked: the positions of the answers; of none there is nothing to say.
    """
    assert table.labels is not None
    shown = [position for position in asked if position < len(table.coords["position"])]
    if not shown:
        return None
    same = table.labels[:, shown] == table.labels[-1, shown]
    stays = np.logical_and.accumulate(same[::-1])[::-1].sum(-1)
    first = int(np.argmax(stays * 2 >= len(shown)))
    point = table.coords["point"][first]
    many = f" at {stays[first]} of {len(shown)} answers" if len(shown) > 1 else ""
    return f"The token that the model answers is on top {at_point(point)}, and stays there{many}."


def swapped(m: Measurement) -> str:
    """How many swaps make the target give the source's answer, beside the target untouched.

    Args:
        m: `interventions.swap(…)`.
    """
    answer, own = m.settings["answer"], m.select(run="swapped")
    assert own.labels is not None
    gives = np.argwhere(own.labels == answer)
    here = float(m.select(run="untouched").values.flat[0])
    if not len(gives):
        return f"No swap makes the target say {answer}, the source's answer (untouched: {percent(here)})."
    source, into = gives[0]
    first = f"is taken {at_point(m.coords['from'][source])} and put in {at_point(m.coords['into'][into])}"
    says = f"{len(gives)} of {own.values.size} swaps make the target say {answer}, the source's answer"
    return f"{says} (untouched: {percent(here)}). In the first it {first}."


def answered(right: Sequence[bool | None], task: Task) -> str | None:
    """How many answers to one input are right; of running text, how many next tokens are predicted.

    Args:
        right: at each position; None where no answer is asked for.
        task: which says whether anything is asked.
    """
    asked = [answer for answer in right if answer is not None]
    if not asked:
        return None
    if task.running_text:
        return f"At {sum(asked)} of {len(asked)} positions the token that follows is the one the model holds likeliest."
    if len(asked) == 1:
        return f"The answer to this input is {'right' if asked[0] else 'wrong'}."
    return f"{sum(asked)} of {len(asked)} answers to this input are right."
