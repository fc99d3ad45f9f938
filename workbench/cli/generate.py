"""`workbench generate`: what a model writes under edits, beside what it writes without them."""

from __future__ import annotations

import argparse

from workbench.cli.output import show
from workbench.cli.parser import AddCommand, chosen


def add(command: AddCommand) -> None:
    parser = command(
        summary="what a model writes under edits, beside what it writes without them",
        description="Let a model go on from a prompt twice, unedited and edited, and say where the two texts part. "
        "Edits: `add NAME X` (X times a direction of --basis is added to the residual), `set NAME X` and "
        "`scale NAME X` (its coordinate along the direction), each with a POINT behind where the file does not say "
        "one; `head LAYER.HEAD` and `write POINT` (nothing is written); `cut QUERY KEY`; `patch POINT TEXT` (the "
        "prompt's last token holds what the last one of TEXT holds).",
    )
    parser.add_shared("model")
    parser.add_argument("prompt", metavar="PROMPT", help="a text; of a run words of its task")
    parser.add_argument(
        "--edit",
        action="append",
        nargs="+",
        default=[],
        metavar="WORD",
        dest="edits",
        help="an edit, such as `add mood=1 4`; several are made at once",
    )
    parser.add_shared("--basis", help="named directions, a safetensors file")
    parser.add_argument("--tokens", type=int, default=20, metavar="N", help="the most new tokens (default: 20)")
    parser.add_argument(
        "--temperature", type=float, default=0.0, help="draw tokens at this temperature (default: 0, the likeliest)"
    )
    parser.add_argument("--step", type=int, help="of a run's checkpoint (default: the end)")
    parser.add_shared("--seed", help="seed of the tokens drawn (default: 0)")
    parser.add_shared("--json")


def run(options: argparse.Namespace, fields: list[str]) -> None:
    from workbench.report.generation import generate

    given = chosen(options, "edits", "basis", "tokens", "temperature", "seed", "step")
    show(generate(options.model, options.prompt, **given), options)
