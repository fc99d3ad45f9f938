"""`workbench heads`: every head of a model by its role, beside re-initialised models, and what is lost without it."""

from __future__ import annotations

import argparse
from pathlib import Path

from workbench.cli.options import add_count, add_json, add_out, add_quiet, add_seed
from workbench.cli.output import announce, show_and_save
from workbench.cli.parser import Commands, add_command


def add(commands: Commands, name: str) -> None:
    parser = add_command(
        commands,
        name,
        run,
        summary="which head does what: its role, beside re-initialised models, and what is lost without it",
        description="Measure what share of its attention every head gives to the previous token, to earlier "
        "occurrences of its token and to what followed them, to the task's true edges, and to the token that a label "
        "of the task names, such as the minimum. The strongest of each role are told beside what heads of "
        "re-initialised models reach, with the right answers that turn wrong when they write nothing. A model of "
        "Hugging Face is given random tokens that come twice, or a text.",
    )
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="a run folder; or a model of Hugging Face, a folder, a GGUF file or a name on the hub",
    )
    parser.add_argument(
        "--text",
        type=Path,
        metavar="FILE|SET",
        help="of a model of Hugging Face: a text file in UTF-8, or a prompt set, such as indirect-objects",
    )
    add_count(parser, "sequences (default: 128)", 128)
    parser.add_argument("--top", type=int, default=2, metavar="N", help="heads of each role (default: 2)")
    parser.add_argument("--step", type=int, help="of a checkpoint (default: the end)")
    add_seed(parser, "seed of the sequences")
    add_out(parser, "write the map there, and the numbers")
    add_quiet(parser)
    add_json(parser)


def run(options: argparse.Namespace, fields: list[str]) -> None:
    from workbench.report.heads import heads
    from workbench.util.files import check_free

    announce("measuring", [options.model], options.quiet)
    if options.out is not None:
        check_free(options.out)
    given = ("text", "n", "top", "step", "seed")
    ranked = heads(options.model, **{name: getattr(options, name) for name in given})
    show_and_save(ranked, options, "the map and its numbers")
