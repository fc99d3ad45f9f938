"""The checks of a plugin's parts, as tests for pytest or one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench import tasks
from workbench.runs import Run, load_run
from workbench.testing import attention, measures, methods, modules, objectives, questions
from workbench.testing import tasks as task_checks
from workbench.testing.require import ContractError, NotTested
from workbench.util.messages import brief
from workbench.util.plugins import ORIGINS, load_plugins
from workbench.util.settings import flat

Settings = Mapping[str, Sequence[dict[str, Any]]]
Runs = Sequence[str | Path | Run]


@dataclass(frozen=True)
class Case:
    """One check of one part.

    Attributes:
        kind, name: of the part.
        settings: with which it is checked, in words; empty for its defaults.
        subject: what the check takes.
        check: the check; the first sentence of its docstring says what must hold.
    """

    kind: str
    name: str
    settings: str
    subject: Any
    check: Callable[[Any], None]

    @property
    def what(self) -> str:
        """What must hold."""
        return " ".join((self.check.__doc__ or self.check.__name__).split("\n\n")[0].split())

    def __str__(self) -> str:
        return f"{self.name}{f' ({self.settings})' if self.settings else ''}: {self.what}"

    def run(self) -> None:
        """Make the check.

        Raises:
            ContractError: in words, if it does not hold; also where the part itself raises an error.
            NotTested: if it does not apply.
        """
        try:
            self.check(self.subject)
        except ContractError as error:
            raise ContractError(f"{self}\n{error}") from None
        except NotTested:
            raise
        except Exception as error:
            raise ContractError(f"{self}\nit raises {type(error).__name__}: {brief(error)}") from error


def cases(plugin: str | Path, settings: Settings | None = None, runs: Runs | None = None) -> list[Case]:
    """Every check of every part of a plugin.

    Args:
        plugin: its file, which is loaded, or the name of an installed distribution.
        settings: part -> the settings with which it is checked, one after the other; by default its own defaults.
        runs: trained runs, or their folders, on which instruments and mechanisms are measured; by default a sorter and
            a pointer chaser whose weights are written by hand.

    Raises:
        ValueError: if there is no such plugin, it cannot be loaded, or `settings` names no part of it.
    """
    file = Path(plugin)
    loaded = load_plugins([file] if file.suffix == ".py" else [])
    found = [part for part, owner in ORIGINS.items() if owner.name == file.name]
    if not found:
        there_is = ", ".join(each.name for each in loaded) or "none"
        raise ValueError(f"no plugin {file.name!r} is loaded; give a file that ends in .py, or one of: {there_is}")
    unknown = sorted(set(settings or {}) - {name for _, name in found})
    if unknown:
        raise ValueError(f"{file.name} has no part {unknown[0]!r}; it has: {', '.join(name for _, name in found)}")
    return [
        Case(kind, name, words, subject, each)
        for kind, name in found
        for words, subject in _subjects(kind, name, (settings or {}).get(name), runs)
        for each in CHECKS[kind]
    ]


def _subjects(
    kind: str, name: str, settings: Sequence[dict[str, Any]] | None, runs: Runs | None
) -> Iterator[tuple[str, Any]]:
    """What the checks of a part take, each with its settings in words."""
    if CHECKS[kind] is measures.CHECKS:
        yield "", measures.Measure(name, measures.compiled() if runs is None else tuple(map(load_run, runs)))
    elif kind in ("presets", "probes", "studies", "methods"):
        yield "", name
    else:
        for given in settings or ({},):
            words = ", ".join(f"{key}={value}" for key, value in flat(given))
            yield words, SUBJECTS[kind](name, given)


SUBJECTS: dict[str, Callable[[str, dict[str, Any]], Any]] = {
    "tasks": lambda name, settings: tasks.make(name, **settings),
    "attention": attention.Variant,
    "models": modules.Module,
    "objectives": objectives.Term,
}
CHECKS: dict[str, Sequence[Callable[[Any], None]]] = {
    "tasks": task_checks.CHECKS,
    "attention": attention.CHECKS,
    "models": modules.CHECKS,
    "objectives": objectives.CHECKS,
    "instruments": measures.CHECKS,
    "weights": measures.CHECKS,
    "mechanisms": measures.CHECKS,
    "presets": questions.PRESET_CHECKS,
    "probes": questions.PROBE_CHECKS,
    "studies": questions.STUDY_CHECKS,
    "methods": methods.CHECKS,
}
"""Kind of part, as in `util.plugins.KINDS` -> its checks."""


def check(plugin: str | Path, settings: Settings | None = None, runs: Runs | None = None) -> list[Case]:
    """Make every check of a plugin's parts, as for `cases`.

    Returns the checks that hold; those that do not apply are left out.

    Raises:
        ContractError: at the first that does not hold, in words.
        ValueError: as `cases` does.
    """
    held = []
    for case in cases(plugin, settings, runs):
        try:
            case.run()
        except NotTested:
            continue
        held.append(case)
    return held


def contract(plugin: str | Path, settings: Settings | None = None, runs: Runs | None = None) -> Any:
    """Every check of a plugin's parts as a test for pytest.

    One line in a test file is enough: `test_my_parts = contract("my_parts.py")`. Arguments and errors are those of
    `cases`. A file is looked for in the folder that pytest runs in.
    """
    import pytest

    def name(case: Case) -> str:
        return "-".join([case.name, *([case.settings] if case.settings else []), case.check.__name__])

    def test(case: Case) -> None:
        broken = None
        try:
            case.run()
        except NotTested as error:
            pytest.skip(str(error))
        except ContractError as error:
            if error.__cause__ is not None:
                raise  # with where in the part it was
            broken = str(error)
        if broken is not None:
            pytest.fail(broken, pytrace=False)

    each = cases(plugin, settings, runs)
    return pytest.mark.parametrize("case", each, ids=list(map(name, each)))(test)
