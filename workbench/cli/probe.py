"""`workbench probe`: ask what can be decoded from runs, and whether it is used."""

from __future__ import annotations

import argparse
from inspect import signature

from workbench.cli.fields import parse_fields
from workbench.cli.options import add_count, add_out, add_quiet, add_runs, add_seed
from workbench.cli.output import say, warn
from workbench.cli.parser import Commands, add_command

DECIDED_BY_THE_PRESET = ("label", "points")  # settings of a probe that cannot be given


def add(commands: Commands, name: str) -> None:
    parser = add_command(
        commands,
        name,
        run,
        summary="ask what can be decoded from runs, and whether it is used",
        description="Fit probes at every point of the residual for one question, say what they are worth beside their "
        "baselines and controls, and test causally what is decodable. `workbench list probes` shows the questions. "
        "Settings of the probe can be given: --l2 1, --kind low_rank --rank 3 …",
        usage="RUN [RUN …] PRESET|LABEL [--out DIR] [--n N] [--seeds N] [--SETTING VALUE …]",
        takes_fields=True,
    )
    add_runs(parser)
    parser.add_argument(
        "preset",
        metavar="PRESET|LABEL",
        help="a question, of which `workbench list probes` shows the names; or any label of the task's truth",
    )
    parser.add_argument("--positions", metavar="RULE", help="of a label: labelled, each, scored, delimiter, 3,4 …")
    add_out(parser, "write figures and numbers there too")
    add_count(parser, "sequences, three in ten to try the probe on (default: the preset's)")
    parser.add_argument("--kind", help="kind of probe: logistic, ridge, nearest_mean, low_rank, mlp or regression")
    parser.add_argument("--step", type=int, help="of a checkpoint (default: the end)")
    add_seed(parser, "seed of the sequences, splits and controls")
    parser.add_argument(
        "--seeds", type=int, default=1, metavar="N", help="so many seeds, intervals over them (default: 1)"
    )
    parser.add_argument("--no-causal", action="store_true", help="do not test what is decodable")
    add_quiet(parser)


def run(options: argparse.Namespace, fields: list[str]) -> None:
    from workbench.probes import ask
    from workbench.probes.report import ask_all, save, text
    from workbench.runs import run_folders
    from workbench.util.files import check_free

    settings = parse_fields(fields)
    no_settings = {*signature(ask).parameters, *DECIDED_BY_THE_PRESET}
    unknown = next((name for name in settings if name in no_settings), None)
    if unknown is not None:
        raise ValueError(f"unrecognised argument '--{unknown}'; see `workbench probe --help`")
    if options.out is not None:
        check_free(options.out)
    folders, passed_over = run_folders(options.runs)
    warn(passed_over)
    answers = ask_all(
        folders,
        options.preset,
        progress=not options.quiet,
        positions=options.positions,
        n=options.n,
        kind=options.kind,
        seed=options.seed,
        seeds=options.seeds,
        step=options.step,
        causal=not options.no_causal,
        **settings,
    )
    say("\n\n".join(map(text, answers)))
    if options.out is not None:
        save(answers, options.out)
        say(f"\nfigures and numbers: {options.out}")
