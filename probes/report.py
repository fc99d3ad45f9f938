"""Answers as text for a terminal, and as files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
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
from workbench.measurement import Measurement
from workbench.measurement.places import point_name
from workbench.probes.conditions import BASELINES, TRAINED
from workbench.probes.finding import Answer
from workbench.probes.presets import PRESETS, ask, check
from workbench.runs import load_run
from workbench.tasks import counted
from workbench.util.files import new_folder
from workbench.util.lookup import lookup


def ask_all(paths: Sequence[Path], preset: str, *, progress: bool = False, **how: Any) -> list[Answer]:
    """Ask several runs the same; each is called by its folder, with as much of the path as tells them apart.

    Args:
        paths: the run folders.
        preset: the question.
        progress: show a progress bar on standard error.
        how: as for `probes.ask`.

    Raises:
        ValueError: if a run cannot be opened, is named twice or cannot be asked this, and as `ask` does.
    """
    lookup(PRESETS, preset, "probe")
    runs = [load_run(path) for path in paths]
    for run in runs:
        check(preset, run.task())
    answers = []
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not progress) as bar:
        for run, name in zip(runs, labels(runs), strict=True):
            shown = bar.add_task(name, total=1.0)

            def tell(share: float, doing: str, shown: TaskID = shown, name: str = name) -> None:
                bar.update(shown, completed=share, description=f"{name}: {doing}")

            answer = ask(run, preset, progress=tell, **how)
            bar.update(shown, completed=1.0, description=name)
            called = {**answer.measured.settings, "model": answer.measured.settings["model"].replace(run.name, name, 1)}
            answers.append(replace(answer, measured=replace(answer.measured, settings=called)))
    return answers


def text(answer: Answer) -> str:
    """The question, what is decoded at every point, and what that is worth."""
    found = answer.measured
    n = counted(found.settings["drawn"], found.settings["distinct"])
    parts = [f"{answer.question}  ({found.settings['model']}, {n} sequences)"]
    for label in found.coords["label"]:
        parts += ["", label.replace("_", " "), _table(found.select(label=label))]
    return "\n".join([*parts, "", *(f"- {finding.in_words()}" for finding in answer.findings)])


def _table(found: Measurement) -> str:
    """Points below each other; beside each other the conditions, or where there are several places those."""
    beside = None
    if "place" in found.dims:
        last = found.select(point=found.coords["point"][-1])
        known = [name for name in BASELINES if name in found.coords["condition"]]
        beside = np.max([last.select(condition=name).values for name in known], axis=0) if known else None
        found = found.select(condition=TRAINED)
    columns = [str(name) for name in found.coords[found.dims[1]]]
    rows = [[point_name(point) for point in found.coords["point"]]]
    rows += [[_number(found, i, j) for i in range(len(rows[0]))] for j in range(len(columns))]
    if beside is not None:
        rows[0].append("best baseline")
        for column, value in zip(rows[1:], beside, strict=True):
            column.append("–" if np.isnan(value) else f"{value:.1%}")
    widths = [max(map(len, [name, *row])) for name, row in zip(["", *columns], rows, strict=True)]
    lines = [["", *columns], *map(list, zip(*rows, strict=True))]
    return "\n".join("  " + line[0].ljust(widths[0]) + _cells(line[1:], widths[1:]) for line in lines)


def _cells(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "".join("  " + cell.rjust(width) for cell, width in zip(cells, widths, strict=True))


def _number(found: Measurement, i: int, j: int) -> str:
    value = float(found.values[i, j])
    if np.isnan(value):
        return "–"
    return f"{value:.1%}" if found.units == "share" else f"{value:.2f}"


def drawings(answers: Sequence[Answer]) -> list[go.Figure]:
    """The figures of one preset: each label by layer, or by layer and place; runs side by side; every causal test."""
    drawn: list[go.Figure] = []
    names = list(dict.fromkeys(label for answer in answers for label in answer.measured.coords["label"]))
    for label in names:
        own = [a.measured.select(label=label) for a in answers if label in a.measured.coords["label"]]
        placed = any("place" in found.dims for found in own)
        drawn += [(figures.probe_map if placed else figures.probe_by_layer)(found) for found in own]
        if len(own) > 1 and not placed:
            drawn.append(figures.probe_runs({str(found.settings["model"]): found for found in own}))
    uses = [finding.use for answer in answers for finding in answer.findings if finding.use is not None]
    return drawn + [figures.probe_use(use.effect) for use in uses if use.rank]


def frame(answers: Sequence[Answer]) -> pd.DataFrame:
    """What is decoded, one row per number, of every run."""
    parts = [answer.measured.frame().assign(run=answer.measured.settings["model"]) for answer in answers]
    return pd.concat(parts, ignore_index=True)


def findings(answers: Sequence[Answer]) -> list[dict[str, Any]]:
    """What was found, ready for JSON."""
    return [
        {
            "run": answer.measured.settings["model"],
            "preset": answer.preset,
            "label": finding.label,
            "place": finding.place,
            "point": finding.point,
            "verdict": finding.verdict(),
            "standing": finding.standing.name,
            "decoded": finding.said,
            "causal": None if finding.use is None else finding.use.verdict(),
            "effect": None if finding.use is None else finding.use.effect.to_dict(),
            "excess": None if finding.use is None else finding.use.excess.to_dict(),
            "sizes": None if finding.use is None else finding.use.sizes.to_dict(),
            "nulls": None if finding.use is None or finding.use.nulls is None else finding.use.nulls.to_dict(),
            "tested": {point: {"told": use.told.name, "verdict": use.verdict()} for point, use in finding.uses.items()},
        }
        for answer in answers
        for finding in answer.findings
    ]


def save(answers: Sequence[Answer], folder: Path) -> None:
    """Write a preset's answers into a new folder: `probe.html`, the numbers as `probe.parquet`, `.csv`, `probe.json`.

    Raises:
        OSError: if the folder is there and not empty.
    """
    with new_folder(folder) as place:
        numbers = frame(answers)
        numbers.to_parquet(place / "probe.parquet", index=False)
        numbers.to_csv(place / "probe.csv", index=False)
        settings = [dict(answer.measured.settings) for answer in answers]
        said = {"question": answers[0].question, "settings": settings, "findings": findings(answers)}
        (place / "probe.json").write_text(json.dumps(said, indent=1, ensure_ascii=False, default=str), encoding="utf-8")
        (place / "probe.html").write_text(_page(answers), encoding="utf-8")


def _page(answers: Sequence[Answer]) -> str:
    shown = "".join(
        figure.update_layout(template="plotly_white").to_html(
            full_html=False, include_plotlyjs=False, config={"displaylogo": False, "responsive": True}
        )
        for figure in drawings(answers)
    )
    said = escape("\n\n".join(map(text, answers)))
    title = escape(answers[0].question)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        "<style>body{font:16px/1.5 system-ui,sans-serif;max-width:1120px;margin:2rem auto;padding:0 1.5rem}"
        f"pre{{white-space:pre-wrap}}</style><script>{get_plotlyjs()}</script>"
        f"<h1>{title}</h1><pre>{said}</pre>{shown}</html>"
    )
