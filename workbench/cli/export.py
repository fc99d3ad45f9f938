"""`workbench export`: write a run as one folder or zip, or as a model of Hugging Face."""

from __future__ import annotations

import argparse
from pathlib import Path

from workbench.cli.options import add_hugging_face, add_run
from workbench.cli.output import say
from workbench.cli.parser import Commands, add_command


def add(commands: Commands, name: str) -> None:
    parser = add_command(commands, name, run, summary="write a run as one folder or zip, or for Hugging Face")
    add_run(parser, "the run folder, or one that `workbench finetune` wrote")
    parser.add_argument(
        "out", type=Path, metavar="OUT", help="the folder to make, or, of a run as it is, the file if it ends in .zip"
    )
    add_hugging_face(parser)


def run(options: argparse.Namespace, _: list[str]) -> None:
    from workbench.sharing import export
    from workbench.sharing.hugging_face import CODE

    out = export(options.run, options.out, hugging_face=options.hugging_face)
    if (out / CODE).is_file():
        say(f"exported {out}; AutoModelForCausalLM.from_pretrained({str(out)!r}, trust_remote_code=True) loads it")
    else:
        say(f"exported {out}; `workbench import` takes it anywhere")
