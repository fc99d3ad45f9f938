"""`workbench inspect`: measure runs and write a report."""

from __future__ import annotations

import argparse

from workbench.cli.fields import parse_fields
from workbench.cli.options import add_count, add_out, add_quiet, add_runs, add_seed
from workbench.cli.output import say, warn
from workbench.cli.parser import Commands, add_command


def add(commands: Commands, name: str) -> None:
    parser = add_command(
        commands,
        name,
        run,
        summary="measure runs and write a report",
        description="Measure runs on held-out sequences and write a report with every number behind it. Settings of "
        "instruments and mechanisms can be given: --entropy.alpha 2 --entropy.centre true --projection.final_norm "
        "false …; `workbench list instruments` shows them.",
        usage="RUN [RUN …] [--only NAME …] [--timeline] [--conditions CONDITION …] [--export FORMAT …] "
        "[--NAME.SETTING VALUE …]",
        takes_fields=True,
    )
    add_runs(parser, "run folders, or folders of runs; several are side by side")
    add_out(parser, "report folder (default: inspection/ in the first run)")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these instruments and mechanisms alone")
    parser.add_argument(
        "--export", nargs="+", default=[], metavar="FORMAT", help="each figure as html, svg, png, pdf too"
    )
    parser.add_argument("--width", metavar="WIDTH", help="with --export: column or page, laid out for print")
    parser.add_argument(
        "--timeline", action="store_true", help="measure every checkpoint too, and draw it over training"
    )
    parser.add_argument(
        "--conditions",
        nargs="+",
        metavar="CONDITION",
        help="test conditions to draw the sequences for, such as length=20,repeats=4 (default: the task's own)",
    )
    add_count(parser, "sequences to draw, per test condition (default: 256)", 256)
    add_seed(parser, "seed of the sequences")
    add_quiet(parser)


def run(options: argparse.Namespace, fields: list[str]) -> None:
    from workbench.report import inspect
    from workbench.runs import run_folders
    from workbench.runs.config import parse_conditions

    settings = parse_fields(fields)
    unknown = next((name for name, setting in settings.items() if not isinstance(setting, dict)), None)
    if unknown is not None:
        raise ValueError(f"unrecognised argument '--{unknown}'; settings are given as --NAME.SETTING, see --help")
    folders, passed_over = run_folders(options.runs)
    warn(passed_over)
    report = inspect(
        folders,
        out=options.out,
        n=options.n,
        seed=options.seed,
        only=options.only,
        settings=settings,
        timeline=options.timeline,
        conditions=None if options.conditions is None else parse_conditions(options.conditions),
        export=options.export,
        width=options.width,
        progress=not options.quiet,
    )
    say(report.summary)
    say(f"report: {report.html}")
    if report.figures:
        say(f"figures: {len(report.figures)} files in {report.figures[0].parent}")
