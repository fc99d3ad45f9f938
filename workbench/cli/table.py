"""`workbench table`: results by settings, with intervals over seeds, for a terminal, a paper or another program."""

from __future__ import annotations

import argparse

from workbench.cli.output import say
from workbench.cli.parser import AddCommand


def add(command: AddCommand) -> None:
    parser = command(
        summary="a table of results: means over seeds with intervals, as text, LaTeX, Markdown or CSV",
        description="A row for each combination of values of the settings --by, or of those in which the runs differ, "
        "with the mean over seeds and its 95 % interval; runs that are not finished are left out. With --against GROUP "
        "also each group's difference from that one, and p adjusted after Holm.",
    )
    parser.add_shared("runs", help="run folders, or folders of runs, such as a sweep's")
    parser.add_argument("--by", metavar="SETTING,…", help="such as model.attention,model.n_layers")
    parser.add_argument("--metric", default="accuracy", help="a figure of the training log (default: accuracy)")
    parser.add_argument("--against", metavar="GROUP", help="the values of --by of one group, such as 'standard, 2'")
    parser.add_shared("--where", metavar="CONDITION", help="leave out runs that do not meet it, such as task.n=32")
    form = parser.add_mutually_exclusive_group()
    for each in ("latex", "markdown", "csv", "json"):
        form.add_argument(f"--{each}", dest="form", action="store_const", const=each, help=f"as {each}")


def run(options: argparse.Namespace, _: list[str]) -> None:
    import pandas as pd

    from workbench.cli.terminal_table import print_table
    from workbench.report.results_table import shown, table

    results = table(options.runs, options.by, options.metric, options.against, options.where)
    if options.form is None:
        headings, rows = shown(results.frame, results.metric)
        print_table(pd.DataFrame(rows, columns=headings))
    else:
        say(results.text(options.form))
