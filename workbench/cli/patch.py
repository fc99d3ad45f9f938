"""`workbench patch`: how much of the answer each part of a model brings back, by layer, position and head."""

from __future__ import annotations

import argparse

from workbench.cli.output import announce, show
from workbench.cli.parser import AddCommand, add_pairs, check_pairs, chosen


def add(command: AddCommand) -> None:
    parser = command(
        summary="how much of the answer each part of a model brings back, by layer and position",
        description="Draw pairs of questions that differ in one thing, put what one part of the model holds on the "
        "first question into its run on the second, and measure how much of the first answer comes back: of the "
        "residual, attention and MLPs at every layer and position, and of every head. Beside it: pairs that change "
        "nothing relevant. With --pairs, the same of a model of Hugging Face on pairs of texts.",
    )
    add_pairs(parser)
    parser.add_argument(
        "--direction",
        default="denoise",
        help="denoise, clean parts into the corrupted run (the default), or noise, the other way round",
    )
    parser.add_argument(
        "--method",
        help="exact, a pass for each place, or estimate, from the gradient (default: exact where that takes a minute "
        "at most)",
    )
    parser.add_shared("--step")
    parser.add_shared("--seed", help="seed of the pairs (default: 0)")
    parser.add_shared("--out", help="write the maps there, and the numbers")
    parser.add_shared("--quiet", "--json")


def run(options: argparse.Namespace, fields: list[str]) -> None:
    from workbench.report.patching import patch
    from workbench.util.files import check_free

    announce("patching", [options.run], options.quiet)
    if options.out is not None:
        check_free(options.out)
    check_pairs(options)
    given = chosen(options, "pairs", "n", "later", "metric", "direction", "method", "step", "seed")
    patched = patch(options.run, options.kind, **given)
    show(patched, options, "the maps and their numbers")
