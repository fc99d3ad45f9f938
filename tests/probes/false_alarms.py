"""How often probes and causal tests say what is not so, of models that know nothing; and how often they find what is.

Of each task, twenty models that know nothing: fresh weights, weights of a shortly trained model shuffled, and these
times 10. `ask` puts every question that there is of the task to each. Counted are:

used       labels, of those at each place that can be decoded and so are tested, that are called used: a false alarm,
           since nothing was learnt. That a label can be *decoded* from such a model is none: averages of the input do
           hold it.
decodable  labels that have nothing to do with the sequence, since each row has that of another sequence at its
           position: whatever is called decodable is a false alarm.

And of models that are known to read a label (compiled, or trained until they solve a task that cannot be solved
without), how often it is called used.

python -m tests.probes.false_alarms                     print the tables
python -m tests.probes.false_alarms --write             and put them into docs/probing.md
python -m tests.probes.false_alarms --keep FILE …       keep what is measured in a file, and go on from there
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from scipy import stats

import workbench
from tests.tables_in_docs import put
from workbench import tasks
from workbench.judgement.decodable import BASELINES
from workbench.measurement.controls import untrained as nulls
from workbench.models import Decoder
from workbench.probes import PRESETS, Status, Worth, applicable, ask, judge
from workbench.probes.baselines_and_controls import ProbeData, Source
from workbench.probes.probing import measure
from workbench.runs import Run, save_run
from workbench.runs.compiled import compile_run
from workbench.tasks import Task
from workbench.util.seeds import generator

DOCS = Path(__file__).parents[2] / "docs" / "probing.md"
DRAWS = 20  # null models of each task
SEQUENCES = 512  # that probes are fitted to and tried on
ERROR = 0.05  # stated: of a label at a place, over all points and outcomes
STEPS = 200  # of the training before weights are shuffled
KINDS = ("untrained", "shuffled", "shuffled × 10")
SMALL: dict[str, dict[str, Any]] = {
    "chain-standard": {"task": {"n": 16, "k": 4}},
    "boxes-standard": {"task": {"n_boxes": 3, "n_objects": 8, "max_operations": 2}},
    "sort-standard": {"task": {"q": 9, "max_length": 6, "test_max_length": 7}},
    "increment-standard": {"model": {"n_layers": 2}, "task": {"max_length": 4, "test_max_length": 5}},
    "multiply-vanilla": {},
    "arithmetic-vanilla": {},
    "lis-vanilla": {"task": {"length": 8, "values": 32}, "model": {"n_layers": 2}},
    "text": {},
}


def shortly_trained(name: str, root: Path) -> Run:
    """A small model of a preset's task after a few steps: its weights have the size of trained ones."""
    if name == "text":
        words = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "and", "runs", "away", "fast"]
        order = torch.randint(len(words), (4000,), generator=generator(0, "prose"))
        (root / "prose.txt").write_text(" ".join(words[i] for i in order), encoding="utf-8")
        task = tasks.make("text", path=str(root / "prose.txt"), block=24)
        shape = workbench.models.DecoderConfig(2, 32, 2, d_vocab=len(task.vocabulary.ids), n_ctx=task.n_ctx)
        return save_run(root / "text", Decoder(shape, generator(0, "text")), task)
    model = {"d_model": 32, "n_heads": 2, **SMALL[name].get("model", {})}
    fields = {**SMALL[name], "model": model, "steps": STEPS, "batch_size": 32, "eval_size": 32}
    return workbench.train(name, out=root / name, progress=False, **fields)


def null_models(run: Run, draws: int) -> Iterator[tuple[str, Decoder]]:
    """Models that know nothing, of every kind in turn."""
    model = run.model()
    for draw in range(draws):
        kind = KINDS[draw % len(KINDS)]
        chance = generator(draw, "false alarms", kind)
        null = nulls.untrained(model, chance) if kind == "untrained" else nulls.shuffled(model, chance)
        if kind == "shuffled × 10":
            with torch.no_grad():
                for parameter in null.parameters():
                    parameter.mul_(10)
        yield kind, null


def asked_of(run: Run, seed: int) -> dict[str, int]:
    """How many labels at places a task's questions ask for, as far as use is tested, and how many are called used."""
    count = {"asked": 0, "decodable": 0, "used": 0, "models": 0}
    for name in applicable(run.task()):
        if PRESETS[name].causal:
            found = ask(run, name, n=SEQUENCES, seed=seed, controls=BASELINES).findings
            count["asked"] += len(found)
            count["used"] += sum(finding.status is Status.USED for finding in found)
            count["decodable"] += sum(finding.point is not None for finding in found)
    count["models"] = int(count["used"] > 0)
    return count


def elsewhere(asked: ProbeData, chance: torch.Generator) -> ProbeData:
    """The same rows, each with the labels of a row at the same position of another sequence.

    The label that is the position itself is taken from any row.
    """
    order = torch.arange(asked.y[0].shape[1]).repeat(len(asked.where.position), 1)
    for place, position in enumerate(asked.where.position):
        itself = asked.y[0].ndim == 2 and bool((asked.y[0][place] == position).all())
        for here in [position] if itself else position.unique():
            rows = (position == here).nonzero()[:, 0]
            order[place, rows] = rows[torch.randperm(len(rows), generator=chance)]
    place = torch.arange(len(order))[:, None]
    return replace(asked, y=[values[place, order] for values in asked.y])


def decoded_of(run: Run, seed: int) -> dict[str, int]:
    """How many cells (label, place, point) of labels of other sequences there are, and how many are decodable."""
    count = {"cells": 0, "cells decodable": 0}
    task: Task = run.task()
    for name in applicable(task):
        preset = PRESETS[name]
        for label in preset.names(task):
            source = Source.of_run(run, None, n=SEQUENCES, seed=seed, step=None)
            asked = elsewhere(ProbeData.of(source, [label], preset.rule(label), seed), generator(seed, "elsewhere"))
            try:
                found = measure(asked, [label], preset.kind, BASELINES, {"positions": preset.rule(label)})
            except ValueError:  # among so few sequences there is nothing to tell apart
                continue
            found = found.select(label=label)
            for point in found.coords["point"]:
                for place in found.coords.get("place", [None]):
                    at = {"point": point} if place is None else {"point": point, "place": place}
                    worth = judge(found.select(**at)).worth
                    count["cells"] += worth is not Worth.ONE_VALUE
                    count["cells decodable"] += worth is Worth.DECODABLE
    return count


def false_alarms(keep: dict[str, Any], save: Any, draws: int = DRAWS) -> None:
    """Count them task by task; what is in `keep` already is not done again."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for preset in SMALL:
            wanted = [f"{preset}/{draw}" for draw in range(draws)]
            if all(name in keep for name in wanted):
                continue
            run = shortly_trained(preset, root)
            for draw, (kind, model) in enumerate(null_models(run, draws)):
                if wanted[draw] in keep:
                    continue
                null = save_run(root / f"{preset}-{draw}", model, run.task())
                keep[wanted[draw]] = {
                    "task": run.task().name,
                    "kind": kind,
                    **asked_of(null, draw),
                    **decoded_of(null, draw),
                }
                save()


KNOWN: dict[str, tuple[str, dict[str, Any], str, tuple[str, ...]]] = {
    "compiled sorter": ("sorter", {"q": 9}, "minimum successor", ("minimum", "successor")),
    "compiled chaser": ("chaser", {"n": 32, "k": 4}, "hops", ("root",)),
}
TRAINED: dict[str, tuple[dict[str, Any], str, tuple[str, ...]]] = {
    "chain-chacal": ({}, "hops", ("root",)),
    "sort-standard": (
        {"task": {"q": 9, "max_length": 8, "test_max_length": 8}, "steps": 1500},
        "successor",
        ("successor",),
    ),
}
ROTATIONS, SEEDS = 3, 2  # bases of a compiled model, and trainings of another


def power(keep: dict[str, Any], save: Any, rotations: int = ROTATIONS, seeds: int = SEEDS) -> None:
    """Count how often what is read is called used: in compiled models in several bases, and in trained ones."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, (recipe, settings, questions, labels) in KNOWN.items():
            for draw in range(rotations):
                if f"{name}/{draw}" not in keep:
                    turn = {} if draw == 0 else {"rotate_seed": draw}
                    run = compile_run(recipe, root / f"{recipe}-{draw}", {**settings, **turn})
                    keep[f"{name}/{draw}"] = {"model": name, **_used(run, questions.split(), labels, draw)}
                    save()
        for name, (fields, question, labels) in TRAINED.items():
            for draw in range(seeds):
                if f"{name}/power/{draw}" not in keep:
                    run = workbench.train(name, out=root / f"{name}-{draw}", progress=False, seed=draw, **fields)
                    keep[f"{name}/power/{draw}"] = {"model": f"trained {name}", **_used(run, [question], labels, draw)}
                    save()


def _used(run: Run, questions: list[str], labels: tuple[str, ...], seed: int) -> dict[str, int]:
    found = [one for name in questions for one in ask(run, name, seed=seed, controls=BASELINES).findings]
    known = [one for one in found if one.label in labels]
    return {"asked": len(known), "used": sum(one.status is Status.USED for one in known)}


def beyond(count: int, of: int, rate: float = ERROR) -> bool:
    """Whether so many false alarms are more than a rate explains: by chance so many in less than one of 40 such."""
    return of > 0 and float(stats.binom.sf(count - 1, of, rate)) < 0.025


def tables(keep: dict[str, Any]) -> list[str]:
    """What was counted, as tables."""
    rows = [row for row in keep.values() if "kind" in row]
    sums = ("used", "asked", "models", "decodable", "cells decodable", "cells")
    lines = [
        "| of models that know nothing | models | labels asked for | called used, of those tested | models with any "
        "| labels of other sequences called decodable |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    groups = [(row["task"], "task") for row in rows] + [(kind, "kind") for kind in KINDS]
    for name, by in [*dict.fromkeys(groups), ("all", "")]:
        own = [row for row in rows if not by or row[by] == name]
        at = {key: sum(row[key] for row in own) for key in sums}
        used = f"{at['used']} of {at['decodable']}" if at["asked"] else "none is tested"
        shown = f"**{name}**" if not by else name
        wrong = f"{at['cells decodable']} of {at['cells']}"
        lines.append(f"| {shown} | {len(own)} | {at['asked']} | {used} | {at['models']} | {wrong} |")
    lines.append(f"| expected, at most | | | {ERROR:.0%} | | {ERROR:.0%} |")
    lines += ["", "| of models that read the label | called used |", "|---|---:|"]
    known = [row for row in keep.values() if "model" in row]
    for name in dict.fromkeys(row["model"] for row in known):
        own = [row for row in known if row["model"] == name]
        lines.append(f"| {name}, {len(own)} | {sum(r['used'] for r in own)} of {sum(r['asked'] for r in own)} |")
    return lines


def main() -> None:
    """Count, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/probing.md")
    parser.add_argument("--keep", type=Path, help="a file to keep what is measured in")
    options = parser.parse_args()
    keep: dict[str, Any] = {}
    if options.keep is not None and options.keep.exists():
        keep = json.loads(options.keep.read_text(encoding="utf-8"))

    def save() -> None:
        if options.keep is not None:
            options.keep.write_text(json.dumps(keep, indent=1), encoding="utf-8")

    false_alarms(keep, save)
    power(keep, save)
    lines = tables(keep)
    sys.stdout.write("\n".join(lines) + "\n")
    if options.write:
        put("false alarms", "\n".join([*lines, ""]), DOCS)


if __name__ == "__main__":
    main()
