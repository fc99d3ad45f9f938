"""All that is asked of a circuit at once: found on half of the pairs, tested on the other half, beside its control."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import torch

from workbench.circuits.circuit import Circuit, greedy_edges
from workbench.circuits.comparison import Comparison, baselines
from workbench.circuits.edges import score_edges
from workbench.circuits.faithfulness import (
    agreement,
    areas,
    faithfulness,
    faithfulness_curve,
    judge_circuit,
    judge_sizes,
)
from workbench.circuits.graph import Graph
from workbench.circuits.nodes import node_scores
from workbench.circuits.overlap import overlap_of_halves
from workbench.judgement.faithful import LEAST, MOST, CircuitJudgement, first_faithful, judge_faithful
from workbench.judgement.words import circuits as words
from workbench.measurement import Measurement
from workbench.models import AnyHooked
from workbench.tasks import Task
from workbench.util.files import write_atomically
from workbench.util.progress import done_whole, interrupted

SHARES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)
FEWEST = 4  # pairs: two to find a circuit on, and two to test it on, so that there are intervals
Step = Callable[[str], None]


@dataclass(frozen=True)
class Summary:
    """A circuit with what speaks for it.

    Attributes:
        comparison: the model on the pairs that it is tested on.
        circuit: its edges, chosen greedily by the scores, without those that lie on no path.
        scores, control: of every edge on the pairs that it is found on; and on pairs that change nothing relevant, None
            where the task has no such pairs.
        nodes, nodes_control: the same of every head and MLP at every position; None where Ctrl-C has left them out.
        curve, without: faithfulness by size on the other pairs, of the circuits and of what is left without them.
        halves: the overlap of circuits grown to as many edges, found on random halves.
        judgement: whether the circuit, and those of the other sizes, are faithful.
        left_out: whether Ctrl-C has left out the control pairs that there are, and perhaps nodes.
    """

    comparison: Comparison
    circuit: Circuit
    scores: Measurement
    curve: Measurement
    without: Measurement
    halves: Measurement
    judgement: CircuitJudgement
    nodes: Measurement | None = None
    control: Measurement | None = None
    nodes_control: Measurement | None = None
    left_out: bool = False

    def text(self) -> str:
        """What was found, for people: the circuit and whether it is faithful first."""
        judged, control = self.judgement, None if self.control is None else self.control.mean()
        first = words.of_circuit(judged.drawn, judged.metric, judged.n_edges)
        pairs = words.of_pairs(baselines(self.comparison).mean(), judged.drawn, self.curve.settings)
        sizes = words.of_sizes(judged, self.without.mean(), *(area.mean() for area in areas(self.curve)))
        edges = words.of_edges(self.scores.mean(), control)
        cut_short = ["", words.CUT_SHORT] if self.left_out else []
        rest = words.of_rest(judged.left, judged.halves)
        return "\n".join([first, *rest, pairs, "", *sizes, "", *edges, *cut_short])

    def save(self, folder: Path) -> None:
        """Write circuit.json, circuit.dot, judgement.json, and the numbers as Parquet, CSV and JSON."""
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / "circuit.json", f"{self.circuit.to_json()}\n".encode())
        write_atomically(folder / "circuit.dot", self.circuit.to_dot().encode())
        write_atomically(folder / "judgement.json", f"{self.judgement.model_dump_json(indent=1)}\n".encode())
        for stem, measured in self.measurements().items():
            measured.save(folder, stem)

    def measurements(self) -> dict[str, Measurement]:
        """Every number that was measured, mean over pairs with its interval, by the name of its file."""
        each = {"scores": self.scores, "control": self.control, "nodes": self.nodes}
        each |= {"nodes_control": self.nodes_control, "faithfulness": self.curve, "without": self.without}
        return {stem: measured.mean() for stem, measured in each.items() if measured is not None}


def on_pairs(
    model: AnyHooked,
    task: Task,
    n: int,
    generator: torch.Generator,
    *,
    kind: str | None = None,
    later: bool = False,
    **about: Any,
) -> tuple[Comparison, Comparison | None, str]:
    """A model on n pairs, and on as many that change nothing relevant; None where there are none, and the reason.

    Args:
        model, task: the hooked model, and what the pairs are drawn from.
        n, generator, kind, later: as for `task.minimal_pairs`.
        about: metric, name and more of `Comparison`.

    Raises:
        ValueError: if n is below `FEWEST`, or as `task.minimal_pairs`.
    """
    check_enough(n)
    comparison = Comparison(model, task.minimal_pairs(n, generator, kind=kind, later=later), **about)
    try:
        pairs = task.minimal_pairs(n, generator, kind=comparison.pairs.kind, relevant=False)
    except ValueError as error:
        return comparison, None, str(error)
    return comparison, comparison.of(pairs), ""


def check_enough(n: int) -> None:
    """Raise ValueError if there are too few pairs to find a circuit on half of them and test it on the other half."""
    if n < FEWEST:
        raise ValueError(
            f"{FEWEST} pairs or more are needed (--n), half to choose parts by and half to test them, not {n}"
        )


def find_circuit(
    comparison: Comparison,
    control: Comparison | None,
    generator: torch.Generator,
    *,
    method: str = "eap_ig",
    size: int | None = None,
    shares: Sequence[float] = SHARES,
    progress: Step | None = None,
) -> Summary:
    """Score edges on half of the pairs, grow circuits by the scores, and test and judge them on the other half.

    Args:
        comparison: the model, the pairs and the metric.
        control: the same on pairs that change nothing relevant, or None.
        generator: draws halves for the overlap.
        method: a name in `METHODS`; nodes are patched one by one where it is the exact one.
        size: edges that the circuit is grown to; by default the fewest of those measured from which on all keep 90 to
            110 % of the metric on the pairs that it was found on, with their whole interval if these are 29 or more.
        shares: sizes at which faithfulness is measured.
        progress: told what is measured next, and how much of all that is: `edges scored on 32 pairs (1 of 6)`.

    Ctrl-C keeps a circuit that is tested, without what is measured after it: nodes, and control pairs.

    Raises:
        ValueError: if there are too few pairs, no such method or size, or nothing that a circuit could keep.
    """
    check_enough(len(comparison.pairs))
    found, tested = (comparison.of(half) for half in comparison.pairs.halves())
    step, exact = _steps(progress, 5 if control is None else 6), method == "path_patching"
    measured: dict[str, Any] = {}

    def test() -> None:
        measured.update(_tested(found, tested, generator, method, size, shares, step))

    def by_position() -> None:
        step("heads and MLPs by position")
        measured["nodes"] = node_scores(found, exact=exact)

    def beside() -> None:
        if control is not None:
            step("control pairs")
            measured["control"] = score_edges(control, method)
            measured["nodes_control"] = node_scores(control, exact=exact)

    for piece in (test, by_position, beside):  # a circuit that is tested is of use without the rest
        if not interrupted():
            with done_whole():
                piece()
    return Summary(tested, **measured, left_out=interrupted() and control is not None and "control" not in measured)


def _tested(
    found: Comparison,
    tested: Comparison,
    generator: torch.Generator,
    method: str,
    size: int | None,
    shares: Sequence[float],
    step: Callable[[str], None],
) -> dict[str, Any]:
    """A circuit grown on the pairs `found`, with the curves, the overlap and the judgement of those `tested`."""
    step(f"edges scored on {len(found.pairs)} pairs")
    scores, graph = score_edges(found, method), Graph.of(found.model)
    step("the size chosen")
    chosen = _size(faithfulness_curve(found, scores, shares=shares), graph) if size is None else size
    circuit = greedy_edges(scores, graph, chosen).pruned()
    step(f"circuits of all sizes run on {len(tested.pairs)} other pairs")
    curve, without = (faithfulness_curve(tested, scores, shares=shares, complement=rest) for rest in (False, True))
    step("halves of the pairs compared")
    halves = overlap_of_halves(scores, graph, chosen, generator, choose=greedy_edges)
    left = faithfulness(tested, [circuit.complement()]).mean()
    assert left.low is not None and left.high is not None
    judgement = CircuitJudgement(
        metric=tested.measure.name,
        n_edges=graph.n_edges,
        drawn=judge_circuit(tested, circuit),
        left=(float(left.values[0]), float(left.low[0]), float(left.high[0])),
        shares=tuple(curve.coords["share"]),
        sizes=judge_sizes(tested, curve),
        halves=agreement(halves),
    )
    named = {"circuit": circuit, "scores": scores, "curve": curve, "without": without}
    return named | {"halves": halves, "judgement": judgement}


def _size(curve: Measurement, graph: Graph) -> int:
    """The fewest edges of a curve from which on circuits are faithful, whatever the model knows; all where none is.

    Where that is the whole model alone, as of few pairs, those from which on the mean is within.
    """
    mean, n, shares = curve.mean(), curve.values.shape[curve.axis("example")], curve.coords["share"]
    first = first_faithful([judge_faithful(0, mean.select(share=share), known=n) for share in shares])
    share = 1.0 if first is None else shares[first]
    if share == 1:
        kept = zip(shares, mean.values, strict=True)
        within = [size for size, _ in takewhile(lambda size: LEAST <= size[1] <= MOST, reversed([*kept]))]
        share = (within or [1.0])[-1]
    return round(share * graph.n_edges)


def _steps(progress: Step | None, n: int) -> Step:
    """Tells each step with its number of n."""
    number = count(1)

    def step(what: str) -> None:
        if progress is not None:
            progress(f"{what} ({next(number)} of {n})")

    return step
