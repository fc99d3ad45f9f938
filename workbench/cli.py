"""The command line. Each command imports the libraries it needs, and no other."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130


class Parser(argparse.ArgumentParser):
    """argparse with its errors in one line."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; see `{self.prog} --help`")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Errors are one line on standard error: exit code 2 for bad input, 1 for a failure."""
    try:
        options, fields = _parser().parse_known_args(arguments)
        if fields and options.command not in (train, data):
            raise ValueError(f"unrecognised argument {fields[0]!r}; see `workbench {options.name} --help`")
        return options.command(options, fields) or 0
    except ValueError as error:
        return _complain(error, BAD_INPUT)
    except KeyboardInterrupt:
        return _complain("interrupted", INTERRUPTED)
    except Exception as error:
        return _complain(
            error if isinstance(error, RuntimeError | OSError) else f"{type(error).__name__}: {error}", FAILED
        )


def train(options: argparse.Namespace, fields: list[str]) -> None:
    from workbench.training import train as run_training
    from workbench.training import train_seeds

    said = {"progress": not options.quiet, "tensorboard": options.tensorboard, **parse_fields(fields)}
    if options.seeds is None:
        _say_trained([run_training(options.preset, options.out, **said)])
    else:
        _say_trained(train_seeds(options.preset, options.out, options.seeds, **said))


def resume(options: argparse.Namespace, _: list[str]) -> None:
    from workbench.runs import load_run
    from workbench.training import resume as resume_training

    if load_run(options.run).finished:
        print(f"{options.run} is finished; there is nothing to resume")
        return
    _say_trained([resume_training(options.run, progress=not options.quiet, tensorboard=options.tensorboard)])


def _say_trained(runs: Sequence[Any]) -> None:
    if not _speaks():
        return
    for run in runs:
        if not run.finished:
            print(f"stopped at step {run.step()} of {run.config.steps}; `workbench resume {run.path}` goes on")
            continue
        found = run.metrics().filter(regex="^accuracy").dropna(how="all").iloc[-1]
        early = f" at step {run.step()} of {run.config.steps}" if run.step() < run.config.steps else ""
        print(f"trained {run.path}{early}: accuracy {found.iloc[0]:.1%} on {run.config.eval_size} held-out sequences")
    print(f"next: workbench inspect {' '.join(str(run.path) for run in runs)}")


def _speaks() -> bool:
    """Whether this process is the one of those that `torchrun` started that writes and prints."""
    return os.environ.get("RANK", "0") == "0"


def sweep(options: argparse.Namespace, _: list[str]) -> int:
    from workbench.training.sweeps import output_folder, preview
    from workbench.training.sweeps import sweep as run_sweep

    out = output_folder(options.file, options.out)
    if options.dry_run:
        for run in preview(options.file, out).itertuples():
            print(f"{run.status:10}  step {run.step}/{run.steps}  {out / run.run}")
        return 0
    results = run_sweep(options.file, out, workers=options.workers, ray=options.ray, progress=not options.quiet)
    finished, failed = (results[results["status"] == status] for status in ("finished", "failed"))
    print(f"{len(finished)} of {len(results)} runs are finished; figures of all: {out / 'results.parquet'}")
    if len(finished) + len(failed) < len(results):
        print(f"stopped; `workbench sweep {options.file} --out {out}` goes on")
        return INTERRUPTED
    if len(failed):
        return _complain(
            f"failed: {', '.join(failed['run'])}; the results say why, and the same command tries again", FAILED
        )
    return 0


def inspect(options: argparse.Namespace, _: list[str]) -> None:
    from workbench.report import inspect as run_inspection

    how = {"n": options.n, "seed": options.seed, "timeline": options.timeline}
    report = run_inspection(options.runs, out=options.out, progress=not options.quiet, **how)
    print(report.summary)
    print(f"report: {report.html}")


def explore(options: argparse.Namespace, _: list[str]) -> int:
    import subprocess
    from importlib.util import find_spec

    if not options.root.is_dir():
        raise ValueError(f"there is no folder {options.root}; give the folder that holds your runs with --root")
    if not 1 <= options.port <= 65535:
        raise ValueError(f"a port is a number from 1 to 65535, not {options.port}")
    app = find_spec("app")
    assert app is not None and app.submodule_search_locations, "the app is installed with workbench"
    script = Path(next(iter(app.submodule_search_locations))) / "main.py"
    command = [sys.executable, "-m", "streamlit", "run", str(script), "--server.address", "localhost"]
    command += ["--server.port", str(options.port), "--server.headless", str(options.headless).lower()]
    command += ["--browser.gatherUsageStats", "false", "--client.toolbarMode", "viewer"]
    command += ["--", "--root", str(options.root.resolve())]
    return subprocess.run(command, env=os.environ, check=False).returncode


def data(options: argparse.Namespace, fields: list[str]) -> None:
    from workbench import data as sequences
    from workbench.tasks import make

    if Path(options.task).suffix in sequences.FORMATS:
        if fields:
            raise ValueError(f"{options.task} holds its task's settings already; leave out {fields[0]}")
        task, batches = sequences.read(options.task)
        shown = next(batches)
    else:
        task = make(options.task, **parse_fields(fields))
        condition = dict(_setting(text) for text in options.where)
        recipe = sequences.Recipe(task, options.count, options.seed, options.split, options.head, condition)
        if options.out is not None:
            _write_data(recipe, options)
            return
        shown = recipe.shard(0)
    for index in range(min(options.count, len(shown))):
        print(f"{index + 1}\n{sequences.show(task, shown, index)}\n")


def _write_data(recipe: Any, options: argparse.Namespace) -> None:
    from rich.console import Console
    from rich.progress import Progress

    from workbench.data import write

    progress = write(recipe, options.out, workers=options.workers)
    with Progress(console=Console(stderr=True), disable=options.quiet) as bar:
        job = bar.add_task(f"writing {options.out}", total=options.count)
        for written in progress:
            bar.update(job, completed=written)
    print(f"wrote {options.count} sequences to {options.out}; `workbench data {options.out}` shows them")


def _setting(text: str) -> tuple[str, Any]:
    name, given, value = text.partition("=")
    if not given:
        raise ValueError(f"a condition is NAME=VALUE, such as length=16, not {text!r}")
    return name, _value(value)


def export_run(options: argparse.Namespace, _: list[str]) -> None:
    from workbench.sharing import export

    print(f"exported {export(options.run, options.out)}; `workbench import` takes it anywhere")


def import_run(options: argparse.Namespace, _: list[str]) -> None:
    from workbench.sharing import unpack

    _say_taken(unpack(options.file, options.out))


def push_run(options: argparse.Namespace, _: list[str]) -> None:
    from workbench.sharing import push

    print(f"pushed {push(options.run, options.repo, private=options.private)}")


def pull_run(options: argparse.Namespace, _: list[str]) -> None:
    from workbench.sharing import pull

    _say_taken(pull(options.repo, options.out, revision=options.revision))


def _say_taken(run: Any) -> None:
    print(f"made {run.path}: {run.config.task['name']}, {run.config.steps} steps\nnext: workbench inspect {run.path}")


def list_names(options: argparse.Namespace, _: list[str]) -> None:
    from workbench.catalogue import describe

    print(describe(options.what, options.root))


def parse_fields(arguments: Sequence[str]) -> dict[str, Any]:
    """`--task.n 64 --batch-size=32` as `{"task": {"n": 64}, "batch_size": 32}`. Values are JSON, or else text.

    Raises:
        ValueError: if an argument is not a field, or has no value.
    """
    fields: dict[str, Any] = {}
    rest = list(arguments)
    while rest:
        name, given, text = rest.pop(0).partition("=")
        if not name.startswith("--"):
            raise ValueError(f"unrecognised argument {name!r}; fields are given as --name value")
        if not given and not rest:
            raise ValueError(f"{name} needs a value")
        value = _value(text if given else rest.pop(0))
        *parents, last = name.removeprefix("--").replace("-", "_").split(".")
        inner = fields
        for parent in parents:
            inner = inner.setdefault(parent, {})
            if not isinstance(inner, dict):
                raise ValueError(f"{name} is given twice, as a value and as a group of fields")
        inner[last] = value
    return fields


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _complain(message: object, code: int) -> int:
    if _speaks():
        print(f"workbench: {' '.join(str(message).split())}", file=sys.stderr)
    return code


def _parser() -> Parser:
    parser = Parser(
        prog="workbench", description="Train small transformers on algorithmic tasks, then see how they do it."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="name")

    add = commands.add_parser(
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
    add.set_defaults(command=train)

    add = commands.add_parser("resume", help="go on training a run that was stopped or killed", allow_abbrev=False)
    add.add_argument("run", type=Path, metavar="RUN", help="the run folder")
    add.add_argument("--tensorboard", action="store_true", help="log for TensorBoard too, in the run folder")
    add.add_argument("--quiet", action="store_true", help="no progress bar")
    add.set_defaults(command=resume)

    add = commands.add_parser(
        "sweep",
        help="train every run of a sweep file",
        description="Train every combination that a sweep file asks for, beside a table of the results. Runs that are "
        "finished are not trained again; after Ctrl-C, a kill or a failure, the same command goes on. README.md shows "
        "a file.",
        allow_abbrev=False,
    )
    add.add_argument("file", type=Path, metavar="SWEEP.toml", help="variants, settings and a grid")
    add.add_argument("--out", type=Path, metavar="DIR", help="folder for runs and results (default: sweeps/SWEEP)")
    add.add_argument("--workers", type=int, metavar="N", help="runs that train at a time (default: one a core)")
    add.add_argument("--ray", metavar="ADDRESS", help="train on a Ray cluster: host:port, auto, or local")
    add.add_argument("--dry-run", action="store_true", help="say what there is to train, and train nothing")
    add.add_argument("--quiet", action="store_true", help="no progress on standard error")
    add.set_defaults(command=sweep)

    add = commands.add_parser("inspect", help="measure runs and write a report", allow_abbrev=False)
    add.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders; several are shown side by side")
    add.add_argument("--out", type=Path, metavar="DIR", help="report folder (default: inspection/ in the first run)")
    add.add_argument("--timeline", action="store_true", help="measure every checkpoint too, and draw it over training")
    add.add_argument("--n", type=int, default=256, help="sequences to measure, per test condition (default: 256)")
    add.add_argument("--seed", type=int, default=0, help="seed of the sequences (default: 0)")
    add.add_argument("--quiet", action="store_true", help="no progress on standard error")
    add.set_defaults(command=inspect)

    add = commands.add_parser("explore", help="open the explorer in a browser", allow_abbrev=False)
    add.add_argument("--root", type=Path, default=Path("runs"), help="folder that holds run folders (default: runs)")
    add.add_argument("--port", type=int, default=8501)
    add.add_argument("--headless", action="store_true", help="do not open a browser")
    add.set_defaults(command=explore)

    add = commands.add_parser(
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
    add.set_defaults(command=data)

    add = commands.add_parser("export", help="write a run as one folder or zip", allow_abbrev=False)
    add.add_argument("run", type=Path, metavar="RUN", help="the run folder")
    add.add_argument("out", type=Path, metavar="OUT", help="the folder to make, or the file if it ends in .zip")
    add.set_defaults(command=export_run)

    add = commands.add_parser("import", help="make a run folder of what export wrote", allow_abbrev=False)
    add.add_argument("file", type=Path, metavar="FILE", help="a zip or folder, of whoever: nothing in it is executed")
    add.add_argument("--out", type=Path, required=True, metavar="DIR", help="the run folder to make")
    add.set_defaults(command=import_run)

    add = commands.add_parser("push", help="upload a run to the Hugging Face Hub", allow_abbrev=False)
    add.add_argument("run", type=Path, metavar="RUN", help="the run folder")
    add.add_argument("repo", metavar="REPO", help="OWNER/NAME; it is made if there is none")
    add.add_argument("--private", action="store_true", help="nobody else sees it")
    add.set_defaults(command=push_run)

    add = commands.add_parser("pull", help="download a run from the Hugging Face Hub", allow_abbrev=False)
    add.add_argument("repo", metavar="REPO", help="OWNER/NAME")
    add.add_argument("--out", type=Path, required=True, metavar="DIR", help="the run folder to make")
    add.add_argument("--revision", metavar="REV", help="a branch, tag or commit (default: the latest)")
    add.set_defaults(command=pull_run)

    add = commands.add_parser("list", help="say what exists", allow_abbrev=False)
    kinds = ("presets", "fields", "tasks", "variants", "objectives", "instruments", "mechanisms", "runs")
    add.add_argument("what", choices=kinds, help="what to list")
    add.add_argument("--root", type=Path, default=Path("runs"), help="for runs: the folder that holds them")
    add.set_defaults(command=list_names)
    return parser


if __name__ == "__main__":
    sys.exit(main())
