"""`workbench heads`: every head of a model by its role, beside re-initialised models, and what is lost without it."""

from __future__ import annotations

import argparse

from workbench.cli.output import announce, show
from workbench.cli.parser import AddCommand, chosen


def add(command: AddCommand) -> None:
    parser = command(
        summary="which head does what: its role, beside re-initialised models, and what is lost without it",
        description="Measure what share of its attention every head gives to the previous token, to earlier "
        "occurrences of its token and to what followed them, to the task's true edges, and to the token that a label "
        "of the task names, such as the minimum. The strongest of each role are told beside what heads of "
        "re-initialised models reach, with the right answers that turn wrong when they write nothing. A model of "
        "Hugging Face is given random tokens that come twice, or a text.",
    )
    parser.add_shared("model")
    parser.add_shared(
        "--text",
        metavar="FILE|SET",
        help="of a model of Hugging Face: a text file in UTF-8, or a prompt set, such as indirect-objects",
    )
    parser.add_argument("--n", type=int, default=128, help="sequences (default: 128)")
    parser.add_argument("--top", type=int, default=2, metavar="N", help="heads of each role (default: 2)")
    parser.add_shared("--step")
    parser.add_shared("--seed", help="seed of the sequences (default: 0)")
    parser.add_shared("--out", help="write the map there, and the numbers")
    parser.add_shared("--quiet", "--json")


def run(options: argparse.Namespace, fields: list[str]) -> None:
    from workbench.report.heads import heads
    from workbench.util.files import check_free

    announce("measuring", [options.model], options.quiet)
    if options.out is not None:
        check_free(options.out)
    ranked = heads(options.model, **chosen(options, "text", "n", "top", "step", "seed"))
    show(ranked, options, "the map and its numbers")
