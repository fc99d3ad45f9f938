"""`workbench study gpu`: the next study without a result at scale gpu, on a machine that has little but a GPU."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.cli.output import INTERRUPTED, say

if TYPE_CHECKING:
    from workbench.studies import Study


def next_row(options: argparse.Namespace) -> int | None:
    """Run the next study without a result at scale gpu; without a GPU, say what would run."""
    from tempfile import TemporaryDirectory

    import torch

    from workbench.studies.gpu import ARCHIVES, DRY, dry, fill
    from workbench.studies.study import GPU

    if not options.minutes > 0:
        raise ValueError(f"--minutes is more than 0, not {options.minutes:g}")
    rows = _rows(options)
    if not rows:
        say("every study has its result at scale gpu")
        return None
    if not (options.dry_run or torch.cuda.is_available()):
        say("\n".join(_planned(rows)))
        return None
    out = options.out or options.root / ARCHIVES
    until = time.monotonic() + 60 * options.minutes
    with TemporaryDirectory() as place:
        for name, study in rows[0].items():
            study, scale, root = (dry(study), DRY, Path(place)) if options.dry_run else (study, GPU, options.root)
            left = max(0.01, (until - time.monotonic()) / 60)
            result, archive = fill(name, study, scale, root, out, left, progress=not options.quiet)
            say(f"{archive}: {archive.stat().st_size / 1e6:.2f} MB")
            if result is None:
                say(f"{name} was stopped after {options.minutes:g} min; the same command goes on")
                return INTERRUPTED
            say(result.says)
    return None


def _rows(options: argparse.Namespace) -> list[dict[str, Study]]:
    """The studies without a result at scale gpu, in their order; those that measure the same runs together."""
    from workbench.studies import STUDIES, read_ledger
    from workbench.studies.gpu import next_rows
    from workbench.studies.ledger import LEDGER
    from workbench.studies.study import GPU
    from workbench.util.lookup import lookup

    studies = {name: lookup(STUDIES, name, "study") for name in options.names} or STUDIES
    for name in options.names:
        if missing := studies[name].missing(GPU, {}):
            raise ValueError(f"{name}: {missing}")
    ledger = Path(__file__).parents[2] / "docs" / "studies" / LEDGER
    filled = [] if options.names else [(one.name, one.scale) for one in read_ledger(ledger)]
    return [{name: studies[name] for name in row} for row in next_rows(studies, filled, options.root)]


def _planned(rows: Sequence[Mapping[str, Study]]) -> Iterator[str]:
    """What would run on a GPU, and how long."""
    from workbench.studies.gpu import minutes
    from workbench.studies.study import GPU
    from workbench.training.sweeps.plan import read_plan

    yield "there is no GPU here; on one, each call runs the next of these lines (minutes of an H200 are estimates):"
    for row in rows:
        first, *others = row
        seeds = row[first].seeds[GPU]
        runs = len(read_plan(row[first].plan(GPU, seeds)).runs)
        also = f"; and {', '.join(others)} of the same runs" if others else ""
        length = f"about {minutes(row[first], seeds):.0f} min of training"
        yield f"  {first}: {runs} runs, {seeds} seeds of each group, {length}{also}"
