"""Comparisons of runs in a report: two runs example by example, and groups of seeds over their seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from rich.table import Table

from workbench.inspection import Inspected
from workbench.inspection.seed_groups import SeedGroup, seed_groups
from workbench.judgement.findings import Difference
from workbench.measurement import Measurement
from workbench.measurement.compare_runs import ABOUT_P, compare, compare_over_seeds
from workbench.measurement.intervals import LEAST_FOR_A_VERDICT
from workbench.measurement.numbers import LEAST_P, decimals, difference, number, p_value
from workbench.report.table import as_text

SHOWN_DIFFERENCES = 15


@dataclass(frozen=True)
class OverSeeds:
    """Two groups of seeds, compared seed by seed (see `compare_runs.compare_over_seeds`).

    Attributes:
        first, second: what the groups are called.
        seeds: how many seeds each has.
        differences: the table.
    """

    first: str
    second: str
    seeds: tuple[int, int]
    differences: pd.DataFrame


def in_pairs(inspected: Sequence[Inspected]) -> pd.DataFrame | None:
    """Two runs on the same examples, compared in pairs; None where the examples differ or the runs are not two.

    Measures of every head are left out, since head 0 of one model is not head 0 of another; so are measures of the
    weights alone, which have no examples.
    """
    if len(inspected) != 2 or inspected[0].sample.fingerprint != inspected[1].sample.fingerprint:
        return None
    first, second = (
        {
            name: result.examples
            for name, result in one.results.items()
            if not result.of_every_head and "example" in result.examples.dims
        }
        for one in inspected
    )
    return compare(first, second)


def over_seeds(inspected: Sequence[Inspected]) -> list[OverSeeds]:
    """Every later group of several seeds against the first, wherever they have a measure in common."""
    groups = [group for group in seed_groups(inspected) if not group.alone]
    comparisons = []
    for group in groups[1:]:
        table = compare_over_seeds(_means(groups[0]), _means(group))
        if len(table):
            seeds = (len(groups[0].members), len(group.members))
            comparisons.append(OverSeeds(groups[0].name, group.name, seeds, table))
    return comparisons


def _means(group: SeedGroup) -> dict[str, Measurement]:
    return {name: result.mean for name, result in group.results.items()}


def surest(differences: pd.DataFrame) -> pd.DataFrame:
    """The rows to show: the smallest p first; where p is the same, each measure in turn, its largest effect first."""
    if "effect" in differences:
        size = differences["effect"].abs()
    else:  # over seeds, in widths of the interval
        size = (differences["difference"] / (differences["high"] - differences["low"])).abs().fillna(0.0)
    table = differences.assign(at=_as_shown(differences["p_holm"]), size=size)
    table["turn"] = table.groupby(["at", "measure"])["size"].rank(method="first", ascending=False)
    ordered = table.sort_values(["at", "turn", "size"], ascending=[True, True, False], kind="stable")
    return ordered.drop(columns=["at", "turn", "size"]).head(SHOWN_DIFFERENCES)


def clearest(differences: Sequence[OverSeeds]) -> Difference | None:
    """The clearest difference between groups of seeds; None where none was compared."""
    rows = [(one, surest(one.differences).iloc[0]) for one in differences if len(one.differences)]
    if not rows:
        return None
    one, row = min(rows, key=lambda pair: float(pair[1]["p_holm"]))
    what = ", ".join(filter(None, (str(row["measure"]), str(row["place"] or ""))))
    value, low, high, p = (float(row[name]) for name in ("difference", "low", "high", "p_holm"))
    return Difference(one.first, one.second, what, row["units"], value, low, high, p)


def _as_shown(p: pd.Series) -> pd.Series:
    """Each p as it is shown: four places, none below the smallest."""
    return p.clip(lower=LEAST_P).round(4)


def difference_rows(differences: pd.DataFrame) -> list[list[str]]:
    """The first rows of `surest` as text: measure and place, both means, difference, n, p, p after Holm.

    Both means and the difference have as many decimals as it takes to tell the means apart.
    """
    rows = []
    for row in surest(differences).to_dict("records"):
        first, second, value, units = (row[name] for name in ("first", "second", "difference", "units"))
        places = decimals([first, second, value])
        rows.append(
            [
                f"{row['measure']}: {row['place']}" if row["place"] else str(row["measure"]),
                number(first, units, places),
                number(second, units, places),
                difference(value, row["low"], row["high"], units),
                str(row["n"]) if "n" in row else f"{row['n_first']} and {row['n_second']}",
                p_value(row["p"], alone=True),
                p_value(row["p_holm"], alone=True),
            ]
        )
    return rows


def comparison_text(heading: str, differences: pd.DataFrame, first: str, second: str) -> str:
    """The comparison of two runs, or of two groups of seeds, as text: its heading, and the first rows as a table."""
    table = Table(box=None, pad_edge=False, show_edge=False)
    for column in ("", first, second, "difference", "n", "p", "p (Holm)"):
        table.add_column(column, justify="right" if column else "left", no_wrap=True)
    for row in difference_rows(differences):
        table.add_row(*row)
    return f"{heading}\n{as_text(table, 200)}"


def comparison_heading(differences: pd.DataFrame) -> str:
    """The text above a comparison of two runs: how it was made, which differences are shown, what a p means."""
    return (
        f"paired by example: {len(differences)} differences (second less first){_left_out(differences)}; 95 % "
        f"intervals; p by sign flips, adjusted after Holm for the number of comparisons of the same measure. {ABOUT_P}"
    )


def over_seeds_heading(compared: OverSeeds) -> str:
    """The text above a comparison of groups of seeds: how it was made, and a warning where seeds are few."""
    few = (
        f" Fewer than {LEAST_FOR_A_VERDICT} seeds in a group are too few for a verdict."
        if min(compared.seeds) < LEAST_FOR_A_VERDICT
        else ""
    )
    return (
        f"over seeds: {compared.second} minus {compared.first}, {compared.seeds[1]} and {compared.seeds[0]} seeds, "
        f"{len(compared.differences)} differences{_left_out(compared.differences)}; n counts seeds; 95 % "
        "intervals, those of shares wide enough for seeds that fail though none has yet; p by permuting the seeds "
        "between the groups, adjusted after Holm for the number of comparisons of the same measure: about the two ways "
        f"of making a model, not about two models.{few}"
    )


def _left_out(differences: pd.DataFrame) -> str:
    """How many differences are shown, where not all are, and how many tie with the last one shown."""
    if len(differences) <= SHOWN_DIFFERENCES:
        return ""
    at = _as_shown(differences["p_holm"])
    last = surest(differences).index[-1]
    ties, p = int((at == at.loc[last]).sum()), p_value(differences.loc[last, "p_holm"], alone=True)
    which = f"; {ties} tie at p (Holm) {p}: of these each measure in turn, its clearest first" if ties > 1 else ""
    return f", {SHOWN_DIFFERENCES} shown, the smallest p first{which}"
