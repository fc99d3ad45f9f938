"""Everything that is measured of a run: every instrument and mechanism that applies, with its controls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from inspect import Parameter, signature
from typing import Any

import torch
from jaxtyping import Int
from rich.console import Console
from rich.markup import escape
from rich.progress import track
from torch import Tensor

from workbench.capture import Capture, Subject, capture
from workbench.instruments import INSTRUMENTS, NULLS, Instrument, Measurement, attention_graph
from workbench.instruments.basis_overlap import basis_overlap
from workbench.instruments.projection import from_embedding, top_tokens
from workbench.lookup import lookup, tell_apart
from workbench.mechanisms import MECHANISMS, Mechanism
from workbench.models import Decoder
from workbench.models.nulls import untrained
from workbench.runs import Run
from workbench.seeds import generator
from workbench.tasks import Batch, Task
from workbench.validation import harmless

BATCH = 64
TESTED = 64  # sequences of each condition that causal tests are made on
MOST_HOPS = 8  # of longer paths the first so many hops are measured
UNTRAINED = "untrained"
MOST_TOKENS = 4096  # of larger vocabularies pairs of tokens are not looked at

Settings = Mapping[str, Mapping[str, Any]]
"""Of each instrument or mechanism, the settings that are not the default ones."""


@dataclass(frozen=True)
class Inspected:
    """Everything measured on one run.

    Attributes:
        run: the run.
        name: what to call it.
        examples: instrument or mechanism -> what was measured, with its dim `example`.
        measured: the same, the mean over examples, with interval and n.
        controls: the same name -> null (`mismatched`, `untrained`, …) -> the mean under it.
        control_examples: mechanism -> null -> its score with the dim `example`, and each example's test condition.
        causal: mechanism -> its causal test, the mean over examples.
        conditions: the task's test condition of each example.
        sequences: the tokens of each example, without padding.
        fingerprint: of all tokens: runs with the same one were measured on the same examples.
        left_out: what does not apply -> why.
        bases: how far the two bases are from orthogonal; None for large vocabularies.
        gold_mass: the resolvent's mass on gold paths, of the head that was best on other data; None without a graph,
            or without the control beside it.
        gold_mass_control: the same head's mass on the gold paths of other examples.
        example: a capture of a single sequence, to draw.
        shown_head: the layer and head to draw.
    """

    run: Run
    name: str
    examples: dict[str, Measurement]
    measured: dict[str, Measurement]
    controls: dict[str, dict[str, Measurement]]
    control_examples: dict[str, dict[str, tuple[Measurement, list[dict[str, Any]]]]]
    causal: dict[str, Measurement]
    conditions: list[dict[str, Any]]
    sequences: list[Int[Tensor, " pos"]]
    fingerprint: str
    left_out: dict[str, str]
    bases: Measurement | None
    gold_mass: Measurement | None
    gold_mass_control: Measurement | None
    example: Capture
    shown_head: tuple[int, int]

    def all(self) -> dict[str, Measurement]:
        """Every measurement under the name of its file."""
        found = dict(self.measured)
        found |= {f"{name}-{null}": m for name, nulls in self.controls.items() for null, m in nulls.items()}
        found |= {f"{name}-causal": m for name, m in self.causal.items()}
        if self.gold_mass is not None and self.gold_mass_control is not None:
            found |= {"gold_mass": self.gold_mass, "gold_mass-mismatched": self.gold_mass_control}
        if self.bases is not None:
            found["basis_overlap"] = self.bases
        return found | ({"example-projection": top_tokens(self.example)} if "projection" in self.measured else {})


@dataclass
class _Measure:
    """One instrument or mechanism bound to its settings, and what it has found so far."""

    name: str
    thing: Instrument | Mechanism
    function: Callable[..., Measurement]
    controls: list[str]
    fitted: dict[str, dict[str, Any]] = field(default_factory=dict)
    found: list[Measurement] = field(default_factory=list)
    nulls: dict[str, list[Measurement]] = field(default_factory=dict)
    null_conditions: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    causal: list[Measurement] = field(default_factory=list)

    def fit(self, which: str, model: Decoder, subject: Subject, seed: int) -> None:
        """Train what the measure needs of a model first, if it needs anything: a lens."""
        if hasattr(self.thing, "fit"):
            self.fitted[which] = self.thing.fit(model, subject, seed)

    def measure(self, seen: Capture, of: str = "trained") -> Measurement:
        return self.function(seen, **self.fitted.get(of, {}))


@torch.no_grad()
def inspect_run(
    run: Run,
    *,
    n: int,
    seed: int,
    name: str | None = None,
    only: Sequence[str] = (),
    settings: Settings | None = None,
    step: int | None = None,
    head: tuple[int, int] | None = None,
    nulls: Sequence[str] = (*NULLS, UNTRAINED),
    causal: bool = True,
    conditions: Sequence[Mapping[str, Any]] | None = None,
    progress: bool = False,
) -> Inspected:
    """Measure one run on held-out data, one batch in memory at a time.

    Args:
        run: the run.
        n: sequences for each of the task's test conditions.
        seed: seed of those sequences, which are from the test side of the task's split.
        name: what to call the run; by default its folder's name.
        only: instruments and mechanisms to measure; by default all that apply.
        settings: those of instruments and mechanisms that are not the default ones: `{"entropy": {"alpha": 2}}`.
        step: of which checkpoint; by default the end.
        head: the layer and head to show; by default the one with the most mass on gold paths, on other data.
        nulls: controls to make, of those that each instrument and mechanism has.
        causal: make the mechanisms' causal tests too.
        conditions: those of the task's test conditions to measure on; by default all (`task.conditions`).
        progress: show a progress bar on standard error.

    Raises:
        ValueError: if there is no such instrument or mechanism, or it has no such setting.
    """
    from workbench.models.hooked import hook

    model, task, name = run.model(step), run.task(), name or run.name
    subject, hooked = Subject.of(model, task, name), hook(model)
    measures, left_out = _measures(subject, only, settings or {})
    for one in measures:
        one.controls = [null for null in one.controls if null in nulls]
        one.fit("trained", model, subject, seed)
    nothing = None
    if any(UNTRAINED in one.controls for one in measures):
        fresh = untrained(model, generator(seed, UNTRAINED, run.config.seed))
        fresh_subject = Subject.of(fresh, task, f"{name}, {UNTRAINED}")
        nothing = (hook(fresh), fresh_subject)
        for one in measures:
            one.fit(UNTRAINED, fresh, fresh_subject, seed)
    names = _needed(subject, measures)
    draws = generator(seed, "control")
    measured_on: list[dict[str, Any]] = []
    sequences: list[Int[Tensor, " pos"]] = []
    digest = sha256()
    batches = list(test_batches(subject.task, n, seed, conditions))
    what = f"inspecting {escape(name)}" + ("" if step is None else f" at step {step}")
    for condition, number, batch in track(batches, what, console=Console(stderr=True), disable=not progress):
        measured_on += [condition] * len(batch)
        sequences += [row[:end] for row, end in zip(batch.tokens, task.lengths(batch.tokens).tolist(), strict=True)]
        digest.update(batch.tokens.numpy().tobytes())
        seen = capture(hooked, subject, batch, names)
        under = {null: make(seen, draws) for null, make in NULLS.items() if any(null in m.controls for m in measures)}
        if nothing is not None:
            under[UNTRAINED] = capture(nothing[0], nothing[1], batch, names)
        for one in measures:
            one.found.append(one.measure(seen))
            for null in one.controls:
                control = one.measure(under[null], of=UNTRAINED if null == UNTRAINED else "trained")
                one.nulls.setdefault(null, []).append(control)
                one.null_conditions.setdefault(null, []).extend([condition] * control.values.shape[-1])
            if causal and number * BATCH < TESTED and hasattr(one.thing, "causal"):
                one.causal.append(one.thing.causal(hooked, subject, batch, generator(seed, "causal", one.name)))
    joined = {one.name: Measurement.join(one.found) for one in measures}
    controls = {m.name: {null: Measurement.join(parts) for null, parts in m.nulls.items()} for m in measures}
    best = None
    if "attention_graph" in joined:
        if head is None:
            other = subject.task.sample(BATCH, generator(seed, "selection"), split="test")
            head = attention_graph.best_head(attention_graph.measure(capture(hooked, subject, other, names)))
        if "mismatched" in controls["attention_graph"]:
            graphs = (joined["attention_graph"], controls["attention_graph"]["mismatched"])
            best = [attention_graph.gold_mass(m, head) for m in graphs]
    return Inspected(
        run=run,
        name=name,
        examples=joined,
        measured={key: m.mean("example") for key, m in joined.items()},
        controls={
            key: {null: control.mean("example") for null, control in nulls.items()} for key, nulls in controls.items()
        },
        control_examples={
            one.name: {null: (controls[one.name][null], one.null_conditions[null]) for null in one.nulls}
            for one in measures
            if one.name in MECHANISMS
        },
        causal={one.name: Measurement.join(one.causal).mean("example") for one in measures if one.causal},
        conditions=measured_on,
        sequences=sequences,
        fingerprint=digest.hexdigest(),
        left_out=left_out,
        bases=basis_overlap(subject) if len(subject.encoder) <= MOST_TOKENS else None,
        gold_mass=best[0] if best else None,
        gold_mass_control=best[1] if best else None,
        example=capture(hooked, subject, subject.task.sample(1, generator(seed, "example"), split="test"), names),
        shown_head=head or (subject.n_layers - 1, 0),
    )


def see(run: Run, batch: Batch, *, step: int | None = None) -> Capture:
    """Everything that instruments, mechanisms and figures need of a run, captured on one batch.

    Args:
        run: the run.
        batch: what to run on: `run.task().parse("5 3 3 9")`, or `run.task().sample(…)`.
        step: of which checkpoint; by default the end.
    """
    model = run.model(step)
    subject = Subject.of(model, run.task(), run.name_at(step))
    from workbench.models.hooked import hook

    return capture(hook(model), subject, batch, hook_names(subject))


def hook_names(subject: Subject) -> list[str]:
    """Every hook point that an inspection of this model needs."""
    return _needed(subject, _measures(subject, (), {})[0])


def _measures(subject: Subject, only: Sequence[str], settings: Settings) -> tuple[list[_Measure], dict[str, str]]:
    """What applies to this model and was asked for; and what does not apply, with the reason."""
    everything: dict[str, Instrument | Mechanism] = {**INSTRUMENTS, **MECHANISMS}
    for name in (*only, *settings):
        lookup(everything, name, "instrument or mechanism")
    found = subject.task.truth(subject.task.sample(64, generator(0, "hops")).tokens).n_hops
    n_hops = max(1, min(found, MOST_HOPS))  # one number for every batch, whatever its own truth has
    measures, left_out = [], {}
    for name, thing in everything.items():
        if name not in only if only else getattr(thing, "ON_REQUEST", False):
            continue
        why = thing.why_not(subject)
        if why is not None:
            left_out[name] = why
            continue
        function = thing.measure if name in INSTRUMENTS else thing.score  # type: ignore[union-attr]
        chosen = dict(settings.get(name, {}))
        known = _settings_of(function)
        wrong = next((key for key in chosen if key not in known), None)
        if wrong is not None:
            raise ValueError(f"{name} has no setting {wrong!r}; there is: {', '.join(known) or 'none'}")
        if "n_hops" in known:
            chosen = {"n_hops": n_hops, **chosen}
        measures.append(_Measure(name, thing, partial(function, **chosen), list(thing.CONTROLS)))
    return measures, left_out


def _settings_of(function: Callable[..., Measurement]) -> list[str]:
    return [name for name, p in signature(function).parameters.items() if p.kind is Parameter.KEYWORD_ONLY]


def _needed(subject: Subject, measures: Sequence[_Measure]) -> list[str]:
    """What the measures need, and what the example's projections do."""
    return sorted({*from_embedding(subject), *(name for one in measures for name in one.thing.needs(subject))})


def test_batches(
    task: Task, n: int, seed: int, conditions: Sequence[Mapping[str, Any]] | None = None
) -> Iterator[tuple[dict[str, Any], int, Batch]]:
    """N held-out sequences for each of the task's test conditions: each batch with its condition and its number."""
    for condition in map(dict, task.conditions if conditions is None else conditions):
        draws = generator(seed, "inspect", *(f"{key}={value}" for key, value in condition.items()))
        whole = task.sample(n, draws, split="test", **condition)
        for number, start in enumerate(range(0, n, BATCH)):
            yield condition, number, whole[start : start + BATCH]


def labels(opened: Sequence[Run]) -> list[str]:
    """A name for each run: its folder's, with as many of the folders above as tell them apart.

    Of names that a file system or a terminal may take for one (`run`, `Run`), the later ones have a number.

    Raises:
        ValueError: if a run is there twice.
    """
    parts = [run.path.resolve().parts[1:] for run in opened]
    if len(set(parts)) < len(parts):
        raise ValueError(f"a run was named twice; these are {', '.join(run.name for run in opened)}")
    depth = 1
    while len({part[-depth:] for part in parts}) < len(parts):
        depth += 1
    return tell_apart([harmless("/".join(part[-depth:])) for part in parts])
