"""`workbench runs`: list, filter, compare or delete runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.cli.options import add_root, add_where, check_root, refuse
from workbench.cli.output import say, warn
from workbench.cli.parser import Commands, add_command

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("run", "task.name", "variants", "seed", "status", "step", "accuracy", "loss", "seconds", "tokens_per_second")
SPARE = ("tokens_per_second", "seconds", "loss", "step", "variants", "seed")  # left out in this order for want of room


def add(commands: Commands, name: str) -> None:
    parser = add_command(
        commands,
        name,
        run,
        summary="list, filter, compare or delete runs",
        description="List the runs under a folder, all or those named, or those that meet conditions on their "
        "settings and figures: --where task.name=sorting --where 'accuracy>0.9'.",
    )
    parser.add_argument("runs", nargs="*", metavar="NAME", help="these runs alone")
    add_root(parser)
    add_where(parser, "CONDITION", "such as seed=0 or loss<0.1")
    parser.add_argument("--sort", metavar="COLUMN", help="such as accuracy, seconds, model.n_layers")
    parser.add_argument("--compare", action="store_true", help="what differs between them, and what came of it")
    parser.add_argument("--csv", action="store_true", help="as CSV: every setting and figure, or --compare's")
    parser.add_argument("--delete", action="store_true", help="delete them, after asking")
    parser.add_argument("--yes", action="store_true", help="with --delete: do not ask")


def run(options: argparse.Namespace, _: list[str]) -> None:
    from workbench.cli.terminal_table import print_table
    from workbench.runs import load_run
    from workbench.runs.listing import compare

    check_root(options.root)
    if options.delete and not (options.runs or options.where):
        raise ValueError("no run was named to be deleted; name some, or say which with --where")
    if options.delete:
        refuse(options, ("sort", "compare", "csv"), "shows runs, and --delete deletes them; leave one of the two out")
    else:
        refuse(options, ("yes",), "is of deleting; give --delete too")
    frame, problems = _chosen(options)
    folders = [options.root / name for name in frame["run"]]
    if options.delete:
        _delete(folders, options.yes)
    elif options.compare:
        compared = compare([load_run(folder) for folder in folders]).reset_index(names="")
        say(compared.to_csv(index=False).rstrip()) if options.csv else print_table(compared)
    elif options.csv:
        say(frame.to_csv(index=False).rstrip())
    elif len(frame):
        print_table(frame[list(COLUMNS)], SPARE)
    else:
        say(f"no run under {options.root} meets that" if options.where else f"there is no run under {options.root}")
    if not (options.runs or options.delete or options.compare):
        for line in (f"cannot be read: {problem}" for problem in problems):
            warn([line]) if options.csv else say(line)


def _chosen(options: argparse.Namespace) -> tuple[pd.DataFrame, list[str]]:
    """A row for each run that is meant, sorted; and why other folders under the root cannot be read."""
    from workbench.runs import load_run
    from workbench.runs.listing import filtered, in_order, row_of, table

    frame, problems = table(options.root)
    names = [name.rstrip("/") for name in options.runs]
    absent = [name for name in names if name not in set(frame["run"])]
    if absent:
        row_of(load_run(options.root / absent[0]))  # raises with what is wrong with it
        raise ValueError(f"there is no run {absent[0]} directly under {options.root}")
    if names:
        frame = frame[frame["run"].isin(names)]
    frame = filtered(frame, options.where) if len(frame) else frame
    if options.sort and len(frame):
        frame = in_order(frame, options.sort)
    return frame, problems


def _delete(folders: Sequence[Path], yes: bool) -> None:
    from workbench.runs.listing import Doomed, delete

    if not folders:
        raise ValueError("no run was named to be deleted, and none meets the conditions")
    doomed = [Doomed.of(folder) for folder in folders]
    for one in doomed:
        say(f"{one.path}  {one.bytes / 1e6:.1f} MB")
    if not yes:
        if not sys.stdin.isatty():
            raise ValueError("deleting asks first, and there is nobody to ask; say --yes")
        if input(f"delete {'these' if len(doomed) > 1 else 'this'} for good? [y/N] ").strip().lower() != "y":
            say("nothing was deleted")
            return
    delete(doomed)
    say(f"deleted {len(doomed)}")
