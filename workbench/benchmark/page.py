"""The page that results make: what they say in sentences, a table for each question, and under it each family's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from workbench.benchmark.methods import METHODS
from workbench.benchmark.questions import NOTHING, PAIRS, TRUE_PAIRS
from workbench.benchmark.results import Mean, Results
from workbench.benchmark.scoring import SCORES
from workbench.benchmark.subjects import SUBJECTS

ABOUT = {
    "edges": "Which edges do the answers rest on?",
    "nodes": "Which heads and MLPs do the answers rest on, those that stand in for each other among them?",
    "decodable": "At which points does the residual hold a label, beyond what the token and its position tell?",
    "used": "At which points do the answers rest on a label?",
    "where": "In which subspace of a point does a variable live, so that an exchange within it is obeyed?",
}


@dataclass(frozen=True)
class Finding:
    """A sentence that the numbers complete: `{mean}`, `{worst}` in `{where}`, and `{other}` of another method.

    Where `silent` is a score, `{silent}` is that of the other method: how often it does not answer. `{worst}` is of the
    family where it is worst, or of the one that is named.
    """

    method: str
    score: str
    text: str
    other: str = ""
    null: str | None = None
    silent: str = ""
    family: str = ""


FINDINGS = (
    Finding(
        "eap",
        "edges_carrying",
        "`eap` tells the edges over which a change reaches the answer from idle ones with an AUROC of {mean}, and of "
        "{worst} on {where}; exact `{other_name}` with {other}.",
        "path_patching",
    ),
    Finding(
        "path_patching",
        "edges_power",
        "Patching on minimal pairs, exact as it is, names {mean} of the edges that the answers rest on: a head that "
        "looks at a fixed place reads queries and keys that are alike in both runs of a pair. `{other_name}` names "
        "{other}.",
        "edge_cutting",
    ),
    Finding(
        "edge_cutting",
        "edges_power",
        "Cutting one edge at a time names {worst} of them on {where}, where another head stands in; {mean} over all.",
        family="either_head",
    ),
    Finding(
        "edge_cutting",
        "edges_power",
        "On {where}, each of whose edges matters for some answers alone, the intervals of `edge_cutting` over "
        f"{PAIRS} pairs are clear of zero at {{worst}} of the true edges.",
        family="sorter",
    ),
    Finding(
        "eap",
        "edges_coverage",
        "The 95% intervals that `eap` has over pairs hold the true effect of {mean} of edges ({worst} on {where}), "
        "those of `{other_name}` of {other}: they know how pairs vary, and not how far off a gradient is.",
        "path_patching",
    ),
    Finding(
        "probe",
        "used_false_alarms",
        "Where the answers do not rest on a label, a `probe` decodes it, and so calls it used, at {mean} of points "
        "({worst} on {where}); `{other_name}` calls {other} used, and says nothing at {silent}.",
        "causal_test",
        silent="used_silent",
    ),
    Finding(
        "probe",
        "decodable_false_alarms",
        "A `probe` without controls says at {worst} of points on {where} that the residual holds more than the token "
        "and its position tell, where it does not; over all families `{other_name}` says so at {other}.",
        "probe_controlled",
    ),
    Finding(
        "probe",
        "decodable_in_nulls",
        "Of labels that were shuffled, a `probe` calls {mean} of points decodable ({worst} on {where}), `{other_name}` "
        "{other}.",
        "probe_controlled",
    ),
    Finding(
        "path_patching",
        "edges_in_nulls",
        "In re-initialised models, which solve nothing, `path_patching` finds an effect beyond zero in {mean} of all "
        "edges: such an effect alone is no circuit.",
        null="re-initialised",
    ),
    Finding(
        "das",
        "where_elsewhere",
        "A subspace that `das` finds is obeyed in {mean} of exchanges where the answers do not rest on the variable "
        "({worst} on {where}), one of `{other_name}` in {other}.",
        "mean_difference",
    ),
)


def findings(results: Results) -> list[str]:
    """What the results say in sentences, with how many subjects they rest on; of what they do not have, nothing."""
    said = []
    for each in FINDINGS:
        mean = results.mean(each.method, each.score, each.null)
        other = results.mean(each.other, each.score) if each.other else None
        silent = results.mean(each.other, each.silent) if each.silent else None
        if mean is None or (each.other and other is None) or (each.silent and silent is None):
            continue
        if each.family and each.family not in mean.families:
            continue
        best = SCORES[each.score].best
        where = each.family or max(mean.families, key=lambda family: abs(mean.families[family] - best))
        words = each.text.format(
            mean=f"{mean.value:.2f}",
            worst=f"{mean.families[where]:.2f}",
            where=f"`{where}`",
            other="" if other is None else f"{other.value:.2f}",
            other_name=each.other,
            silent="" if silent is None else f"{silent.value:.2f}",
        )
        said.append(f"{words} ({mean.subjects} subjects of {len(mean.families)} families)")
    return said


def page(results: Results, source: str) -> str:
    """The page in Markdown.

    Args:
        results: all of them.
        source: where they are, in words.
    """
    families = results.subjects
    lines = [
        "# A benchmark of methods",
        "",
        "Here you can look up how often each method finds what is known to be there, and how often what is not.",
        "",
        f"What {len(results.methods)} methods say of {sum(families.values())} models of {len(families)} families whose "
        f"mechanism is written into their weights. Made by `workbench bench report` from {source}, version "
        f"{results.version}, commit {', '.join(each[:12] for each in str(results.commit).split(', '))}.",
        "",
        "A cell is the mean over families with its 95% interval; a family's value is the mean over its models, which "
        "are drawn from seeds. n counts families: models of one family are much alike. – is what a method does not "
        "say. Each cell leads to its families.",
        "",
        "## What it says",
        "",
        *(f"{number}. {said}" for number, said in enumerate(findings(results), 1)),
        "",
    ]
    for asks, names, found in results.tables():
        lines += [f"## {asks.capitalize()}", "", ABOUT[asks], ""]
        shown = {at: name for at, name in enumerate(names) if any(means[at] for means in found.values())}
        rows = []
        for method, means in found.items():
            cells = ("–" if means[at] is None else f"[{means[at]}](#{name})" for at, name in shown.items())
            rows.append([f"`{method}`", *cells])
        lines += _table(["method", *(SCORES[name].words for name in shown.values())], rows)
        for at, name in shown.items():
            lines += _by_family(name, {method: means[at] for method, means in found.items()})
    return "\n".join([*lines, *_cost(results), *_how(results)]) + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["", *(f"| {' | '.join(line)} |" for line in lines), ""]


def _by_family(name: str, means: dict[str, Mean | None]) -> Iterator[str]:
    """What a score says, and its value for each family and method."""
    score, chosen = SCORES[name], {method: mean for method, mean in means.items() if mean is not None}
    families = [family for family in SUBJECTS if any(family in mean.families for mean in chosen.values())]
    chance = "" if score.chance is None else f" Chance is {score.chance:g}."
    yield from (f'<a id="{name}"></a>', "", f"**{score.words}.** {score.about}{chance} Best: {score.best:g}.")
    rows = [
        [f"`{f}`", *(f"{mean.families[f]:.2f}" if f in mean.families else "–" for mean in chosen.values())]
        for f in families
    ]
    yield from _table(["family", *(f"`{method}`" for method in chosen)], rows)


def _cost(results: Results) -> Iterator[str]:
    """What each method takes."""
    yield from ("## Cost", "", "Of a model, all answers together: the median over models. Backward passes are not")
    yield "counted; memory is what the process has above that before, on one core of the machine that made the results."
    rows = []
    for method in results.methods:
        cost = results.cost(method)
        if cost:
            memory = f"{cost['memory'] / 2**20:.1f}" if "memory" in cost else "–"
            rows.append(
                [f"`{method}`", f"{cost['passes']:.0f}", f"{cost['sequences']:,.0f}", f"{cost['seconds']:.3f}", memory]
            )
    yield from _table(["method", "passes", "sequences in them", "seconds", "MB of memory"], rows)


def _how(results: Results) -> list[str]:
    failures = [f"- {failure}" for failure in results.failures]
    of_families = [[f"`{f}`", str(n), (SUBJECTS[f].__doc__ or "").split("\n")[0]] for f, n in results.subjects.items()]
    of_methods = [[f"`{m}`", (METHODS[m].__doc__ or "").split("\n")[0]] for m in results.methods if m in METHODS]
    return [
        *(["## What failed", "", *failures, ""] if failures else []),
        "## How it is made",
        "",
        f"A method gets a model without its name, {PAIRS} minimal pairs or the task with its labels, and what it is "
        f"asked about. True effects are exact, of {TRUE_PAIRS} other pairs in double precision. The label `{NOTHING}` "
        "is held nowhere. Nulls are the same model with fresh weights, or with its weights in random order; of labels "
        "also the model as it is, with the labels dealt anew among the places that have one. Every edge, node and "
        "label of a subject is cut, silenced or erased in the tests.",
        *_table(["family", "models", "what is true"], of_families),
        *_table(["method", "what it does"], of_methods),
        "A method of your own: `workbench new method NAME`, then `workbench bench run NAME --plugin NAME.py`.",
    ]
