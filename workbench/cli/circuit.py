"""`workbench circuit`: which edges of a model carry the answer, on pairs of questions that differ in one thing."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.cli.options import add_count, add_out, add_run, add_seed
from workbench.cli.output import say, warn
from workbench.cli.parser import Commands, add_command

if TYPE_CHECKING:
    import torch

    from workbench.circuits import Comparison

PAIRS = 64


def add(commands: Commands, name: str) -> None:
    parser = add_command(
        commands,
        name,
        run,
        summary="which edges of a model carry the answer, on pairs that differ in one thing",
        description="Draw pairs of questions that differ in one thing, score every edge of the model on half of them, "
        "and test on the other half whether the circuit of the best edges is faithful: whether it keeps 90 to 110 "
        "per cent of the answer, with its interval. Beside it: what is left without the circuit, pairs that change "
        "nothing relevant, and how far circuits of two halves agree. "
        "With --pairs, the same of a model of Hugging Face on pairs of texts.",
    )
    add_run(parser, "the run folder; or with --pairs a model of Hugging Face, a folder or a name on the hub")
    parser.add_argument("kind", nargs="?", metavar="PAIRS", help="what is changed (default: the task's first kind)")
    parser.add_argument(
        "--pairs",
        type=Path,
        metavar="FILE",
        help="of a model: pairs written by hand, JSON lines or CSV of clean, corrupted, answer, wrong",
    )
    add_count(parser, f"pairs (default: {PAIRS}; of a file, all)")
    parser.add_argument(
        "--later", action="store_true", help="ask for the answers behind the first that the change changes"
    )
    parser.add_argument("--metric", default="logit_difference", help="logit_difference, probability or kl")
    parser.add_argument("--method", default="eap_ig", help="eap_ig, eap or path_patching, which is exact and slow")
    parser.add_argument(
        "--edges", type=int, metavar="N", help="the circuit's size (default: the fewest that keep 90 to 110 %%)"
    )
    parser.add_argument("--step", type=int, help="of a checkpoint (default: the end)")
    add_seed(parser, "seed of the pairs")
    add_out(parser, "write the circuit as JSON and Graphviz there, and the numbers")


def run(options: argparse.Namespace, fields: list[str]) -> None:
    from workbench.circuits.summary import find_circuit
    from workbench.util.files import check_free, new_folder
    from workbench.util.seeds import generator

    if options.out is not None:
        check_free(options.out)
    draws = generator(options.seed, "circuit")
    sides = _of_run(options, draws) if options.pairs is None else (_of_model(options), None)
    found = find_circuit(*sides, draws, method=options.method, size=options.edges)
    say(found.text())
    if options.out is not None:
        with new_folder(options.out) as folder:
            found.save(folder)
        say(f"\nthe circuit and its numbers: {options.out}")


def _of_run(options: argparse.Namespace, draws: torch.Generator) -> tuple[Comparison, Comparison | None]:
    """A run on pairs of its task, and on pairs that change nothing relevant."""
    from workbench.circuits.summary import on_pairs
    from workbench.runs import load_run

    opened = load_run(options.run)
    given = {"kind": options.kind, "metric": options.metric, "name": opened.name_at(options.step)}
    given["later"] = options.later
    n = PAIRS if options.n is None else options.n
    comparison, control, why = on_pairs(opened.hooked(options.step), opened.task(), n, draws, **given)
    if control is None:
        warn([f"no control: {why}"])
    return comparison, control


def _of_model(options: argparse.Namespace) -> Comparison:
    """A model of Hugging Face on the pairs of a file, which say themselves what they change: there is no control."""
    from workbench.circuits import Comparison
    from workbench.circuits.pairs_file import read_pairs, read_rows
    from workbench.models.pretrained import load_model

    for name in ("kind", "step", "n", "later"):
        if getattr(options, name) not in (None, False):
            given = f"the kind {options.kind!r}" if name == "kind" else f"--{name}"
            raise ValueError(f"{given} is of a run's own pairs; leave it or --pairs out")
    next(read_rows(options.pairs), None)  # a file that cannot be read is said before a model is loaded
    model = load_model(options.run, progress=False)
    return Comparison(model.hooked(), read_pairs(options.pairs, model), options.metric, name=model.config.module)
