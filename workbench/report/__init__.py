"""Runs measured and written up: a summary table, a self-contained HTML page, every number, every figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from torch import nn

from workbench.capture.directions import Directions
from workbench.figures.for_paper import INCHES
from workbench.inspection import Inspected, Result, Settings, inspect_model, inspect_run, labels
from workbench.inspection.findings import findings
from workbench.inspection.found import keep_if_more
from workbench.inspection.geometry import Geometry
from workbench.inspection.geometry import geometry as run_geometry
from workbench.inspection.over_training import Timeline, follow
from workbench.inspection.own_basis import OwnBasis, own_basis
from workbench.inspection.seed_groups import seed_groups
from workbench.judgement.words import summary
from workbench.report.circuits import RunCircuit, circuit_section, run_circuit
from workbench.report.comparisons import (
    OverSeeds,
    clearest,
    comparison_heading,
    comparison_text,
    in_pairs,
    over_seeds,
    over_seeds_heading,
)
from workbench.report.figure_files import FORMATS, write_figures
from workbench.report.numbers import FILES, PAGE, only_report, write_comparisons, write_numbers
from workbench.report.report_page import page
from workbench.report.sections import Section, further_sections, sections
from workbench.report.table import all_columns, claim_lines, rows, summarise
from workbench.runs import Run, open_runs
from workbench.runs.conditions import check_condition, condition_in_words
from workbench.util.distribution import needs
from workbench.util.files import files_replaced, write_atomically
from workbench.util.lookup import lookup
from workbench.util.settings import as_json
from workbench.util.words import as_it_says

__all__ = ["FILES", "FORMATS", "Report", "inspect", "inspect_runs", "write"]


class Asked(NamedTuple):
    """What a report has beside the measurements where it was asked for, of each run."""

    timelines: list[Timeline]
    circuits: list[RunCircuit]
    geometries: dict[str, Geometry]
    own_bases: dict[str, OwnBasis]


NOTHING_ASKED = Asked([], [], {}, {})


@dataclass(frozen=True)
class Report:
    """The results of `inspect`: `report["entropy"]` of one run, `report.inspected` of several; and the files it wrote.

    Attributes:
        inspected: the measurements, run by run.
        says: the findings, and the table as text.
        html: the page's file; None where nothing was written.
        sections: what is drawn.
        timelines: every run over training, if that was wanted.
        circuits: the circuit of every run, if that was wanted.
        geometries: the geometry of many sequences together of every run by its name, if that was wanted.
        own_bases: the residual of every run by its name on a basis of one's own, if there is one.
        differences: two runs on the same sequences, compared example by example (see `compare_runs.compare`).
        over_seeds: every later group of seeds compared with the first.
        figures: the files of single figures, if any were wanted.
    """

    inspected: list[Inspected]
    says: str
    html: Path | None
    sections: list[Section]
    timelines: list[Timeline]
    circuits: list[RunCircuit]
    geometries: dict[str, Geometry]
    own_bases: dict[str, OwnBasis]
    differences: pd.DataFrame | None
    over_seeds: list[OverSeeds]
    figures: list[Path]
    __repr__ = as_it_says

    def __getitem__(self, name: str) -> Result:
        """What an instrument or mechanism measured of the run, if it is one. Raises ValueError if there is no such."""
        if len(self.inspected) > 1:
            raise ValueError(
                f"{len(self.inspected)} runs were measured: say which, as in report.inspected[0][{name!r}]"
            )
        return self.inspected[0][name]

    def figure(self, name: str | None = None) -> Any:
        """The first figure of an instrument, or of the section whose heading is `name`; by default of the first one."""
        shown = [section for section in self.sections if section.drawn or section.drawing is not None]
        drawn = {section.measure or section.title: [*section.drawn, section.drawing][0] for section in shown}
        return lookup(drawn, next(iter(drawn), "") if name is None else name, "figure of this report")

    def table(self) -> pd.DataFrame:
        """Every number: a row for each value, with the run's name, the measurement's, and the interval."""
        numbers = [(one.name, stem, measured) for one in self.inspected for stem, measured in one.all().items()]
        return pd.concat([each.frame().assign(run=run, measurement=stem) for run, stem, each in numbers])

    def json(self) -> str:
        """What it says, and every number of every run."""
        numbers = {one.name: {stem: each.to_dict() for stem, each in one.all().items()} for one in self.inspected}
        return as_json({"format": "inspect/1", "says": self.says, "measurements": numbers})


def inspect(given: Any, *more: Any, on: Any = None, text: str | Path | None = None, **options: Any) -> Report:
    """Measure runs, models of Hugging Face on a text, or a model in memory, and write a report.

    Args:
        given, more: runs, run folders or folders of runs; with `text` models of Hugging Face, each a folder or a name
            on the hub: one or several, side by side, also as a list. Or a model in memory, and what to measure it on.
        on: of a model in memory: a task whose vocabulary is the model's, or token sequences, as `inspect_model`.
        text: of models of Hugging Face: a text file in UTF-8.
        options: as for `inspect_runs`; with `text` as for `report.hugging_face.inspect_text`; with `on` as for
            `inspection.inspect_model`, and `out`, without which nothing is written. Progress is shown but with
            `progress=False`.

    Raises:
        ValueError: if a model in memory is given without `on`, or as those raise it.
    """
    if isinstance(given, nn.Module) and on is None and len(more) == 1:
        (on,), more = more, ()
    if on is not None:
        if more:
            raise ValueError("one model in memory is measured at a time")
        out = options.pop("out", None)
        return write([inspect_model(given, on, **options)], out)
    if isinstance(given, nn.Module):
        raise ValueError("a model in memory is measured on something: give token sequences, or a task, after it")
    if isinstance(given, str | Path | Run):
        given = [given, *more]
    elif more:
        raise ValueError("give several runs one after the other, or as one list")
    options = {"progress": True} | options
    if text is None:
        return inspect_runs(given, **options)
    from workbench.report.hugging_face import inspect_text  # which imports this room

    return inspect_text(given, text, **options)


def inspect_runs(
    paths: str | Path | Run | Sequence[str | Path | Run],
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
    basis: str | Path | None = None,
    export: Sequence[str] = (),
    width: str | None = None,
    progress: bool = False,
) -> Report:
    """Measure one run, or several side by side; write `report.html` and, under `data/`, Parquet, CSV and JSON.

    What was found of each run by all default measures is kept beside its weights, for the explorer and `export --page`.
    Runs that differ in their seed alone are also averaged. Two runs on the same sequences are compared example by
    example; groups of several seeds are compared over their seeds.

    Args:
        paths: runs, run folders, or folders of runs; one or several.
        out: where the report goes; by default `inspection` in the first run's folder.
        n, seed: sequences to draw for each of the task's test conditions, from other streams than training's; distinct
            ones are measured.
        only: instruments and mechanisms to measure; by default all that apply.
        settings: those of instruments that are not the default ones: `{"entropy": {"alpha": 2, "centre": True}}`.
        timeline, circuit, geometry: follow every checkpoint; find the edges that carry answers; measure RankMe and kin.
        conditions: the test conditions to measure on, any that the tasks have: `[{"length": 20, "repeats": 4}]`; by
            default all of `task.conditions`.
        basis: a file of named directions (`capture.directions`), on which the residual is projected, too.
        export, width: formats (`html`, `svg`, `png`, `pdf`) of every figure by itself, under `figures/`, laid out for
            print at the width of a `column` or a `page`; None for a screen.
        progress: show a progress bar on standard error.

    Raises:
        ValueError: if a run cannot be opened, its log is damaged or it is named twice, n is below 2, a name, format or
            condition does not exist, nothing applies, or there are no checkpoints to follow. Nothing is written then.
    """
    check(n, export, width)
    opened = open_runs(paths)
    _check_runs(opened, basis, conditions or ())
    folder = Path(out) if out is not None else opened[0].path / "inspection"
    options: dict[str, Any] = {"n": n, "seed": seed, "progress": progress}
    options |= {"only": only, "settings": settings, "conditions": conditions}
    drawn_for = "; ".join(map(condition_in_words, conditions or ()))
    how_made = f"{n} sequences drawn per test condition{drawn_for and f' ({drawn_for})'}, seed {seed}"
    with only_report(folder, labels(opened)):
        inspected = [inspect_run(run, name=name, **options) for run, name in zip(opened, labels(opened), strict=True)]
        check_measured(inspected)
        if not (only or settings or conditions):
            keep_if_more(inspected, n, seed)
        timelines = [follow(run, **options) for run in inspected] if timeline else []
        circuits = [run_circuit(run, seed) for run in inspected] if circuit else []
        geometries = {one.name: run_geometry(one.run, n=n, seed=seed) for one in inspected} if geometry else {}
        asked = Asked(timelines, circuits, geometries, own_bases(inspected, basis, n, seed))
        return write_report(folder, inspected, asked, (export, width), how_made)


def _check_runs(runs: Sequence[Run], basis: str | Path | None, conditions: Sequence[Mapping[str, Any]]) -> None:
    """Raise ValueError for what the report would tell only after all was measured: a log, a basis, a condition."""
    for run in runs:
        run.log()
        if basis is not None:
            Directions.read(basis, run.config.model.d_model)
        for condition in conditions:
            check_condition(run.task(), condition)


def write(inspected: Sequence[Inspected], out: str | Path | None) -> Report:
    """Write up what was inspected already: the page, and every number under `data/`.

    Args:
        inspected: results of `inspect_run` or `inspect_model`, under different names.
        out: the folder; None to write nothing.

    Raises:
        ValueError: if nothing was measured, two have one name, or the folder cannot be made. Nothing is written then.
    """
    if not any(one.results for one in inspected):
        raise ValueError("there is nothing to write up: nothing was measured")
    how_made = "sequences as given to the inspection"
    if out is None:
        return write_report(None, list(inspected), NOTHING_ASKED, ((), None), how_made)
    with only_report(Path(out), [one.name for one in inspected]):
        return write_report(Path(out), list(inspected), NOTHING_ASKED, ((), None), how_made)


def check(n: int, export: Sequence[str], width: str | None) -> None:
    """Raise ValueError if there are too few sequences for an interval, or a format or width does not exist."""
    if n < 2:
        raise ValueError(f"an interval needs at least n=2 sequences, not {n}")
    unknown = next((name for name in export if name not in FORMATS), None)
    if unknown is not None:
        raise ValueError(f"a figure is not exported as {unknown!r}; there is: {', '.join(FORMATS)}")
    drawn = [name for name in export if name != "html"]
    if drawn:
        needs("kaleido", f"a figure as {drawn[0]}")
    if width is not None:
        lookup(INCHES, width, "width")


def own_bases(inspected: Sequence[Inspected], basis: str | Path | None, n: int, seed: int) -> dict[str, OwnBasis]:
    """Every model's residual on a basis of one's own, by name; none where there is no such basis."""
    return {} if basis is None else {one.name: own_basis(one, basis, n=n, seed=seed) for one in inspected}


def check_measured(inspected: Sequence[Inspected]) -> None:
    """Raise ValueError if nothing that was asked for could be measured of any model, with the reasons."""
    if not any(one.results for one in inspected):
        reasons = dict.fromkeys(f"{name}: {reason}" for one in inspected for name, reason in one.left_out.items())
        raise ValueError(f"nothing that was asked for can be measured; {'; '.join(reasons)}")


def write_report(
    folder: Path | None,
    inspected: list[Inspected],
    asked: Asked,
    export: tuple[Sequence[str], str | None],
    how_made: str,
) -> Report:
    """Numbers, page and figures in a folder, if there is one, in place of a report's before."""
    drawn = [*sections(inspected), *map(circuit_section, asked.circuits)]
    drawn += further_sections(asked.timelines, asked.geometries, asked.own_bases)
    differences, groups = in_pairs(inspected), over_seeds(inspected)
    columns = all_columns(inspected)
    table, names = rows(columns), [column.name for column in columns]
    measured = [findings(one) for one in seed_groups(inspected) if one.results]
    found = summary.sentences(measured, clearest(groups))
    told = [own.says for own in asked.own_bases.values()]
    parts = ["\n".join([*found, *told]), summarise(columns, table)]
    if differences is not None:
        parts.append(comparison_text(comparison_heading(differences), differences, *(one.name for one in inspected)))
    parts += [comparison_text(over_seeds_heading(one), one.differences, one.first, one.second) for one in groups]
    said = "\n\n".join(parts)
    report = Report(inspected, said, None, drawn, *asked, differences, groups, [])
    if folder is None:
        return report
    counts = f"{how_made}; n counts distinct ones"
    text = page(inspected, found, (names, table), claim_lines(columns), drawn, (differences, groups), counts)
    with files_replaced(folder, FILES) as place:
        folders = write_numbers(place / "data", inspected, asked.timelines)
        for one in asked.circuits:
            one.save(place / "data" / folders[one.name] / "circuit")
        for name, of_run in asked.geometries.items():
            of_run.save(place / "data" / folders[name] / "geometry")
        for name, own in asked.own_bases.items():
            own.save(place / "data" / folders[name] / "own_basis")
        write_comparisons(place / "data", differences, groups)
        write_atomically(place / PAGE, text.encode())
        files = write_figures(place / "figures", drawn, *export)
    return replace(report, html=folder / PAGE, figures=[folder / path.relative_to(place) for path in files])
