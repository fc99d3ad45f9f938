"""`workbench table`: results by settings, with intervals over seeds, for a terminal, a paper or another program."""

from __future__ import annotations

import argparse

from workbench.cli.options import add_runs, add_where
from workbench.cli.output import say
from workbench.cli.parser import Commands, add_command


def add(commands: Commands, name: str) -> None:
    parser = add_command(
        commands,
        name,
        run,
        summary="a table of results: means over seeds with intervals, as text, LaTeX, Markdown or CSV",
        description="A row for each combination of values of the settings --by, with the mean over seeds and its 95 % "
        "interval; runs that are not finished are left out. With --against GROUP also each group's difference from "
        "that one, and p adjusted after Holm.",
    )
    add_runs(parser, "run folders, or folders of runs, such as a sweep's")
    parser.add_argument("--by", required=True, metavar="SETTING,…", help="such as model.attention,model.n_layers")
    parser.add_argument("--metric", default="accuracy", help="a figure of the training log (default: accuracy)")
    parser.add_argument("--against", metavar="GROUP", help="the values of --by of one group, such as 'standard, 2'")
    add_where(parser, "CONDITION", "leave out runs that do not meet it, such as task.n=32")
    form = parser.add_mutually_exclusive_group()
    for each in ("latex", "markdown", "csv"):
        form.add_argument(f"--{each}", dest="form", action="store_const", const=each, help=f"as {each}")


def run(options: argparse.Namespace, _: list[str]) -> None:
    import pandas as pd

    from workbench.cli.terminal_table import print_table
    from workbench.report.results_table import FORMATS, results_table, shown
    from workbench.runs import load_run
    from workbench.runs.expand_paths import run_folders

    folders, passed_over = run_folders(options.runs)
    runs = [load_run(folder) for folder in folders]
    by = [name.strip() for name in options.by.split(",") if name.strip()]
    frame = results_table(runs, by, options.metric, options.against, options.where)
    headings, rows = shown(frame, options.metric)
    if options.form == "csv":
        say(frame.to_csv(index=False).rstrip())
    elif options.form is not None:
        say(FORMATS[options.form](headings, rows))
    else:
        print_table(pd.DataFrame(rows, columns=headings))
        for line in passed_over:
            say(line)
