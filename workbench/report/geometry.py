"""The report's section on the geometry of many sequences together: RankMe, LiDAR, DiME and InfoNCE, with controls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from workbench import figures
from workbench.inspection import Inspected
from workbench.inspection.geometry import Geometry, geometry
from workbench.instruments import SETS
from workbench.measurement import Measurement
from workbench.report import verdicts_by_place as by_place
from workbench.report.sections import Section, slug

SHOWS = (
    "One vector a sequence, where its answer is asked for, over {n:,} held-out sequences together. Beside each run are "
    "an untrained model of its shape on the same sequences and, where questions are paired by their answers, the "
    "answers shuffled. None of this says that the model reads what is measured."
)


@dataclass(frozen=True)
class RunGeometry:
    """What was measured of a run over many sequences together.

    Attributes:
        name: the run's.
        n: how many sequences.
        found: name in `SETS` -> its measurement and those of its controls.
        left_out: name in `SETS` -> why it was not measured.
    """

    name: str
    n: int
    found: dict[str, Geometry]
    left_out: dict[str, str]

    def save(self, folder: Path) -> None:
        """Write every measurement, and those of its controls."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, found in self.found.items():
            found[name].save(folder, name)
            for control, m in found.controls[name].items():
                m.save(folder, f"{name}.{slug(control)}")


def run_geometry(one: Inspected, n: int, seed: int) -> RunGeometry:
    """Every measure of a run that can be made, one after the other."""
    found: dict[str, Geometry] = {}
    left_out: dict[str, str] = {}
    for name in SETS:
        try:
            measured = geometry(one.run, n=n, seed=seed, only=[name])
        except ValueError as error:  # too few sequences have the same answer
            left_out[name] = str(error)
            continue
        left_out |= measured.left_out
        if not measured.left_out:
            found[name] = measured
    return RunGeometry(one.name, n, found, left_out)


def geometry_section(runs: Sequence[RunGeometry]) -> Section:
    """A figure for each measure, the runs beside each other; and in words what each shows."""
    drawn, said = [], []
    for name in SETS:
        each = {run.name: run.found[name] for run in runs if name in run.found}
        if each:
            own: dict[str, Measurement] = {run: found[name] for run, found in each.items()}
            drawn += figures.by_layer(own, {run: found.controls[name] for run, found in each.items()})
            said += [f"{run}: {by_place.at_last(found[name], found.controls[name])}" for run, found in each.items()]
    said += [f"{run.name}: {name} was left out: {why}" for run in runs for name, why in run.left_out.items()]
    return Section("Over many sequences", "\n\n".join([SHOWS.format(n=runs[0].n), *said]), drawn)
