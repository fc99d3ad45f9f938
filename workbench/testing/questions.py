"""What every preset, question of the probes, and study must do: they name what exists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from workbench.probes import presets as probes
from workbench.studies import STUDIES, Study
from workbench.studies.engine import group_name
from workbench.tasks import TASKS
from workbench.testing.require import ContractError, require
from workbench.training import preset_config
from workbench.training.sweeps.plan import read_plan


def a_presets_settings_fit(name: str) -> None:
    """A preset's settings are settings of its task, model and loss."""
    try:
        preset_config(name, {})
    except ValueError as error:
        raise ContractError(f"no run can be made of the preset: {error}") from None


def a_question_is_about_labels_that_exist(name: str) -> None:
    """A question of the probes names tasks that exist, and labels that they have."""
    preset = probes.PRESETS[name]
    require(preset.question.endswith("?"), f"the question ends with a question mark, not {preset.question!r}")
    for task in preset.tasks:
        require(task in TASKS, f"there is no task {task!r}; there is: {', '.join(TASKS)}")
        require(preset.names(TASKS[task]()), f"the task {task!r} has none of the labels {', '.join(preset.labels)}")


def a_studys_contrasts_name_groups_that_its_runs_make(name: str) -> None:
    """Every scale of a study is a sweep whose runs can be made, and contrasts name their groups."""
    study = STUDIES[name]
    require(study.question.endswith("?"), f"the question ends with a question mark, not {study.question!r}")
    require(study.contrasts, "it has no contrast, so that no answer can come of it")
    for scale, groups in _scales(study):
        require(study.seeds.get(scale, 0) >= 1, f"seeds says of the scale {scale!r} how many each group has")
        known = f"the runs of {scale!r} make: {'; '.join(sorted(groups))}"
        missing = {group for contrast in study.asked(scale) for group in contrast.groups} - groups
        require(not missing, f"a contrast names the group {min(missing, default='')!r}; {known}")
        published = {one.group for one in study.published} - groups
        require(not published or scale != "paper", f"a published figure names {min(published, default='')!r}; {known}")


def _scales(study: Study) -> Iterator[tuple[Any, set[str]]]:
    """Each scale of a study with the names of its groups."""
    if study.tunes is not None:
        yield from ((scale, set(groups)) for scale, groups in study.tunes.groups.items())
    for scale in study.runs:
        try:
            plan = read_plan(study.plan(scale, study.seeds.get(scale, 1)))
        except ValueError as error:
            raise ContractError(f"the runs of the scale {scale!r} cannot be made: {error}") from None
        yield scale, {group_name(one) for one in plan.runs}


PRESET_CHECKS = (a_presets_settings_fit,)
PROBE_CHECKS = (a_question_is_about_labels_that_exist,)
STUDY_CHECKS = (a_studys_contrasts_name_groups_that_its_runs_make,)
