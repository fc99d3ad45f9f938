"""Questions that are asked again and again, each with its labels and positions: `ask(run, "minimum")`.

What is decodable is tested causally at every point where it can be read, and only then called used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from workbench.measurement import Measurement
from workbench.probes.causal import EDITED, NULL_DRAWS, Experiment
from workbench.probes.conditions import CONDITIONS
from workbench.probes.decoding import REGRESSION
from workbench.probes.finding import Answer, Finding, decodable, decoded_at, finding
from workbench.probes.labels import label_names
from workbench.probes.positions import Rule
from workbench.probes.probing import probe
from workbench.probes.use import Use
from workbench.runs import Run
from workbench.tasks import Task
from workbench.util.lookup import lookup

EACH_BOX = "box *"
HOW = "interchange"  # what a preset's causal test does


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
    null_draws: int = NULL_DRAWS,
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
        null_draws: as for `causal_test`.
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
    tested = causal and preset.causal
    findings = []
    for done, label in enumerate(names):
        start, span = 0.6 + 0.4 * done / len(names), 0.4 / len(names)

        def tell(share: float, doing: str, start: float = start, span: float = span, label: str = label) -> None:
            progress(start + span * share, f"testing what is used, {label}: {doing}")

        findings += _findings(
            run, measured.select(label=label), rules[label], null_draws if tested else None, read, tell
        )
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


def _findings(
    run: Run,
    measured: Measurement,
    rule: Rule,
    null_draws: int | None,
    read: dict[str, Any],
    progress: Callable[[float, str], Any],
) -> list[Finding]:
    """Where one label can be read at each place, and whether it is used at any of these points.

    `null_draws`: None tests nothing.
    """
    label = str(measured.settings["label"])
    places = list(measured.coords.get("place", [None]))
    own = {place: measured if place is None else measured.select(place=place) for place in places}
    judged = {place: decoded_at(own[place]) for place in places}
    uses: dict[str | None, dict[str, Use]] = {place: {} for place in places}
    if null_draws is not None and any(decodable(judged[place]) for place in places):
        how: dict[str, Any] = {"how": HOW, "n": EDITED, "seed": read["seed"], "step": read["step"], "rank": None}
        test = Experiment.of(run, label, rule, **how)
        cells = {
            (point, test.known.names[0] if place is None else place): (place, point)
            for place in places
            for point in decodable(judged[place])
        }
        worth = {cell: judged[place][point] for cell, (place, point) in cells.items()}
        for cell, use in test.uses(list(cells), judged=worth, null_draws=null_draws, progress=progress).items():
            place, point = cells[cell]
            uses[place][point] = use
    return [finding(label, place, own[place], judged[place], uses[place]) for place in places]
