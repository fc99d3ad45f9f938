"""Studies: a question with everything that answers it, from its runs to its verdict, by one command.

A study of the papers is one file of `studies.papers` and one entry in its `STUDIES`; one of your own is a file anywhere
(`studies.from_file`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from workbench.judgement.verdict import Outcome, Verdict
from workbench.studies.contrasts import Contrast, Higher, Near, Reaches, StaysBelow
from workbench.studies.engine import RESULT, Engine
from workbench.studies.from_file import study_from_file
from workbench.studies.gpu import ARCHIVES
from workbench.studies.ledger import collect, keep_earlier, read_ledger, write_pages
from workbench.studies.papers import STUDIES
from workbench.studies.result import Result, check_question
from workbench.studies.stored import read_json
from workbench.studies.study import DAY, GPU, PAPER, SMALL, STUDY_FILE, Published, Source, Study, check_seeds
from workbench.training.sweeps.local import at_a_time
from workbench.util.lookup import check_name, lookup

__all__ = [
    "DAY",
    "GPU",
    "PAPER",
    "REPORT",
    "SMALL",
    "STUDIES",
    "ZOO",
    "Contrast",
    "Engine",
    "Higher",
    "Near",
    "Outcome",
    "Published",
    "Reaches",
    "Result",
    "Source",
    "StaysBelow",
    "Study",
    "Verdict",
    "collect",
    "find_studies",
    "find_study",
    "keep_earlier",
    "read_ledger",
    "run_study",
    "studies_under",
    "study_from_file",
    "write_pages",
]

REPORT, ZOO = "report", "zoo"
"""Folders of pages and of models, beside those of the studies."""


def find_study(name: str) -> tuple[str, Study]:
    """A study by its name, or by the path of its file; with the name of its folder.

    Raises:
        ValueError: if there is neither.
    """
    if name not in STUDIES and (Path(name).suffix in (".toml", ".py") or Path(name).is_file()):
        stem = Path(name).stem
        check_name(stem, "a study", taken=[REPORT, ZOO, ARCHIVES])
        if stem.casefold() in map(str.casefold, STUDIES):
            raise ValueError(f"{name} has the name of a study of the papers, whose folder it would share: rename it")
        return stem, study_from_file(name, STUDIES)
    return name, lookup(STUDIES, name, "study")


def find_studies(names: Iterable[str]) -> dict[str, tuple[str, Study]]:
    """What is given -> the name of its folder, and the study, as `find_study`, of several that go together.

    Raises:
        ValueError: if there is none such, or two would share a folder.
    """
    found = {given: find_study(given) for given in names}
    of_folder: dict[str, str] = {}
    for given, (folder, _) in found.items():
        if (first := of_folder.setdefault(folder.casefold(), given)) != given:
            raise ValueError(f"{first} and {given} would share the folder of the study {folder}: rename one of them")
    return found


def studies_under(root: Path) -> dict[str, Study]:
    """The studies of one's own, of a TOML file, that have run in a folder of studies, by the name of their own folder.

    Raises:
        ValueError: if one of these files is damaged.
    """
    copies = {path.parent.name: path for path in sorted(root.glob(f"[!.]*/{STUDY_FILE}"))}
    own = {name: path for name, path in copies.items() if name not in STUDIES}
    return {name: replace(study_from_file(path, STUDIES), file=f"{name}.toml") for name, path in own.items()}


def run_study(
    study: str | Study,
    *,
    root: str | Path = "studies",
    name: str | None = None,
    scale: str = SMALL,
    seeds: int | None = None,
    workers: int | None = None,
    ray: str | None = None,
    progress: bool = True,
    given: Mapping[str, str] | None = None,
) -> Result | None:
    """Train and measure what a study still lacks, and write its result to `ROOT/NAME/SCALE/result.json`.

    What was trained or measured before is kept: after Ctrl-C, where it returns None, or a kill, the same call goes on.

    Args:
        study: a name in `STUDIES`, the path of a study's file, or a `Study`.
        root, name: the folder of all studies, and the name of this one's folder there; needed for a `Study`.
        scale: `small`, for minutes on a CPU; or `paper`, the paper's own configuration.
        seeds: of each group; by default the study's own number.
        workers, ray, progress: as of `workbench.sweep`.
        given: of a study that fine-tunes, at the scale `paper`: a `model`'s folder or name, and a `text`'s file.

    Raises:
        ValueError: if there is no such study or scale, something has to be given, or a setting is wrong.
        RuntimeError: if a run failed.
    """
    name, study = _named(study, name)
    count = study.seeds.get(scale, 1) if seeds is None else seeds
    own, home = (Path(root) / folder / scale for folder in (name, study.runs_of or name))
    engine = Engine(name, study, scale, count, own, home, workers, ray, progress, given or {})
    _check(engine)
    result = engine.run()
    if result is not None:
        try:
            study.figures(result.groups)
        except ValueError as error:
            raise ValueError(f"the result is in {own / RESULT}, but cannot be drawn: {error}") from None
    return result


def _named(study: str | Study, name: str | None) -> tuple[str, Study]:
    """The name of a study's folder, and the study. Raises ValueError if there is none such, or no name."""
    if not isinstance(study, Study):
        found, study = find_study(study)
        name = name or found
    if name is None:
        raise ValueError("a study that is given as an object needs a name for its folder")
    check_name(name, "a study", taken=[REPORT, ZOO, ARCHIVES])
    return name, study


def _check(engine: Engine) -> None:
    """Raise ValueError for what is wrong with what is given, before anything is made."""
    name, study, scale = engine.name, engine.study, engine.scale
    if missing := study.missing(scale, engine.given):
        raise ValueError(f"{name}: {missing}")
    if unused := next((each for each in engine.given if each not in study.taken(scale)), None):
        raise ValueError(f"{name} takes no {unused} from elsewhere at scale {scale}; leave it out")
    check_seeds(engine.seeds)
    if engine.ray is None:
        at_a_time(engine.workers)
    file = engine.out / RESULT
    if name not in STUDIES and isinstance(earlier := read_json(file), dict):
        check_question(file, earlier.get("question"), study)  # another study's is not written over
