"""Runs measured and written up: a summary table, a self-contained HTML page, every number, every figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from workbench import runs
from workbench.figures.for_paper import INCHES
from workbench.inspection import Inspected, Settings, inspect_run, labels
from workbench.inspection.findings import findings
from workbench.inspection.geometry import Geometry
from workbench.inspection.geometry import geometry as run_geometry
from workbench.inspection.judged import Column
from workbench.inspection.over_training import Timeline, follow
from workbench.inspection.seed_groups import seed_groups
from workbench.judgement.words import many
from workbench.report.circuits import RunCircuit, circuit_section, run_circuit
from workbench.report.comparisons import OverSeeds, clearest, comparison_text, in_pairs, over_seeds, over_seeds_text
from workbench.report.figure_files import FORMATS, check_formats, write_figures
from workbench.report.geometry import geometry_section
from workbench.report.numbers import FILES, PAGE, only_report, write_comparisons, write_numbers
from workbench.report.over_training import timeline_section
from workbench.report.page import page
from workbench.report.sections import sections
from workbench.report.table import Row, all_columns, claim_lines, rows, summarise
from workbench.runs.config import check_condition, condition_in_words
from workbench.util.files import files_replaced, write_atomically
from workbench.util.lookup import lookup

__all__ = ["FILES", "FORMATS", "Report", "inspect", "write"]


class Asked(NamedTuple):
    """What a report has beside the measurements where it was asked for, of each run."""

    timelines: list[Timeline]
    circuits: list[RunCircuit]
    geometries: dict[str, Geometry]


NOTHING_ASKED = Asked([], [], {})


@dataclass(frozen=True)
class Report:
    """The results of `inspect` and the files that it wrote.

    Attributes:
        inspected: the measurements, run by run.
        summary: the table as text.
        html: the page's file.
        timelines: every run over training, if that was wanted.
        circuits: the circuit of every run, if that was wanted.
        geometries: the geometry of many sequences together of every run by its name, if that was wanted.
        differences: two runs on the same sequences, compared example by example (see `compare_runs.compare`).
        over_seeds: every later group of seeds compared with the first.
        figures: the files of single figures, if any were wanted.
    """

    inspected: list[Inspected]
    summary: str
    html: Path
    timelines: list[Timeline]
    circuits: list[RunCircuit]
    geometries: dict[str, Geometry]
    differences: pd.DataFrame | None
    over_seeds: list[OverSeeds]
    figures: list[Path]


def inspect(
    paths: Sequence[str | Path],
    *,
    out: str | Path | None = None,
    n: int = 256,
    seed: int = 0,
    only: Sequence[str] = (),
    settings: Settings | None = None,
    timeline: bool = False,
    circuit: bool = False,
    geometry: bool = False,
    conditions: Sequence[Mapping[str, Any]] | None = None,
    export: Sequence[str] = (),
    width: str | None = None,
    progress: bool = False,
) -> Report:
    """Measure one run, or several side by side; write `report.html` and, under `data/`, Parquet, CSV and JSON.

    Runs that differ in their seed alone are also averaged. Two runs on the same sequences are compared example by
    example; groups of several seeds are compared over their seeds.

    Args:
        paths: run folders.
        out: where the report goes; by default `inspection` in the first run's folder.
        n: sequences to draw for each of the task's test conditions; distinct ones are measured.
        seed: seed of those sequences; they come from other streams than training's.
        only: instruments and mechanisms to measure; by default all that apply.
        settings: those of instruments that are not the default ones: `{"entropy": {"alpha": 2, "centre": True}}`.
        timeline: measure every checkpoint too, and draw everything over training.
        circuit: find which edges carry the answer, too.
        geometry: measure RankMe, LiDAR, DiME and InfoNCE of n sequences together, too.
        conditions: the test conditions to measure on, any that the tasks have: `[{"length": 20, "repeats": 4}]`; by
            default all of `task.conditions`.
        export: formats (`html`, `svg`, `png`, `pdf`) in which to write every figure by itself, under `figures/`.
        width: lay those figures out for print, at the width of a `column` or a `page`; None for a screen.
        progress: show a progress bar on standard error.

    Raises:
        ValueError: if a run cannot be opened, its log is damaged, or it is named twice, n is below 2, a name or format
            does not exist, a task has no such condition, nothing applies, or a timeline is wanted of a run without
            checkpoints. Nothing is written then.
    """
    check(n, export, width)
    opened = [runs.load_run(path) for path in paths]
    for run in opened:
        run.log()  # raises where it is damaged, of which the report would tell only after all was measured
        for condition in conditions or ():
            check_condition(run.task(), condition)
    folder = Path(out) if out is not None else opened[0].path / "inspection"
    options: dict[str, Any] = {"n": n, "seed": seed, "only": only, "settings": settings, "conditions": conditions}
    options["progress"] = progress
    drawn_for = "; ".join(map(condition_in_words, conditions or ()))
    how_made = f"{n} sequences drawn per test condition{drawn_for and f' ({drawn_for})'}, seed {seed}"
    with only_report(folder, labels(opened)):
        inspected = _measure(opened, options)
        timelines = [follow(run, **options) for run in inspected] if timeline else []
        circuits = [run_circuit(run, seed) for run in inspected] if circuit else []
        geometries = {one.name: run_geometry(one.run, n=n, seed=seed) for one in inspected} if geometry else {}
        asked = Asked(timelines, circuits, geometries)
        return write_report(folder, inspected, asked, (export, width), how_made)


def write(inspected: Sequence[Inspected], out: str | Path) -> Report:
    """Write up what was inspected already: the page, and every number under `data/`.

    Args:
        inspected: results of `inspect_run` or `inspect_model`, under different names.
        out: the folder.

    Raises:
        ValueError: if nothing was measured, two have one name, or the folder cannot be made. Nothing is written then.
    """
    if not any(one.results for one in inspected):
        raise ValueError("there is nothing to write up: nothing was measured")
    folder = Path(out)
    with only_report(folder, [one.name for one in inspected]):
        return write_report(folder, list(inspected), NOTHING_ASKED, ((), None), "sequences as given to the inspection")


def check(n: int, export: Sequence[str], width: str | None) -> None:
    """Raise ValueError if there are too few sequences for an interval, or a format or width does not exist."""
    if n < 2:
        raise ValueError(f"an interval needs at least n=2 sequences, not {n}")
    check_formats(export)
    if width is not None:
        lookup(INCHES, width, "width")


def _measure(opened: Sequence[runs.Run], options: Mapping[str, Any]) -> list[Inspected]:
    """Every run inspected.

    Raises:
        ValueError: if nothing that was asked for can be measured of any run.
    """
    inspected = [inspect_run(run, name=name, **options) for run, name in zip(opened, labels(opened), strict=True)]
    check_measured(inspected)
    return inspected


def check_measured(inspected: Sequence[Inspected]) -> None:
    """Raise ValueError if nothing that was asked for could be measured of any model, with the reasons."""
    if not any(one.results for one in inspected):
        reasons = dict.fromkeys(f"{name}: {reason}" for one in inspected for name, reason in one.left_out.items())
        raise ValueError(f"nothing that was asked for can be measured; {'; '.join(reasons)}")


def write_report(
    folder: Path,
    inspected: list[Inspected],
    asked: Asked,
    export: tuple[Sequence[str], str | None],
    how_made: str,
) -> Report:
    """Numbers, page and figures in a folder, in place of a report's before; the summary for the terminal."""
    drawn = [*sections(inspected), *map(circuit_section, asked.circuits), *map(timeline_section, asked.timelines)]
    drawn += [geometry_section(asked.geometries)] if asked.geometries else []
    differences, groups = in_pairs(inspected), over_seeds(inspected)
    columns = all_columns(inspected)
    table = rows(columns)
    names = [column.name for column in columns]
    measured = [findings(one) for one in seed_groups(inspected) if one.results]
    found = many.sentences(measured, clearest(groups))
    text = page(
        inspected,
        found,
        (names, table),
        claim_lines(columns),
        drawn,
        (differences, groups),
        f"{how_made}; n counts distinct ones",
    )
    with files_replaced(folder, FILES) as place:
        folders = write_numbers(place / "data", inspected, asked.timelines)
        for one in asked.circuits:
            one.save(place / "data" / folders[one.name] / "circuit")
        for name, of_run in asked.geometries.items():
            of_run.save(place / "data" / folders[name] / "geometry")
        write_comparisons(place / "data", differences, groups)
        write_atomically(place / PAGE, text.encode())
        files = write_figures(place / "figures", drawn, *export)
    files = [folder / path.relative_to(place) for path in files]
    summary = "\n\n".join(["\n".join(found), _summary(columns, table, inspected, differences, groups)])
    return Report(inspected, summary, folder / PAGE, *asked, differences, groups, files)


def _summary(
    columns: Sequence[Column],
    table: Sequence[Row],
    inspected: Sequence[Inspected],
    differences: pd.DataFrame | None,
    groups: Sequence[OverSeeds],
) -> str:
    """The table as text, then the comparison of two runs and those of groups of seeds."""
    parts = [summarise(columns, table)]
    if differences is not None:
        parts.append(comparison_text(differences, inspected[0].name, inspected[1].name))
    return "\n\n".join([*parts, *map(over_seeds_text, groups)])
