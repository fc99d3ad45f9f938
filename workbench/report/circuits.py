"""The report's section on the circuit of a run: which edges carry the answer, beside control pairs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from workbench import figures
from workbench.circuits.summary import Summary, find_circuit, on_pairs
from workbench.inspection import Inspected
from workbench.report.sections import Section
from workbench.util.seeds import generator

PAIRS = 64
SHOWS = (
    "Which edges between input, heads, MLPs and logits carry the answer, scored on half of {n} pairs of questions that "
    "differ in one thing and tested on the other half. Faithfulness is how much of the metric is kept when all other "
    "edges carry what the other question wrote: a circuit is faithful where that is 90 to 110 % with its whole "
    "interval. Edges that stand in for each other score little; a small circuit that is faithful says where the answer "
    "is made, and not how."
)


@dataclass(frozen=True)
class RunCircuit:
    """The circuit of a run, or why there is none.

    Attributes:
        name: the run's.
        summary: the circuit with what speaks for it; None where none can be found.
        why: the reason then.
    """

    name: str
    summary: Summary | None
    why: str = ""

    def save(self, folder: Path) -> None:
        """Write the circuit as JSON, Graphviz and SVG, and its numbers; nothing where there is none."""
        if self.summary is not None:
            self.summary.save(folder)
            drawn = figures.circuit(self.summary.circuit, self.summary.scores)
            (folder / "circuit.svg").write_text(drawn.svg(), encoding="utf-8")


def run_circuit(one: Inspected, seed: int) -> RunCircuit:
    """Find the circuit of a run on pairs of its task's first kind."""
    draws = generator(seed, "circuit")
    try:
        comparison, control, _ = on_pairs(one.run.hooked(), one.run.task(), PAIRS, draws, name=one.name)
        return RunCircuit(one.name, find_circuit(comparison, control, draws))
    except ValueError as error:
        return RunCircuit(one.name, None, str(error))


def circuit_section(one: RunCircuit) -> Section:
    """What was found, in words; the circuit, what circuits keep by size, and heads and MLPs by position."""
    title = f"Circuit: {one.name}"
    if one.summary is None:
        return Section(title, f"No circuit can be found: {one.why}", [])
    found = one.summary
    drawn = [figures.faithfulness(found.curve, found.without), figures.node_scores(found.nodes, found.nodes_control)]
    text = f"{SHOWS.format(n=PAIRS)}\n\n{found.text()}"
    return Section(title, text, drawn, figures.circuit(found.circuit, found.scores))
