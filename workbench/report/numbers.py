"""The numbers behind a report as files, and the folder that they and the page are written into."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pandas as pd
from filelock import FileLock, Timeout

from workbench.inspection import Inspected
from workbench.inspection.over_training import Timeline
from workbench.inspection.result import files_of
from workbench.inspection.seed_groups import seed_groups
from workbench.instruments import INSTRUMENTS, SETS, WEIGHTS
from workbench.measurement import Measurement
from workbench.mechanisms import MECHANISMS
from workbench.report.comparisons import OverSeeds
from workbench.util.files import check_can_make, check_replaceable
from workbench.util.lookup import check_told_apart, tell_apart

PAGE, FILES = "report.html", "report_files.json"  # the page; the list of all files, which the next report replaces
PAIRS, OVER_SEEDS = "comparison", "comparison_over_seeds"  # files of two runs in pairs, and of groups of seeds
COMPARISONS = [f"{stem}.{suffix}" for stem in (PAIRS, OVER_SEEDS) for suffix in ("parquet", "csv")]


@contextmanager
def only_report(folder: Path, names: Sequence[str]) -> Iterator[None]:
    """Hold the lock of a report's folder within this context: measuring takes long, and the last would replace all.

    The folder is made; it is gone at the end if nothing was written into it. Raises ValueError as `_check`, or if
    another process holds the lock.
    """
    _check(folder, names)
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / ".lock", timeout=0):
            try:
                yield
            finally:
                with suppress(OSError):  # some systems delete no open file
                    (folder / ".lock").unlink()
    except Timeout:
        raise ValueError(
            f"another process writes a report into {folder}; wait for it, or give another folder"
        ) from None
    finally:
        for path in made:
            with suppress(OSError):  # it was filled
                path.rmdir()


def _check(folder: Path, names: Sequence[str]) -> None:
    """Raise ValueError unless a report can be written into a folder, where it takes the place of one that is there.

    A file of somebody else's is neither replaced nor listed as the report's. Of figures and groups of seeds the names
    are known only once all is measured: `files_replaced` looks at those.

    Args:
        folder: where.
        names: what the runs or models are called.
    """
    measures = {*INSTRUMENTS, *WEIGHTS, *SETS, *MECHANISMS}
    taken = [Path(PAGE), *(Path("data", name) for name in COMPARISONS if len(names) > 1)]
    for place in (Path("data", name) for name in folders_of(names).values()):
        check_can_make(folder / place / "examples")
        files = (path for path in (folder / place).rglob("*") if path.suffix in (".parquet", ".csv", ".json"))
        taken += [path.relative_to(folder) for path in files if path.name.replace(".", "-").split("-")[0] in measures]
    check_replaceable(folder, FILES, taken)


def write_numbers(folder: Path, inspected: Sequence[Inspected], timelines: Sequence[Timeline]) -> dict[str, str]:
    """Write every measurement, into a folder for each run and for each config with several seeds.

    Folders are named like the lines of figures; of two names that differ in their case alone, the second is numbered.
    Returns name -> folder.

    Raises:
        ValueError: if two things would be written into one folder. Nothing is written then.
    """
    groups = [group for group in seed_groups(inspected) if not group.alone]
    names = [*(one.name for one in inspected), *(group.name for group in groups)]
    folders = folders_of(names)
    numbers: list[tuple[str, dict[str, Measurement]]] = [(folders[one.name], one.all()) for one in inspected]
    for group in groups:
        files = {stem: m for name, result in group.results.items() for stem, m in files_of(name, result).items()}
        numbers.append((folders[group.name], files))
    numbers += [(f"{folders[followed.name]}/timeline", followed.all()) for followed in timelines]
    examples = [
        (f"{folders[one.name]}/examples", {name: result.examples for name, result in one.results.items()})
        for one in inspected
    ]
    check_told_apart([name for name, _ in (*numbers, *examples)], "folders of numbers")
    for name, measured in numbers:
        (folder / name).mkdir(parents=True, exist_ok=True)
        for stem, measurement in measured.items():
            measurement.save(folder / name, stem)
    for name, each in examples:
        (folder / name).mkdir(exist_ok=True)
        for stem, measurement in each.items():
            measurement.save_parquet(folder / name, stem)
    return folders


def folders_of(names: Sequence[str]) -> dict[str, str]:
    """Name of a run or group of seeds -> its folder; the same for the first names, whatever comes after them."""
    inside = []  # models of one name are told apart by their whole paths: each as a path within the report's folder
    for path in map(Path, names):
        inside.append(Path(*(part for part in path.parts if part not in (path.anchor, ".."))).as_posix())
    return dict(zip(names, tell_apart(inside, COMPARISONS), strict=True))


def write_comparisons(folder: Path, differences: pd.DataFrame | None, groups: Sequence[OverSeeds]) -> None:
    """Write the comparison of two runs, and that of groups of seeds, as a table each."""
    tables = {} if differences is None else {PAIRS: differences}
    if groups:
        parts = [one.differences.assign(first_group=one.first, second_group=one.second) for one in groups]
        tables[OVER_SEEDS] = pd.concat(parts, ignore_index=True)
    for name, table in tables.items():
        (folder / f"{name}.parquet").write_bytes(table.to_parquet(index=False))
        table.to_csv(folder / f"{name}.csv", index=False)
