"""Presets: ready-made questions, each with its labels and positions, such as `ask(run, "minimum")`.

A label that is decodable is tested causally at every point where it can be read, and only then called used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from workbench.judgement.decodable import ROWS, Worth, judge
from workbench.measurement import Measurement
from workbench.probes.answer import Answer, Tested, by_place
from workbench.probes.baselines_and_controls import CONDITIONS
from workbench.probes.causal_result import Use
from workbench.probes.causal_test import EDITED, NULL_DRAWS, Experiment
from workbench.probes.fitting import REGRESSION
from workbench.probes.positions import BOX, Rule
from workbench.probes.probing import probe
from workbench.runs import Run
from workbench.tasks import Task
from workbench.tasks.labels import CONTENTS, label_names
from workbench.util.lookup import lookup

EDIT = "interchange"  # the edit of a preset's causal tests
Progress = Callable[[float, str], Any]
"""Called with the share that is done, and what is being done."""


@dataclass(frozen=True)
class Preset:
    """A ready-made question.

    Attributes:
        question: the question, in words.
        tasks: names of the tasks it can be asked of; none: of any.
        labels: names of labels, or patterns such as `ancestor_*`.
        positions: where (see `probes.positions`).
        n: number of sequences.
        kind: kind of probe.
        causal: whether decodable labels are tested causally.
        where_asked: whether each label is what a box holds, read where that box is asked for: `positions` then stands
            for all the boxes.
    """

    question: str
    tasks: tuple[str, ...]
    labels: tuple[str, ...]
    positions: Rule
    n: int = 1024
    kind: str = "logistic"
    causal: bool = True
    where_asked: bool = False

    def applies(self, task: Task) -> bool:
        """Whether the question can be asked of a task."""
        return not self.tasks or task.name in self.tasks

    def names(self, task: Task) -> list[str]:
        """The labels of a task that the question is about."""
        existing = label_names(task)
        matching = [name for pattern in self.labels for name in existing if fnmatchcase(name, pattern)]
        return list(dict.fromkeys(matching))

    def rule(self, label: str) -> Rule:
        """The rule for the positions of one label."""
        return f"{BOX}{label.removeprefix(CONTENTS)}" if self.where_asked else self.positions


PRESETS: dict[str, Preset] = {
    "entity-state": Preset(
        "What does the model know of each box at the end of each sentence?", ("boxes",), ("contents_*",), "clauses"
    ),
    "entity-answer": Preset(
        "What does the model know of a box where its contents are asked for?",
        ("boxes",),
        ("contents_*",),
        f"{BOX}*",
        where_asked=True,
    ),
    "hops": Preset(
        "How far up its chain does each token know its ancestors?",
        ("pointer_chain",),
        ("ancestor_*", "root"),
        "labelled",
        n=512,
    ),
    "properties": Preset(
        "Is the value of each property known where it is asked for?", ("property_chain",), ("value_*",), "scored", n=512
    ),
    "minimum": Preset("Is the smallest symbol known at the delimiter?", ("sorting",), ("minimum",), "delimiter"),
    "successor": Preset(
        "Is the next output known at each output?", ("sorting",), ("identity", "successor"), "outputs", n=2048
    ),
    "copies": Preset(
        "Is it known how many copies of an output are still to come?", ("sorting",), ("copies_left",), "outputs"
    ),
    "carry": Preset(
        "Is the carry known where a digit is predicted?", ("multiplication", "increment"), ("carry",), "each"
    ),
    "partial-products": Preset(
        "Are the rows of the multiplication by hand known where a digit is predicted?",
        ("multiplication",),
        ("partial_product_*",),
        "each",
    ),
    "sub-expressions": Preset(
        "Is the value of a sub-expression known at its last token?", ("arithmetic",), ("value",), "labelled"
    ),
    "expression": Preset("Is the value of the expression known at the =?", ("arithmetic",), ("value",), "delimiter"),
    "lis-table": Preset(
        "Is the entry of the dynamic programme known at each number?",
        ("lis",),
        ("longest_ending_here",),
        "labelled",
        n=512,
    ),
    "modular-sum": Preset(
        "Are both numbers and their sum known at the =?",
        ("modular_addition",),
        ("first", "second", "sum", "wraps"),
        "scored",
        n=1024,
    ),
    "recalled-value": Preset(
        "Is the value of a key known where it is asked for?", ("associative_recall",), ("value",), "scored"
    ),
    "induced-next": Preset(
        "Is it known what followed the same token before, and where that was?",
        ("induction",),
        ("next", "earlier"),
        "scored",
    ),
    "tracked-state": Preset("Is the state known after each move?", ("state_tracking",), ("state",), "scored"),
    "moved-object": Preset(
        "Is the object that a move moves known where it is asked for?", ("box_moves",), ("moved",), "scored", n=512
    ),
    "open-brackets": Preset(
        "Are the number of open brackets and the one that may close known after each bracket?",
        ("dyck",),
        ("depth", "closing"),
        "scored",
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
    return [name for name, preset in PRESETS.items() if preset.applies(task)]


def question(name: str, task: Task, positions: Rule | None = None) -> Preset:
    """A preset by name; or the question about a label of the task, or about all labels of a pattern such as `parent_*`.

    Args:
        name: of a preset, a label, or a pattern of labels.
        task: the task that is asked.
        positions: where a label is read, a rule of `probes.positions`; by default at every labelled position. A preset
            has positions of its own.

    Raises:
        ValueError: if there is neither, the preset is about another task, or positions are given for a preset.
    """
    if name in PRESETS and (PRESETS[name].applies(task) or name not in label_names(task)):
        if not PRESETS[name].applies(task):
            about = ", ".join(PRESETS[name].tasks)
            raise ValueError(f"{name} is about {about}; of {task.name} there is: {', '.join(applicable(task))}")
        if positions is not None:
            raise ValueError(
                f"{name} says itself where it reads; give positions for a label, such as {label_names(task)[0]}"
            )
        return PRESETS[name]
    if not any(fnmatchcase(label, name) for label in label_names(task)):
        lookup(dict.fromkeys([*applicable(task), *label_names(task)]), name, f"probe or label of {task.name}")
    return Preset(
        f"Can {name} be decoded, and is it used?", (), (name,), "labelled" if positions is None else positions
    )


def ask(
    run: Run,
    name: str,
    *,
    positions: Rule | None = None,
    n: int | None = None,
    kind: str | None = None,
    seed: int = 0,
    seeds: int = 1,
    step: int | None = None,
    causal: bool = True,
    null_draws: int = NULL_DRAWS,
    controls: Sequence[str] = CONDITIONS[1:],
    progress: Progress = lambda share, doing: None,
    **settings: Any,
) -> Answer:
    """Ask a question of a run: probe its labels, and test causally those that are decodable.

    Args:
        run, name: the run; and the name of a preset, or a label of the run's task (see `question`).
        positions: where a label is read.
        n, kind: in place of the preset's; seed, seeds, step, controls, settings: as for `probe`.
        causal: whether to test decodable labels causally, if the preset does.
        null_draws: as for `causal_test`.
        progress: see `Progress`.

    Raises:
        ValueError: as `question` and `probe` raise.
    """
    task = run.task()
    preset = question(name, task, positions)
    sample: dict[str, Any] = {"n": preset.n if n is None else n, "seed": seed, "step": step}
    settings |= {"kind": kind or preset.kind, "seeds": seeds, "controls": controls, **sample}
    rules = {label: preset.rule(label) for label in preset.names(task)}
    measured = _probed(run, preset, rules, settings, progress)
    drawn, uses = null_draws if causal and preset.causal else None, dict[Tested, Use]()
    for done, (label, rule) in enumerate(rules.items()):
        tell = _part(progress, 0.6 + 0.4 * done / len(rules), 0.4 / len(rules), f"causal test of {label}")
        uses |= _tests(run, measured.select(label=label), rule, drawn, seed, step, tell)
    return Answer.of(name, preset.question, measured, uses)


def _probed(
    run: Run, preset: Preset, rules: dict[str, Rule], settings: dict[str, Any], progress: Progress
) -> Measurement:
    """The share decoded of every label; labels that are read at the same positions are fitted together."""
    parts = []
    groups = list(dict.fromkeys(rules.values()))
    for done, rule in enumerate(groups):
        progress(0.6 * done / len(groups), f"fitting probes: {', '.join(rules)}")
        together = [label for label in rules if rules[label] == rule]
        parts.append(probe(run, together, positions=rule, **settings))
    if len(parts) == 1:
        return parts[0]
    by_label = {label: part.select(label=label) for part in parts for label in part.coords["label"]}
    joined = Measurement.stack(list(by_label.values()), "label", list(by_label))
    counts = {label: part.settings[ROWS][label] for label, part in by_label.items()}
    return replace(joined, settings={**joined.settings, "positions": preset.positions, ROWS: counts})


def _part(progress: Progress, start: float, span: float, doing: str) -> Progress:
    """The progress of a part that begins at a share of the whole, and takes a share of it."""

    def tell(share: float, detail: str) -> None:
        progress(start + span * share, f"{doing}: {detail}")

    return tell


def _tests(
    run: Run, measured: Measurement, rule: Rule, null_draws: int | None, seed: int, step: int | None, progress: Progress
) -> dict[Tested, Use]:
    """The causal test of one label, wherever it can be read; with `null_draws` None, none."""
    judged = {
        (place, point): decodable
        for place, accuracy in by_place(measured).items()
        for point in accuracy.coords["point"]
        if (decodable := judge(accuracy.select(point=point))).worth is Worth.DECODABLE
    }
    if null_draws is None or not judged:
        return {}
    label = str(measured.settings["label"])
    test = Experiment.of(run, label, rule, how=EDIT, n=EDITED, seed=seed, step=step, rank=None)
    cells = {(place, point): (point, place or test.fit_rows.names[0]) for place, point in judged}
    worth = {cells[at]: decodable for at, decodable in judged.items()}
    uses = test.uses(list(cells.values()), judged=worth, null_draws=null_draws, progress=progress)
    return {(label, *at): uses[cell] for at, cell in cells.items()}
