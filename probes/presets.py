"""Questions that are asked again and again, each with its labels and positions: `ask(run, "minimum")`.

What is decodable is tested causally where it can first be read, and only then called used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from probes.causal import causal_test
from probes.conditions import CONDITIONS, TRAINED
from probes.decoding import REGRESSION
from probes.labels import label_names
from probes.positions import Rule
from probes.probing import DECODABLE, probe, verdict
from probes.use import Use
from workbench.figures.style import point_name
from workbench.instruments import Measurement
from workbench.lookup import lookup
from workbench.runs import Run
from workbench.tasks import Task

EACH_BOX = "box *"


@dataclass(frozen=True)
class Preset:
    """A question.

    Attributes:
        question: in words.
        tasks: those it can be asked of; none is every one.
        labels: names; those of them that end in `*` are every label that begins so.
        positions: where (see `probes.positions`); `box *` is where the box of the label's name is asked for.
        n: sequences.
        kind: of probe.
        causal: whether what is decodable is tested causally.
    """

    question: str
    tasks: tuple[str, ...]
    labels: tuple[str, ...]
    positions: Rule
    n: int = 1024
    kind: str = "logistic"
    causal: bool = True

    def names(self, task: Task) -> list[str]:
        """The labels that a task has of these."""
        known = label_names(task)
        found = [name for wanted in self.labels for name in known if _matches(name, wanted)]
        return list(dict.fromkeys(found))

    def rule(self, label: str) -> Rule:
        """Where to look for one label."""
        return f"box {label.rpartition('_')[2]}" if self.positions == EACH_BOX else self.positions


PRESETS: dict[str, Preset] = {
    "entity-state": Preset(
        "What does the model know of each box at the end of each sentence?",
        ("boxes",),
        ("contents_*",),
        "clauses",
    ),
    "entity-answer": Preset(
        "What does the model know of a box where its contents are asked for?",
        ("boxes",),
        ("contents_*",),
        EACH_BOX,
    ),
    "hops": Preset(
        "How far up its chain does each token know its ancestors?",
        ("pointer_chain",),
        ("ancestor_*", "root"),
        "labelled",
        n=512,
    ),
    "minimum": Preset(
        "Is the smallest symbol known at the delimiter?",
        ("sorting",),
        ("minimum",),
        "delimiter",
    ),
    "successor": Preset(
        "Is the next output known at each output?",
        ("sorting",),
        ("identity", "successor"),
        "outputs",
        n=2048,
    ),
    "copies": Preset(
        "Is it known how many copies of an output are still to come?",
        ("sorting",),
        ("copies_left",),
        "outputs",
    ),
    "carry": Preset(
        "Is the carry known where a digit is predicted?",
        ("multiplication", "increment"),
        ("carry",),
        "each",
    ),
    "partial-products": Preset(
        "Are the rows of the multiplication by hand known where a digit is predicted?",
        ("multiplication",),
        ("partial_product_*",),
        "each",
    ),
    "sub-expressions": Preset(
        "Is the value of a sub-expression known at its last token?",
        ("arithmetic",),
        ("value",),
        "labelled",
    ),
    "expression": Preset(
        "Is the value of the expression known at the =?",
        ("arithmetic",),
        ("value",),
        "delimiter",
    ),
    "lis-table": Preset(
        "Is the entry of the dynamic programme known at each number?",
        ("lis",),
        ("dp",),
        "labelled",
        n=512,
    ),
    "position": Preset(
        "Is the position known, where there may be no positional embedding?",
        (),
        ("position",),
        "labelled",
        n=512,
        kind=REGRESSION,
        causal=False,
    ),
}


@dataclass(frozen=True)
class Finding:
    """What was found of one label at one place.

    Attributes:
        label, place: which; no place where the rule has one only.
        point: where it can first be read; None where it cannot.
        said: what the probe's accuracy is worth there, or where it is best.
        use: the causal test there, if there was one.
    """

    label: str
    place: str | None
    point: str | None
    said: str
    use: Use | None

    def verdict(self) -> str:
        """`used`, `decodable, not used`, `decodable`, `not decodable` or `not told`."""
        if self.point is None:
            return "not told" if self.said.startswith(("too few", "not told")) else "not decodable"
        if self.use is None or self.use.used is None:
            return "decodable"
        return "used" if self.use.used else "decodable, not used"

    def in_words(self) -> str:
        """In a few lines, for people."""
        where = self.label.replace("_", " ") + (f" at {self.place}" if self.place else "")
        first = f" from {point_name(self.point)}" if self.point else ""
        tested = f"\n    {self.use.verdict()}" if self.use else ""
        return f"{where}: {self.verdict()}{first}\n    {self.said}{tested}"


@dataclass(frozen=True)
class Answer:
    """What a preset found in a run.

    Attributes:
        preset: its name.
        question: in words.
        measured: what is decoded, dims `label`, `point`, `place` where the rule has several, `condition`.
        findings: one for each label and place.
    """

    preset: str
    question: str
    measured: Measurement
    findings: list[Finding]


def applicable(task: Task) -> list[str]:
    """The presets that can be asked of a task."""
    return [name for name, preset in PRESETS.items() if not preset.tasks or task.name in preset.tasks]


def check(name: str, task: Task) -> None:
    """Raise ValueError if a preset cannot be asked of a task; the message says which can."""
    if name not in applicable(task):
        about = ", ".join(PRESETS[name].tasks)
        raise ValueError(f"{name} is about {about}; of {task.name} there is: {', '.join(applicable(task))}")


def ask(
    run: Run,
    name: str,
    *,
    n: int | None = None,
    kind: str | None = None,
    seed: int = 0,
    seeds: int = 1,
    step: int | None = None,
    causal: bool = True,
    controls: Sequence[str] = CONDITIONS[1:],
    progress: Callable[[float, str], Any] = lambda share, doing: None,
    **settings: Any,
) -> Answer:
    """Ask a preset's question of a run.

    Args:
        run: the run.
        name: of the preset.
        n, kind: instead of the preset's.
        seed, seeds, step, controls, settings: as for `probe`.
        causal: test what is decodable.
        progress: told how much is done, as a share, and what is being done.

    Raises:
        ValueError: if there is no such preset, the task is not one of its, or as `probe` raises.
    """
    preset, task = lookup(PRESETS, name, "probe"), run.task()
    check(name, task)
    read: dict[str, Any] = {"n": preset.n if n is None else n, "seed": seed, "step": step}
    parts, names = [], preset.names(task)
    rules = {label: preset.rule(label) for label in names}
    groups = list(dict.fromkeys(rules.values()))
    for done, rule in enumerate(groups):
        progress(0.6 * done / len(groups), f"fitting probes: {', '.join(names)}")
        own = [label for label in names if rules[label] == rule]
        how: dict[str, Any] = {"positions": rule, "kind": kind or preset.kind, "seeds": seeds, "controls": controls}
        parts.append(probe(run, own, **how, **read, **settings))
    measured = _joined(parts)
    findings = []
    tested = causal and preset.causal
    cases = [(label, place) for label in names for place in measured.coords.get("place", [None])]
    for done, (label, place) in enumerate(cases):
        where = f"{label} at {place}" if place else label
        progress(0.6 + 0.4 * done / len(cases), f"testing what is used: {where}")
        findings.append(_finding(run, measured, label, place, rules[label], tested, read))
    return Answer(name, preset.question, measured, findings)


def _matches(name: str, wanted: str) -> bool:
    return name.startswith(wanted[:-1]) if wanted.endswith("*") else name == wanted


def _joined(parts: Sequence[Measurement]) -> Measurement:
    """Measurements of different labels as one."""
    if len(parts) == 1:
        return parts[0]
    names = [name for part in parts for name in part.coords["label"]]
    joined = Measurement.stack(
        [part.select(label=name) for part in parts for name in part.coords["label"]], "label", names
    )
    return replace(
        joined, name=parts[0].name.partition(" for ")[0], settings={**joined.settings, "positions": EACH_BOX}
    )


def _finding(
    run: Run, measured: Measurement, label: str, place: str | None, rule: Rule, tested: bool, read: dict[str, Any]
) -> Finding:
    """Where a label can first be read, and whether it is used there."""
    own = measured.select(label=label, **({} if place is None else {"place": place}))
    said = {point: verdict(own.select(point=point)) for point in own.coords["point"]}
    trained = own.select(condition=TRAINED)
    first = next((point for point in said if said[point].startswith(DECODABLE)), None)
    best = own.coords["point"][int(np.nan_to_num(trained.values, nan=-np.inf).argmax())]
    use = None
    if first is not None and tested:
        how = {"point": first, "positions": rule, "seed": read["seed"], "step": read["step"]}
        use = next(iter(causal_test(run, label, places=None if place is None else [place], **how).values()))
    return Finding(label, place, first, said[first or best], use)
