"""What the page of one run holds: what was found and measured of it, its inputs, its drawings, its numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from workbench import figures
from workbench.capture import Capture
from workbench.circuits import Graph
from workbench.figures import Drawing
from workbench.figures.chart import chart
from workbench.figures.token_page import right_at
from workbench.figures.training_film import film_steps
from workbench.inspection import Inspected, inspect_run, see
from workbench.inspection.examples import example
from workbench.inspection.findings import findings
from workbench.inspection.found import BESIDE, PARTS, SEED, kept, n_each
from workbench.inspection.learning_curves import learning_curves
from workbench.inspection.seed_groups import seed_groups
from workbench.instruments.attention import resolvent
from workbench.interventions import Head
from workbench.judgement.findings import Findings
from workbench.judgement.words import claims
from workbench.judgement.words.by_place import answered
from workbench.measurement import Measurement
from workbench.measurement.controls import control_in_words
from workbench.report.circuits import RunCircuit, run_circuit
from workbench.runs import Run

INPUTS = 6
HEADS = (16, 8, 4, 1)  # that can be chosen on the canvas: as many of these as there is room for
QUICK, SHORT = 5_000, 40  # a model's edges times its positions, at least 40, at which a circuit takes some 10 seconds


@dataclass(frozen=True)
class Contents:
    """What a page holds of a run.

    Attributes:
        run, inspected, told: the run, what was measured of it now, and what was found of it.
        when: on what both were measured.
        seen: the run on some inputs; none of a model whose patterns cannot be seen.
        circuit: None where it would take long.
        curves: accuracy over training, as it was logged.
    """

    run: Run
    inspected: Inspected
    told: Findings
    when: str
    seen: Sequence[Capture]
    circuit: RunCircuit | None
    curves: Mapping[str, Measurement]

    @cached_property
    def heads(self) -> list[Head]:
        """All heads, that in focus first, then those with the most mass on the task's edges."""
        model, reads = self.run.config.model, self._reads
        every = [(layer, head) for layer in range(model.n_layers) for head in range(model.n_heads)]
        mass = {head: 0.0 if reads is None else float(np.nan_to_num(reads.values[head])) for head in every}
        first = None if self.told.focus is None else self.told.focus.needed or self.told.focus.head
        return sorted(every, key=lambda head: (head != first, -mass[head]))

    @property
    def _reads(self) -> Measurement | None:
        """The mass of each head on the task's edges."""
        result = self.inspected.results.get("gold_mass")
        return result.mean if result is not None and result.of_every_head else None

    @cached_property
    def steps(self) -> list[int]:
        """The training steps that weights are kept of."""
        return sorted({*self.run.checkpoints(), self.run.step()})

    @cached_property
    def claims(self) -> list[dict[str, str]]:
        """A row for each claim at each place."""
        return [claims.row(claim, place) for claim in self.told.claims for place in claim.places]

    @cached_property
    def config(self) -> str:
        return json.dumps(self.run.config.model_dump(mode="json"), indent=1, ensure_ascii=False)

    def data(self, heads: Sequence[Head]) -> dict[str, Any]:
        """What the page's script draws and saves, with the attention of some heads."""
        keys = [*map(_key, heads)]
        inputs = [one | {"heads": {key: one["heads"][key] for key in keys}} for one in self._inputs]
        return {"first": keys[0], "inputs": inputs} | self._fixed

    @cached_property
    def _fixed(self) -> dict[str, Any]:
        circuit = None if self.circuit is None or self.circuit.summary is None else _packed(self.circuit.figure())
        return {"film": self._film(), "charts": self._charts(), "circuit": circuit, "files": self._files()}

    @cached_property
    def _inputs(self) -> list[dict[str, Any]]:
        """Each input: its canvas by head, every head at a glance, and its hops where the layer takes several."""
        layer, head = self.heads[0]
        inputs = []
        for seen in self.seen:
            hops = seen.truth.n_hops > 1 and resolvent.followed(seen, layer, head).gamma > 0
            drawn = {_key(one): figures.canvas(seen, layer=one[0], head=one[1]) for one in self.heads[: HEADS[0]]}
            inputs.append(
                {
                    "heads": {key: _packed(drawing) for key, drawing in drawn.items()},
                    "grid": _packed(figures.head_grid(seen, scores=self._reads)) if len(self.heads) > 1 else None,
                    "hops": _packed(figures.hop_by_hop(seen, layer=layer, head=head)) if hops else None,
                    "says": answered(right_at(seen), seen.subject.task) or "",
                }
            )
        return inputs

    def _film(self) -> dict[str, Any] | None:
        """The first input at every checkpoint."""
        if len(self.steps) < 2 or not self.seen:
            return None
        layer, head = self.heads[0]
        batch = self.seen[0].batch
        return _packed(figures.training_film(self.run, batch, film_steps(self.steps), layer=layer, head=head))

    def _charts(self) -> dict[str, Any]:
        """Entropy by layer and accuracy by group, each beside its controls, and accuracy over training."""
        drawn = {}
        for name in ("entropy", "accuracy"):
            result = self.inspected.results.get(name)
            if result is not None and len(result.mean.dims) == 1:
                controls = {control_in_words(key): mean for key, mean in result.control_means.items()}
                drawn[name] = chart(result.mean.name, {self.run.name: result.mean} | controls)
        curves: dict[tuple[float, ...], Measurement] = {}  # where an answer is one token, whole answers are the same
        for m in self.curves.values():
            curves.setdefault(tuple(m.values), m)
        if lines := {m.name: m for m in curves.values() if len(m.values) > 1}:
            drawn["learnt"] = chart("Accuracy over training", lines)
        return {name: _packed(one) for name, one in drawn.items()}

    def _files(self) -> dict[str, str]:
        """File name -> its text: every number behind the page."""
        measured = self.inspected.all() | learning_curves(self.run)
        if self.circuit is not None and self.circuit.summary is not None:
            measured |= {f"circuit-{name}": m for name, m in self.circuit.found.measurements().items()}
        files = {"findings.json": self.told.model_dump_json(indent=1), "config.json": self.config}
        if self.claims:
            files["claims.csv"] = pd.DataFrame(self.claims).to_csv(index=False)
        return files | {f"{name}.csv": m.frame().to_csv(index=False) for name, m in measured.items()}


def contents(run: Run, progress: bool) -> Contents:
    """Measure what is not kept of a run, and look at some inputs.

    Raises:
        ValueError: if the run has no weights, or its log is damaged.
    """
    task = run.task()
    names = ["accuracy"] if task.running_text else ["accuracy", "whole_answer"]
    curves = learning_curves(run, names)  # first: a damaged log is told before all is measured
    known, n = kept(run), n_each(task)
    options: dict[str, Any] = PARTS[-1][1] if known is None else {"only": BESIDE, "causal": False}
    inspected = inspect_run(run, n=n, seed=SEED, progress=progress, **options)
    when = f"{n} sequences of each test condition, seed {SEED}"
    if known is not None:
        made = f"found {known.made} by workbench {known.workbench}"
        when = f"{made}, on {known.n} sequences of each test condition, seed {known.seed}; curves and heads today"
    told = findings(seed_groups([inspected])[0]) if known is None else known.findings
    model, seen = run.config.model, list[Capture]()
    if not inspected.example.subject.no_pattern:
        batches = [example(run.model(), task, number) for number in range(INPUTS)]
        different = {str(batch.tokens.tolist()): batch for batch in batches}
        seen = [see(run, batch) for batch in different.values()]
    size = Graph(model.n_layers, model.n_heads).n_edges * max(task.n_ctx, SHORT)
    circuit = run_circuit(inspected, SEED) if size <= QUICK else None
    return Contents(run, inspected, told, when, seen, circuit, curves)


def _key(head: Head) -> str:
    """A head as the head grid's cells name it."""
    return f"{head[0]},{head[1]}"


def _packed(drawing: Drawing) -> dict[str, Any]:
    return {"svg": drawing.svg(), "title": drawing.title, "says": drawing.subtitle, "data": dict(drawing.data)}
