"""A table of results: a row for each group of runs, with the mean over its seeds, its interval, and differences."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from workbench.figures.style import BLUE, framed
from workbench.inspection.learning_curves import single, units_of
from workbench.measurement import Measurement, p_values
from workbench.measurement.compare_runs import compare_over_seeds, over_seeds
from workbench.measurement.numbers import difference, p_value, with_interval
from workbench.runs import Run, open_runs
from workbench.runs.config import HOW_OFTEN
from workbench.runs.listing import check_column, filtered, row_of
from workbench.util.lookup import lookup
from workbench.util.messages import in_markdown
from workbench.util.settings import as_json, as_text, flat_config
from workbench.util.words import as_it_says

ALIASES = {"model.attention": "variants"}


@dataclass(frozen=True)
class ResultsTable:
    """What `table` returns.

    Attributes:
        frame: see `results_table`.
        by, metric: the settings and the figure of the training log that it is of.
    """

    frame: pd.DataFrame
    by: Sequence[str]
    metric: str
    __repr__ = as_it_says

    def table(self) -> pd.DataFrame:
        return self.frame

    def json(self) -> str:
        """The metric and the rows."""
        return as_json({"format": "table/1", "metric": self.metric, "rows": self.frame.to_dict("records")})

    @property
    def _groups(self) -> list[str]:
        return [_words(key) or "all" for key in self.frame[list(self.by)].itertuples(index=False)]

    @property
    def says(self) -> str:
        """Each group's mean with its interval, and how many seeds it has, in a line."""
        _, rows = shown(self.frame, self.metric)
        figures = [row[len(self.by) :] for row in rows]
        lines = zip(self._groups, figures, strict=True)
        return "\n".join(f"{group}: {self.metric} {mean}, {n} seeds" for group, (mean, n, *_) in lines)

    def text(self, form: str) -> str:
        """The table as `csv` or `json`, with every digit, or in one of `FORMATS`, as people read it."""
        if form in ("csv", "json"):
            return self.json() if form == "json" else self.frame.to_csv(index=False).rstrip()
        return lookup(FORMATS, form, "format")(*shown(self.frame, self.metric))

    def figure(self) -> go.Figure:
        """The mean of each group, with its interval."""
        mean, low, high = (self.frame[name] for name in ("mean", "low", "high"))
        bars = {"type": "data", "array": high - mean, "arrayminus": mean - low}
        figure = go.Figure().add_scatter(x=self._groups, y=mean, error_y=bars, mode="markers", marker={"color": BLUE})
        subtitle = "means over seeds; whiskers are 95 % intervals"
        title = f"{self.metric} by {', '.join(self.by)}" if self.by else self.metric
        return framed(figure, title, subtitle, legend=False)


def table(
    runs: str | Path | Run | Sequence[str | Path | Run],
    by: str | Sequence[str] | None = None,
    metric: str = "accuracy",
    against: str | None = None,
    where: Sequence[str] = (),
) -> ResultsTable:
    """Results by settings: the mean over seeds with its interval.

    Args:
        runs: runs, run folders, or folders of runs such as a sweep's; one or several.
        by: settings, as a list or with commas between them; by default those, the seed apart, in which the runs differ.
        metric, against, where: as of `results_table`.

    Raises:
        ValueError: as `load_run` and `results_table`.
    """
    opened = open_runs(runs)
    by = _that_differ(opened) if by is None else by.split(",") if isinstance(by, str) else by
    names = [name.strip() for name in by if name.strip()]
    return ResultsTable(results_table(opened, names, metric, against, where), names, metric)


def results_table(
    runs: Sequence[Run], by: Sequence[str], metric: str, against: str | None = None, where: Sequence[str] = ()
) -> pd.DataFrame:
    """A row for each combination of values of some settings, over the finished runs that have it.

    Args:
        runs: those that are finished are counted; those of one group differ in their seed alone.
        by: settings under their dotted names, such as `model.n_layers`; `model.attention` stands for the variants of
            all layers.
        metric: a figure of the training log, of its last evaluation: `accuracy`, `test_loss`, `accuracy/length=18`.
        against: a group, as its values joined by ", "; each other one is compared with it.
        where: conditions, such as `task.n=32`, that the runs counted meet.

    Returns:
        The columns `by`, then `mean`, `low`, `high` (95 %, over seeds) and `n` (seeds); with `against` also
        `difference`, `difference_low`, `difference_high`, and `p`, adjusted after Holm for the number of groups.

    Raises:
        ValueError: if no run is finished, a setting or metric does not exist, runs of one group differ in more than
            their seed, or two have one seed.
    """
    rows = filtered(pd.DataFrame([row_of(run) for run in runs], dtype=object), where)
    rows = rows.where(rows.notna(), None).loc[[i for i in rows.index if runs[i].finished]]
    if rows.empty:
        raise ValueError(f"none of these runs is finished{' and meets ' + ', '.join(where) if where else ''}")
    names = [check_column(rows, ALIASES.get(name, name)) for name in by]
    members: dict[tuple[Any, ...], list[Run]] = {}
    for i, row in rows.iterrows():
        members.setdefault(tuple(row[name] for name in names), []).append(runs[i])
    means = {key: _mean(own, metric, _words(key)) for key, own in sorted(members.items(), key=_in_order)}
    frame = pd.DataFrame(
        [
            dict(zip(by, key, strict=True))
            | {"mean": float(mean.values), "low": mean.ends[0], "high": mean.ends[1], "n": len(members[key])}
            for key, mean in means.items()
        ]
    ).astype({"low": float, "high": float})
    return frame if against is None else frame.assign(**_differences(means, metric, against))


def _in_order(group: tuple[tuple[Any, ...], list[Run]]) -> tuple[tuple[bool, float, str], ...]:
    """Numbers by their size, all else as text."""
    number = (int, float)
    return tuple(
        (True, float(value), "") if isinstance(value, number) else (False, 0.0, str(value)) for value in group[0]
    )


def _words(key: Sequence[Any]) -> str:
    return ", ".join(as_text(value) for value in key)


def _mean(runs: Sequence[Run], metric: str, group: str) -> Measurement:
    """The mean of a metric over runs that differ in their seed only."""
    if differ := _differing(runs):
        raise ValueError(
            f"the runs of the group {group!r} differ in {', '.join(sorted(differ)[:4])} too: add that to --by, "
            "or leave some out with --where"
        )
    seeds = [run.config.seed for run in runs]
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"two runs of the group {group!r} have the seed {max(seeds, key=seeds.count)}: choose one")
    return over_seeds([_last(run, metric) for run in runs], seeds, shared=True)


def _differing(runs: Sequence[Run]) -> dict[str, set[str | None]]:
    """The settings in which runs differ, their seed and how often they log and save apart, with their values."""
    settings = [
        {name: as_text(value) for name, value in flat_config(run.config.without_seed()) if name not in HOW_OFTEN}
        for run in runs
    ]
    values = {name: {other.get(name) for other in settings} for setting in settings for name in setting}
    return {name: each for name, each in values.items() if len(each) > 1}


def _that_differ(runs: Sequence[Run]) -> list[str]:
    """The settings in which runs differ and that all of them have; of attention its variants."""
    differ = _differing(runs)
    variants = ["model.attention" for name in differ if re.fullmatch(r"model\.attention\.(\d+\.)?variant", name)]
    return variants[:1] + [name for name, each in differ.items() if None not in each and not name.endswith(".variant")]


def _last(run: Run, metric: str) -> Measurement:
    """The last value of a figure of the training log."""
    metrics = run.metrics()
    if metric not in metrics or metrics[metric].dropna().empty:
        logged = [name for name in metrics if name != "step" and metrics[name].notna().any()]
        has = f"it has: {', '.join(logged[:12])}" if logged else "it has no log, as a model that was not trained here"
        raise ValueError(f"{run.name} has not logged {metric!r}; {has}")
    return single(run, metric, float(metrics[metric].dropna().iloc[-1]))


def _differences(means: Mapping[tuple[Any, ...], Measurement], metric: str, against: str) -> dict[str, list[float]]:
    """Each group less the one that all are compared with; NaN where there are too few seeds."""
    groups = {_words(key): mean for key, mean in means.items()}
    if against not in groups:
        raise ValueError(f"there is no group {against!r} to compare with; there is: {'; '.join(groups)}")
    found: list[Mapping[str, Any]] = []
    for name, mean in groups.items():
        table = pd.DataFrame() if name == against else compare_over_seeds({metric: groups[against]}, {metric: mean})
        found.append({} if table.empty else table.iloc[0].to_dict())
    columns = {
        column: [float(row.get(key, np.nan)) for row in found]
        for column, key in (("difference", "difference"), ("difference_low", "low"), ("difference_high", "high"))
    }
    p = np.array([row.get("p", np.nan) for row in found], dtype=float)
    tested = ~np.isnan(p)
    p[tested] = p_values.holm(p[tested])
    return columns | {"p": p.tolist()}


def shown(frame: pd.DataFrame, metric: str) -> tuple[list[str], list[list[str]]]:
    """A table of results as people read it: its headings, and its rows."""
    units = units_of(metric)
    settings = [name for name in frame if name not in _NUMBERS]
    compared = "difference" in frame
    headings = [*settings, f"{metric} [95 %]", "seeds", *(["difference [95 %]", "p (Holm)"] if compared else [])]
    rows = []
    for row in frame.to_dict("records"):
        cells = [as_text(row[name]) for name in settings]
        cells += [with_interval(row["mean"], row["low"], row["high"], units), str(row["n"])]
        if compared:
            cells.append(difference(row["difference"], row["difference_low"], row["difference_high"], units))
            cells.append(p_value(row["p"], alone=True))
        rows.append(cells)
    return headings, rows


_NUMBERS = ("mean", "low", "high", "n", "difference", "difference_low", "difference_high", "p")


def as_markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [map(in_markdown, headings), ["---"] * len(headings), *(map(in_markdown, row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def as_latex(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in LaTeX, for the package booktabs; text on the left, numbers on the right."""

    def line(cells: Sequence[str]) -> str:
        # without the signs that LaTeX takes for its own, or has no letter for
        escaped = ("".join(LATEX.get(sign) or _greek(sign) or sign for sign in cell) for cell in cells)
        return " & ".join(escaped) + r" \\"

    is_number = [[cell.removesuffix("%").replace(".", "").replace("-", "").isdigit() for cell in row] for row in rows]
    kinds = "".join("r" if all(row[i] for row in is_number) else "l" for i in range(len(headings)))
    body = [line(row) for row in rows]
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{kinds}}}",
            r"\toprule",
            line(headings),
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--"}
LATEX |= {sign: f"\\{sign}" for sign in "&%$#_{}"}
LATEX |= {"[": "{[}", "]": "{]}"}  # behind the end of a line, a bracket would be a length
LATEX |= {"<": "$<$", ">": "$>$", "≤": r"$\leq$", "≥": r"$\geq$", "−": "$-$", "×": r"$\times$", "·": r"$\cdot$"}
LATEX |= {"→": r"$\to$", "⊥": r"$\bot$", "∞": r"$\infty$", "√": r"$\surd$"}
"""A sign -> what LaTeX writes for it."""


def _greek(sign: str) -> str | None:
    """A small Greek letter as LaTeX writes it."""
    _, _, letter = unicodedata.name(sign, "").partition("GREEK SMALL LETTER ")
    return {"": None, "LAMDA": r"$\lambda$", "OMICRON": "$o$"}.get(letter, f"$\\{letter.lower()}$")


FORMATS: dict[str, Callable[[Sequence[str], Sequence[Sequence[str]]], str]] = {
    "markdown": as_markdown,
    "latex": as_latex,
}
