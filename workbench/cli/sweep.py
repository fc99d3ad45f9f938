"""`workbench sweep`: train every run of a sweep file."""

from __future__ import annotations

import argparse
from pathlib import Path

from workbench.cli.output import FAILED, INTERRUPTED, complain, say
from workbench.cli.parser import AddCommand


def add(command: AddCommand) -> None:
    parser = command(
        summary="train every run of a sweep file",
        description="Train every combination that a sweep file asks for, beside a table of the results. Runs that are "
        "finished are not trained again; after Ctrl-C, a kill or a failure, the same command goes on. "
        "docs/training.md shows a file.",
    )
    parser.add_argument("file", type=Path, metavar="SWEEP.toml", help="variants, settings and a grid")
    parser.add_shared("--out", help="folder for runs and results (default: sweeps/SWEEP)")
    parser.add_shared("--workers", help="runs that train at a time (default: one a core)")
    parser.add_shared("--ray")
    parser.add_argument("--dry-run", action="store_true", help="say what there is to train, and train nothing")
    parser.add_shared("--track", "--quiet")


def run(options: argparse.Namespace, _: list[str]) -> int:
    from workbench.training.sweeps import output_folder, sweep
    from workbench.training.sweeps.jobs import results, survey
    from workbench.training.sweeps.plan import read_plan

    out = output_folder(options.file, options.out)
    if options.dry_run:
        for planned in results(survey(read_plan(options.file), out)).itertuples():
            say(f"{planned.status:10}  step {planned.step}/{planned.steps}  {out / planned.run}")
        return 0
    how = {"workers": options.workers, "ray": options.ray, "track": options.track, "progress": not options.quiet}
    frame = sweep(options.file, out, **how)
    finished, failed = (frame[frame["status"] == status] for status in ("finished", "failed"))
    say(f"{len(finished)} of {len(frame)} runs are finished; figures of all: {out / 'results.parquet'}")
    if len(finished) + len(failed) < len(frame):
        say(f"stopped; `workbench sweep {options.file} --out {out}` goes on")
        return INTERRUPTED
    if len(failed):
        names = ", ".join(failed["run"])
        return complain(f"failed: {names}; the results say why, and the same command tries again", FAILED)
    return 0
