"""`workbench circuit`: which edges of a model carry the answer, on pairs of questions that differ in one thing."""

from __future__ import annotations

import argparse

from workbench.cli.output import announce, show
from workbench.cli.parser import AddCommand, add_pairs, check_pairs, chosen


def add(command: AddCommand) -> None:
    parser = command(
        summary="which edges of a model carry the answer, on pairs that differ in one thing",
        description="Draw pairs of questions that differ in one thing, score every edge of the model on half of them, "
        "and test on the other half whether the circuit of the best edges is faithful: whether it keeps 90 to 110 "
        "per cent of the answer, with its interval. Beside it: what is left without the circuit, pairs that change "
        "nothing relevant, and how far circuits of two halves agree. "
        "With --pairs, the same of a model of Hugging Face on pairs of texts.",
    )
    add_pairs(parser)
    parser.add_argument("--method", default="eap_ig", help="eap_ig, eap, gim or path_patching, which is exact and slow")
    parser.add_argument(
        "--edges",
        type=int,
        metavar="N",
        help="the circuit's size (default: the fewest from which on all keep 90 to 110 %%)",
    )
    parser.add_shared("--step")
    parser.add_shared("--seed", help="seed of the pairs (default: 0)")
    parser.add_shared("--out", help="write the circuit as JSON and Graphviz there, and the numbers")
    parser.add_shared("--quiet", "--json")


def run(options: argparse.Namespace, fields: list[str]) -> None:
    from workbench.report.circuits import circuit
    from workbench.util.files import check_free

    announce("measuring", [options.run], options.quiet)
    if options.out is not None:
        check_free(options.out)
    check_pairs(options)
    given = chosen(options, "pairs", "n", "later", "metric", "method", "edges", "step", "seed")
    found = circuit(options.run, options.kind, **given)
    show(found, options, "the circuit and its numbers")
