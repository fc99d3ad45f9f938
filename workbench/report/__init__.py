"""Runs measured and what was found written down: a table, a self-contained HTML page, every number, every figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from workbench import runs
from workbench.inspection import Inspected, Settings, inspect_run, labels
from workbench.inspection.over_training import Timeline, follow
from workbench.inspection.result import files_of
from workbench.measurement import Measurement
from workbench.report.claims import claim_lines
from workbench.report.comparisons import OverSeeds, comparison_text, in_pairs, over_seeds, over_seeds_text
from workbench.report.figure_files import FORMATS, check_formats, write_figures
from workbench.report.over_training import timeline_section
from workbench.report.page import page
from workbench.report.sections import sections
from workbench.report.seed_groups import shown
from workbench.report.table import all_columns, rows, summarise
from workbench.util.files import check_can_make, write_atomically
from workbench.util.lookup import check_told_apart, tell_apart

__all__ = ["FORMATS", "Report", "inspect"]

COMPARISONS = ("comparison", "comparison_over_seeds")  # files of two runs in pairs, and of groups of seeds


@dataclass(frozen=True)
class Report:
    """What an inspection leaves.

    Attributes:
        inspected: what was measured, run by run.
        summary: the table that was printed.
        html: the page.
        timelines: every run over training, if that was asked for.
        differences: two runs of one task, paired by example (see `comparison.compare`).
        over_seeds: groups of several seeds, each against the first of them.
        figures: the files of single figures that were asked for.
    """

    inspected: list[Inspected]
    summary: str
    html: Path
    timelines: list[Timeline]
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
    export: Sequence[str] = (),
    progress: bool = False,
) -> Report:
    """Measure one run, or several side by side; write `report.html` and, under `data/`, Parquet, CSV and JSON.

    Runs that differ in their seed alone are also taken together. Two runs that were measured on the same sequences are
    compared in pairs, example by example; two groups of several seeds, over their seeds.

    Args:
        paths: run folders.
        out: where the report goes; by default `inspection` in the first run's folder.
        n: sequences to draw for each of the task's test conditions; distinct ones are measured.
        seed: seed of those sequences; they come from other streams than training's.
        only: instruments and mechanisms to measure; by default all that apply.
        settings: theirs, where not the default ones: `{"entropy": {"alpha": 2, "centre": True}}`.
        timeline: measure every checkpoint too, and draw everything over training.
        export: formats (`html`, `svg`, `png`, `pdf`) in which to write every figure by itself, under `figures/`.
        progress: show a progress bar on standard error.

    Raises:
        ValueError: if a run cannot be opened or is named twice, n is below 2, a name in `only`, `settings` or `export`
            does not exist, nothing asked for applies, or a timeline is asked for of a run without checkpoints. Nothing
            is written then.
    """
    if n < 2:
        raise ValueError(f"an interval needs at least n=2 sequences, not {n}")
    check_formats(export)
    opened = [runs.load_run(path) for path in paths]
    folder = Path(out) if out is not None else opened[0].path / "inspection"
    check_can_make(folder / "data")
    how = {"n": n, "seed": seed, "only": only, "settings": settings, "progress": progress}
    inspected = [
        inspect_run(run, name=name, **how)  # type: ignore[arg-type]
        for run, name in zip(opened, labels(opened), strict=True)
    ]
    if not any(one.results for one in inspected):
        why = dict.fromkeys(f"{name}: {reason}" for one in inspected for name, reason in one.left_out.items())
        raise ValueError(f"nothing that was asked for can be measured; {'; '.join(why)}")
    timelines = [follow(one, **how) for one in inspected] if timeline else []  # type: ignore[arg-type]
    drawn = [*sections(inspected), *map(timeline_section, timelines)]
    differences, groups = in_pairs(inspected), over_seeds(inspected)
    _write_numbers(folder / "data", inspected, timelines)
    _write_comparisons(folder / "data", differences, groups)
    columns = all_columns(inspected)
    found = rows(columns)
    made = f"{n} sequences drawn per test condition, seed {seed}; n counts distinct ones"
    html = folder / "report.html"
    text = page(
        inspected, ([one.name for one in columns], found), claim_lines(columns), drawn, (differences, groups), made
    )
    write_atomically(html, text.encode())
    files = write_figures(folder / "figures", drawn, export)
    summary = summarise(columns, found)
    if differences is not None:
        summary += "\n\n" + comparison_text(differences, inspected[0].name, inspected[1].name)
    summary += "".join("\n\n" + over_seeds_text(one) for one in groups)
    return Report(inspected, summary, html, timelines, differences, groups, files)


def _write_numbers(folder: Path, inspected: Sequence[Inspected], timelines: Sequence[Timeline]) -> None:
    """Every number that was measured, a folder for each run and for each config with several seeds.

    Names of folders are those of the figures; of two that differ in their case alone, the second has a number.

    Raises:
        ValueError: if two things would be written into one folder. Nothing is written then.
    """
    groups = [group for group in shown(inspected) if not group.alone]
    names = [*(one.name for one in inspected), *(group.name for group in groups)]
    taken = [f"{name}.{suffix}" for name in COMPARISONS for suffix in ("parquet", "csv")]
    folders = dict(zip(names, tell_apart(names, taken), strict=True))
    found: list[tuple[str, dict[str, Measurement]]] = [(folders[one.name], one.all()) for one in inspected]
    for group in groups:
        files = {stem: m for name, result in group.results.items() for stem, m in files_of(name, result).items()}
        found.append((folders[group.name], files))
    found += [(f"{folders[followed.name]}/timeline", followed.all()) for followed in timelines]
    examples = [
        (f"{folders[one.name]}/examples", {name: result.examples for name, result in one.results.items()})
        for one in inspected
    ]
    check_told_apart([name for name, _ in (*found, *examples)], "folders of numbers")
    for name, measured in found:
        (folder / name).mkdir(parents=True, exist_ok=True)
        for stem, measurement in measured.items():
            measurement.save(folder / name, stem)
    for name, each in examples:
        (folder / name).mkdir(exist_ok=True)
        for stem, measurement in each.items():
            measurement.save_parquet(folder / name, stem)


def _write_comparisons(folder: Path, differences: pd.DataFrame | None, groups: Sequence[OverSeeds]) -> None:
    """Two runs in pairs, and groups of seeds over their seeds, as a table each."""
    pairs, over = COMPARISONS
    tables = {} if differences is None else {pairs: differences}
    if groups:
        parts = [one.differences.assign(first_group=one.first, second_group=one.second) for one in groups]
        tables[over] = pd.concat(parts, ignore_index=True)
    for name, table in tables.items():
        table.to_parquet(folder / f"{name}.parquet", index=False)
        table.to_csv(folder / f"{name}.csv", index=False)
