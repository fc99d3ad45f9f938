"""The report of `workbench probe`: answers to presets as text for a terminal, and as files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from workbench import figures
from workbench.inspection import labels
from workbench.judgement.decodable import BASELINES, TRAINED
from workbench.judgement.words import probes as words
from workbench.measurement import Measurement
from workbench.measurement.numbers import number, percent
from workbench.measurement.places import point_name
from workbench.probes.answer import Answer, check_one, mean_differences
from workbench.probes.baselines_and_controls import Source
from workbench.probes.presets import ask
from workbench.probes.presets import question as preset_of
from workbench.probes.probing import READ_AT
from workbench.probes.text import ask_text
from workbench.runs import Run, open_runs
from workbench.tasks import counted
from workbench.util.files import new_folder
from workbench.util.progress import shown
from workbench.util.settings import as_json
from workbench.util.words import as_it_says


class Answers(list[Answer]):
    """The answers of several runs or models to one question, which say, draw, tabulate and save themselves."""

    __repr__ = as_it_says

    @property
    def says(self) -> str:
        """The text of each answer."""
        return "\n\n".join(map(text, self))

    def figures(self) -> list[go.Figure]:
        """Each label by layer, or by layer and place; runs side by side; every causal test."""
        drawn: list[go.Figure] = []
        names = list(dict.fromkeys(label for answer in self for label in answer.measured.coords["label"]))
        for label in names:
            by_run = [a.measured.select(label=label) for a in self if label in a.measured.coords["label"]]
            several_places = any("place" in measured.dims for measured in by_run)
            drawn += [(figures.probe_map if several_places else figures.probe_by_layer)(one) for one in by_run]
            if len(by_run) > 1 and not several_places:
                drawn.append(figures.probe_runs({str(measured.settings["model"]): measured for measured in by_run}))
        uses = [answer.use(finding) for answer in self for finding in answer.findings]
        return drawn + [figures.probe_use(use.effect) for use in uses if use is not None and use.rank]

    def figure(self, number: int = 0) -> go.Figure:
        """One of `figures`, by default the first label of the first run by layer."""
        return self.figures()[number]

    def table(self) -> pd.DataFrame:
        """The share decoded, one row per number, of every run."""
        parts = [answer.measured.frame().assign(run=answer.measured.settings["model"]) for answer in self]
        return pd.concat(parts, ignore_index=True)

    def json(self) -> str:
        """The question, the settings, the findings (sentences, judgements as fields, causal tests) and every share."""
        findings = []
        for answer, finding in ((each, finding) for each in self for finding in each.findings):
            use = answer.use(finding)
            parts = {} if use is None else {"effect": use.effect, "excess": use.excess, "sizes": use.sizes}
            if use is not None and use.nulls is not None:
                parts["nulls"] = use.nulls
            findings.append(
                {
                    "run": answer.measured.settings["model"],
                    "preset": answer.preset,
                    "verdict": words.STATUS[finding.status],
                    "decoded": words.decodable(finding.decodable),
                    "causal": None if finding.test is None else words.used(finding.test),
                    "status": finding.status,
                    **finding.model_dump(mode="json"),
                    **{name: part.to_dict() for name, part in parts.items()},
                }
            )
        settings = [dict(answer.measured.settings) for answer in self]
        measured = [answer.measured.to_dict() for answer in self]
        content = {"format": "probe/1", "question": self[0].question, "settings": settings, "findings": findings}
        return as_json(content | {"measured": measured})

    def save(self, folder: Path) -> None:
        """Write them into a new folder: `probe.html`, the numbers as `probe.parquet` and `.csv`, and `probe.json`.

        Raises:
            OSError: if the folder is there and not empty.
        """
        with new_folder(folder) as place:
            numbers = self.table()
            (place / "probe.parquet").write_bytes(numbers.to_parquet(index=False))
            numbers.to_csv(place / "probe.csv", index=False)
            (place / "probe.json").write_text(self.json(), encoding="utf-8")
            (place / "probe.html").write_text(_page(self), encoding="utf-8")


def probe(
    runs: str | Path | Run | Sequence[str | Path | Run],
    question: str = "",
    *,
    text: str | Path | None = None,
    directions: str | Path | None = None,
    progress: bool = False,
    **options: Any,
) -> Answers:
    """Ask what can be decoded of runs, or of models on a text, and whether it is used.

    Each run is named by its folder, with as much of the path as makes it unique.

    Args:
        runs: runs, run folders or folders of runs, one or several; with `text` models of Hugging Face.
        question: a name in `probes.PRESETS`, or a label of the runs' task; with `text` one that the text gives. Without
            one the error lists those that there are.
        text: of models: the text to probe them on, a file in UTF-8.
        directions: of one run or model and one label: a new file of named directions, one for each class of the label
            (`probes.answer.mean_differences`), which projections and edits take.
        progress: show a progress bar on standard error.
        options: as for `probes.ask`; with `text` as for `probes.text.ask_text`.

    Raises:
        ValueError: if a run cannot be opened, is given twice or cannot be asked this; also where these raise it.
    """
    if text is not None:
        models: Any = [runs] if isinstance(runs, str | Path) else runs
        with shown(progress):
            return Answers(ask_text(models, question, text, directions=directions, progress=progress, **options))
    return Answers(_ask_runs(open_runs(runs), question, directions, progress, options))


def _ask_runs(
    opened: Sequence[Run], question: str, directions: str | Path | None, progress: bool, options: Mapping[str, Any]
) -> Iterator[Answer]:
    """`probe` for runs: what is asked is checked of all of them before anything is fitted."""
    for run in opened:
        preset_of(question, run.task(), options.get("positions"))
        if directions is not None:
            check_one(len(opened), preset_of(question, run.task()).names(run.task()), directions)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not progress) as bar:
        for run, name in zip(opened, labels(opened), strict=True):
            row = bar.add_task(name, total=1.0)

            def tell(share: float, doing: str, row: TaskID = row, name: str = name) -> None:
                bar.update(row, completed=share, description=f"{name}: {doing}")

            answer = ask(run, question, progress=tell, **options)
            if directions is not None:
                about, seed = answer.measured.settings, options.get("seed", 0)  # on the sequences that it was probed on
                source = partial(Source.of_run, run, n=about["drawn"], seed=seed, step=options.get("step"))
                mean_differences(answer, source, about["positions"], seed).save(directions)
            bar.update(row, completed=1.0, description=name)
            model = name if (step := options.get("step")) is None else f"{name} at step {step:,}"
            measured = replace(answer.measured, settings={**answer.measured.settings, "model": model})
            yield replace(answer, measured=measured)


def text(answer: Answer) -> str:
    """The question, the share decoded at every point, and the verdicts."""
    measured = answer.measured
    n = counted(measured.settings["drawn"], measured.settings["distinct"])
    read, there = measured.settings.get(READ_AT, (0, 0))
    sample = f", read at {read:,} of {there:,} positions" if read else ""
    parts = [f"{answer.question}  ({measured.settings['model']}, {n} sequences{sample})"]
    for label in measured.coords["label"]:
        parts += ["", label.replace("_", " "), _table(measured.select(label=label))]
    return "\n".join([*parts, "", *(f"- {words.finding(finding)}" for finding in answer.findings)])


def _table(measured: Measurement) -> str:
    """A line for each point; a column for each condition or, where there are several places, for each place.

    Under several places stands the best baseline of each, at the last point.
    """
    baseline = None
    if "place" in measured.dims:
        last = measured.select(point=measured.coords["point"][-1])
        known = [name for name in BASELINES if name in measured.coords["condition"]]
        baseline = np.max([last.select(condition=name).values for name in known], axis=0) if known else None
        measured = measured.select(condition=TRAINED)
    names = [str(name) for name in measured.coords[measured.dims[1]]]
    points = [point_name(point) for point in measured.coords["point"]]
    units = measured.units if measured.units == "share" else ""
    columns = [[number(float(value), units) for value in column] for column in measured.values.T]
    if baseline is not None:
        points.append("best baseline")
        for column, value in zip(columns, baseline, strict=True):
            column.append(percent(value))
    widths = [max(map(len, [name, *column])) for name, column in zip(["", *names], [points, *columns], strict=True)]
    lines = [["", *names], *map(list, zip(points, *columns, strict=True))]
    aligned = ([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])] for line in lines)
    return "\n".join("  ".join(["", *line]) for line in aligned)


def _page(answers: Answers) -> str:
    """The answers as one HTML page: the text, then the figures."""
    drawn = "".join(
        figure.update_layout(template="plotly_white").to_html(
            full_html=False, include_plotlyjs=False, config={"displaylogo": False, "responsive": True}
        )
        for figure in answers.figures()
    )
    summary = escape(answers.says)
    title = escape(answers[0].question)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        "<style>body{font:16px/1.5 system-ui,sans-serif;max-width:1120px;margin:2rem auto;padding:0 1.5rem}"
        f"pre{{white-space:pre-wrap}}</style><script>{get_plotlyjs()}</script>"
        f"<h1>{title}</h1><pre>{summary}</pre>{drawn}</html>"
    )
