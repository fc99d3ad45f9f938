"""`workbench inspect`: measure runs, or models of Hugging Face on a text, and write a report."""

from __future__ import annotations

import argparse

from workbench.cli.output import announce, say, show
from workbench.cli.parser import AddCommand, chosen, parse_fields, refuse
from workbench.util.memory import keep_freed

MORE = {
    "timeline": "measure every checkpoint too, and draw it over training",
    "circuit": "which edges carry the answer, too, on pairs that differ in one thing",
    "geometry": "RankMe, LiDAR, DiME and InfoNCE of all --n sequences together, too",
}
"""What a report has beside the measurements where it is asked for."""
SHARED = ("out", "n", "seed", "only", "basis", "export", "width")
RUNS_ALONE = (*MORE, "conditions")
TEXT_ALONE = ("length", "layers")


def add(command: AddCommand) -> None:
    parser = command(
        summary="measure runs, or Hugging Face models on a text, and write a report",
        description="Measure runs on held-out sequences and write a report with every number behind it. With --text, "
        "measure Hugging Face models instead, each a folder, a GGUF file or a name on the hub, on a text. Settings of "
        "instruments and mechanisms can be given: --entropy.alpha 2 --entropy.centre true --projection.final_norm "
        "false …; `workbench list instruments` shows them.",
        usage="RUN [RUN …] | MODEL [MODEL …] --text FILE [--only NAME …] [--timeline] [--circuit] [--geometry] "
        "[--conditions CONDITION …] [--export FORMAT …] [--NAME.SETTING VALUE …]",
        takes_fields=True,
    )
    parser.add_shared(
        "runs", help="run folders, or folders of runs; or models of Hugging Face: several are side by side"
    )
    parser.add_shared("--out", help="report folder (default: inspection/ in the first run or model)")
    parser.add_shared("--text", help="of models: the text, in UTF-8, or the prompt set to measure them on")
    parser.add_shared("--length")
    parser.add_shared("--layers", help="with --text: look at these layers, from 0 (default: all)")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these instruments and mechanisms alone")
    parser.add_argument(
        "--export", nargs="+", default=[], metavar="FORMAT", help="each figure as html, svg, png, pdf too"
    )
    parser.add_argument("--width", metavar="WIDTH", help="with --export: column or page, laid out for print")
    for more, text in MORE.items():
        parser.add_argument(f"--{more}", action="store_true", help=text)
    parser.add_argument(
        "--conditions",
        nargs="+",
        metavar="CONDITION",
        help="test conditions to draw the sequences for, such as length=20,repeats=4 (default: the task's own)",
    )
    parser.add_shared("--basis", help="project on these named directions, a safetensors file, too")
    parser.add_argument(
        "--n",
        type=int,
        default=256,
        help="sequences to draw, per test condition; of a text, the first ones (default: 256)",
    )
    parser.add_shared("--seed", help="seed of the sequences (default: 0)")
    parser.add_shared("--json", "--quiet")


def run(options: argparse.Namespace, fields: list[str]) -> None:
    settings = parse_fields(fields)
    unknown = next((name for name, setting in settings.items() if not isinstance(setting, dict)), None)
    if unknown is not None:
        raise ValueError(f"unrecognised argument '--{unknown}'; settings are given as --NAME.SETTING, see --help")
    keep_freed()
    announce("measuring", options.runs, options.quiet)
    from workbench.report import inspect
    from workbench.runs.conditions import parse_conditions

    alone = RUNS_ALONE if options.text is None else TEXT_ALONE
    shared = chosen(options, *SHARED, *alone)
    if options.text is None:
        refuse(options, TEXT_ALONE, "is of models that are measured on a text; give --text FILE too")
        shared["conditions"] = options.conditions and parse_conditions(options.conditions)
    else:
        refuse(options, RUNS_ALONE, "is of runs, not of models that are measured on a text; leave it or --text out")
    report = inspect(options.runs, text=options.text, settings=settings, progress=not options.quiet, **shared)
    show(report, options)
    if not options.json:
        say(f"report: {report.html}")
        if report.figures:
            say(f"figures: {len(report.figures)} files in {report.figures[0].parent}")
