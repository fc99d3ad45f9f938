"""The commands and their options."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NoReturn

from workbench.cli import commands, listed


class Parser(argparse.ArgumentParser):
    """argparse with its errors in one line."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; see `{self.prog} --help`")


def make_parser() -> Parser:
    parser = Parser(
        prog="workbench", description="Train small transformers on algorithmic tasks, then see how they do it."
    )
    sub = parser.add_subparsers(required=True, metavar="COMMAND", dest="name")

    add = sub.add_parser(
        "train",
        help="train a preset and write a run folder",
        description="Train a preset and write a run folder. Every field of the preset can be replaced: --steps 200 "
        "--seed 1 --task.n 64 --model.attention standard --model.attention.gamma 0.8 "
        "--objectives.seq_vcr.covariance_weight 0.1 … `workbench list fields` shows them all.",
        usage="workbench train PRESET --out DIR [--FIELD VALUE …]",
        allow_abbrev=False,
    )
    add.add_argument("preset", metavar="PRESET", help="its name; `workbench list presets` shows them")
    add.add_argument("--out", type=Path, required=True, metavar="DIR", help="the run folder to make")
    add.add_argument("--seeds", type=int, metavar="N", help="N seeds at once as a stack: run folders DIR/seed-0 …")
    add.add_argument("--tensorboard", action="store_true", help="log for TensorBoard too, in the run folder")
    add.add_argument("--quiet", action="store_true", help="no progress bar")
    add.set_defaults(command=commands.train)

    add = sub.add_parser("resume", help="go on training a run that was stopped or killed", allow_abbrev=False)
    add.add_argument("run", type=Path, metavar="RUN", help="the run folder; of --seeds, the folder of all")
    add.add_argument("--tensorboard", action="store_true", help="log for TensorBoard too, in the run folder")
    add.add_argument("--quiet", action="store_true", help="no progress bar")
    add.set_defaults(command=commands.resume)

    add = sub.add_parser(
        "sweep",
        help="train every run of a sweep file",
        description="Train every combination that a sweep file asks for, beside a table of the results. Runs that are "
        "finished are not trained again; after Ctrl-C, a kill or a failure, the same command goes on. "
        "docs/training.md shows a file.",
        allow_abbrev=False,
    )
    add.add_argument("file", type=Path, metavar="SWEEP.toml", help="variants, settings and a grid")
    add.add_argument("--out", type=Path, metavar="DIR", help="folder for runs and results (default: sweeps/SWEEP)")
    add.add_argument("--workers", type=int, metavar="N", help="runs that train at a time (default: one a core)")
    add.add_argument("--ray", metavar="ADDRESS", help="train on a Ray cluster: host:port, auto, or local")
    add.add_argument("--dry-run", action="store_true", help="say what there is to train, and train nothing")
    add.add_argument("--quiet", action="store_true", help="no progress on standard error")
    add.set_defaults(command=commands.sweep)

    add = sub.add_parser(
        "compile",
        help="write a model whose mechanism is known as a run folder",
        description="Write a model whose weights are worked out, not learned, as a run folder to try instruments on. "
        "`workbench list compiled` shows them and their settings: --q 100 --form layernorm …",
        usage="workbench compile NAME --out DIR [--SETTING VALUE …]",
        allow_abbrev=False,
    )
    add.add_argument("model", metavar="NAME", help="sorter or chaser")
    add.add_argument("--out", type=Path, required=True, metavar="DIR", help="the run folder to make")
    add.set_defaults(command=commands.compile_model)

    add = sub.add_parser(
        "inspect",
        help="measure runs and write a report",
        description="Measure runs on held-out sequences and write a report with every number behind it. Settings of "
        "instruments and mechanisms can be given: --entropy.alpha 2 --entropy.centre true --projection.final_norm "
        "false …; `workbench list instruments` shows them.",
        usage="workbench inspect RUN [RUN …] [--only NAME …] [--timeline] [--export FORMAT …] [--NAME.SETTING VALUE …]",
        allow_abbrev=False,
    )
    add.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="run folders, or folders of runs; several are side by side"
    )
    add.add_argument("--out", type=Path, metavar="DIR", help="report folder (default: inspection/ in the first run)")
    add.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these instruments and mechanisms alone")
    add.add_argument("--export", nargs="+", default=[], metavar="FORMAT", help="each figure as html, svg, png, pdf too")
    add.add_argument("--timeline", action="store_true", help="measure every checkpoint too, and draw it over training")
    add.add_argument("--n", type=int, default=256, help="sequences to draw, per test condition (default: 256)")
    add.add_argument("--seed", type=int, default=0, help="seed of the sequences (default: 0)")
    add.add_argument("--quiet", action="store_true", help="no progress on standard error")
    add.set_defaults(command=commands.inspect)

    add = sub.add_parser(
        "probe",
        help="ask what can be decoded from runs, and whether it is used",
        description="Fit probes at every point of the residual for one question, say what they are worth beside their "
        "baselines and controls, and test causally what is decodable. `workbench list probes` shows the questions. "
        "Settings of the probe can be given: --l2 1, --kind low_rank --rank 3 …",
        usage="workbench probe RUN [RUN …] PRESET [--out DIR] [--n N] [--seeds N] [--SETTING VALUE …]",
        allow_abbrev=False,
    )
    add.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders, or folders of runs")
    add.add_argument("preset", metavar="PRESET", help="its name; `workbench list probes` shows them")
    add.add_argument("--out", type=Path, metavar="DIR", help="write figures and numbers there too")
    add.add_argument("--n", type=int, help="sequences, three in ten to try the probe on (default: the preset's)")
    add.add_argument("--kind", help="kind of probe: logistic, ridge, nearest_mean, low_rank, mlp or regression")
    add.add_argument("--step", type=int, help="of a checkpoint (default: the end)")
    add.add_argument("--seed", type=int, default=0, help="seed of the sequences, splits and controls (default: 0)")
    add.add_argument(
        "--seeds", type=int, default=1, metavar="N", help="so many seeds, intervals over them (default: 1)"
    )
    add.add_argument("--no-causal", action="store_true", help="do not test what is decodable")
    add.add_argument("--quiet", action="store_true", help="no progress on standard error")
    add.set_defaults(command=commands.probe)

    add = sub.add_parser("explore", help="open the explorer in a browser", allow_abbrev=False)
    add.add_argument("--root", type=Path, default=Path("runs"), help="folder that holds run folders (default: runs)")
    add.add_argument("--port", type=int, default=8501, help="of this machine (default: 8501)")
    add.add_argument(
        "--host", action="append", default=[], metavar="NAME", help="answer to this name too: that of a tunnel or proxy"
    )
    add.add_argument("--headless", action="store_true", help="do not open a browser")
    add.set_defaults(command=commands.explore)

    add = sub.add_parser(
        "data",
        help="print or write a task's sequences",
        description="Print a task's sequences as people read them, or write them to a .parquet or .jsonl file; given "
        "such a file, print what is in it. Every setting of the task can be given: --q 9 --hints successor …; "
        "`workbench list tasks` shows them all.",
        usage="workbench data TASK|FILE [--count N] [--split train|test] [--out FILE] [--SETTING VALUE …]",
        allow_abbrev=False,
    )
    add.add_argument("task", metavar="TASK|FILE", help="a task's name, or a file that this command wrote")
    add.add_argument("--count", type=int, default=3, help="how many sequences (default: 3)")
    add.add_argument("--seed", type=int, default=0, help="their seed (default: 0)")
    add.add_argument("--split", choices=("train", "test"), help="one side of the task's split (default: both)")
    add.add_argument("--head", default="main", help="main, or a hint that the task has (default: main)")
    add.add_argument("--where", action="append", default=[], metavar="NAME=VALUE", help="narrow the draw: length=16")
    add.add_argument("--out", type=Path, metavar="FILE", help="write them there instead of printing")
    add.add_argument("--workers", type=int, default=0, help="processes that draw; the file is the same for any number")
    add.add_argument("--quiet", action="store_true", help="no progress bar")
    add.set_defaults(command=commands.data)

    add = sub.add_parser("export", help="write a run as one folder or zip", allow_abbrev=False)
    add.add_argument("run", type=Path, metavar="RUN", help="the run folder")
    add.add_argument("out", type=Path, metavar="OUT", help="the folder to make, or the file if it ends in .zip")
    add.set_defaults(command=commands.export_run)

    add = sub.add_parser("import", help="make a run folder of what export wrote", allow_abbrev=False)
    add.add_argument("file", type=Path, metavar="FILE", help="a zip or folder, of whoever: nothing in it is executed")
    add.add_argument("--out", type=Path, required=True, metavar="DIR", help="the run folder to make")
    add.set_defaults(command=commands.import_run)

    add = sub.add_parser("push", help="upload a run to the Hugging Face Hub", allow_abbrev=False)
    add.add_argument("run", type=Path, metavar="RUN", help="the run folder")
    add.add_argument("repo", metavar="REPO", help="OWNER/NAME; it is made if there is none")
    add.add_argument("--private", action="store_true", help="nobody else sees it")
    add.set_defaults(command=commands.push_run)

    add = sub.add_parser("pull", help="download a run from the Hugging Face Hub", allow_abbrev=False)
    add.add_argument("repo", metavar="REPO", help="OWNER/NAME")
    add.add_argument("--out", type=Path, required=True, metavar="DIR", help="the run folder to make")
    add.add_argument("--revision", metavar="REV", help="a branch, tag or commit (default: the latest)")
    add.set_defaults(command=commands.pull_run)

    add = sub.add_parser(
        "runs",
        help="list, filter, compare or delete runs",
        description="List the runs under a folder, all or those named, or those that meet conditions on their "
        "settings and figures: --where task.name=sorting --where 'accuracy>0.9'.",
        allow_abbrev=False,
    )
    add.add_argument("runs", nargs="*", metavar="NAME", help="these runs alone")
    add.add_argument("--root", type=Path, default=Path("runs"), help="the folder that holds them (default: runs)")
    add.add_argument("--where", action="append", default=[], metavar="CONDITION", help="such as seed=0 or loss<0.1")
    add.add_argument("--sort", metavar="COLUMN", help="such as accuracy, seconds, model.n_layers")
    add.add_argument("--compare", action="store_true", help="what differs between them, and what came of it")
    add.add_argument("--delete", action="store_true", help="delete them, after asking")
    add.add_argument("--yes", action="store_true", help="with --delete: do not ask")
    add.set_defaults(command=commands.runs)

    add = sub.add_parser("list", help="say what exists", allow_abbrev=False)
    add.add_argument("what", nargs="?", choices=tuple(listed.LISTED), help="what to list; without it, what there is")
    add.set_defaults(command=listed.list_names)
    return parser
