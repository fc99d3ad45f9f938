"""The report's section on the circuit of a run: which edges carry the answer, beside control pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import pandas as pd

from workbench import figures
from workbench.circuits import Comparison
from workbench.circuits.circuit import to_mib, to_neuronpedia
from workbench.circuits.summary import Summary, find_circuit, on_pairs
from workbench.inspection import Inspected
from workbench.report.pairs import PAIRS, Answers, Words, open_pairs
from workbench.report.sections import Section
from workbench.util.lookup import lookup
from workbench.util.seeds import generator
from workbench.util.settings import as_json
from workbench.util.words import as_it_says

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
        answers: how the model answers the prompts, of a model of Hugging Face.
        prompt: the words of the first clean prompt.
    """

    name: str
    summary: Summary | None
    why: str = ""
    answers: Answers | None = None
    prompt: tuple[str, ...] = ()
    __repr__ = as_it_says

    @property
    def found(self) -> Summary:
        """The circuit. Raises ValueError with the reason where there is none."""
        if self.summary is None:
            raise ValueError(f"{self.name} has no circuit: {self.why}")
        return self.summary

    @property
    def says(self) -> str:
        """What was found, or why nothing was."""
        said = f"No circuit can be found: {self.why}" if self.summary is None else self.summary.text()
        return said if self.answers is None else f"{self.answers.says}\n\n{said}"

    def figure(self, name: str = "circuit") -> Any:
        """The `circuit` as a graph; `faithfulness`, what circuits keep by size; or `nodes`, by position."""
        found = self.found
        drawn: dict[str, Callable[[], Any]] = {
            "circuit": lambda: figures.circuit(found.circuit, found.scores),
            "faithfulness": lambda: figures.faithfulness(found.curve, found.without),
        }
        if (nodes := found.nodes) is not None:
            drawn["nodes"] = lambda: figures.node_scores(nodes, found.nodes_control)
        return lookup(drawn, name, "figure of a circuit")()

    def table(self) -> pd.DataFrame:
        """The score of every edge, its interval, and whether it is in the circuit."""
        scores = self.found.scores.mean().frame()
        return scores.assign(in_circuit=scores["edge"].isin(self.found.circuit.names))

    def json(self) -> str:
        """The circuit, its judgement and every number."""
        found = self.found
        numbers = {name: measured.to_dict() for name, measured in found.measurements().items()}
        judgement = found.judgement.model_dump(mode="json")
        edges = {name: found.circuit.scores.get(name) for name in found.circuit.names}
        answers = {} if self.answers is None else {"answers": asdict(self.answers)}
        about = {"format": "circuit/1", "run": self.name, **answers}
        return as_json({**about, "edges": edges, "judgement": judgement, "measurements": numbers})

    def save(self, folder: Path) -> None:
        """Write the circuit as JSON, Graphviz and SVG, and its numbers; nothing where there is none.

        `neuronpedia.json` is its graph for Neuronpedia, `mib.json` that of the MIB benchmark, which has no names for
        models without MLPs or with grouped queries.
        """
        if self.summary is None:
            return
        self.summary.save(folder)
        (folder / "circuit.svg").write_text(self.figure().svg(), encoding="utf-8")
        circuit, model = self.summary.circuit, self.summary.comparison.model
        texts = {"neuronpedia.json": to_neuronpedia(circuit, model=self.name, prompt=self.prompt)}
        if circuit.graph.has_mlps and circuit.graph.n_groups is None:
            texts["mib.json"] = to_mib(circuit, cast(Any, model.cfg).d_model)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")


def _prompt(comparison: Comparison, words: Words) -> tuple[str, ...]:
    """The words of the first clean prompt, without padding."""
    pairs = comparison.pairs
    return tuple(words(pairs.clean.tokens[0][pairs.real(pairs.clean)[0]]))


def run_circuit(one: Inspected, seed: int) -> RunCircuit:
    """Find the circuit of a run on pairs of its task's first kind."""
    draws = generator(seed, "circuit")
    try:
        comparison, control, _ = on_pairs(one.run.hooked(), one.run.task(), PAIRS, draws, name=one.name)
        prompt = _prompt(comparison, one.run.task().words)
        return RunCircuit(one.name, find_circuit(comparison, control, draws), prompt=prompt)
    except ValueError as error:
        return RunCircuit(one.name, None, str(error))


def circuit_section(one: RunCircuit) -> Section:
    """What was found, in words; the circuit, what circuits keep by size, and heads and MLPs by position."""
    title = f"Circuit: {one.name}"
    if one.summary is None:
        return Section(title, one.says, [])
    drawn = [one.figure(name) for name in ("faithfulness", "nodes", "circuit")]
    return Section(title, f"{SHOWS.format(n=PAIRS)}\n\n{one.says}", drawn[:2], drawn[2])


def circuit(
    run: Any,
    kind: str | None = None,
    *,
    pairs: str | Path | None = None,
    n: int | None = None,
    later: bool = False,
    metric: str = "logit_difference",
    method: str = "eap_ig",
    edges: int | None = None,
    step: int | None = None,
    seed: int = 0,
) -> RunCircuit:
    """Find which edges of a model carry the answer, on half of some pairs, and test them on the other half.

    Args:
        run: a run or its folder; with `pairs` a model of Hugging Face: loaded, its folder or file, or its name there.
        kind, n, later: what is changed, by default the task's first kind; how many pairs, by default `PAIRS`; and
            whether the answers behind the first that changes are asked for. Not of a file's pairs.
        pairs: pairs of texts written by hand, JSON lines or CSV of clean, corrupted, answer, wrong; or the name of a
            prompt set (`tasks.prompt_sets`), of which n are drawn.
        metric, method: names in `circuits.METRICS` and `circuits.METHODS`.
        edges: the circuit's size; by default the fewest that keep 90 to 110 %.
        step: of a run's checkpoint; by default the end.
        seed: of the pairs.

    Raises:
        ValueError: if one of these does not exist or does not fit, or there are too few pairs.
    """
    draws = generator(seed, "circuit")
    about: dict[str, Any] = {"kind": kind, "pairs": pairs, "n": n, "later": later, "step": step, "seed": seed}
    comparison, control, words, answers = open_pairs(run, draws, **about, metric=metric)
    found = find_circuit(comparison, control, draws, method=method, size=edges)
    return RunCircuit(comparison.name, found, answers=answers, prompt=_prompt(comparison, words))
