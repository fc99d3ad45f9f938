"""The report's figures: a section for each measure, with what it shows, what it does not show, and its controls."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from workbench import figures
from workbench.inspection import Inspected
from workbench.inspection.geometry import Geometry
from workbench.inspection.judged import strongest_control
from workbench.inspection.over_training import Timeline
from workbench.inspection.own_basis import TURNED, OwnBasis
from workbench.inspection.seed_groups import SeedGroup, at_own_head, seed_groups
from workbench.instruments import INSTRUMENTS, SETS, WEIGHTS
from workbench.instruments.attention import attention_graph
from workbench.instruments.residual.dominant_rows import WITHOUT, has_dominant, without_dominant
from workbench.instruments.residual.projection import top_tokens
from workbench.instruments.residual.trajectory import trajectory
from workbench.judgement.words import by_place
from workbench.measurement import Measurement
from workbench.measurement.compare_runs import over_seeds
from workbench.measurement.controls import control_in_words
from workbench.measurement.draws import rates_by_group
from workbench.measurement.groups import conditions_as_groups
from workbench.mechanisms import MECHANISMS

MOST_BARS = 256  # tokens


def slug(words: str) -> str:
    """Words of a page as part of a file's name."""
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"<[^>]*>", " ", words).lower()).strip("-")


MOST_PICTURED = 6


@dataclass(frozen=True)
class Section:
    """A heading, a paragraph, perhaps a drawing, and figures; and the instrument's name, if it is of one."""

    title: str
    text: str
    drawn: list[go.Figure]
    drawing: figures.Drawing | None = None
    measure: str = ""

    @property
    def slug(self) -> str:
        """The heading as part of a file's name."""
        return slug(self.title)


def sections(inspected: Sequence[Inspected]) -> list[Section]:
    """Every section: those of measures and claims first, then the pictures of single runs.

    Of more than `MOST_PICTURED` runs, the first seed of each config is pictured.
    """
    lines = seed_groups(inspected)
    made = [section for name in INSTRUMENTS if (section := _measured(name, lines)) is not None and section.drawn]
    made += _mechanisms(lines)
    pictured = [
        member for line in lines for member in (line.members if len(inspected) <= MOST_PICTURED else line.members[:1])
    ]
    made += [_graph(one) for one in pictured if "gold_mass" in one and one.head is not None]
    made += [section for name in WEIGHTS if (section := _measured(name, lines)) is not None and section.drawn]
    return made + [_residual(one) for one in pictured if "projection" in one]


def _residual(one: Inspected) -> Section:
    """One sequence's residual on both bases: all of it, then every token at a few positions."""
    table = top_tokens(one.example)
    drawn = [figures.projection_map(table, basis) for basis in ("encoder", "decoder")]
    tokens = range(len(one.example.subject.encoder))
    if len(tokens) <= MOST_BARS:
        scored = one.example.batch.loss_mask[0].nonzero()[:, 0].tolist()
        # one in the question, the answer's first, and one within the answer
        positions = sorted({scored[0] // 2, scored[0], scored[len(scored) // 2]}) if scored else [0]
        drawn += [figures.paper_projection(trajectory(one.example, 0, at, tokens=tokens)) for at in positions]
    text = f"{table.caption} Below the maps, some positions as in Figures 4.12 to 4.14 of the task-hinting paper."
    return Section(f"Residual of one sequence on both bases: {one.name}", text, drawn)


def _measured(name: str, lines: Sequence[SeedGroup]) -> Section | None:
    """One instrument over all runs that it was measured on."""
    measured = [one for one in lines if name in one]
    if not measured:
        return None
    drawn = []
    # Runs whose measurements have other dims are drawn apart.
    for dims in dict.fromkeys(one[name].mean.dims for one in measured):
        alike = [one for one in measured if one[name].mean.dims == dims]
        runs = {one.name: one[name].mean for one in alike}
        controls = {one.name: one[name].control_means for one in alike}
        runs |= {
            f"{one.name}, {WITHOUT}": without_dominant(one[name].examples).mean()
            for one in alike
            if has_dominant(one[name].examples)
        }
        examples = alike[0].members[0][name].examples.dims
        if examples not in (dims, (*dims, "example")):  # the mean over seeds is of each seed's head in focus
            drawn += figures.any_measure(runs, controls)
        else:
            drawn += figures.draw(name, runs, controls, {one.name: one[name].examples for one in alike})
        if name == "entropy" and all(conditions_as_groups(one.members[0].sample.conditions) for one in alike):
            drawn += figures.by_layer_and_group({one.name: _grouped(one, name) for one in alike}, {})
    first = measured[0][name].mean
    of_any = dict.fromkeys(control for one in measured for control in one[name].controls)
    in_words = f"Controls: {'; '.join(map(control_in_words, of_any))}." if of_any else ""
    text = f"{first.caption} {in_words}".strip()
    return Section(first.name, text, drawn, measure=name)


def _mechanisms(lines: Sequence[SeedGroup]) -> list[Section]:
    """How often each claim holds, over all examples and by condition, and its causal test: a section each."""
    scored = {name: [one for one in lines if name in one] for name in MECHANISMS}
    scored = {name: with_claim for name, with_claim in scored.items() if with_claim}
    if not scored:
        return []
    pairs: dict[str, list[tuple[Measurement, Measurement]]] = {}
    for one in lines:  # of a single run, claims about heads at the head in focus
        named = [name for name in scored if name in one]
        if one.alone:
            pairs[one.name] = [(one[name].at_head().mean, strongest_control(one.members[0], name)) for name in named]
        else:
            pairs[one.name] = [(one[name].mean, strongest_control(one, name)) for name in named]
    means = [with_claim[0][name].mean for name, with_claim in scored.items()]
    captions = dict.fromkeys(f"{m.name}: {m.caption}" if len(means) > 1 else m.caption for m in means)
    made = [Section("Mechanisms", " ".join(captions), [figures.mechanisms({k: v for k, v in pairs.items() if v})])]
    by_condition = [figure for name, with_claim in scored.items() for figure in _by_condition(name, with_claim)]
    if by_condition:
        text = "The same claims in each of the task's test conditions, with their controls; for sorting compare "
        text += "Figures 4.15 and 4.16 of the task-hinting paper."
        made.append(Section("Mechanisms by condition", text, by_condition))
    tested: dict[str, dict[str, Measurement]] = {}  # run -> claim -> its causal test
    for one in lines:
        for name in scored:
            if name in one and (test := one[name].causal) is not None:
                tested.setdefault(one.name, {})[name] = test.mean
    if tested:
        text = "What each claim is about was edited in the running model, and as a control the same edit was made "
        text += "elsewhere. If the claim is right, the first edit changes the answer into what the claim predicts, and "
        text += "the second changes nothing. Only answers that were right before the edit count. Claims about single "
        text += "heads are tested in the head in focus."
        made.append(Section("Causal tests", text, figures.causal(tested)))
    return made


def _by_condition(name: str, lines: Sequence[SeedGroup]) -> list[go.Figure]:
    """A claim and its controls over the lengths (or the like) that the task is tested on, if there are any."""
    runs: dict[str, Measurement] = {}
    controls: dict[str, dict[str, Measurement]] = {}
    for one in lines:
        first = one.members[0]
        if conditions_as_groups(first.sample.conditions) is None or first[name].examples.dims != ("example",):
            return []
        runs[one.name] = _grouped(one, name)
        controls[one.name] = {control: _grouped(one, name, control) for control in one[name].controls}
    return figures.mechanism_rates(runs, controls)


def _grouped(one: SeedGroup, name: str, control: str | None = None) -> Measurement:
    """A measure, or a control of it, in each test condition; of several seeds, the mean over seeds."""
    parts = []
    for member in one.members:
        result = at_own_head(member[name]) if len(one.members) > 1 else member[name].at_head()
        examples, conditions = result.examples, member.sample.conditions
        if control is not None:
            examples, conditions = result.controls[control].examples, result.controls[control].conditions
        groups = conditions_as_groups(conditions)
        assert groups is not None
        parts.append(rates_by_group(examples, groups[1], groups[0]))
    return parts[0] if one.alone else over_seeds(parts, [member.run.config.seed for member in one.members])


def _graph(one: Inspected) -> Section:
    """One head's attention on one sequence, beside the task's graph."""
    assert one.head is not None
    layer, head = one.head
    matrices = attention_graph.matrices(one.example, 0, layer, head)
    gold = attention_graph.gold_edges(one.example, 0)
    drawn = [figures.attention_arcs(matrices, "pattern", [edge for edge in gold if edge[0] == 1])]
    drawn.append(figures.attention_matrix(matrices, "pattern", gold))
    if not np.allclose(matrices.select(matrix="pattern").values, matrices.select(matrix="resolvent").values):
        drawn.append(figures.attention_matrix(matrices, "resolvent", gold))
    text = f"{one['gold_mass'].mean.caption} Drawn: layer {layer}, head {head}, on one sequence; the head "
    text += "with the most mass on gold paths on other sequences."
    return Section(f"Attention on one sequence: {one.name}", text, drawn)


SHOWS = (
    "One vector a sequence, where its answer is asked for, over {n:,} held-out sequences together. Beside each run are "
    "a re-initialised model of its shape on the same sequences and, where questions are paired by their answers, the "
    "answers shuffled. None of this says that the model reads what is measured."
)
OVER_TRAINING = (
    "The same sequences at each of {n} checkpoints of one run (seed {seed}), from step {first:,}; bands are 95 % "
    "intervals over sequences, not over seeds. Measures that change together need not be cause and effect."
)


def further_sections(
    timelines: Sequence[Timeline], geometries: Mapping[str, Geometry], own_bases: Mapping[str, OwnBasis]
) -> list[Section]:
    """What was asked for beside the measurements: runs over training, many sequences together, bases of one's own."""
    made = []
    for timeline in timelines:
        drawn = [figures.timeline(timeline, name) for name in timeline.measured if name != "entropy"]
        if "entropy" in timeline.measured:
            drawn += figures.by_layer_over_training({timeline.name: timeline.measured["entropy"]}, {})
        first, seed = timeline.steps[0], timeline.run.config.seed
        text = OVER_TRAINING.format(n=len(timeline.steps), seed=seed, first=first)
        if timeline.head is not None:
            text += " Attention is that of layer {}, head {}, which is best at the end.".format(*timeline.head)
        made.append(Section(f"Over training: {timeline.name}", text, drawn))
    drawn, said = [], []  # a figure for each measure of many sequences, the runs beside each other, and words for each
    for name in SETS:
        each = {run: of_run for run, of_run in geometries.items() if name in of_run.measured}
        if each:
            own = {run: of_run[name] for run, of_run in each.items()}
            drawn += figures.by_layer(own, {run: of_run.controls[name] for run, of_run in each.items()})
            said += [f"{run}: {by_place.at_last(of_run[name], of_run.controls[name])}" for run, of_run in each.items()]
    if geometries:
        out = [(run, name, why) for run, of_run in geometries.items() for name, why in of_run.left_out.items()]
        said += [f"{run}: {name} was left out: {why}" for run, name, why in out]
        n = next(iter(geometries.values())).n
        made.append(Section("Over many sequences", "\n\n".join([SHOWS.format(n=n), *said]), drawn))
    for name, basis in own_bases.items():  # of one sequence; then each direction's mean cosine beside the control
        drawn = [figures.projection_map(basis.table, basis.directions.name)]
        if basis.measured is not None and basis.control is not None:
            drawn += figures.any_measure({name: basis.measured}, {name: {TURNED: basis.control}})
        made.append(Section(f"Residual on {basis.directions.name}: {name}", basis.says, drawn))
    return made
