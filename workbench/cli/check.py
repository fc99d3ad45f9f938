"""`workbench check`: whether a hooked model is the model, and whether edits reach what it gives out."""

from __future__ import annotations

import argparse

from workbench.cli.output import FAILED, announce, show
from workbench.cli.parser import AddCommand


def add(command: AddCommand) -> None:
    parser = command(
        summary="whether a hooked model is the model, and whether edits reach what it gives out",
        description="Run a hooked model on a few random tokens: does every hook fire, are its logits those of the "
        "model without hooks, does nothing that comes later, stands beside or pads a sequence change them, do its "
        "blocks add what they write, and does every kind of edit change them. A check that fails gives exit code 1.",
    )
    parser.add_shared("model", "--step", "--json", "--quiet")


def run(options: argparse.Namespace, fields: list[str]) -> int:
    announce("checking", [options.model], options.quiet)
    from workbench.report.model_check import check

    checked = check(options.model, step=options.step, progress=not options.quiet)
    show(checked, options)
    return 0 if checked.passed else FAILED
