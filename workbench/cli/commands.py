"""What each command does. Each imports the libraries it needs, and no other."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from typing import Any

from workbench.cli.fields import parse_fields, setting
from workbench.cli.output import FAILED, INTERRUPTED, complain, say, speaks


def train(options: argparse.Namespace, fields: list[str]) -> int:
    from workbench.training import preset_config, train_seeds
    from workbench.training import train as run_training

    config = preset_config(options.preset, parse_fields(fields))
    how = {"progress": not options.quiet, "tensorboard": options.tensorboard}
    if options.seeds is None:
        return _say_trained([run_training(config, options.out, **how)])
    return _say_trained(train_seeds(config, options.out, options.seeds, **how), options.out)


def resume(options: argparse.Namespace, _: list[str]) -> int:
    from workbench.runs import load_run
    from workbench.training import resume as resume_training
    from workbench.training import resume_seeds, stacked

    if stacked(options.run):
        how = {"progress": not options.quiet, "tensorboard": options.tensorboard}
        return _say_trained(resume_seeds(options.run, **how), options.run)
    finished = load_run(options.run).finished
    run = resume_training(options.run, progress=not options.quiet, tensorboard=options.tensorboard)
    if not finished:
        return _say_trained([run])
    say(f"{options.run} is finished; there is nothing to resume")
    return 0


def _say_trained(runs: Sequence[Any], stack: Path | None = None) -> int:
    """Say what came of runs; the exit code, which tells whoever goes on from there whether they are finished.

    Runs that were trained together, under the folder `stack`, go on together.
    """
    stopped = [run for run in runs if not run.finished]
    if not speaks():
        return INTERRUPTED if stopped else 0
    for run in runs:
        if run in stopped:
            say(f"stopped at step {run.step()} of {run.config.steps}; `workbench resume {stack or run.path}` goes on")
            continue
        if not run.config.steps:
            say(f"made {run.path}: a model as it was initialised")
            continue
        found = run.metrics().filter(regex="^accuracy").dropna(how="all").iloc[-1]
        early = f" at step {run.step()} of {run.config.steps}" if run.step() < run.config.steps else ""
        say(f"trained {run.path}{early}: accuracy {found.iloc[0]:.1%} on {_evaluated(run)}")
    if stopped:
        return INTERRUPTED
    say(f"next: workbench inspect {' '.join(str(run.path) for run in runs)}")
    return 0


def _evaluated(run: Any) -> str:
    from workbench.training.data import n_distinct

    different = n_distinct(run.task(), run.config)
    text = f"{run.config.eval_size} held-out sequences"
    return text if different == run.config.eval_size else f"{text}, {different} of them distinct"


def sweep(options: argparse.Namespace, _: list[str]) -> int:
    from workbench.training.sweeps import output_folder, preview
    from workbench.training.sweeps import sweep as run_sweep

    out = output_folder(options.file, options.out)
    if options.dry_run:
        for run in preview(options.file, out).itertuples():
            say(f"{run.status:10}  step {run.step}/{run.steps}  {out / run.run}")
        return 0
    results = run_sweep(options.file, out, workers=options.workers, ray=options.ray, progress=not options.quiet)
    finished, failed = (results[results["status"] == status] for status in ("finished", "failed"))
    say(f"{len(finished)} of {len(results)} runs are finished; figures of all: {out / 'results.parquet'}")
    if len(finished) + len(failed) < len(results):
        say(f"stopped; `workbench sweep {options.file} --out {out}` goes on")
        return INTERRUPTED
    if len(failed):
        return complain(
            f"failed: {', '.join(failed['run'])}; the results say why, and the same command tries again", FAILED
        )
    return 0


def compile_model(options: argparse.Namespace, fields: list[str]) -> None:
    from workbench.runs.compiled import compile_run

    run = compile_run(options.model, options.out, parse_fields(fields))
    say(f"made {run.path}: {run.config.preset}, {run.config.task['name']}\nnext: workbench inspect {run.path}")


def inspect(options: argparse.Namespace, fields: list[str]) -> None:
    from workbench.report import inspect as run_inspection

    settings = parse_fields(fields)
    loose = next((name for name, own in settings.items() if not isinstance(own, dict)), None)
    if loose is not None:
        raise ValueError(f"unrecognised argument '--{loose}'; settings are given as --NAME.SETTING, see --help")
    how = {"n": options.n, "seed": options.seed, "timeline": options.timeline, "only": options.only}
    how |= {"settings": settings, "export": options.export}
    report = run_inspection(_meant(options.runs), out=options.out, progress=not options.quiet, **how)
    say(report.summary)
    say(f"report: {report.html}")
    if report.figures:
        say(f"figures: {len(report.figures)} files in {report.figures[0].parent}")


def _meant(paths: Sequence[Path]) -> list[Path]:
    """The run folders that were named, with those in folders of runs; says in a line what is passed over."""
    from workbench.runs import run_folders

    found, passed_over = run_folders(paths)
    for line in passed_over:
        complain(line, 0)
    return found


def probe(options: argparse.Namespace, fields: list[str]) -> None:
    from workbench.probes import ask
    from workbench.probes.report import ask_all, save, text
    from workbench.util.files import check_can_make

    settings = parse_fields(fields)
    own = next((name for name in settings if name in {**signature(ask).parameters, **NOT_SETTINGS}), None)
    if own is not None:
        raise ValueError(f"unrecognised argument '--{own}'; see `workbench probe --help`")
    if options.out is not None and options.out.exists() and (not options.out.is_dir() or any(options.out.iterdir())):
        raise ValueError(f"{options.out} is taken; give a folder that is not there yet")
    if options.out is not None:
        check_can_make(options.out)
    how = {"n": options.n, "kind": options.kind, "seed": options.seed, "seeds": options.seeds, "step": options.step}
    how |= {"causal": not options.no_causal, **settings}
    answers = ask_all(_meant(options.runs), options.preset, progress=not options.quiet, **how)
    say("\n\n".join(map(text, answers)))
    if options.out is not None:
        save(answers, options.out)
        say(f"\nfigures and numbers: {options.out}")


NOT_SETTINGS = dict.fromkeys(("label", "points", "positions"))  # of a probe, which a preset decides


def explore(options: argparse.Namespace, _: list[str]) -> None:
    if not options.root.is_dir():
        raise ValueError(f"there is no folder {options.root}; give the folder that holds your runs with --root")
    if not 1 <= options.port <= 65535:
        raise ValueError(f"a port is a number from 1 to 65535, not {options.port}")

    from workbench.app.server.serve import listen, serve

    sockets = listen(options.port)  # before the half minute that the libraries may take
    print(f"opening {options.root} …", file=sys.stderr, flush=True)

    def opened(address: str) -> None:
        say(f"explorer of {options.root}, for you alone: {address}\nCtrl-C ends it")
        sys.stdout.flush()
        if not options.headless:
            import webbrowser

            webbrowser.open(address)

    serve(options.root, sockets, hosts=options.host, opened=opened)


def data(options: argparse.Namespace, fields: list[str]) -> None:
    from workbench.tasks import export as sequences
    from workbench.tasks import make

    if options.count < 1:
        raise ValueError(f"count must be at least 1, not {options.count}")
    if Path(options.task).suffix in sequences.FORMATS:
        if fields:
            raise ValueError(f"{options.task} holds its task's settings already; leave out {fields[0]}")
        task, batches = sequences.read(options.task)
        shown = next(batches)
    else:
        task = make(options.task, **parse_fields(fields))
        condition = dict(setting(text) for text in options.where)
        recipe = sequences.Recipe(task, options.count, options.seed, options.split, options.head, condition)
        if options.out is not None:
            _write_data(recipe, options)
            return
        shown = recipe.shard(0)
    for index in range(min(options.count, len(shown))):
        say(f"{index + 1}\n{sequences.show(task, shown, index)}\n")


def _write_data(recipe: Any, options: argparse.Namespace) -> None:
    from rich.console import Console
    from rich.progress import Progress

    from workbench.tasks.export import write

    progress = write(recipe, options.out, workers=options.workers)
    with Progress(console=Console(stderr=True), disable=options.quiet) as bar:
        job = bar.add_task(f"writing {options.out}", total=options.count)
        for written in progress:
            bar.update(job, completed=written)
    say(f"wrote {options.count} sequences to {options.out}; `workbench data {options.out}` shows them")


def export_run(options: argparse.Namespace, _: list[str]) -> None:
    from workbench.sharing import export

    say(f"exported {export(options.run, options.out)}; `workbench import` takes it anywhere")


def import_run(options: argparse.Namespace, _: list[str]) -> None:
    from workbench.sharing import unpack

    _say_taken(unpack(options.file, options.out))


def push_run(options: argparse.Namespace, _: list[str]) -> None:
    from workbench.sharing import push

    say(f"pushed {push(options.run, options.repo, private=options.private)}")


def pull_run(options: argparse.Namespace, _: list[str]) -> None:
    from workbench.sharing import pull

    _say_taken(pull(options.repo, options.out, revision=options.revision))


def _say_taken(run: Any) -> None:
    say(f"made {run.path}: {run.config.task['name']}, {run.config.steps} steps\nnext: workbench inspect {run.path}")


def runs(options: argparse.Namespace, _: list[str]) -> None:
    from workbench.cli.table import SHOWN, SPARE, print_table
    from workbench.runs import load_run
    from workbench.runs.table import compare, filtered, in_order, table

    if not options.root.is_dir():
        raise ValueError(f"there is no folder {options.root}; give the folder that holds your runs with --root")
    if options.delete and not (options.runs or options.where):
        raise ValueError("no run was named to be deleted; name some, or say which with --where")
    frame, problems = table(options.root)
    names = [name.rstrip("/") for name in options.runs]
    absent = [name for name in names if name not in set(frame["run"])]
    if absent:
        load_run(options.root / absent[0])  # says what is wrong with it
        raise ValueError(f"there is no run {absent[0]} directly under {options.root}")
    if names:
        frame = frame[frame["run"].isin(names)]
    frame = filtered(frame, options.where) if len(frame) else frame
    if options.sort and len(frame):
        frame = in_order(frame, options.sort)
    folders = [options.root / name for name in frame["run"]]
    if options.delete:
        _delete(folders, options.yes)
    elif options.compare:
        print_table(compare([load_run(folder) for folder in folders]).reset_index(names=""))
    elif len(frame):
        print_table(frame[["run", "task.name", "variants", "seed", "status", "step", *SHOWN]], SPARE)
    else:
        say(f"no run under {options.root} meets that" if options.where else f"there is no run under {options.root}")
    if not (options.runs or options.delete or options.compare):
        for problem in problems:
            say(f"cannot be read: {problem}")


def _delete(folders: Sequence[Path], yes: bool) -> None:
    from workbench.runs.table import Doomed, delete

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
