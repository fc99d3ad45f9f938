"""All that is asked of a circuit at once: found on half of the pairs, tested on the other half, beside its control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from workbench.circuits.circuit import Circuit, greedy_edges
from workbench.circuits.comparison import Comparison, baselines
from workbench.circuits.edges import score_edges
from workbench.circuits.faithfulness import answers_both, cmd, cpr, faithfulness_curve, smallest_faithful
from workbench.circuits.graph import Graph
from workbench.circuits.overlap import overlap_of_halves
from workbench.measurement import Measurement

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
        curve, without: faithfulness by size on the other pairs, of the circuits and of what is left without them.
        halves: the overlap of circuits of this size, found on random halves.
    """

    comparison: Comparison
    circuit: Circuit
    scores: Measurement
    control: Measurement | None
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
        means = {"scores": self.scores, "control": self.control, "faithfulness": self.curve, "without": self.without}
        for stem, measured in means.items():
            if measured is not None:
                measured.mean().save(folder, stem)

    def _answers(self) -> list[str]:
        pairs, both = self.comparison.pairs, answers_both(self.comparison).mean()
        means = baselines(self.comparison).mean()
        clean, corrupted = (_with_interval(means.select(run=run)) for run in ("clean", "corrupted"))
        return [
            f"{len(pairs)} pairs of kind {pairs.kind!r}, {self.comparison.measure.name}",
            f"clean {clean}, corrupted {corrupted}; both answers of a pair right: {_with_interval(both)}",
        ]

    def _edges(self) -> list[str]:
        mean = self.scores.mean()
        order = abs(mean.values).argsort()[::-1][:SHOWN]
        names = mean.coords["edge"]
        width = max(len(str(names[at])) for at in order)
        lines = [f"{self.scores.name}, the {len(order)} largest of {len(names)}:"]
        lines += [f"  {names[at]:{width}} {_with_interval(mean.select(edge=names[at]))}" for at in order]
        if self.control is not None:
            largest = abs(self.control.mean().values).max()
            lines.append(f"largest where the pairs change nothing relevant: {largest:.3g}")
        return lines

    def _faithful(self) -> list[str]:
        graph, size = self.circuit.graph, len(self.circuit)
        lines = ["faithfulness on the other half of the pairs, and without the circuit:"]
        kept, lost = self.curve.mean(), self.without.mean()
        for share, edges in zip(self.curve.coords["share"], self.curve.settings["edges"], strict=True):
            at = [_with_interval(each.select(share=share)) for each in (kept, lost)]
            lines.append(f"  {share:5.0%} ({edges:3} edges)  {at[0]}   without {at[1]}")
        smallest = smallest_faithful(self.comparison, self.curve)
        part = smallest is not None and smallest < 1
        said = f"faithful from {smallest:.0%} of the edges on" if part else "no part of the model is faithful"
        lines.append(
            f"CPR {_with_interval(cpr(self.curve).mean())}, CMD {_with_interval(cmd(self.curve).mean())}; {said}"
        )
        chance = self.halves.settings["chance"]
        low, high = self.halves.low, self.halves.high
        assert low is not None and high is not None
        lines.append(
            f"the circuit has {size} of {graph.n_edges} edges; circuits of two halves of the pairs share "
            f"{float(self.halves.values):.0%} ({float(low):.0%} to {float(high):.0%}; by chance {chance:.0%})"
        )
        return lines


def find_circuit(
    comparison: Comparison,
    control: Comparison | None,
    generator: torch.Generator,
    *,
    method: str = "eap_ig",
    size: int | None = None,
    shares: Sequence[float] = SHARES,
) -> Summary:
    """Score edges on half of the pairs, grow circuits by the scores, and test them on the other half.

    Args:
        comparison: the model, the pairs and the metric.
        control: the same on pairs that change nothing relevant, or None.
        generator: draws halves for the overlap.
        method: a name in `METHODS`.
        size: the circuit's edges; by default the fewest of those measured that keep nine tenths of the metric on the
            pairs that it was found on.
        shares: sizes at which faithfulness is measured.

    Raises:
        ValueError: if there are too few pairs, no such method or size, or nothing that a circuit could keep.
    """
    found, tested = (comparison.of(half) for half in comparison.pairs.halves())
    graph, scores = Graph.of(comparison.model), score_edges(found, method)
    if size is None:
        own = faithfulness_curve(found, scores, shares=shares).mean().values
        enough = [share for share, kept in zip(shares, own, strict=True) if kept >= KEPT]
        size = round((enough or [1.0])[0] * graph.n_edges)
    return Summary(
        comparison=tested,
        circuit=greedy_edges(scores, graph, size).pruned(),
        scores=scores,
        control=None if control is None else score_edges(control, method),
        curve=faithfulness_curve(tested, scores, shares=shares),
        without=faithfulness_curve(tested, scores, shares=shares, complement=True),
        halves=overlap_of_halves(scores, graph, size, generator, choose=greedy_edges),
    )


def _with_interval(mean: Measurement) -> str:
    """A mean with its interval: `1.23 (1.10 to 1.36)`."""
    assert mean.low is not None and mean.high is not None
    value, low, high = (float(array) for array in (mean.values, mean.low, mean.high))
    return f"{value:.3g}" if low != low else f"{value:.3g} ({low:.3g} to {high:.3g})"
