"""`workbench bench`: methods of interpretability on models whose truth is written down."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from workbench.cli.output import say, show, warn
from workbench.cli.parser import AddCommand, refuse

RESULTS = Path("bench.json")


def add(command: AddCommand) -> None:
    parser = command(
        summary="which methods find what is known to be there, how often, and how sure",
        description="Ask methods about small models whose mechanism is written into their weights, and score what they "
        "answer. `list` names methods, subjects and suites; `run` asks the methods of a suite, or those named, and "
        "keeps what is done in one file, with which the same command goes on; `report` makes a page of it; `arena` "
        "writes a folder of unnamed models for people and agents to make claims about, and `score` marks a claim.",
        usage="list | run [METHOD …] [--suite quick|full] [--seed N] [--out FILE] | report [FILE …] [--out PAGE.md] | "
        "arena --out DIR [--seed N] | score DIR CLAIM.json --seed N",
    )
    parser.add_argument("action", choices=tuple(ACTIONS), help="what to do")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="run: methods; report: files of results; score: see above"
    )
    parser.add_argument("--suite", default="quick", help="run: quick (minutes) or full (an hour) (default: quick)")
    parser.add_argument(
        "--seed",
        type=int,
        help="from which models are drawn (run: default 0; arena: one that nobody guesses, which is said)",
    )
    parser.add_shared(
        "--out",
        help=f"run: the file of results (default: {RESULTS}); report: the page; arena: the folder",
        metavar="PATH",
    )
    parser.add_shared("--json", help="run, score: print the result with every number as JSON instead")
    parser.add_shared("--quiet")


def run(options: argparse.Namespace, _: list[str]) -> None:
    do, most, takes = ACTIONS[options.action]
    others = [name for name in ("suite", "seed", "out", "json") if name not in takes]
    refuse(options, others, f"is not of `workbench bench {options.action}`; leave it out")
    if most is not None and len(options.names) > most:
        raise ValueError(f"`workbench bench {options.action}` takes no {options.names[most]!r}; leave it out")
    do(options)


def _list(options: argparse.Namespace) -> None:
    from workbench.benchmark.methods import METHODS
    from workbench.benchmark.run import SUITES
    from workbench.benchmark.subjects import SUBJECTS

    for title, table in (("methods", METHODS), ("subjects", SUBJECTS)):
        width = max(map(len, table))
        say(title)
        for name, part in table.items():
            say(f"  {name:{width}}  {(part.__doc__ or '').strip().splitlines()[0]}")
        say()
    for name, suite in SUITES.items():
        counts = f"{len(suite.methods or METHODS)} methods on {len(suite.subjects or SUBJECTS)} families"
        say(f"suite {name}: {counts}, {suite.seeds} subjects of each")


def _run(options: argparse.Namespace) -> None:
    from workbench.benchmark.results import Results
    from workbench.benchmark.run import bench, estimate, pieces

    out, seed = options.out or RESULTS, options.seed or 0
    left = pieces(Results.at(out), options.names, options.suite, seed)
    if left and not options.quiet:
        warn([f"{estimate(left)}; kept in {out}, with which the same command goes on"])
    results = bench(options.names, suite=options.suite, seed=seed, out=out, progress=not options.quiet)
    show(results, options)


def _report(options: argparse.Namespace) -> None:
    from workbench.benchmark.page import page
    from workbench.benchmark.results import Results
    from workbench.util.files import check_can_make, write_atomically

    sources = list(map(Path, options.names)) or [RESULTS]
    out = options.out or sources[0].with_suffix(".md")
    check_can_make(out)
    results = Results.merged([Results.load(source) for source in sources])
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, page(results, ", ".join(f"`{source.name}`" for source in sources)).encode())
    say(f"wrote {out}")


def _arena(options: argparse.Namespace) -> None:
    from workbench.benchmark.arena import arena

    if options.out is None:
        raise ValueError("give the folder to make with --out")
    seed = arena(options.out, options.seed)
    say(
        f"wrote {options.out}; keep the seed from those who enter: "
        f"workbench bench score {options.out} CLAIM.json --seed {seed}"
    )


def _score(options: argparse.Namespace) -> None:
    from workbench.benchmark.arena import mark

    if len(options.names) != 2 or options.seed is None:
        raise ValueError("`workbench bench score` takes a folder, a claim, and the seed of the folder with --seed")
    show(mark(Path(options.names[0]), Path(options.names[1]), options.seed), options)


ACTIONS: dict[str, tuple[Callable[[argparse.Namespace], None], int | None, tuple[str, ...]]] = {
    "list": (_list, 0, ()),
    "run": (_run, None, ("suite", "seed", "out", "json")),
    "report": (_report, None, ("out",)),
    "arena": (_arena, 0, ("seed", "out")),
    "score": (_score, 2, ("seed", "json")),
}
"""What can be done -> what does it, the most names that it takes, and the options that it takes, but for --quiet."""
