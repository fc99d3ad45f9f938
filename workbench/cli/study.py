"""`workbench study`: test a paper's claim again, from its runs to its verdict."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.cli.output import FAILED, INTERRUPTED, complain, say, show, warn
from workbench.cli.parser import AddCommand, chosen, refuse
from workbench.cli.study_gpu import next_row

if TYPE_CHECKING:
    from workbench.studies import Study


def add(command: AddCommand) -> None:
    parser = command(
        summary="ask a claim of the papers again, or a question of your own",
        description="A study is a question with its runs, its measurements, its figure and its verdict. `list` names "
        "those of the papers, `show NAME` says what one trains and what must hold, `run NAME` does it, `report` writes "
        "a page with a picture for each that has run; `gpu` runs the next one without a result at scale gpu, and "
        "leaves an archive of what it measured; `zoo` takes the models that the explorer shows first from their runs. "
        "NAME may be your own TOML or Python file.",
        usage="list | show NAME | run NAME … [--all] [--scale SCALE] [--seeds N] | gpu | report [--page FILE] | zoo",
    )
    parser.add_argument("action", choices=tuple(ACTIONS), help="what to do")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a study's name, or the path of its file")
    parser.add_argument("--all", action="store_true", help="run: every study of the papers")
    parser.add_argument(
        "--scale",
        default="small",
        help="small (minutes on a CPU), day (hours, of some), gpu (minutes, of some) or paper (default: small)",
    )
    parser.add_argument("--seeds", type=int, metavar="N", help="seeds of each group (default: the study's own number)")
    parser.add_argument("--root", type=Path, default=Path("studies"), help="folder of all studies (default: studies)")
    parser.add_shared(
        "--out",
        help="report, zoo, gpu: folder for pages, runs or archives (default: report/, zoo/ or archives/ under the "
        "root)",
    )
    parser.add_argument("--page", type=Path, metavar="FILE", help="report: write this one HTML file in place of pages")
    parser.add_shared("--workers", help="runs that train at a time (default: one a core)")
    parser.add_shared("--ray")
    parser.add_argument(
        "--model", metavar="MODEL", help="run, scale paper: the model that a study fine-tunes, as GPT-2"
    )
    parser.add_argument("--text", metavar="FILE", help="run, scale paper: the text that it is fine-tuned on")
    parser.add_argument("--minutes", type=float, default=8.0, help="gpu: when training stops and saves (default: 8)")
    parser.add_argument("--dry-run", action="store_true", help="gpu: tiny models on the CPU, to try what it does")
    parser.add_shared("--json", help="run: print the result with every number as JSON instead")
    parser.add_shared("--quiet")


def run(options: argparse.Namespace, _: list[str]) -> int | None:
    do, takes = ACTIONS[options.action]
    others = [name for name in ("out", "page", *ACTIONS["run"][1]) if name not in takes]
    refuse(options, others, f"is not of `workbench study {options.action}`; leave it out")
    if options.names and options.action in ("list", "zoo"):
        raise ValueError(f"`workbench study {options.action}` takes no name; leave out {options.names[0]}")
    if options.action in ("show", "run") and not (options.names or options.all):
        raise ValueError(f"name a study for `workbench study {options.action}`; `workbench study list` names them")
    return do(options)


def _list(options: argparse.Namespace) -> None:
    from workbench.studies import STUDIES

    width = max(map(len, STUDIES))
    for name, study in STUDIES.items():
        source = "" if study.source is None else f"  ({study.source.paper}, {study.source.place})"
        say(f"{name:{width}}  {study.question}{source}")


def _show(options: argparse.Namespace) -> None:
    from workbench.studies import find_studies

    for given, (name, study) in find_studies(options.names).items():
        try:
            say("\n".join(_described(name, study)))
        except ValueError as error:
            raise ValueError(f"{given}: {error}") from None


def _described(name: str, study: Study) -> list[str]:
    """What a study asks, trains and holds against what."""
    from workbench.training.sweeps.plan import read_plan

    lines = [f"{name}: {study.question}"]
    if study.source is not None:
        lines.append(f"  claimed in {study.source.paper}, {study.source.place}")
    for scale in study.scales:
        study.check(scale)
    for scale in study.runs:
        seeds = study.seeds.get(scale, 1)
        runs = read_plan(study.plan(scale, seeds)).runs
        steps = max(one.config.steps for one in runs)
        lines.append(f"  {scale}: {len(runs)} runs, {seeds} seeds of each group, up to {steps:,} steps")
        if choosing := len(study.to_choose(scale, seeds)):
            lines[-1] += f"; before them {choosing} runs that choose each group's settings"
    for scale, groups in {} if study.tunes is None else study.tunes.groups.items():
        lines.append(f"  {scale}: {len(groups)} fine-tunings of one model, {study.seeds.get(scale, 1)} seeds of each")
    lines += [f"  {contrast.asks}" for contrast in study.contrasts]
    return lines


def _run(options: argparse.Namespace) -> int | None:
    from workbench.studies import run_study

    given = {name: value for name, value in chosen(options, "model", "text").items() if value is not None}
    studies = _to_run(options, given)
    if options.json and len(studies) > 1:
        raise ValueError(f"--json prints one result, and these are {len(studies)} studies; name one")
    failed = []
    for name, (folder, study) in studies.items():
        if not options.quiet:
            warn(_before_it_is_asked(name, study, options))
        try:
            taken = {name: value for name, value in given.items() if name in study.taken(options.scale)}
            how = chosen(options, "root", "scale", "seeds", "workers", "ray")
            result = run_study(study, name=folder, given=taken, progress=not options.quiet, **how)
        except (ValueError, RuntimeError) as error:
            if len(studies) == 1:
                raise
            warn([f"{name}: {error}; the other studies go on"])
            failed.append(name)
            continue
        if result is None:
            say("stopped; the same command goes on")
            return INTERRUPTED
        show(result, options)
    return complain(f"failed: {', '.join(failed)}; the same command tries again", FAILED) if failed else None


def _before_it_is_asked(name: str, study: Study, options: argparse.Namespace) -> list[str]:
    """How many runs a study trains, where it first chooses settings; said before it does."""
    from workbench.training.sweeps.plan import read_plan

    seeds = study.seeds.get(options.scale, 1) if options.seeds is None else options.seeds
    choosing = len(study.to_choose(options.scale, seeds)) if seeds > 0 else 0
    if not choosing:
        return []
    asked = len(read_plan(study.plan(options.scale, seeds)).runs)
    return [
        f"{name}: {choosing} runs choose each group's settings, then about {asked} are asked with these; "
        "what is there already is not trained again"
    ]


def _to_run(options: argparse.Namespace, given: Mapping[str, str]) -> dict[str, tuple[str, Study]]:
    """The studies to run, as `find_studies`; what is wrong with one is said before anything is trained."""
    from workbench.studies import STUDIES, find_studies

    if options.all and options.names:
        raise ValueError(f"give the names of studies or --all, not both: --all runs more than {options.names[0]}")
    studies = find_studies(STUDIES if options.all else options.names)
    missing: dict[str, list[str]] = {}
    for name, (_, study) in studies.items():
        if why := study.missing(options.scale, given):
            missing.setdefault(why, []).append(name)
    left_out = [name for each in missing.values() for name in each]
    if left_out and not (options.all and set(studies) - set(left_out)):
        raise ValueError(f"{left_out[0]}: {next(iter(missing))}")
    warn(f"left out {', '.join(each)}: {why}" for why, each in missing.items())
    studies = {name: found for name, found in studies.items() if name not in left_out}
    for given_name in given:
        if not any(given_name in study.taken(options.scale) for _, study in studies.values()):
            what = "none of these does" if len(studies) > 1 else f"{next(iter(studies))} does not"
            raise ValueError(
                f"--{given_name} is of fine-tuning, which {what} at scale {options.scale} with it; leave it out"
            )
    for name, (_, study) in studies.items():
        try:
            study.check(options.scale)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return studies


def _report(options: argparse.Namespace) -> None:
    from workbench.studies import (
        REPORT,
        STUDIES,
        collect,
        find_studies,
        keep_earlier,
        read_ledger,
        studies_under,
        write_pages,
    )
    from workbench.studies.engine import RESULT
    from workbench.studies.ledger import LEDGER
    from workbench.studies.page import page  # it draws
    from workbench.util.html_file import write_page

    studies = {**STUDIES, **studies_under(options.root), **dict(find_studies(options.names).values())}
    new = collect(options.root, studies)
    out = options.out or options.root / REPORT
    earlier = read_ledger(out / LEDGER)  # which alone is judged anew
    others = sorted({path.parents[1].name for path in options.root.glob(f"[!.]*/*/{RESULT}")} - set(studies))
    if others:
        left_out = f"left out {', '.join(others)}: name the file of each too, as in `workbench study report FILE`"
        if not new and not earlier:
            raise ValueError(left_out)
        warn([left_out])
    elif not new and not earlier:
        raise ValueError(f"no study under {options.root} has run; `workbench study run NAME` runs one")
    results = keep_earlier(new, earlier, studies)
    if options.page is not None:
        say(f"{len(results)} results on one page: {write_page(options.page, lambda: page(results, studies))}")
        return
    pages = write_pages(results, studies, out)
    say(f"{len(results)} results on {len(pages)} pages; the first: {pages[0]}")


def _zoo(options: argparse.Namespace) -> None:
    from workbench.studies import ZOO
    from workbench.studies.zoo import build_zoo

    out = options.out or options.root / ZOO
    found = build_zoo(options.root, out, progress=not options.quiet)
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file()) / 1e6
    say(f"{len(found)} runs in {out}, {size:.0f} MB")


ACTIONS: dict[str, tuple[Callable[[argparse.Namespace], int | None], tuple[str, ...]]] = {
    "list": (_list, ("root",)),
    "show": (_show, ("root",)),
    "run": (_run, ("all", "scale", "seeds", "root", "workers", "ray", "model", "text", "json")),
    "gpu": (next_row, ("root", "out", "minutes", "dry_run")),
    "report": (_report, ("root", "out", "page")),
    "zoo": (_zoo, ("root", "out")),
}
"""What can be done -> what does it, and the options that it takes, but for --quiet; all take the folder of studies."""
