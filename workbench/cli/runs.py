"""`workbench runs`: list, filter, compare or delete runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.cli.output import say, warn
from workbench.cli.parser import AddCommand, check_root, refuse
from workbench.util.settings import as_json
from workbench.util.words import as_it_says

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from workbench.runs import Run

COLUMNS = ("run", "task.name", "variants", "seed", "status", "step", "accuracy", "loss", "seconds", "tokens_per_second")
SPARE = ("tokens_per_second", "seconds", "loss", "step", "variants", "seed")  # left out in this order for want of room


def add(command: AddCommand) -> None:
    parser = command(
        summary="list, filter, compare or delete runs",
        description="List the runs under a folder, all or those named, or those that meet conditions on their "
        "settings and figures: --where task.name=sorting --where 'accuracy>0.9'.",
    )
    parser.add_argument("runs", nargs="*", metavar="NAME", help="these runs alone")
    parser.add_shared("--root")
    parser.add_shared("--where", metavar="CONDITION", help="such as seed=0 or loss<0.1")
    parser.add_argument("--sort", metavar="COLUMN", help="such as accuracy, seconds, model.n_layers")
    parser.add_argument("--compare", action="store_true", help="what differs between them, and what came of it")
    parser.add_argument("--csv", action="store_true", help="as CSV: every setting and figure, or --compare's")
    parser.add_shared("--json")
    parser.add_argument("--delete", action="store_true", help="delete them, after asking")
    parser.add_argument("--yes", action="store_true", help="with --delete: do not ask")


def run(options: argparse.Namespace, _: list[str]) -> None:
    from workbench.cli.terminal_table import print_table
    from workbench.runs.listing import compare

    check_root(options.root)
    if options.delete and not (options.runs or options.where):
        raise ValueError("no run was named to be deleted; name some, or say which with --where")
    if options.json:
        refuse(options, ("compare", "csv"), "prints something else than --json; leave one of the two out")
    if options.delete:
        shows = ("sort", "compare", "csv", "json")
        refuse(options, shows, "shows runs, and --delete deletes them; leave one of the two out")
    else:
        refuse(options, ("yes",), "is of deleting; give --delete too")
    listed = runs_table(options.root, options.runs, where=options.where, sort=options.sort)
    frame = listed.frame
    if options.delete:
        _delete([options.root / name for name in frame["run"]], options.yes)
    elif options.compare:
        compared = compare(listed.runs()).reset_index(names="")
        say(compared.to_csv(index=False).rstrip()) if options.csv else print_table(compared)
    elif options.json:
        say(listed.json())
    elif options.csv:
        say(frame.to_csv(index=False).rstrip())
    elif len(frame):
        print_table(frame[list(COLUMNS)], SPARE)
    else:
        say(f"no run under {options.root} meets that" if options.where else f"there is no run under {options.root}")
    if not (options.runs or options.delete or options.compare or options.json):
        for line in (f"cannot be read: {problem}" for problem in listed.problems):
            warn([line]) if options.csv else say(line)


@dataclass(frozen=True)
class RunsTable:
    """What `runs_table` returns.

    Attributes:
        root: the folder.
        frame: a row for each run, as of `runs.listing.table`.
        problems: for each folder that cannot be read, why.
    """

    root: Path
    frame: pd.DataFrame
    problems: list[str]
    __repr__ = as_it_says

    def runs(self) -> list[Run]:
        """The runs themselves."""
        from workbench.runs import load_run

        return [load_run(self.root / name) for name in self.frame["run"]]

    @property
    def says(self) -> str:
        """Each run, and how far it is, in a line."""
        rows = self.frame.to_dict("records")
        return "\n".join(f"{row['run']}: {row['task.name']}, {row['status']} at step {row['step']}" for row in rows)

    def figure(self) -> go.Figure:
        """What was logged while they trained."""
        from workbench import figures
        from workbench.inspection.learning_curves import learning_curves

        return figures.learning_curves({run.name: learning_curves(run) for run in self.runs()})

    def table(self) -> pd.DataFrame:
        return self.frame

    def json(self) -> str:
        """Every setting and figure of each run, and what cannot be read."""
        whole = self.frame.convert_dtypes()  # a whole number stays one where another run lacks the setting
        rows = whole.astype(object).where(whole.notna(), None).to_dict("records")
        return as_json({"format": "runs/1", "runs": rows, "problems": self.problems})


def runs_table(
    root: str | Path = "runs", names: Sequence[str] = (), *, where: Sequence[str] = (), sort: str | None = None
) -> RunsTable:
    """The runs directly under a folder.

    Args:
        root: the folder.
        names: these runs alone; by default all.
        where: conditions on settings and figures, such as `task.name=sorting` or `accuracy>0.9`.
        sort: a column, such as `accuracy`, `seconds`, `model.n_layers`.

    Raises:
        ValueError: if there is no such folder, run, setting or column.
    """
    from workbench.runs import load_run
    from workbench.runs.listing import filtered, in_order, row_of, table

    root = Path(root)
    check_root(root)
    frame, problems = table(root)
    wanted = [name.rstrip("/") for name in names]
    if absent := [name for name in wanted if name not in set(frame["run"])]:
        row_of(load_run(root / absent[0]))  # raises with what is wrong with it
        raise ValueError(f"there is no run {absent[0]} directly under {root}")
    if wanted:
        frame = frame[frame["run"].isin(wanted)]
    if len(frame):
        frame = filtered(frame, where)
    if sort and len(frame):
        frame = in_order(frame, sort)
    return RunsTable(root, frame, problems)


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
