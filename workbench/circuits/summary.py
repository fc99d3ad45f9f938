"""All that is asked of a circuit at once: found on half of the pairs, tested on the other half, beside its control."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from workbench.circuits.circuit import Circuit, greedy_edges
from workbench.circuits.comparison import Comparison, baselines
from workbench.circuits.edges import score_edges
from workbench.circuits.faithfulness import answers_both, cmd, cpr, faithfulness_curve, smallest_faithful
from workbench.circuits.graph import Graph
from workbench.circuits.nodes import node_scores
from workbench.circuits.overlap import overlap_of_halves
from workbench.measurement import Measurement
from workbench.tasks import Task

if TYPE_CHECKING:
    from workbench.models.hooked import AnyHooked

SHOWN = 10  # edges
KEPT = 0.9  # of the metric, by the circuit that is taken where no size is given
SHARES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Summary:
    """A circuit with what speaks for it.

    Attributes:
        comparison: the model on the pairs that it is tested on.
        circuit: its edges, chosen greedily by the scores.
        scores, control: of every edge on the pairs that it is found on; and on pairs that change nothing relevant, None
            where the task has no such pairs.
        nodes, nodes_control: the same of every head and MLP at every position.
        curve, without: faithfulness by size on the other pairs, of the circuits and of what is left without them.
        halves: the overlap of circuits of this size, found on random halves.
    """

    comparison: Comparison
    circuit: Circuit
    scores: Measurement
    control: Measurement | None
    nodes: Measurement
    nodes_control: Measurement | None
    curve: Measurement
    without: Measurement
    halves: Measurement

    def text(self) -> str:
        """What was found, for people."""
        return "\n".join([*self._answers(), "", *self._edges(), "", *self._faithful()])

    def save(self, folder: Path) -> None:
        """Write circuit.json, circuit.dot, and the numbers as Parquet, CSV and JSON."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "circuit.json").write_text(self.circuit.to_json() + "\n", encoding="utf-8")
        (folder / "circuit.dot").write_text(self.circuit.to_dot(), encoding="utf-8")
        for stem, measured in self.measurements().items():
            measured.save(folder, stem)

    def measurements(self) -> dict[str, Measurement]:
        """Every number that was measured, mean over pairs with its interval, by the name of its file."""
        each = {"scores": self.scores, "control": self.control, "nodes": self.nodes}
        each |= {"nodes_control": self.nodes_control, "faithfulness": self.curve, "without": self.without}
        return {stem: measured.mean() for stem, measured in each.items() if measured is not None}

    def largest_of_control(self) -> tuple[str, Measurement] | None:
        """The edge that scores most on pairs that change nothing relevant, and its score; None without such pairs."""
        if self.control is None:
            return None
        mean = self.control.mean()
        name = str(mean.coords["edge"][int(abs(mean.values).argmax())])
        return name, mean.select(edge=name)

    def _answers(self) -> list[str]:
        pairs, both = self.comparison.pairs, answers_both(self.comparison).mean()
        means = baselines(self.comparison).mean()
        clean, corrupted = (with_interval(means.select(run=run)) for run in ("clean", "corrupted"))
        later = ", later answers" if pairs.later else ""
        return [
            f"{len(pairs)} pairs of kind {pairs.kind!r}{later}, {self.comparison.measure.name}",
            f"clean {clean}, corrupted {corrupted}; both answers of a pair right: {with_interval(both)}",
        ]

    def _edges(self) -> list[str]:
        mean = self.scores.mean()
        order = abs(mean.values).argsort()[::-1][:SHOWN]
        names = mean.coords["edge"]
        width = max(len(str(names[at])) for at in order)
        lines = [f"{self.scores.name}, the {len(order)} largest of {len(names)}:"]
        control = None if self.control is None else self.control.mean()
        for at in order:
            beside = "" if control is None else f"   control {with_interval(control.select(edge=names[at]))}"
            lines.append(f"  {names[at]:{width}} {with_interval(mean.select(edge=names[at]))}{beside}")
        largest = self.largest_of_control()
        if largest is not None:
            said = f"{largest[0]} {with_interval(largest[1])}"
            lines.append(f"control, pairs that change nothing relevant: the largest of all edges is {said}")
        return lines

    def _faithful(self) -> list[str]:
        graph, size = self.circuit.graph, len(self.circuit)
        lines = ["faithfulness on the other half of the pairs, and without the circuit:"]
        kept, lost = self.curve.mean(), self.without.mean()
        for share, edges in zip(self.curve.coords["share"], self.curve.settings["edges"], strict=True):
            at = [with_interval(each.select(share=share)) for each in (kept, lost)]
            lines.append(f"  {share:5.0%} ({edges:3} edges)  {at[0]}   without {at[1]}")
        smallest = smallest_faithful(self.comparison, self.curve)
        part = smallest is not None and smallest < 1
        said = f"faithful from {smallest:.0%} of the edges on" if part else "no part of the model is faithful"
        lines.append(
            f"CPR {with_interval(cpr(self.curve).mean())}, CMD {with_interval(cmd(self.curve).mean())}; {said}"
        )
        chance = self.halves.settings["chance"]
        low, high = self.halves.low, self.halves.high
        assert low is not None and high is not None
        lines.append(
            f"the circuit has {size} of {graph.n_edges} edges; circuits of two halves of the pairs share "
            f"{float(self.halves.values):.0%} ({float(low):.0%} to {float(high):.0%}; by chance {chance:.0%})"
        )
        return lines


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
    """
    comparison = Comparison(model, task.minimal_pairs(n, generator, kind=kind, later=later), **about)
    try:
        pairs = task.minimal_pairs(n, generator, kind=comparison.pairs.kind, relevant=False)
    except ValueError as error:
        return comparison, None, str(error)
    return comparison, comparison.of(pairs), ""


def find_circuit(
    comparison: Comparison,
    control: Comparison | None,
    generator: torch.Generator,
    *,
    method: str = "eap_ig",
    size: int | None = None,
    shares: Sequence[float] = SHARES,
    progress: Callable[[str], None] | None = None,
) -> Summary:
    """Score edges on half of the pairs, grow circuits by the scores, and test them on the other half.

    Args:
        comparison: the model, the pairs and the metric.
        control: the same on pairs that change nothing relevant, or None.
        generator: draws halves for the overlap.
        method: a name in `METHODS`; nodes are patched one by one where it is the exact one.
        size: the circuit's edges; by default the fewest of those measured that keep nine tenths of the metric on the
            pairs that it was found on.
        shares: sizes at which faithfulness is measured.
        progress: told what is measured next, and how much of all that is: `edges scored on 32 pairs (1 of 6)`.

    Raises:
        ValueError: if there are too few pairs, no such method or size, or nothing that a circuit could keep.
    """
    found, tested = (comparison.of(half) for half in comparison.pairs.halves())
    step = _steps(progress, 6)
    step(f"edges scored on {len(found.pairs)} pairs")
    graph, scores, exact = Graph.of(comparison.model), score_edges(found, method), method == "path_patching"
    step(f"circuits of all sizes run on {len(tested.pairs)} other pairs")
    curve = faithfulness_curve(tested, scores, shares=shares)
    without = faithfulness_curve(tested, scores, shares=shares, complement=True)
    step("the size chosen")
    if size is None:
        own = faithfulness_curve(found, scores, shares=shares).mean().values
        enough = [share for share, kept in zip(shares, own, strict=True) if kept >= KEPT]
        size = round((enough or [1.0])[0] * graph.n_edges)
    step("heads and MLPs by position")
    nodes = node_scores(found, exact=exact)
    step("control pairs")
    edges_of_control = None if control is None else score_edges(control, method)
    nodes_of_control = None if control is None else node_scores(control, exact=exact)
    step("halves of the pairs compared")
    return Summary(
        comparison=tested,
        circuit=greedy_edges(scores, graph, size).pruned(),
        scores=scores,
        control=edges_of_control,
        nodes=nodes,
        nodes_control=nodes_of_control,
        curve=curve,
        without=without,
        halves=overlap_of_halves(scores, graph, size, generator, choose=greedy_edges),
    )


def _steps(progress: Callable[[str], None] | None, n: int) -> Callable[[str], None]:
    """Tells each step with its number of n."""
    number = count(1)

    def step(what: str) -> None:
        if progress is not None:
            progress(f"{what} ({next(number)} of {n})")

    return step


def with_interval(mean: Measurement) -> str:
    """A mean with its interval: `1.23 (1.10 to 1.36)`."""
    assert mean.low is not None and mean.high is not None
    value, low, high = (float(array) for array in (mean.values, mean.low, mean.high))
    return f"{value:.3g}" if low != low else f"{value:.3g} ({low:.3g} to {high:.3g})"
