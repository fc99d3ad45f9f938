"""The report's section on the geometry of many sequences together: RankMe, LiDAR, DiME and InfoNCE, with controls."""

from __future__ import annotations

from collections.abc import Mapping

from workbench import figures
from workbench.inspection.geometry import Geometry
from workbench.instruments import SETS
from workbench.judgement.words import by_place
from workbench.report.sections import Section

SHOWS = (
    "One vector a sequence, where its answer is asked for, over {n:,} held-out sequences together. Beside each run are "
    "a re-initialised model of its shape on the same sequences and, where questions are paired by their answers, the "
    "answers shuffled. None of this says that the model reads what is measured."
)


def geometry_section(runs: Mapping[str, Geometry]) -> Section:
    """A figure for each measure, the runs beside each other; and in words what each shows."""
    drawn, said = [], []
    for name in SETS:
        each = {run: of_run for run, of_run in runs.items() if name in of_run.measured}
        if each:
            own = {run: of_run[name] for run, of_run in each.items()}
            drawn += figures.by_layer(own, {run: of_run.controls[name] for run, of_run in each.items()})
            said += [f"{run}: {by_place.at_last(of_run[name], of_run.controls[name])}" for run, of_run in each.items()]
    said += [f"{run}: {name} was left out: {why}" for run, one in runs.items() for name, why in one.left_out.items()]
    n = next(iter(runs.values())).n
    return Section("Over many sequences", "\n\n".join([SHOWS.format(n=n), *said]), drawn)
