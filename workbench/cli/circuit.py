"""`workbench circuit`: which edges of a model carry the answer, on pairs of questions that differ in one thing."""

from __future__ import annotations

import argparse
from pathlib import Path

from workbench.cli.options import add_count, add_json, add_out, add_run, add_seed, refuse
from workbench.cli.output import say, show
from workbench.cli.parser import Commands, add_command

PAIRS = 64  # `report.circuits.PAIRS`, without importing it to show the help


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
    add_json(parser)


def run(options: argparse.Namespace, fields: list[str]) -> None:
    from workbench.report.circuits import circuit
    from workbench.util.files import check_free, new_folder

    if options.out is not None:
        check_free(options.out)
    if options.pairs is not None:
        refuse(options, ("step", "n", "later"), "is of a run's own pairs; leave it or --pairs out")
        if options.kind is not None:
            raise ValueError(f"the kind {options.kind!r} is of a run's own pairs; leave it or --pairs out")
    names = ("pairs", "n", "later", "metric", "method", "edges", "step", "seed")
    found = circuit(options.run, options.kind, **{name: getattr(options, name) for name in names})
    show(found, options)
    if options.out is not None:
        with new_folder(options.out) as folder:
            found.save(folder)
        if not options.json:
            say(f"\nthe circuit and its numbers: {options.out}")
